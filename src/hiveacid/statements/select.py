"""SELECT: one read transaction, one snapshot of every table, a lazy DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hiveacid.model.ids import WriteId
from hiveacid.model.tables import TableName
from hiveacid.statements.job import ExecutionContext, Job, with_views
from hiveacid.statements.values import Query, TableRef
from hiveacid.txn.footprint import Footprint, TableRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def open_query(context: ExecutionContext, query: Query) -> DataFrame:
    """The query as a DataFrame over one snapshot.

    Its read transaction is a lease: the heartbeat keeps it alive until it is over
    (``reads.lease_s``) or the session closes. A query without tables of ours has none.

    Raises:
        NotFoundError, LockError, AcidError: a table could not be read.
        pyspark's AnalysisException: the query is wrong.
    """
    spark = context.session()
    if not query.tables:
        return spark.sql(query.text)
    names = {ref.name for ref in query.tables.values()}
    tables = [context.table(name) for name in sorted(names)]
    txn = context.runtime.transactions.begin(read_only=True)
    try:
        txn.lock(Footprint(reads=tuple(TableRead(table) for table in tables)))
        job = Job(context, txn, tables[0], WriteId(0), (), "")
        try:
            frame = query_frame(job, query)
        finally:
            job.drop_views()
        txn.release_locks()
        return frame
    except BaseException:
        txn.close()
        raise


def query_frame(job: Job, query: Query) -> DataFrame:
    """A query inside a job's transaction; its views live as long as the job's."""
    return job.context.session().sql(with_views(query.text, job.views(query.tables)))


def read_names(
    tables: Mapping[str, TableRef], *, but: TableName | None = None
) -> tuple[TableName, ...]:
    """The tables behind placeholders, each once, without ``but`` (locked as the target already)."""
    return tuple(sorted({ref.name for ref in tables.values()} - ({but} if but else set())))
