"""SELECT, and reading a table outside a statement: one read transaction, one snapshot of every
table.

The transaction ends when the plan is made, where the retention of the tables keeps their files for
``reads.lease_s`` (``end_reading``), or the few rows are here already. Else it is a lease, without
locks: the heartbeat keeps it alive until that time is over or the session closes.

The changes of a table outside a statement: a read transaction of their own.

Answers without reading a row: ``count``, ``min`` and ``max`` of a whole table from its statistics,
the names of its partitions and the tails of its files, where those are exact. Such a query in a
WHERE, ``p = (SELECT max(p) FROM t)``, is answered before the statement is planned, under its locks
and by its snapshot: what it is compared with is a literal then, by which partitions and files are
chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hiveacid.errors import UnsupportedError
from hiveacid.layout.directories import Snapshot, default_partition_value
from hiveacid.model.history import AsOf, ChangeRange, Version
from hiveacid.model.predicates import ANYTHING, Compare, Constant, Op, Predicate, partition_constant
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.model.types import HiveType
from hiveacid.spark.session import QUALIFIES, Chosen, constant, quoted
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
from hiveacid.statements.values import Aggregate, Query, TableRef
from hiveacid.storage.filesystem import Files
from hiveacid.storage.plan.scan_plan import has_rows, table_facts
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.manager import end_reading
from hiveacid.txn.past import as_it_was, partitions_then
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hiveacid.spark.read import Given

_Answer = TypeVar("_Answer")
_GENERATOR: Final = re.compile(r"\b(lateral|explode|posexplode|inline|stack)", re.IGNORECASE)
"""What makes many rows of one."""


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
            rows = no_rows(spark, definition_of(look, ref), virtual=virtual, told=True)
            if ref.changes is not None:
                from hiveacid.spark.arrow_read import with_change_columns

                rows = with_change_columns(rows)
            rows.createOrReplaceTempView(names[placeholder])
        return spark.sql(with_views(query.text, names)).schema
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def query_frame(reader: Reader, query: Query, *, by_one: bool = False) -> DataFrame:
    """A query as a reader's transaction sees the tables; ``by_one``: few rows of its one table are
    read by one task, as in Hive, unless a generator makes more of them.

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
    by_one = by_one and len(given) == 1 and _GENERATOR.search(query.text) is None
    by_spark = partial(_frame, spark, query, given, by_one=by_one)
    if query.lookup is not None:
        from hiveacid.spark.arrow_read import RowsHere
        from hiveacid.statements.few_rows import select_here

        (rows,) = given.values()
        if isinstance(rows, RowsHere):
            answer = select_here(spark, query.lookup, rows, otherwise=by_spark)
            if answer is not None:
                return answer.coalesce(1) if by_one else answer
    return by_spark()


def _frame(
    spark: SparkSession, query: Query, given: Mapping[str, Given], *, by_one: bool
) -> DataFrame:
    from hiveacid.spark.arrow_read import RowsHere
    from hiveacid.spark.read import relation_of

    def relation(rows: Given) -> DataFrame | Chosen | str:
        if not by_one or not isinstance(rows, RowsHere):
            return relation_of(spark, rows)
        one = rows.relation(spark)
        return (spark.sql(one) if isinstance(one, str) else one).coalesce(1)

    relations = {placeholder: relation(rows) for placeholder, rows in given.items()}
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


# -------------------------------------------------------------------- answers without reading a row

_KEYS: Final = ("string", "date", "tinyint", "smallint", "int", "bigint")
"""Types of partition columns whose values Python orders as Spark does."""
_LOOKED_INTO_MAX: Final = 64
"""So many partitions without rows are passed over in the search for the last one with rows."""


def known_answer(reader: Reader, query: Query) -> str | None:
    """A SELECT without tables that has the answer, where that is known without reading rows."""
    if not query.aggregates:
        return None
    (ref,) = query.tables.values()
    if ref.changes is not None:
        return None
    table = reader.view.definition(ref.name)
    values = known_aggregates(reader, table, query.aggregates)
    if values is None:
        return None
    items = (
        f"{_cast(value, _type(one, table))} AS {quoted(one.title)}"
        for one, value in zip(query.aggregates, values, strict=True)
    )
    # over VALUES, because a SELECT without FROM is a job for Spark
    return f"SELECT {', '.join(items)} FROM VALUES (0) AS one(row)"


def answered(reader: Reader, bound: Bound) -> Any:
    """The value of a statement, with the answers in the place of those queries of its conditions
    that are known so.
    """
    if bound.answered is None:
        return bound.value

    def answer_of(table: Table, wanted: Aggregate) -> Constant | None:
        values = known_aggregates(reader, table, (wanted,))
        return None if values is None else values[0]

    value = bound.answered(reader.view, answer_of)
    return bound.value if value is None else value


def known_aggregates(
    reader: Reader, table: Table, wanted: Sequence[Aggregate]
) -> Sequence[Constant | None] | None:
    """Their values, one for each; None where they are not known exactly.

    Row counts come from the table's statistics, where those are of the transaction's snapshot
    (``ANALYZE``, DML keeps them) and it has not written to the table; all else from what the files'
    tails say. A table without transactions has no snapshot: its files may be anybody's.
    """
    columns = {one.column for one in wanted if one.column is not None}
    context = reader.context
    if not table.is_transactional or not context.settings.count_from_statistics:
        return None
    if not columns <= table.types.keys():
        return None
    if not columns and table.name not in reader.txn.written_tables:
        rows = context.client.own.row_count(table.name, reader.txn.valid_write_ids(table))
        if rows is not None:
            return [rows for _ in wanted]
    if len(wanted) == 1 and columns <= set(table.partition_keys) and wanted[0].function != "count":
        return _extreme_key(reader, table, wanted[0])

    extremes = {one.column for one in wanted if one.column and one.function != "count"}
    facts = table_facts(reader.plan(table, columns=columns), columns, extremes=extremes)
    if facts is None:
        return None
    values: list[Constant | None] = []
    for one in wanted:
        known = None if one.column is None else facts.columns[one.column]
        if known is None:
            values.append(facts.rows)
        elif one.function == "count":
            values.append(known.values)
        else:
            values.append(known.minimum if one.function == "min" else known.maximum)
    return values


def _extreme_key(
    reader: Reader, table: Table, wanted: Aggregate
) -> Sequence[Constant | None] | None:
    """The least or the greatest value of a partition column that a row has: the partitions are
    looked into one value after the other, until there is a row.
    """
    key = wanted.column
    assert key is not None
    kind = table.types[key]
    if str(kind) not in _KEYS:
        return None
    place = table.partition_keys.index(key)
    texts: dict[Any, set[str | None]] = {}
    for text in {part.values[place] for part in reader.view.partitions(table)}:
        default = default_partition_value(kind) if text is None else None
        value = default if text is None else partition_constant(text, kind)
        if value is not None:
            texts.setdefault(value, set()).add(text)
        elif text is not None:
            return None
    if not texts:
        reader.txn.valid_write_ids(table)  # that there is none was read, too
    values = sorted(texts, reverse=wanted.function == "max")
    for value in values[:_LOOKED_INTO_MAX]:
        plan = reader.plan(table, predicate=Compare(key, Op.EQ, value), columns=())
        # a condition on a text leaves the default partition in
        parts = [one for one in plan.parts if one.part.partition.values[place] in texts[value]]
        found = has_rows(replace(plan, parts=tuple(parts)))
        if found is None:
            return None
        if found:
            return (value,)
    return (None,) if len(values) <= _LOOKED_INTO_MAX else None


def _type(wanted: Aggregate, table: Table) -> HiveType | None:
    """That of an extreme; None for a count."""
    return None if wanted.function == "count" else table.types[wanted.column or ""]


def _cast(value: Constant | None, kind: HiveType | None) -> str:
    """A value as an expression of Spark SQL, of a column's type; a count, for which there is none,
    as a bigint.
    """
    if kind is None:
        return f"{value}L"
    from hiveacid.spark.assign import spark_type  # needs pyspark

    text = "null" if value is None else str(value)
    if isinstance(value, str):
        text = constant(value)
    elif isinstance(value, date):
        text = f"date '{text}'"
    elif isinstance(value, Decimal):  # with an exponent it would be a double
        text = f"{value:f}"
    return f"cast({text} as {spark_type(kind).simpleString()})"
