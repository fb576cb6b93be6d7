"""Ids and limits of the format."""

from __future__ import annotations

from typing import Final, NewType

TxnId = NewType("TxnId", int)
"""Global transaction id, from 1."""

WriteId = NewType("WriteId", int)
"""Per-table write id, from 1; 0 belongs to original files (format.md 6.2)."""

StatementId = NewType("StatementId", int)
"""Statement in a transaction, 0..4095; ``NO_STATEMENT`` where a directory name has none."""

LockId = NewType("LockId", int)
"""External id of a lock request (HL_LOCK_EXT_ID)."""

NO_STATEMENT: Final = StatementId(-1)
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
MAX_BUCKET_ID: Final = 4095
MAX_STATEMENT_ID: Final = 4095
FIRST_WRITE_ID_AFTER_CONVERSION: Final = WriteId(10_000_001)
"""Of a table whose files were there before it became transactional (real-hive.md 9)."""
