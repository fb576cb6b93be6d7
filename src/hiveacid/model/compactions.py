"""Compactions: types, states and the transitions as data (metastore.md sections 1.9 and 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class CompactionType(Enum):
    """What a compaction does; the value is the letter in CQ_TYPE."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_TXN_CLEANUP = "c"

    @property
    def thrift_value(self) -> int:
        """Hive's number on the wire."""
        return _THRIFT_VALUES[self]


class CompactionState(Enum):
    """State of a compaction; the value is the letter in CQ_STATE or CC_STATE."""

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    FAILED = "f"
    SUCCEEDED = "s"
    DID_NOT_INITIATE = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def is_queued(self) -> bool:
        """Whether the row lies in COMPACTION_QUEUE, not in COMPLETED_COMPACTIONS."""
        return bool(COMPACTION_TRANSITIONS[self])

    @property
    def phrase(self) -> str:
        """The words that SHOW COMPACTIONS prints."""
        return self.name.lower().replace("_", " ")


_THRIFT_VALUES: Final[Mapping[CompactionType, int]] = {
    CompactionType.MINOR: 1,
    CompactionType.MAJOR: 2,
    CompactionType.REBALANCE: 3,
    CompactionType.ABORT_TXN_CLEANUP: 4,
}

_S = CompactionState

COMPACTION_TRANSITIONS: Final[Mapping[CompactionState, frozenset[CompactionState]]] = {
    _S.INITIATED: frozenset({_S.WORKING, _S.REFUSED, _S.ABORTED, _S.FAILED}),
    _S.WORKING: frozenset({_S.INITIATED, _S.READY_FOR_CLEANING, _S.FAILED, _S.REFUSED}),
    _S.READY_FOR_CLEANING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.REFUSED}),
    _S.FAILED: frozenset(),
    _S.SUCCEEDED: frozenset(),
    _S.DID_NOT_INITIATE: frozenset(),
    _S.REFUSED: frozenset(),
    _S.ABORTED: frozenset(),
}
"""State -> states that may follow. WORKING goes back to INITIATED when its worker is gone."""
