"""The columns that a table or view gets from a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from hiveacid.model.tables import Column

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PLAIN_NAME = re.compile(r"(?!\d+\Z)\w+")


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a query as a table gets them; Hive calls those without a name _c0, _c1, ..."""
    from hiveacid.spark.types import hive_type

    return tuple(
        Column(
            field.name.lower() if _PLAIN_NAME.fullmatch(field.name) else f"_c{number}",
            hive_type(field.dataType),
        )
        for number, field in enumerate(schema.fields)
    )


def columns_of_struct(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema, under the names that they have there."""
    from hiveacid.spark.types import hive_type

    return tuple(Column(f.name.lower(), hive_type(f.dataType)) for f in schema.fields)


def is_frame(rows: object) -> TypeGuard[DataFrame]:
    """Whether it is a DataFrame of Spark's."""
    return type(rows).__module__.startswith("pyspark.sql") and hasattr(rows, "toDF")


def renamed(rows: Any, columns: Sequence[Column]) -> DataFrame | ArrowTable:
    """The rows under the names of these columns."""
    names = [column.name for column in columns]
    return rows.toDF(*names) if is_frame(rows) else rows.rename_columns(names)


def columns_of_rows(rows: DataFrame | ArrowTable) -> tuple[Column, ...]:
    """The columns of a table that is made from rows."""
    if is_frame(rows):
        return columns_of(rows.schema)
    from hiveacid.storage.arrow_types import hive_type

    schema = cast("ArrowTable", rows).schema
    return tuple(Column(field.name, hive_type(field.type)) for field in schema)
