"""The third way to scan: few rows, read by the driver itself; Spark then runs no job for them.

A lookup by key chooses some stripes of some files; a small table has few. To read those here takes
milliseconds, a job with its tasks takes many times that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.model.tables import AcidMode
from hiveacid.spark.arrow_scan import ArrowScanTask, Unit, arrow_schema, as_table_types
from hiveacid.spark.driver_rows import takes_arrow, without_rows
from hiveacid.storage.plan.scan_plan import ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_LOOKED_AT_MAX: Final = 2_000_000
"""Rows of the chosen stripes; of most of them only the predicate's columns are read."""
FILES_MAX: Final = 256
TINY_FILES_MAX: Final = 64
"""Files of a small table, delete files included: to open one takes a millisecond or two."""
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 4 << 20
"""More rows, or Arrow bytes, than these are left to Spark."""


def rows(
    spark: SparkSession, plan: ScanPlan, *, row_ids: bool, bytes_max: int = 0
) -> DataFrame | None:
    """The rows of a plan as a local DataFrame; None where they are, or may be, too many.

    Read are plans of no more than ``bytes_max`` bytes, and those whose stripes a predicate chose.

    Raises:
        FormatError, MissingFileError, StorageError: reading failed.
    """
    small = _is_small(spark, plan) and (_is_chosen(plan) or _is_tiny(plan, bytes_max))
    batches = _read(plan, row_ids=row_ids) if small else None
    if batches is None:
        return None
    schema = arrow_schema(plan, row_ids=row_ids)
    if not batches:
        return as_table_types(without_rows(spark, schema), plan, row_ids=row_ids)
    frame = spark.createDataFrame(pa.Table.from_batches(batches), schema)
    return as_table_types(frame, plan, row_ids=row_ids)


def _is_small(spark: SparkSession, plan: ScanPlan) -> bool:
    return (
        plan.snapshot.table.acid_mode is AcidMode.FULL
        and plan.amount.files <= FILES_MAX
        and bool(plan.columns)
        and takes_arrow(spark)
    )


def _is_chosen(plan: ScanPlan) -> bool:
    """Whether a predicate chose the stripes of all files, and they have few rows."""
    return plan.amount.stripes > 0 and plan.amount.rows <= ROWS_LOOKED_AT_MAX


def _is_tiny(plan: ScanPlan, bytes_max: int) -> bool:
    deletes = sum(len(part.delete_files) for part in plan.parts)
    files = plan.amount.files + deletes
    return plan.amount.bytes <= bytes_max and files <= TINY_FILES_MAX


def _read(plan: ScanPlan, *, row_ids: bool) -> list[pa.RecordBatch] | None:
    task = ArrowScanTask.of(plan, (), row_ids=row_ids)
    batches: list[pa.RecordBatch] = []
    count = size = 0
    for part in plan.parts:
        unit = Unit(part.part.partition, part.part.directory, part.selection)
        for batch in task.read(unit):
            count += batch.num_rows
            size += batch.nbytes
            if count > ROWS_MAX or size > BYTES_MAX:
                return None
            batches.append(batch)
    return batches
