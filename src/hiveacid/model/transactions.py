"""Transactions: states, types, operations, transitions as data (metastore.md 1.1, 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from hiveacid.model.tables import TxnId


class TxnState(Enum):
    """State of a transaction; the value is the letter in TXN_STATE."""

    OPEN = "o"
    ABORTED = "a"
    COMMITTED = "c"


class TxnType(IntEnum):
    """Type of a transaction; the value is Hive's number in TXN_TYPE."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


COMPACTIONS: Final = frozenset({TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION})
"""The types of a compactor's own transactions."""


class OperationType(Enum):
    """What a transaction does to a table; the value is the letter in TC_OPERATION_TYPE."""

    SELECT = "s"
    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    COMPACT = "c"
    NO_TXN = "-"
    """never stored"""

    @property
    def is_write(self) -> bool:
        """Whether a lock request records it: INSERT, UPDATE and DELETE."""
        return self in (OperationType.INSERT, OperationType.UPDATE, OperationType.DELETE)


TRANSITIONS: Final[Mapping[TxnState, frozenset[TxnState]]] = {
    TxnState.OPEN: frozenset({TxnState.ABORTED, TxnState.COMMITTED}),
    TxnState.ABORTED: frozenset(),
    TxnState.COMMITTED: frozenset(),
}
"""State -> states that may follow."""


class AbortReason(Enum):
    """Why a transaction was aborted; the value is the text Hive keeps in TXN_META_INFO."""

    NONE = "none"
    ABORT_QUERY = "abort by query command"
    CONCURRENT = "concurrent committed transaction"
    WRITE_CONFLICT = "write conflicts"
    TIMEOUT = "heartbeat time-out"
    ROLLBACK = "rollback"
    COMPACTION = "compaction transaction abort"
    DEADLOCK = "deadlock"
    """followed by the transactions that waited for each other"""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The transactions of a range that are not open."""

    aborted: tuple[TxnId, ...]
    missing: tuple[TxnId, ...]
    """committed or unknown"""


@dataclass(frozen=True, slots=True)
class TxnInfo:
    """One stored transaction; ``reason`` is why it was aborted, ``agent`` whom it is for."""

    id: TxnId
    state: TxnState
    type: TxnType
    started_ms: int
    last_heartbeat_ms: int
    user: str
    host: str
    reason: str | None = None
    agent: str = ""
