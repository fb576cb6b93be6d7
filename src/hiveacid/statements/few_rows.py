"""UPDATE and DELETE of few rows by the driver alone: no job, and nothing for Spark to plan.

A statement goes this way where its text says all: a condition of comparisons with literals that
Arrow makes as Spark does, and for an UPDATE literals as new values. Then the planner's choice of
stripes is read here, as a lookup by key is; what has more rows than that is Spark's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.model.predicates import And, Anything, Compare, In, IsNull, Or, Predicate
from hiveacid.model.tables import AcidMode, Table
from hiveacid.model.types import INTEGER_BITS
from hiveacid.spark.arrow_read import ROWS_MAX, is_for_driver
from hiveacid.statements.arrow_rows import literal_columns
from hiveacid.statements.constraints import checks, not_null_columns
from hiveacid.statements.driver_merge import Gone, stored
from hiveacid.statements.driver_write import write_arrow, write_deletes
from hiveacid.storage.plan.arrow_conditions import expression_of, filtered
from hiveacid.storage.read import TableReader
from hiveacid.storage.stage import DELETE, UPDATE
from hiveacid.storage.target import WriteResult, WriteTarget, write_result

if TYPE_CHECKING:
    from hiveacid.statements.job import Job
    from hiveacid.storage.plan.scan_plan import ScanPlan

_COMPARED: Final = {"string": "str", "date": "date", **dict.fromkeys(INTEGER_BITS, "int")}
"""Types whose values Arrow compares as Spark does, and the class of the literals beside them."""
Part = tuple[tuple[str | None, ...], pa.Table]
"""The values of a partition, and rows of it with their row ids."""


def delete_here(
    job: Job, plan: ScanPlan, condition: Predicate | None, *, target: WriteTarget
) -> WriteResult | None:
    """The DELETE's events, staged; None where it is for Spark."""
    if condition is None:
        return None
    parts = _rows(job, plan, condition, columns=_columns(condition))
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
    for part in plan.parts:
        whole = part.part
        for batch in reader.rows(whole.partition, whole.directory, part.selection):
            rows = pa.Table.from_batches([batch])
            if expression is not None:
                rows = filtered(rows, expression)
            count += rows.num_rows
            if count > ROWS_MAX:
                return None
            if rows.num_rows:
                found.append((whole.partition.values, rows))
    return found


def _columns(condition: Predicate) -> set[str]:
    if isinstance(condition, And | Or):
        return set().union(*map(_columns, condition.parts))
    return set() if isinstance(condition, Anything) else {condition.column}


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
