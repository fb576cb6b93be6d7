"""Files: everything that opens, lists, writes, renames or deletes one.

What lives here: the file system (``pyarrow.fs``), directory listings, the ORC tail, the bucket
file writer and reader on Arrow batches, the merge of one bucket (``merge_read``: the reference
reader, and the reader without Spark), Hive's bucketing hash over Arrow columns, publish and
retract. What never comes in: Spark, the metastore, a transaction; what a directory *means* (that
is ``layout``). Rooms: ``orc`` (one file), ``plain`` (other formats, tables without row ids),
``merge`` (the files of one directory), ``plan`` (which files). ``read`` is the one Arrow reader of
tables, ``stage`` the one writer of statements' files. Read first: ``merge/merge_read.py``.
"""
