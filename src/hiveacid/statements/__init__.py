"""What a client can do, one file per kind of statement, whether typed as SQL or built in Python.

What lives here: values of statements (queries and DML in ``values``, each other one beside what
carries it out), their checks with Hive's codes, plans, the one loop that carries them out
(``run``). What never comes in: SQL's grammar, and how transactions, files or the metastore's tables
work. Read first: ``values.py``, ``handlers.py``, then ``run.py``.
"""
