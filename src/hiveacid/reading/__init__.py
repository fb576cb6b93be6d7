"""Tables without Spark: rows as Arrow batches, from a path or through a session's transaction.

Lives here: what is read (``source``), the rows and what a user may give as a condition (``rows``:
``read_arrow``), the table as one object for DuckDB and Polars (``arrow_dataset``), the events of
one file (``export``: ``dump``). Never comes in: writing, Spark, locks: a session's table hands its
snapshot in. Read ``rows`` first.
"""
