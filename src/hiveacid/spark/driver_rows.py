"""Rows that the driver has, as DataFrames that need no Python workers.

PySpark hands rows of Python's to its workers when they are looked at: two processes and a daemon of
their own, a second or more for the first such statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.errors import ConversionError
from hiveacid.storage.arrow_types import arrow_type, hive_type

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


def arrow_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """An Arrow table, its columns of the types that tables have; by way of Python workers before
    Spark 4.

    Raises:
        InvalidInputError: a column of a type that no table has.
        ConversionError: a value that its type there cannot hold.
    """

    def stored(kind: pa.DataType) -> pa.DataType:
        return kind if pa.types.is_null(kind) else arrow_type(hive_type(kind))

    try:
        rows = rows.cast(pa.schema([(field.name, stored(field.type)) for field in rows.schema]))
    except pa.ArrowInvalid as error:
        raise ConversionError(f"the rows cannot be handed to Spark: {error}") from error
    if takes_arrow(spark):
        return spark.createDataFrame(rows)
    from pyspark.sql.pandas.types import from_arrow_schema

    given = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return spark.createDataFrame(given, from_arrow_schema(rows.schema))


def without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, and no job: Spark sees by the condition that there is nothing to run."""
    return spark.createDataFrame([], schema).where("false")
