"""Virtual columns: what a scan gives besides the table's columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import AcidMode, Table
from hiveacid.spark import local_scan
from hiveacid.spark.driver_rows import without_rows
from hiveacid.spark.scan import ROW_ID_COLUMN, result_schema, scan
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET_ID_COLUMN: Final = "BUCKET__ID"
FILE_NAME_COLUMN: Final = "INPUT__FILE__NAME"
IS_DELETED_COLUMN: Final = "ROW__IS__DELETED"
_PROPERTY: Final = f"{ROW_ID_COLUMN}.bucketid"
_DERIVED: Final = {
    # Hive before 3 (version 0 in the top three bits) stored the bucket itself (format.md 4.4)
    BUCKET_ID_COLUMN: f"case when shiftrightunsigned({_PROPERTY}, 29) = 0 then {_PROPERTY}"
    f" else shiftright({_PROPERTY}, 16) & 4095 end",
    IS_DELETED_COLUMN: "false",
}


def few_rows(
    spark: SparkSession, plan: ScanPlan, *, virtual: Collection[str], bytes_max: int
) -> DataFrame | None:
    """The rows of a plan that leaves over few, read now, with these virtual columns; None where it
    is for ``scan_virtual``. ``bytes_max`` as in ``local_scan.rows``.
    """
    if FILE_NAME_COLUMN in virtual:
        return None
    row_ids = _needs_row_ids(virtual)
    rows = local_scan.rows(spark, plan, row_ids=row_ids, bytes_max=bytes_max)
    return None if rows is None else with_virtual(rows, virtual)


def _needs_row_ids(virtual: Collection[str]) -> bool:
    return not {ROW_ID_COLUMN, BUCKET_ID_COLUMN}.isdisjoint(virtual)


def scan_virtual(spark: SparkSession, plan: ScanPlan, *, virtual: Collection[str]) -> DataFrame:
    """The rows of a plan with these virtual columns, last.

    INPUT__FILE__NAME takes a scan of each file by itself: a row does not say where it was.

    Raises:
        UnsupportedError: row ids of a table that has none; as ``scan.scan``.
    """
    row_ids = _needs_row_ids(virtual)
    table = plan.snapshot.table
    if row_ids and table.acid_mode is not AcidMode.FULL:
        raise UnsupportedError(
            f"Rows of {table.name} have no {ROW_ID_COLUMN}: it is no full ACID table",
            table=str(table.name),
        )
    if FILE_NAME_COLUMN not in virtual:
        return with_virtual(scan(spark, plan, row_ids=row_ids), virtual)
    frames = []
    for part in plan.parts:
        for file in part.files:
            rows = scan(spark, _only(plan, part, file.path), row_ids=row_ids)
            name = F.lit(_uri(f"{part.part.partition.location.rstrip('/')}/{file.path}"))
            frames.append(rows.withColumn(FILE_NAME_COLUMN, name))
    if not frames:
        return empty_virtual(spark, table, virtual=virtual, columns=plan.columns)
    return with_virtual(reduce(lambda a, b: a.unionAll(b), frames), virtual)


def empty_virtual(
    spark: SparkSession,
    table: Table,
    *,
    virtual: Collection[str],
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """What ``scan_virtual`` gives of a table without rows; ``columns`` None: all of them."""
    row_ids = _needs_row_ids(virtual)
    rows = without_rows(spark, result_schema(table, row_ids=row_ids, columns=columns))
    if FILE_NAME_COLUMN in virtual:
        rows = rows.withColumn(FILE_NAME_COLUMN, F.lit(None).cast(t.StringType()))
    return with_virtual(rows, virtual)


def with_virtual(rows: DataFrame, wanted: Collection[str]) -> DataFrame:
    """``rows`` of a scan (with ROW__ID where BUCKET__ID is wanted) and what follows from them."""
    derived = [f"{text} as {name}" for name, text in _DERIVED.items() if name in wanted]
    if not derived:
        return rows
    found = rows.selectExpr("*", *derived)
    return found if ROW_ID_COLUMN in wanted else found.drop(ROW_ID_COLUMN)


def _only(plan: ScanPlan, part: PartPlan, path: str) -> ScanPlan:
    files = {path: part.selection.files[path]}
    chosen = replace(part, selection=replace(part.selection, files=files))
    return replace(plan, parts=(chosen,))


def _uri(path: str) -> str:
    """As Hive shows it: one slash after ``file:``."""
    if path.startswith("/"):
        return f"file:{path}"
    return path.replace("file:///", "file:/", 1)
