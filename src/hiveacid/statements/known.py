"""Answers without reading a row: ``count``, ``min`` and ``max`` of a whole table from its
statistics, the names of its partitions and the tails of its files, where those are exact.

Such a query in a WHERE, ``p = (SELECT max(p) FROM t)``, is answered before the statement is
planned, under its locks and by its snapshot: what it is compared with is a literal then, by which
partitions and files are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Final

from hiveacid.layout.directories import default_partition_value
from hiveacid.model.predicates import Compare, Constant, Op, partition_constant
from hiveacid.model.tables import Table
from hiveacid.model.types import HiveType
from hiveacid.spark.session import constant, quoted
from hiveacid.statements.context import Bound
from hiveacid.statements.job import Reader
from hiveacid.statements.values import Aggregate, Query
from hiveacid.storage.plan.scan_plan import has_rows, table_facts

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
