"""The delete filter of Spark's reader: rows whose identity is in a delete delta go.

An anti-join on one packed long costs half of one on three columns, so the identities are packed
wherever the ranges of the delete events, known from the footers of their files, fit 63 bits. A
row outside the ranges packs to NULL, which matches nothing. Row ids are unique per partition only
(format.md trap 22): in a partitioned table the number of the partition takes part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from hiveacid.layout import events
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.statistics import integer_range
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.orc.tails import check_acid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


KEY: Final = "__hiveacid_key"
PART: Final = "__hiveacid_part"
_RIGHT: Final = "__hiveacid_deleted_"
BROADCAST_EVENTS_MAX: Final = 4_000_000
"""Up to this they are a hash table (a packed key of 8 bytes each, about 64 MiB), above it sorted
and merged: Spark takes the bytes of the files, which are compressed well, for those of the rows.
"""

_PART_BITS: Final = 14
"""Partitions with deletes are numbered; 16,384 of them fit beside the other ranges, else columns
do.
"""
_IDENTITY: Final = (events.ORIGINAL_TRANSACTION, events.BUCKET, events.ROW_ID)
_FIRST_IDENTITY_COLUMN: Final = 2
"""ORC column number of originalTransaction (format.md 4.1)."""


@dataclass(frozen=True, slots=True)
class DeleteEvents:
    """What the footers of all applying delete files say.

    ``ranges`` are the inclusive (minimum, maximum) of write id, bucket property and row id; None
    where some footer has no statistics (row index stride 0, format.md 5.3).
    """

    rows: int
    ranges: tuple[tuple[int, int], ...] | None


def read_delete_events(files: Iterable[tuple[FileSystem, str]]) -> DeleteEvents:
    """Counts and ranges from the footers of delete files, which are opened: one that is not there
    would let its rows come back.

    Raises:
        MissingFileError: a listed file does not exist.
        FormatError: a file is not ORC, or not an ACID file.
    """
    rows = 0
    found: list[list[tuple[int, int] | None]] = []
    first = _FIRST_IDENTITY_COLUMN
    for fs, path in files:
        tail = read_tail(fs, path)
        check_acid(tail, path)
        rows += tail.rows
        if tail.rows:
            numbers = range(first, first + len(_IDENTITY))
            found.append([integer_range(tail, number) for number in numbers])
    known = [[one for one in column if one is not None] for column in zip(*found, strict=True)]
    if not found or any(len(column) < len(found) for column in known):
        return DeleteEvents(rows, None)
    lows = [min(low for low, _ in column) for column in known]
    highs = [max(high for _, high in column) for column in known]
    return DeleteEvents(rows, tuple(zip(lows, highs, strict=True)))


def without_deleted(rows: DataFrame, deletes: DataFrame, *, known: DeleteEvents) -> DataFrame:
    """``rows`` without those whose identity is in ``deletes``.

    Both have the columns originalTransaction, bucket and rowId, and in a partitioned table
    ``PART``, the partition's number. The result keeps the columns of ``rows``.
    """
    by_part = PART in rows.columns
    packed = _packed(known, parts=by_part)
    if packed is not None:
        rows = rows.selectExpr("*", f"{packed} as {KEY}")
        right = deletes.selectExpr(f"{packed} as {_RIGHT}{KEY}")
        keys: tuple[str, ...] = (KEY,)
    else:
        keys = (*_IDENTITY, PART) if by_part else _IDENTITY
        right = deletes.selectExpr(*[f"{key} as {_RIGHT}{key}" for key in keys])
    same = F.expr(" and ".join(f"{key} = {_RIGHT}{key}" for key in keys))
    right = right.hint("broadcast" if known.rows <= BROADCAST_EVENTS_MAX else "merge")
    return rows.join(right, same, "left_anti").drop(KEY)


def _packed(known: DeleteEvents, *, parts: bool) -> str | None:
    """The identity as one long, or None where the ranges are unknown or too wide."""
    if known.ranges is None:
        return None
    widths = [(high - low).bit_length() for low, high in known.ranges]
    part_bits = 63 - sum(widths)
    if part_bits < (_PART_BITS if parts else 0):
        return None
    inside = " and ".join(
        f"{name} between {low}L and {high}L"
        for name, (low, high) in zip(_IDENTITY, known.ranges, strict=True)
    )
    shift = 0
    terms: list[str] = []
    for name, (low, _), width in reversed(list(zip(_IDENTITY, known.ranges, widths, strict=True))):
        terms.append(f"shiftleft(cast({name} as bigint) - {low}L, {shift})")
        shift += width
    if parts:
        terms.append(f"shiftleft({PART}, {shift})")
    return f"case when {inside} then {' | '.join(terms)} end"
