"""What a client can do: values of statements, whether typed as SQL or built in Python, their checks
with Hive's codes, and what carries them out.

    handlers, values        what carries out which statement; queries and DML as values (each other
                            kind has its value beside what carries it out)
    context, run, job       looks and locks, and the loop of definitions; the loop of DML; how a
                            statement writes (``Work``), and one attempt to (``Job``)
    insert, update, merge, load, undo
                            how each kind writes; ``update`` is DELETE, too, ``insert`` TRUNCATE
    few_rows, driver_merge, driver_write, arrow_rows, matching
                            the same of few rows, and of Arrow data, by the driver without Spark
    select, changes         what is read: rows, and what changed
    checks, constraints, arguments, evolve, partition_values
                            what is refused; what a value or column becomes before it is written
    spark_errors            what Spark raises, as errors of ours
    placement, locations    where new files go; whose directory a place is
    ddl/, create_as, analyze, attach, attached_files
                            definitions; tables that are made from rows, or taken over
    compact, history, session_state, describe, show
                            the queue of compactions, tags and the past, SET and LOCK, listings

What never comes in: SQL's grammar, and how transactions, files or the metastore's tables work. Read
first: ``values.py``, ``handlers.py``, then ``run.py``.
"""
