"""What a metastore answers: ``Catalog``, ``TxnStore``, ``LockManager``; together ``Metastore``."""
