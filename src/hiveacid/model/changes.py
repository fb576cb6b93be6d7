"""What a reader of changes asks for: between which versions, and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hiveacid.errors import InvalidInputError


class Deduplication(Enum):
    """Which changes of one row are left out; the names are Spark's ``deduplicationMode``."""

    NONE = "none"
    """none: also a row that one transaction both inserted and deleted"""
    DROP_CARRYOVERS = "dropCarryovers"
    """the net change of each transaction"""
    NET_CHANGES = "netChanges"
    """the net change from the first version to the last"""

    @staticmethod
    def parse(text: str) -> Deduplication:
        """The mode of this name, whatever its case.

        Raises:
            InvalidInputError: there is none.
        """
        for mode in Deduplication:
            if mode.value.lower() == text.lower():
                return mode
        names = ", ".join(mode.value for mode in Deduplication)
        raise InvalidInputError(f"deduplicationMode is one of {names}, not {text!r}")


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The changes after ``since`` (with it, where ``includes_since``), up to ``until`` and with it,
    unless ``includes_until`` is False; None is what is committed now.

    ``key`` pairs deletes and inserts into updates: None takes the table's PRIMARY KEY, if any, and
    no names pair nothing; nor does anything without ``computes_updates``.

    A ``consumer`` goes on from where it has read to. Then ``since`` is where a new one begins
    (None: there is to be one), and ``keep_ms`` how long it may stay away before its files go.
    """

    since: int | None
    until: int | None = None
    key: tuple[str, ...] | None = None
    deduplication: Deduplication = Deduplication.DROP_CARRYOVERS
    computes_updates: bool = True
    includes_since: bool = False
    includes_until: bool = True
    consumer: str | None = None
    keep_ms: int | None = None

    def __post_init__(self) -> None:
        for one in (self.since, self.until):
            if one is not None and one < 0:
                raise InvalidInputError(
                    f"There is no version {one}: versions begin with 1, and before is 0",
                    version=one,
                )
