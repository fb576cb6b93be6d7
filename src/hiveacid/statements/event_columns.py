"""From a target's rows to row events: the columns that ``spark.write`` wants, shared by UPDATE,
DELETE, MERGE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.spark.scan import ROW_ID_COLUMN
from hiveacid.spark.text import quoted
from hiveacid.spark.write import IDENTITY
from hiveacid.statements.job import with_views
from hiveacid.storage.plan.scan_plan import ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hiveacid.statements.values import Expression


def identity_columns(qualifier: str) -> list[tuple[str, str]]:
    """The identity of the target's row, taken from its ROW__ID: expressions and their names."""
    return [
        (quoted(qualifier, ROW_ID_COLUMN, part), name)
        for part, name in zip(("writeid", "bucketid", "rowid"), IDENTITY, strict=True)
    ]


def select_as(frame: DataFrame, items: Sequence[tuple[Expression, str]]) -> DataFrame:
    """A projection of expressions with their names; in one call where all of them are text."""
    if all(isinstance(given, str) for given, _ in items):
        return frame.selectExpr(*[f"(\n{given}\n) as {quoted(name)}" for given, name in items])
    return frame.select(*[column(given).alias(name) for given, name in items])


def column(given: Expression) -> Column:
    """An expression as a column."""
    return F.expr(given) if isinstance(given, str) else given


def resolved(given: Expression, views: Mapping[str, str]) -> Expression:
    """An expression of the user with views in the place of its placeholders."""
    return with_views(given, views) if isinstance(given, str) else given


def count_places(plan: ScanPlan) -> int:
    """How many pairs of partition and bucket number the rows of a plan can have."""
    places = {
        (part.part.partition.values, file.bucket) for part in plan.parts for file in part.files
    }
    return max(1, len(places))
