"""One client's transaction, from begin to commit.

What lives here: ``TransactionManager`` and ``Transaction``, the footprint of a statement and the
locks that follow from it (pure), waiting for locks, heartbeat and read leases. What never comes in:
Spark, SQL, how rows are written. Read first: ``transaction.py``.
"""
