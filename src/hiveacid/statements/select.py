"""SELECT: one read transaction, one snapshot of every table, a lazy DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.model.ids import WriteId
from hiveacid.model.predicates import Predicate
from hiveacid.model.tables import TableName
from hiveacid.statements.job import ExecutionContext, Job, with_views
from hiveacid.statements.lock_partitions import locked_partitions
from hiveacid.statements.metadata_answers import known_aggregates
from hiveacid.statements.values import Query, TableRef
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def open_query(context: ExecutionContext, query: Query) -> DataFrame:
    """The query as a DataFrame over one snapshot: that of the transaction it is a part of, with
    what was written in it, or one of its own.

    Its own read transaction is a lease: the heartbeat keeps it alive until it is over
    (``reads.lease_s``) or the session closes. A query without tables of ours has none; that of a
    query whose few rows are here already ends at once.

    Raises:
        NotFoundError, LockError, AcidError: a table could not be read.
        pyspark's AnalysisException: the query is wrong.
    """
    spark = context.session()
    if context.unit is not None:
        with context.unit.statement():
            frame, _ = _query_within(context, context.unit.txn, query)
            return frame
    if not query.tables:
        return spark.sql(query.text)
    txn = context.client.transactions.begin(read_only=True)
    try:
        frame, reads_files = _query_within(context, txn, query)
        if reads_files:
            txn.release_locks()
        else:
            txn.close()
        return frame
    except BaseException as error:
        txn.close(because=error)
        raise


def _query_within(
    context: ExecutionContext, txn: Transaction, query: Query
) -> tuple[DataFrame, bool]:
    """The query as the transaction sees it, and whether the DataFrame still has files to read."""
    spark = context.session()
    if not query.tables:
        return spark.sql(query.text), False
    footprint = footprint_of_query(context, query)
    txn.lock(footprint)
    first = footprint.reads[0].table
    job = Job(context, txn, first, WriteId(0), (), "")
    if query.aggregates:
        known = known_aggregates(job, first, query.aggregates)
        if known is not None:
            return spark.sql(known), False
    return query_frame(job, query), job.reads_later


def footprint_of_query(context: ExecutionContext, query: Query) -> Footprint:
    """What the query reads, for its locks.

    Raises:
        NotFoundError: no such table.
    """
    predicates: dict[TableName, list[Predicate]] = {}
    for ref in query.tables.values():
        predicates.setdefault(ref.name, []).append(ref.predicate)
    reads = []
    for name in sorted(predicates):
        table = context.table(name)
        reads.append(TableRead(table, locked_partitions(context, table, predicates[name])))
    return Footprint(reads=tuple(reads))


def query_schema(context: ExecutionContext, query: Query) -> StructType:
    """The columns of a query, told from the tables' definitions: no transaction, no file.

    Raises:
        NotFoundError: no such table.
        pyspark's AnalysisException: the query is wrong.
    """
    from hiveacid.spark.virtual import empty_virtual

    spark = context.session()
    names = {placeholder: f"{placeholder}_schema" for placeholder in query.tables}
    try:
        for placeholder, ref in query.tables.items():
            virtual = {column.value for column in ref.virtual}
            rows = empty_virtual(spark, context.table(ref.name), virtual=virtual)
            rows.createOrReplaceTempView(names[placeholder])
        return spark.sql(with_views(query.text, names)).schema
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def query_frame(job: Job, query: Query) -> DataFrame:
    """A query inside a job's transaction.

    The tables' rows go into it as DataFrames, not by temporary views: on Spark Connect a query is
    looked at again by each action, when the views are gone.
    """
    spark = job.context.session()
    if not query.tables:
        return spark.sql(query.text)
    literal = query.text.replace("{", "{{").replace("}", "}}")
    text = with_views(literal, {placeholder: f"{{{placeholder}}}" for placeholder in query.tables})
    frames: dict[str, Any] = dict(job.frames(query.tables))
    return spark.sql(text, **frames)


def read_names(
    tables: Mapping[str, TableRef], *, but: TableName | None = None
) -> tuple[TableName, ...]:
    """The tables behind placeholders, each once, without ``but`` (locked as the target already)."""
    return tuple(sorted({ref.name for ref in tables.values()} - ({but} if but else set())))
