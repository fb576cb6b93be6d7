"""Virtual columns that follow from what a scan gives."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from hiveacid.spark.scan import ROW_ID_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKET_ID_COLUMN: Final = "BUCKET__ID"
IS_DELETED_COLUMN: Final = "ROW__IS__DELETED"
_PROPERTY: Final = f"{ROW_ID_COLUMN}.bucketid"
_DERIVED: Final = {
    # Hive before 3 (version 0 in the top three bits) stored the bucket itself (format.md 4.4)
    BUCKET_ID_COLUMN: f"case when shiftrightunsigned({_PROPERTY}, 29) = 0 then {_PROPERTY}"
    f" else shiftright({_PROPERTY}, 16) & 4095 end",
    IS_DELETED_COLUMN: "false",
}


def with_virtual(rows: DataFrame, wanted: Collection[str]) -> DataFrame:
    """``rows`` of a scan (with ROW__ID where BUCKET__ID is wanted) and the columns wanted, last."""
    derived = [f"{text} as {name}" for name, text in _DERIVED.items() if name in wanted]
    if not derived:
        return rows
    found = rows.selectExpr("*", *derived)
    return found if ROW_ID_COLUMN in wanted else found.drop(ROW_ID_COLUMN)
