"""Rows that the driver has, as DataFrames that need no Python workers.

PySpark hands rows of Python's to its workers when they are looked at: two processes and a daemon of
their own, a second or more for the first such statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ARROW_FRAMES: Final = 4
"""Spark takes Arrow tables from this version on."""


def takes_arrow(spark: SparkSession) -> bool:
    """Whether ``createDataFrame`` takes an Arrow table."""
    return int(spark.version.partition(".")[0]) >= _ARROW_FRAMES


def given_rows(
    spark: SparkSession, given: Sequence[tuple[object, ...]], schema: StructType
) -> DataFrame:
    """Rows, at least one, of strings and numbers; by way of Python workers before Spark 4."""
    if not takes_arrow(spark):
        return spark.createDataFrame(list(given), schema)
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(schema)
    columns = zip(zip(*given, strict=True), types.types, strict=True)
    arrays = [pa.array(column, type=its_type) for column, its_type in columns]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=types), schema)


def without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, and no job: Spark sees by the condition that there is nothing to run."""
    return spark.createDataFrame([], schema).where("false")
