"""The metastore in an SQL database, in Hive's own tables and column names.

What lives here: one file per topic, each a part of ``SqlMetastore``; ``engine.py`` hands out the
short database transactions, ``dialect.py`` holds all that differs between databases. Read first:
``engine.py``.
"""
