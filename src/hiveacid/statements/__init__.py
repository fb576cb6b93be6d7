"""What a client can do, one file per kind of statement, whether typed as SQL or built in Python.

What lives here: statement values (``values``, ``values_ddl``), their checks with Hive's codes
(``checks``, ``definitions``), DML's plans and the one loop that carries them out (``run``), DDL,
SHOW, DESCRIBE and EXPLAIN. What never comes in: SQL's grammar, and how transactions, files or the
metastore's tables work. Read first: ``values.py``, then ``run.py`` (DML) or ``ddl.py``.
"""
