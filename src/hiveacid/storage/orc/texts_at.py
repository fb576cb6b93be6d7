"""Texts at some places of a stripe, of a column whose writer put the distinct ones into a
dictionary: only the numbers at these places are unpacked. Arrow's reader makes a text for each row,
which takes longer than all else that it decodes (ORC specification, "Run Length Encoding", "String,
Char, and VarChar Columns").
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.storage.orc.damage import damage
from hiveacid.storage.orc.streams import WIDTHS, Int64s, StripeStreams, column_of
from hiveacid.storage.orc.tail import varint

_PRESENT, _DATA, _LENGTH, _DICTIONARY = 0, 1, 2, 3
_DIRECT_V2, _DICTIONARY_V2 = 2, 3
_STRING: Final = 7
_SHORT_REPEAT, _DIRECT, _DELTA = 0, 1, 3
_WIDTH_MAX: Final = 56
"""Numbers of no more bits lie in eight bytes, wherever in a byte they begin."""


Dictionaries = dict[int, tuple[tuple[bytes, ...], pa.Array]]
"""The last stripe's, by column number: as it lies in the file, and its texts."""


def texts_at(
    streams: StripeStreams,
    column: int,
    rows: int,
    places: Int64s,
    *,
    above: tuple[int, ...],
    last: Dictionaries,
) -> pa.Array | None:
    """The texts of a column in a stripe of ``rows`` rows, as an Arrow array in the order of
    ``places`` (numbers of rows). None where it is stored without a dictionary, or where it, or a
    column ``above`` that encloses it, may have NULLs.

    Where few texts are in use, stripe after stripe has the same dictionary: ``last`` keeps it.

    Raises:
        FormatError: damaged.
    """
    encoding = streams.encoding(column)
    may_be_null = any(streams.has(one, _PRESENT) for one in (column, *above))
    if may_be_null or encoding.kind != _DICTIONARY_V2 or not rows:
        return None
    numbers = numbers_at(streams.section(column, _DATA) or b"", rows, places)
    if numbers is None:
        return None
    size = encoding.dictionarySize
    if int(numbers.max(initial=0)) >= size:
        raise damage(f"a dictionary of {size} texts", f"the number {int(numbers.max())}")
    texts = _dictionary(streams, column, size, last)
    return texts.take(pa.array(numbers))


def _dictionary(streams: StripeStreams, column: int, size: int, last: Dictionaries) -> pa.Array:
    kinds = [kind for kind in (_LENGTH, _DICTIONARY) if streams.has(column, kind)]
    stored = tuple(streams.stored(column, kind) for kind in kinds)
    known, texts = last.get(column, ((), None))
    if known != stored or len(texts) != size:
        whole = {_LENGTH: _LENGTH, _DICTIONARY: _DATA}
        found = {to: streams.section(column, kind) or b"" for kind, to in whole.items()}
        texts = column_of(_STRING, found, size, encoding=_DIRECT_V2)
        last[column] = stored, texts
    return texts


def numbers_at(data: bytes, count: int, places: Int64s) -> Int64s | None:
    """Those at some places, ascending, of an unsigned integer stream of version 2 of ``count``
    numbers; None where one of its runs has patches, or numbers that are too wide.

    Raises:
        FormatError: damaged: fewer numbers.
    """
    runs: list[tuple[int, int, int, int]] = []
    rising: list[tuple[int, int]] = []
    at = row = 0
    while row < count:
        if at + 1 >= len(data):
            raise damage(f"{count} numbers", f"{row} numbers")
        head, kind, start = data[at], data[at] >> 6, at
        width, length = WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
        step, packed, at = width, length, at + 2
        if kind == _SHORT_REPEAT:
            width, length, step, packed = ((head >> 3 & 7) + 1) * 8, (head & 7) + 3, 0, 1
            at -= 1
        elif kind == _DELTA:
            rising.append((row, start))
            at = varint(data, varint(data, at)[1])[1]
            packed = length - 2 if head >> 1 & 31 else 0
        elif kind != _DIRECT:
            return None
        if width > _WIDTH_MAX:
            return None
        size, alike = (width * packed + 7) // 8, data[start : start + 2]
        while True:  # most runs have the head of the one before
            runs.append((row, at * 8, width, step))
            row, at = row + length, at + size
            if kind != _DIRECT or row >= count or data[at : at + 2] != alike:
                break
            at += 2
    if row != count or at > len(data):
        raise damage(f"{count} numbers of {len(data)} bytes", f"{row} numbers of {at} bytes")
    found = _unpacked(data, np.array(runs, dtype=np.int64).reshape(-1, 4), places)
    for first, start in rising:
        numbers = _risen(data, start)
        here = slice(*np.searchsorted(places, (first, first + len(numbers))))
        found[here] = numbers[places[here] - first]
    return found


def _unpacked(data: bytes, runs: npt.NDArray[Any], places: Int64s) -> Int64s:
    """Of runs by first row, first bit, width, and bits from one number to the next."""
    first, start, width, step = runs[np.searchsorted(runs[:, 0], places, side="right") - 1].T
    bits = start + (places - first) * step
    padded = np.frombuffer(data + bytes(8), dtype=np.uint8)
    words = padded[(np.minimum(bits >> 3, len(data)))[:, None] + np.arange(8)]
    left = words.view(">u8")[:, 0].astype(np.uint64) << (bits & 7).astype(np.uint64)
    found: Int64s = (left >> (64 - width).astype(np.uint64)).astype(np.int64)
    return found


def _risen(data: bytes, at: int) -> Int64s:
    """The numbers of a run that says by how much each is more, or less, than the one before."""
    head, length = data[at], ((data[at] & 1) << 8 | data[at + 1]) + 1
    base, at = varint(data, at + 2)
    coded, at = varint(data, at)
    step = coded >> 1 ^ -(coded & 1)
    steps = np.full(length, step, dtype=np.int64)
    steps[0] = base
    if code := head >> 1 & 31:
        width = WIDTHS[code]
        runs = np.array([[0, at * 8, width, width]], dtype=np.int64)
        sizes = _unpacked(data, runs, np.arange(length - 2))
        steps[2:] = sizes if step >= 0 else -sizes
    found: Int64s = np.cumsum(steps)
    return found
