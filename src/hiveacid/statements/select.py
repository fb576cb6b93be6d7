"""SELECT: one read transaction, one snapshot of every table, a lazy DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.model.predicates import Predicate
from hiveacid.model.tables import TableName
from hiveacid.statements.context import Bound, ExecutionContext
from hiveacid.statements.job import Reader, with_views
from hiveacid.statements.lock_partitions import locked_partitions
from hiveacid.statements.locked import Locked, locked, locked_within
from hiveacid.statements.metadata_answers import known_aggregates
from hiveacid.statements.values import Query, TableRef
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.retention import end_reading
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def open_query(context: ExecutionContext, bound: Bound) -> DataFrame:
    """The query as a DataFrame over one snapshot: that of the transaction it is a part of, with
    what was written in it, or one of its own.

    Its own read transaction ends when the plan is made, where the retention of the tables keeps
    their files for ``reads.lease_s``, or the few rows are here already. Else it is a lease: the
    heartbeat keeps it alive until that time is over or the session closes. A query without tables
    of ours has none.

    Raises:
        NotFoundError, LockError, AcidError: a table could not be read.
        pyspark's AnalysisException: the query is wrong.
    """
    spark = context.session()
    if context.unit is not None:
        with context.unit.statement():
            held = locked_within(context, context.unit.txn, bound, needs)
            frame, _ = _answer(context, held)
            return frame
    if not bound.value.tables:
        return spark.sql(bound.value.text)
    held = locked(context, bound, needs, read_only=True)
    txn = held.txn
    try:
        frame, reads_files = _answer(context, held)
        tables = {ref.name for ref in bound.value.tables.values()}
        left = map(held.view.definition, tables) if reads_files else ()
        end_reading(txn, left, context.settings)
        return frame
    except BaseException as error:
        txn.close(because=error)
        raise


def _answer(context: ExecutionContext, held: Locked) -> tuple[DataFrame, bool]:
    """The query as the transaction sees it, and whether the DataFrame still has files to read."""
    query: Query = held.value
    reader = Reader(context=context, txn=held.txn, view=held.view)
    known = known_answer(reader, query)
    if known is not None:
        return context.session().sql(known), False
    return query_frame(reader, query), reader.reads_later


def known_answer(reader: Reader, query: Query) -> str | None:
    """A SELECT without tables that has the answer, where that is known without reading rows."""
    if not query.aggregates:
        return None
    (ref,) = query.tables.values()
    return known_aggregates(reader, reader.view.definition(ref.name), query.aggregates)


def needs(context: ExecutionContext, query: Query, look: Look) -> Footprint:
    """What the query reads, for its locks.

    Raises:
        NotFoundError: no such table.
    """
    del context
    predicates: dict[TableName, list[Predicate]] = {}
    for ref in query.tables.values():
        predicates.setdefault(ref.name, []).append(ref.predicate)
    reads = []
    for name in sorted(predicates):
        table = look.definition(name)
        reads.append(TableRead(table, locked_partitions(look, table, predicates[name])))
    return Footprint(reads=tuple(reads))


def query_schema(context: ExecutionContext, query: Query, look: Look) -> StructType:
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
            rows = empty_virtual(spark, look.definition(ref.name), virtual=virtual)
            rows.createOrReplaceTempView(names[placeholder])
        return spark.sql(with_views(query.text, names)).schema
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def query_frame(reader: Reader, query: Query) -> DataFrame:
    """A query as a reader's transaction sees the tables.

    The tables' rows go into it as DataFrames, not by temporary views: on Spark Connect a query is
    looked at again by each action, when the views are gone.
    """
    spark = reader.context.session()
    if not query.tables:
        return spark.sql(query.text)
    literal = query.text.replace("{", "{{").replace("}", "}}")
    text = with_views(literal, {placeholder: f"{{{placeholder}}}" for placeholder in query.tables})
    frames: dict[str, Any] = dict(reader.frames(query.tables))
    return spark.sql(text, **frames)


def read_names(
    tables: Mapping[str, TableRef], *, but: TableName | None = None
) -> tuple[TableName, ...]:
    """The tables behind placeholders, each once, without ``but`` (locked as the target already)."""
    return tuple(sorted({ref.name for ref in tables.values()} - ({but} if but else set())))
