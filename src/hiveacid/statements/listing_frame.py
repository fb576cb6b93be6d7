"""A ``Listing`` as a DataFrame of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiveacid.spark.driver_rows import given_rows
from hiveacid.statements.listing import Listing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_AS_TEXT_MAX: Final = 1000


def listing_frame(spark: SparkSession, listing: Listing) -> DataFrame:
    """The rows as a local relation, which Spark answers without a job (before Spark 4 a long one is
    distributed).
    """
    if not listing.rows:
        empty = ", ".join(f"cast(null as string) as {_quoted(name)}" for name in listing.columns)
        return spark.sql(f"SELECT {empty} WHERE false")
    if len(listing.rows) > _ROWS_AS_TEXT_MAX:
        from pyspark.sql import types as t

        strings = t.StructType([t.StructField(name, t.StringType()) for name in listing.columns])
        return given_rows(spark, listing.rows, strings)
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in listing.rows)
    columns = ", ".join(
        f"cast({_quoted(column)} as string) as {_quoted(column)}" for column in listing.columns
    )
    names = ", ".join(map(_quoted, listing.columns))
    return spark.sql(f"SELECT {columns} FROM VALUES {rows} AS listing({names})")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(cell: str | None) -> str:
    if cell is None:
        return "null"
    return "'" + cell.replace("\\", "\\\\").replace("'", "\\'") + "'"
