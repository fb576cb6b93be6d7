"""Snapshots to DataFrames, and DataFrames of row events to bucket files.

What lives here: the mapping of Hive's types to Spark's, ``read`` (the one door through which Spark
reads a table; ``delete_filter``: without deleted rows), store assignment as Spark columns, and
``write`` (row events to bucket files through storage's stages, in ``mapInArrow``, one action a
statement). What never comes in: a transaction, a metastore, the JVM gateway. Read ``read.py``
first, then ``write.py``.
"""
