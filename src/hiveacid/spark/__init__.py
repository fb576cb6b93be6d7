"""Snapshots to DataFrames, and DataFrames of row events to bucket files.

What lives here: the mapping of Hive's types to Spark's, ``scan`` (the only place that reads ACID
ORC through Spark), the delete filter, store assignment as Spark columns, and ``write`` (row events
to bucket files through storage's writer, in ``mapInArrow``, one action a statement). What never
comes in: a transaction, a metastore, the JVM gateway. Read ``scan.py`` first, then ``write.py``.
"""
