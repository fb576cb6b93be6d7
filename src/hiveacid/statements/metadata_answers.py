"""Aggregates over a whole table that need no row: from statistics, or from the tails of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from hiveacid.model.predicates import Constant
from hiveacid.model.tables import Table
from hiveacid.model.types import HiveType
from hiveacid.spark.text import quoted
from hiveacid.statements.job import Reader, is_transactional
from hiveacid.statements.values import Aggregate


def known_aggregates(reader: Reader, table: Table, wanted: Sequence[Aggregate]) -> str | None:
    """A SELECT of the values without a table; None where they are not known exactly.

    Row counts come from the table's statistics, where those are of the transaction's snapshot
    (``ANALYZE``, DML keeps them) and it has not written to the table; all else from what the files'
    tails say. A table without transactions has no snapshot: its files may be anybody's.
    """
    columns = {one.column for one in wanted if one.column is not None}
    types = {column.name: column.type for column in table.all_columns}
    context = reader.context
    if not is_transactional(table) or not context.settings.count_from_statistics:
        return None
    if not columns <= types.keys():
        return None
    if not columns and not reader.txn.has_written(table.name):
        rows = context.client.metastore.row_count(table.name, reader.txn.valid_write_ids(table))
        if rows is not None:
            return _select(f"{rows}L AS {quoted(one.title)}" for one in wanted)
    from hiveacid.storage.plan.extremes import table_facts

    facts = table_facts(reader.plan(table, columns=columns), columns)
    if facts is None:
        return None
    items = []
    for one in wanted:
        if one.column is None:
            text = f"{facts.rows}L"
        elif one.function == "count":
            text = f"{facts.columns[one.column].values}L"
        else:
            known = facts.columns[one.column]
            value = known.minimum if one.function == "min" else known.maximum
            text = _literal(value, types[one.column])
        items.append(f"{text} AS {quoted(one.title)}")
    return _select(items)


def _select(items: Iterable[str]) -> str:
    """One row; over VALUES, because a SELECT without FROM is a job for Spark."""
    return f"SELECT {', '.join(items)} FROM VALUES (0) AS one(row)"


def _literal(value: Constant | None, kind: HiveType) -> str:
    from hiveacid.spark.types import spark_type  # needs pyspark

    text = "null" if value is None else str(value)
    if isinstance(value, date):
        text = f"date '{text}'"
    return f"cast({text} as {spark_type(kind).simpleString()})"
