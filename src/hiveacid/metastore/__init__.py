"""The shared truth: catalog, transactions, write ids and locks, behind one protocol.

What lives here: ``api.py`` (the protocols), ``connect.py`` (from a URL), ``sql/`` (SQLAlchemy Core,
Hive's own tables). What never comes in: files, Spark, what a statement is. Read first: ``api.py``.
"""
