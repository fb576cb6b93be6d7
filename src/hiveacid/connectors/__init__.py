"""How Spark's own calls reach tables of ours.

    enable.py          ``spark.sql``, ``spark.table``, ``df.write`` and their like know them: what
                       stands in the place of Spark's methods, on which sessions
    sql.py, names.py   ``spark.sql``: whose a statement is
    frames.py, writers.py, namespaces.py
                       readers, streams, ``mergeInto``; writers; databases and ``spark.catalog``
    data_source.py     ``format("hiveacid")``: what Spark asks for: the schema, a reader, a writer,
                       a sink, a source
    options.py         its options, and a session of the metastore that they name
    batch_read.py      ``spark.read``: a snapshot, or what changed, read in Python workers
    write.py           ``df.write`` and ``df.writeStream``: staged in the workers, one commit
    spool.py           rows of many partitions and buckets, each place's together
    table_stream.py    ``spark.readStream``: what every stream of a table has; what changed, version
                       by version
    stream_read.py     the rows that new write ids appended
    micro_batches.py   ``hiveacid.foreach_batch``: micro-batches of any stream, each once
    wall_clock.py      Spark's instants, Hive's wall clocks

``enable`` turns calls of Spark into statements of a session. The objects of a data source are made
by Spark, in Python processes of its own, for each step where it likes: they keep nothing between
two steps but what they pickle, and have no Spark session. What never comes in: a second way of
reading, writing or parsing. Read ``enable.py`` or ``data_source.py`` first.
"""
