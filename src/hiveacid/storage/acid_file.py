"""What an ACID ORC file holds besides rows: event columns, operations and metadata keys (format.md
4 and 5.1).
"""

from __future__ import annotations

from typing import Final

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
EVENT_NAMES: Final = (
    "operation",
    "originalTransaction",
    "bucket",
    "rowId",
    "currentTransaction",
    "row",
)
KEY_INDEX: Final = "hive.acid.key.index"
STATS: Final = "hive.acid.stats"
VERSION: Final = "hive.acid.version"
