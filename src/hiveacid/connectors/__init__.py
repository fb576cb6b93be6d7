"""How Spark's own calls reach tables of ours.

What lives here: ``enable``, which lets ``spark.sql``, ``spark.table``, ``df.write`` and their like
know tables of ours. What never comes in: a second way of reading, writing or parsing; what is here
turns calls of Spark into statements of a session. Read ``enable.py`` first.
"""
