"""From a target's rows to row events: the columns that ``spark.write`` wants, shared by UPDATE,
DELETE, MERGE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.layout.snapshot import Snapshot
from hiveacid.spark.scan import ROW_ID_COLUMN
from hiveacid.spark.write import IDENTITY
from hiveacid.statements.job import with_views

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hiveacid.statements.values import Expression


def identity_columns(qualifier: str) -> list[Column]:
    """The identity of the target's row, taken from its ROW__ID."""
    row_id = F.col(f"`{qualifier}`.`{ROW_ID_COLUMN}`")
    return [
        row_id.getField(part).alias(name)
        for part, name in zip(("writeid", "bucketid", "rowid"), IDENTITY, strict=True)
    ]


def expression(given: Expression, views: Mapping[str, str]) -> Column:
    """An expression of the user as a column; placeholders of tables become views."""
    return F.expr(with_views(given, views)) if isinstance(given, str) else given


def count_places(snapshot: Snapshot) -> int:
    """How many pairs of partition and bucket number the snapshot's rows can have."""
    places = {
        (part.partition.values, file.bucket)
        for part in snapshot.parts
        for file in (
            *(part.directory.base.files if part.directory.base else ()),
            *part.directory.originals,
            *(f for delta in part.directory.insert_deltas for f in delta.files),
        )
    }
    return max(1, len(places))
