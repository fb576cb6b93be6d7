"""``Listing``: the result of SHOW, DESCRIBE, SET and EXPLAIN: rows of text, made without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiveacid.spark.conf import given_rows
from hiveacid.spark.types import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_AS_TEXT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Listing:
    """Named columns and rows; every cell is text or None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)

    def __repr__(self) -> str:
        return shortened(f"<Listing of {len(self.rows)} rows: {', '.join(self.columns)}>", 200)

    def __str__(self) -> str:
        return "\n".join(
            "\t".join(cell or "" for cell in row) for row in (self.columns, *self.rows)
        )


def shortened(text: str, length: int = 80) -> str:
    """So many characters of it at most: its beginning and its end."""
    half = (length - 3) // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def matching(names: tuple[str, ...], pattern: str | None) -> tuple[str, ...]:
    """The names that a LIKE pattern of SHOW matches, without regard to case.

    ``*`` and ``%`` stand for anything, ``_`` for one character, ``|`` separates alternatives.
    """
    if pattern is None:
        return names
    wildcards = {"*": ".*", "%": ".*", "_": ".", "|": "|"}
    text = "".join(wildcards.get(character, re.escape(character)) for character in pattern)
    expression = re.compile(text, re.IGNORECASE | re.DOTALL)
    return tuple(name for name in names if expression.fullmatch(name))


def listing_frame(spark: SparkSession, listing: Listing) -> DataFrame:
    """The rows as a local relation, which Spark answers without a job (before Spark 4 a long one is
    distributed).
    """
    if not listing.rows:
        empty = ", ".join(f"cast(null as string) as {quoted(name)}" for name in listing.columns)
        return spark.sql(f"SELECT {empty} WHERE false")
    if len(listing.rows) > _ROWS_AS_TEXT_MAX:
        from pyspark.sql import types as t

        strings = t.StructType([t.StructField(name, t.StringType()) for name in listing.columns])
        return given_rows(spark, listing.rows, strings)
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in listing.rows)
    columns = ", ".join(
        f"cast({quoted(column)} as string) as {quoted(column)}" for column in listing.columns
    )
    names = ", ".join(map(quoted, listing.columns))
    return spark.sql(f"SELECT {columns} FROM VALUES {rows} AS listing({names})")
