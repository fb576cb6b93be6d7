"""SELECT, and reading a table outside a statement: one read transaction, one snapshot of every
table.

The transaction ends when the plan is made, where the retention of the tables keeps their files for
``reads.lease_s`` (``end_reading``), or the few rows are here already. Else it is a lease, without
locks: the heartbeat keeps it alive until that time is over or the session closes.

The changes of a table outside a statement: a read transaction of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hiveacid.errors import UnsupportedError
from hiveacid.layout.directories import Snapshot
from hiveacid.model.history import AsOf, ChangeRange, Version
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.spark.session import QUALIFIES, Chosen
from hiveacid.statements.changes import ChangeScan, plan_changes
from hiveacid.statements.context import (
    Bound,
    ExecutionContext,
    Locked,
    Needs,
    fixed,
    locked,
    locked_partitions,
)
from hiveacid.statements.job import Reader, definition_of, with_views
from hiveacid.statements.known import answered, known_answer
from hiveacid.statements.values import Query, TableRef
from hiveacid.storage.filesystem import Files
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.manager import end_reading
from hiveacid.txn.past import as_it_was, partitions_then
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hiveacid.spark.read import Given


_Answer = TypeVar("_Answer")


def open_query(context: ExecutionContext, bound: Bound) -> DataFrame:
    """The query as a DataFrame over one snapshot: that of the transaction it is a part of, with
    what was written in it, or one of its own.

    Raises:
        NotFoundError, LockError, AcidError: a table could not be read.
        pyspark's AnalysisException: the query is wrong.
    """
    if context.unit is None and not bound.value.tables:
        return context.session().sql(bound.value.text)
    frame, _ = read_in_transaction(context, bound, needs, partial(_answer, context, bound))
    return frame


def read_in_transaction(
    context: ExecutionContext,
    bound: Bound,
    needs: Needs,
    use: Callable[[Locked], tuple[_Answer, Iterable[Table]]],
) -> tuple[_Answer, Callable[[], None]]:
    """Call ``use`` with the tables locked, in the transaction that is open, or in one for reading.

    ``use`` returns the answer and the tables whose files are read later. Returned are the answer
    and a function that ends the read.
    """
    if context.unit is not None:
        with context.unit.statement():
            answer, _ = use(locked(context, bound, needs, within=context.unit.txn))
            return answer, lambda: None
    held = locked(context, bound, needs, read_only=True)
    try:
        answer, left = use(held)
        end_reading(held.txn, left, context.settings)
    except BaseException as error:
        held.txn.close(because=error)
        raise
    return answer, held.txn.close


def _answer(
    context: ExecutionContext, bound: Bound, held: Locked
) -> tuple[DataFrame, Iterable[Table]]:
    """The rows of a query as its transaction sees them, from statistics where those tell; and the
    tables that are read later, with the DataFrame.
    """
    reader = Reader(context=context, txn=held.txn, view=held.view)
    query: Query = answered(reader, replace(bound, value=held.value))
    known = known_answer(reader, query)
    if known is not None:
        return context.session().sql(known), ()
    frame = query_frame(reader, query)
    tables = {ref.name for ref in query.tables.values()} if reader.reads_later else ()
    return frame, map(held.view.definition, tables)


def needs(_: ExecutionContext, query: Query, look: Look) -> Footprint:
    """What the query reads, for its locks.

    Raises:
        NotFoundError: no such table.
    """
    predicates: dict[TableName, list[Predicate]] = {}
    for ref in query.tables.values():
        # A predicate on columns of then says nothing of today's partitions.
        predicate = ref.predicate if ref.as_of is None else ANYTHING
        predicates.setdefault(ref.name, []).append(predicate)
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
    from hiveacid.spark.read import no_rows

    spark = context.session()
    names = {placeholder: f"{placeholder}_schema" for placeholder in query.tables}
    try:
        for placeholder, ref in query.tables.items():
            virtual = {column.value for column in ref.virtual}
            rows = no_rows(spark, definition_of(look, ref), virtual=virtual)
            if ref.changes is not None:
                from hiveacid.spark.arrow_read import with_change_columns

                rows = with_change_columns(rows)
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
    if QUALIFIES in query.text and spark.version.startswith("3."):
        note = "Write the condition around the query: SELECT ... FROM (SELECT ...) t WHERE ..."
        raise UnsupportedError("QUALIFY needs PySpark 4", note=note)
    if not query.tables:
        return spark.sql(query.text)
    given = reader.relations(query.tables)
    by_spark = partial(_frame, spark, query, given)
    answer = None
    if query.lookup is not None:
        from hiveacid.spark.arrow_read import RowsHere
        from hiveacid.statements.few_rows import select_here

        (rows,) = given.values()
        if isinstance(rows, RowsHere):
            answer = select_here(spark, query.lookup, rows, otherwise=by_spark)
    return by_spark() if answer is None else answer


def _frame(spark: SparkSession, query: Query, given: Mapping[str, Given]) -> DataFrame:
    from hiveacid.spark.read import relation_of

    relations = {placeholder: relation_of(spark, rows) for placeholder, rows in given.items()}
    frames: dict[str, Any] = {
        placeholder: one.frame if isinstance(one, Chosen) else one
        for placeholder, one in relations.items()
        if not isinstance(one, str)
    }

    def formatted(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}") if frames else text

    def text_of(placeholder: str, one: DataFrame | Chosen | str) -> str:
        if isinstance(one, str):
            return formatted(one)
        if isinstance(one, Chosen):
            return formatted(one.over("\0")).replace("\0", f"{{{placeholder}}}")
        return f"{{{placeholder}}}"

    texts = {placeholder: text_of(placeholder, one) for placeholder, one in relations.items()}
    return spark.sql(with_views(formatted(query.text), texts), **frames)


def read_names(
    tables: Mapping[str, TableRef], *, but: TableName | None = None
) -> tuple[TableName, ...]:
    """The tables behind placeholders, each once, without ``but`` (locked as the target already)."""
    return tuple(sorted({ref.name for ref in tables.values()} - ({but} if but else set())))


# -------------------------------------------------------------------- outside a statement


Keep = Callable[[Sequence[Partition]], Sequence[Partition]]
"""Chooses among a table's partitions; the others are not listed."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A snapshot, what ends its transaction (to end it twice does nothing), and its files."""

    snapshot: Snapshot
    close: Callable[[], None]
    files: Files


def open_lease(
    context: ExecutionContext, expected: Table, *, keep: Keep, as_of: AsOf | None = None
) -> Lease:
    """Take the snapshot of some partitions of a table, in a read transaction of its own; within a
    transaction of several statements that one's, its own writes included, with nothing to end.
    ``as_of``: the files of then, of which ``expected`` has the columns.

    Raises:
        NotFoundError: no such table.
        LockError: somebody holds the table exclusively.
        TransactionError: the transaction is not open.
        StorageError: a directory could not be listed.
        SnapshotExpiredError: cleaned beyond what this snapshot sees.
    """
    look = context.look()
    if as_of is None:
        look.expect(expected)
    bound = Bound.to(look, fixed(expected.name))
    use = partial(_snapshot, keep) if as_of is None else partial(_past, context, keep, as_of)
    return Lease(*read_in_transaction(context, bound, reads_all, use), context.files)


def reads_all(_: ExecutionContext, name: TableName, look: Look) -> Footprint:
    """The locks of who reads a table."""
    return Footprint(reads=(TableRead(look.definition(name)),))


def _past(
    context: ExecutionContext, keep: Keep, as_of: AsOf, held: Locked
) -> tuple[Snapshot, Iterable[Table]]:
    now = held.view.definition(held.value)
    version = held.view.version(now, as_of)
    reader = Reader(context=context, txn=held.txn, view=held.view)
    known = partitions_then(now, version, held.view.partitions(now))
    chosen = keep(known) if now.partition_columns else known
    return reader.snapshot_of(as_it_was(now, version), version, chosen, of=known), (now,)


def _snapshot(keep: Keep, held: Locked) -> tuple[Snapshot, Iterable[Table]]:
    table = held.view.definition(held.value)
    known = held.view.partitions(table)
    if not table.partition_columns:
        return held.txn.snapshot(table), (table,)
    return held.txn.snapshot(table, partitions=keep(known), of=known), (table,)


def open_changes(
    context: ExecutionContext,
    expected: Table,
    wanted: ChangeRange,
    columns: Sequence[str] | None,
    *,
    between: tuple[Version, Version] | None = None,
) -> ChangeScan:
    """What there is to read of a table's changes, in a read transaction of its own; ``between`` two
    states, where they are given.

    Raises:
        NotFoundError: no such table, or column.
        InvalidInputError: a version that the table does not have yet.
        SnapshotExpiredError: files that tell the changes are cleaned; ``write_id`` is the oldest
            version from which they can be told.
    """
    look = context.look()
    look.expect(expected)
    bound = Bound.to(look, fixed(expected.name))

    def opened(held: Locked) -> tuple[ChangeScan, Iterable[Table]]:
        table = held.view.definition(held.value)
        own, files = context.client.own, context.files
        scan = plan_changes(
            held.txn, table, wanted, own=own, columns=columns, files=files, between=between
        )
        return scan, (table,)

    scan, close = read_in_transaction(context, bound, reads_all, opened)
    return replace(scan, close=close)
