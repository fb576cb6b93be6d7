"""UPDATE, DELETE and SELECT of few rows by the driver alone: no job, nothing for Spark to plan.

A statement goes this way where its text says all: a condition of comparisons with literals that
Arrow makes as Spark does, for an UPDATE literals as new values, for a SELECT names of columns. Then
the planner's choice of stripes is read here; what has more rows than that is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.model.predicates import And, Anything, Compare, In, IsNull, Or, Predicate, columns_of
from hiveacid.model.tables import AcidMode, Table
from hiveacid.model.types import INTEGER_BITS
from hiveacid.spark import arrow_read
from hiveacid.spark.arrow_read import RowsHere, is_for_driver
from hiveacid.spark.known_rows import known_rows
from hiveacid.statements.arrow_rows import literal_columns
from hiveacid.statements.constraints import checks, not_null_columns
from hiveacid.statements.driver_merge import Gone, stored, with_row_ids
from hiveacid.statements.driver_write import write_arrow, write_deletes
from hiveacid.storage.plan.arrow_conditions import expression_of, filtered
from hiveacid.storage.read import TableReader, parts_of
from hiveacid.storage.stage import DELETE, UPDATE
from hiveacid.storage.target import WriteResult, WriteTarget, write_result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from hiveacid.statements.job import Job
    from hiveacid.statements.values import Lookup
    from hiveacid.storage.plan.scan_plan import ScanPlan

_COMPARED: Final = {"string": "str", "date": "date", **dict.fromkeys(INTEGER_BITS, "int")}
"""Types whose values Arrow compares as Spark does, and the class of the literals beside them."""
_COLLECTED: Final = {"boolean", "string", "varchar", "date", "float", "double", "decimal"} | {
    *INTEGER_BITS
}
"""Types whose values Arrow hands to Python as Spark does."""
Part = tuple[tuple[str | None, ...], pa.Table]
"""The values of a partition, and rows of it with their row ids."""


def delete_here(
    job: Job, plan: ScanPlan, condition: Predicate | None, *, target: WriteTarget
) -> WriteResult | None:
    """The DELETE's events, staged; None where it is for Spark."""
    if condition is None:
        return None
    parts = _rows(job, plan, condition, columns=columns_of(condition))
    return None if parts is None else _deleted(parts, target=target, action=DELETE)


def update_here(
    job: Job,
    plan: ScanPlan,
    condition: Predicate | None,
    literals: Mapping[str, object] | None,
    *,
    target: WriteTarget,
) -> WriteResult | None:
    """The UPDATE's events, staged; None where it is for Spark."""
    table = plan.snapshot.table
    if condition is None or literals is None or checks(table) or not_null_columns(table):
        return None
    if job.context.settings.assigns_ansi(handed_in=False):
        return None
    assigned = [column for column in table.columns if column.name in literals]
    values = literal_columns([[literals[c.name] for c in assigned]], assigned)
    if values is None or len(assigned) < len(literals):
        return None
    parts = _rows(job, plan, condition, columns={c.name for c in table.all_columns})
    if parts is None:
        return None
    written = _deleted(parts, target=target, action=UPDATE)
    if not parts:
        return written
    new = {c.name: value[0] for c, value in zip(assigned, values, strict=True)}
    images = pa.concat_tables(rows for _, rows in parts)
    arrays = [
        pa.repeat(new[column.name], images.num_rows) if column.name in new else array
        for column, array in zip(table.all_columns, stored(table, images), strict=True)
    ]
    rows = write_arrow(arrays, target=target, statement=target.update_insert_statement)
    return write_result(target, [*written.files, *rows.files])


def select_here(
    spark: SparkSession,
    lookup: Lookup,
    rows: RowsHere,
    *,
    otherwise: Callable[[], DataFrame],
) -> DataFrame | None:
    """The answer as a DataFrame that Spark has no part in where it is collected; None where it is
    for Spark. ``otherwise`` makes it by Spark.
    """
    table = rows.plan.snapshot.table
    kinds = {column.name: str(column.type).partition("(")[0] for column in table.columns}
    named = {name for name, _ in lookup.columns}
    if not named | columns_of(lookup.condition) <= kinds.keys() & set(rows.plan.columns):
        return None
    if not _COLLECTED.issuperset(kinds[name] for name in named):
        return None
    if not _is_compared_alike(lookup.condition, table):
        return None
    return known_rows(spark, partial(_collected, lookup, rows), otherwise=otherwise)


def _collected(lookup: Lookup, rows: RowsHere) -> list[Row]:
    from pyspark.sql import Row

    if not rows.batches:
        return []
    kinds = {column.name: column.type for column in rows.plan.snapshot.table.columns}
    expression = expression_of(lookup.condition, kinds)
    found = pa.Table.from_batches(rows.batches)
    found = found if expression is None else filtered(found, expression)
    row = Row(*(title for _, title in lookup.columns))
    values = (found.column(name).to_pylist() for name, _ in lookup.columns)
    return [row(*cells) for cells in zip(*values, strict=True)]


def _deleted(parts: list[Part], *, target: WriteTarget, action: int) -> WriteResult:
    gone = Gone()
    for values, rows in parts:
        gone.add(values, rows)
    return write_deletes(gone.keys(), target=target, action=action)


def _rows(
    job: Job, plan: ScanPlan, condition: Predicate, *, columns: Collection[str]
) -> list[Part] | None:
    """The rows that meet the condition; None where they are, or may be, too many."""
    table = plan.snapshot.table
    if table.acid_mode is not AcidMode.FULL or not _is_compared_alike(condition, table):
        return None
    if not is_for_driver(plan, bytes_max=job.context.settings.reads_local_bytes):
        return None
    kinds = {column.name: column.type for column in table.all_columns}
    expression = expression_of(condition, kinds)
    reader = TableReader(plan.files, table, frozenset(columns), plan.snapshot.valid, row_ids=True)
    found: list[Part] = []
    count = 0
    for partition, batch in reader.rows_of(parts_of(plan)):
        rows = with_row_ids(batch)
        if expression is not None:
            rows = filtered(rows, expression)
        count += rows.num_rows
        if count > arrow_read.ROWS_MAX:
            return None
        if rows.num_rows:
            found.append((partition.values, rows))
    return found


def _is_compared_alike(condition: Predicate, table: Table) -> bool:
    """Whether Arrow's answer is Spark's for all that the condition compares."""
    if isinstance(condition, And | Or):
        return all(_is_compared_alike(part, table) for part in condition.parts)
    if isinstance(condition, Anything):
        return False
    if isinstance(condition, IsNull):
        return condition.column not in table.partition_keys
    kinds = {column.name: str(column.type) for column in table.all_columns}
    if condition.column in table.partition_keys and kinds[condition.column] not in INTEGER_BITS:
        return False  # Spark has texts of the default partition where Arrow has NULL
    known = _COMPARED.get(kinds.get(condition.column, ""))
    values = condition.values if isinstance(condition, In) else [condition.value]
    assert isinstance(condition, In | Compare)
    return all(type(value).__name__ == known for value in values)
