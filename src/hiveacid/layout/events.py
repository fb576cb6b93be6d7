"""The six-column row event of an ACID file: names, operations, order (format.md 4.1-4.5).

The only place where the ORC names stand; elsewhere ``originalTransaction`` and
``currentTransaction`` are called original and current write id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from hiveacid.model.tables import Column
from hiveacid.model.types import BIGINT, INT, StructType

OPERATION: Final = "operation"
ORIGINAL_TRANSACTION: Final = "originalTransaction"
BUCKET: Final = "bucket"
ROW_ID: Final = "rowId"
CURRENT_TRANSACTION: Final = "currentTransaction"
ROW: Final = "row"

EVENT_FIELDS: Final = (
    OPERATION,
    ORIGINAL_TRANSACTION,
    BUCKET,
    ROW_ID,
    CURRENT_TRANSACTION,
    ROW,
)
"""The root columns in file order; written in exactly this case, read in any."""

SYSTEM_FIELDS: Final = EVENT_FIELDS[:-1]
"""The root columns without ``row``."""

FIRST_USER_COLUMN_ID: Final = 7
"""ORC column id of the first user column: 0 is the root, 1 to 6 the event's fields."""

_EVENT_FIELDS_LOWER = frozenset(name.lower() for name in EVENT_FIELDS)
_POSITIONAL = re.compile(r"_col[0-9]+", re.ASCII)


class Operation(IntEnum):
    """The value of ``operation``."""

    INSERT = 0
    UPDATE = 1
    """the full new image of a row; files of Hive before 3 only"""
    DELETE = 2


def event_type(columns: Sequence[Column]) -> StructType:
    """The type of a file's root for a table's data columns (without its partition columns)."""
    row = StructType(tuple((column.name, column.type) for column in columns))
    return StructType(
        (
            (OPERATION, INT),
            (ORIGINAL_TRANSACTION, BIGINT),
            (BUCKET, INT),
            (ROW_ID, BIGINT),
            (CURRENT_TRANSACTION, BIGINT),
            (ROW, row),
        )
    )


def is_event_schema(names: Iterable[str]) -> bool:
    """Whether a file with these root columns holds row events; order and case do not matter.

    A file's schema is the only sure sign: metadata and markers may be missing (format.md 11.11).
    """
    found = [name.lower() for name in names]
    return len(found) == len(EVENT_FIELDS) and set(found) == _EVENT_FIELDS_LOWER


def is_positional_row(names: Sequence[str]) -> bool:
    """Whether the columns of ``row`` go by position: all are called ``_colN`` (HIVE-15190)."""
    return bool(names) and all(_POSITIONAL.fullmatch(name) for name in names)


def event_order(
    original_write_id: int, bucket: int, row_id: int, current_write_id: int, operation: int
) -> tuple[int, int, int, int, int]:
    """The sort key of an event in a file: by row, newest first, a delete before an insert (4.5)."""
    return original_write_id, bucket, row_id, -current_write_id, -operation
