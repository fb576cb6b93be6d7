"""Compactions: types, states and the transitions as data (metastore.md sections 1.9 and 4.1)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType

from hiveacid.errors import FormatError
from hiveacid.model.tables import TableName, TxnId, WriteId

CompactionId = NewType("CompactionId", int)
NO_COMPACTION: Final = CompactionId(-1)
"""The id in the answer to a request that was refused."""


class CompactionType(Enum):
    """What a compaction does; the value is the letter in CQ_TYPE."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_TXN_CLEANUP = "c"
    SMART_OPTIMIZE = "*"
    """Hive's alone, of Iceberg tables"""


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


_S = CompactionState

COMPACTION_TRANSITIONS: Final[Mapping[CompactionState, frozenset[CompactionState]]] = {
    _S.INITIATED: frozenset({_S.WORKING, _S.REFUSED, _S.ABORTED, _S.FAILED}),
    _S.WORKING: frozenset({_S.INITIATED, _S.READY_FOR_CLEANING, _S.FAILED, _S.REFUSED}),
    _S.READY_FOR_CLEANING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.REFUSED, _S.INITIATED}),
    _S.FAILED: frozenset(),
    _S.SUCCEEDED: frozenset(),
    _S.DID_NOT_INITIATE: frozenset(),
    _S.REFUSED: frozenset(),
    _S.ABORTED: frozenset(),
}
"""State -> states that may follow. WORKING goes back to INITIATED when its worker is gone, and so
does READY_FOR_CLEANING when the worker's transaction was aborted instead of committed."""


_T = CompactionType

COVERED_BY: Final[Mapping[CompactionType, frozenset[CompactionType]]] = {
    _T.MINOR: frozenset({_T.MINOR, _T.MAJOR, _T.REBALANCE}),
    _T.MAJOR: frozenset({_T.MAJOR, _T.REBALANCE}),
    _T.REBALANCE: frozenset(),
    _T.ABORT_TXN_CLEANUP: frozenset({_T.ABORT_TXN_CLEANUP}),
    _T.SMART_OPTIMIZE: frozenset({_T.SMART_OPTIMIZE}),
}
"""Type -> types that leave nothing for it to do where nothing was written since.

Hive takes all for that; its cleaner comes after seconds, ours may have to keep things for days.
"""


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What is asked for; ``partition`` is a partition's name, None for an unpartitioned table.

    ``properties`` are those of WITH OVERWRITE TBLPROPERTIES; ``buckets`` and ``order_by`` are for
    rebalance alone. ``initiator`` says who asks (``<host>-manual`` for a statement).
    """

    table: TableName
    partition: str | None
    type: CompactionType
    properties: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    buckets: int | None = None
    order_by: str | None = None
    initiator: str | None = None
    run_as: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionAnswer:
    """What became of a request: its id, or ``NO_COMPACTION`` and why not."""

    id: CompactionId
    state: CompactionState
    accepted: bool
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionInfo:
    """A row of the queue or of the history; times are epoch milliseconds.

    ``next_txn`` is the highest transaction id when it was committed: all older ones may still read
    what it replaced.
    """

    id: CompactionId
    table: TableName
    partition: str | None
    type: CompactionType
    state: CompactionState
    properties: Mapping[str, str] = field(default_factory=dict)
    worker: str | None = None
    worker_version: str | None = None
    enqueued_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    run_as: str | None = None
    highest_write_id: WriteId | None = None
    error: str | None = None
    txn: TxnId | None = None
    next_txn: TxnId | None = None
    committed_ms: int | None = None
    initiator: str | None = None
    pool: str | None = None
    buckets: int | None = None
    order_by: str | None = None
    cleaner_started_ms: int | None = None
    retry_retention_ms: int = 0


# -------------------------------------------------------------------- properties as text
# Hive's text form of a map of texts, as CQ_TBLPROPERTIES holds it (metastore.md 4.1.1).
#
# ``<count>:`` and for each entry ``<length>:<key><length>:<value>``. Lengths are Java's: UTF-16
# code
# units; -1 stands for null.


def format_map(values: Mapping[str, str]) -> str:
    """The text of a map.

    Example:
        >>> format_map({"a": "bc"})
        '1:1:a2:bc'
    """
    parts = [f"{len(values)}:"]
    for key, value in values.items():
        parts += [f"{_units(key)}:{key}", f"{_units(value)}:{value}"]
    return "".join(parts)


def parse_map(text: str | None) -> dict[str, str]:
    """The map of a text; None and an empty text are the empty map, a null is an empty text.

    Raises:
        FormatError: the text is of another form.
    """
    if not text:
        return {}
    reader = _Reader(text)
    found = {reader.text(): reader.text() for _ in range(reader.number())}
    if not reader.at_end:
        raise reader.error()
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class _Reader:
    """Reads along a text in which every character is one UTF-16 code unit."""

    def __init__(self, text: str) -> None:
        units = struct.unpack(f"<{_units(text)}H", text.encode("utf-16-le"))
        self._text = text
        self._units = "".join(map(chr, units))
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._units)

    def number(self) -> int:
        digits, colon, _ = self._units[self._at :].partition(":")
        self._at += len(digits) + len(colon)
        try:
            return int(digits)
        except ValueError as error:
            raise self.error() from error

    def text(self) -> str:
        length = max(self.number(), 0)
        found = self._units[self._at : self._at + length]
        if len(found) < length:
            raise self.error()
        self._at += length
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def error(self) -> FormatError:
        return FormatError(
            f"Not a map of texts: {self._text!r}", found=self._text, expected="1:<n>:key<n>:value"
        )
