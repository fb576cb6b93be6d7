"""Spark's temporary views, which come before tables of ours of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_temporary_view(spark: SparkSession | None, name: str) -> bool:
    """Whether Spark has a temporary view of this name."""
    if spark is None:
        return False
    from pyspark.errors import PySparkException

    try:
        return bool(spark.catalog.getTable("`" + name.replace("`", "``") + "`").isTemporary)
    except PySparkException:  # there is nothing of that name
        return False
