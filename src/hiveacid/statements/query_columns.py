"""The columns that a table or view gets from a query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hiveacid.model.tables import Column

if TYPE_CHECKING:
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
