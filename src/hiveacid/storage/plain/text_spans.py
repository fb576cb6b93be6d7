"""Stretches of bytes in one buffer of text: lines, fields and their parts, found with numpy.

A field is never copied to look into it: it is a start and an end. Stretches are in the buffer's
order and do not overlap, so that the separators inside each are found by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NEWLINE, _RETURN = 10, 13


class TextBuffer:
    """Some bytes of text and where in them nothing is a separator, being escaped."""

    def __init__(self, data: bytes | pa.Buffer, *, escape: int | None) -> None:
        """``escape`` is the byte that takes away the meaning of the one after it."""
        self.data = pa.py_buffer(data) if isinstance(data, bytes) else data
        self.bytes = np.frombuffer(self.data, dtype=np.uint8)
        self._escapes = self._active_escapes(escape)
        self._found: dict[int, Places] = {}

    def _active_escapes(self, escape: int | None) -> Places | None:
        """Where an escape stands that is not escaped itself."""
        if escape is None:
            return None
        places = np.flatnonzero(self.bytes == escape)
        if not len(places):
            return None
        begins = np.concatenate(([True], np.diff(places) != 1))
        run_start = np.maximum.accumulate(np.where(begins, places, 0))
        active: Places = places[(places - run_start) % 2 == 0]
        return active

    def separators(self, byte: int) -> Places:
        """Where ``byte`` stands and is not escaped."""
        if byte not in self._found:
            places = np.flatnonzero(self.bytes == byte)
            if self._escapes is not None:
                places = places[~np.isin(places - 1, self._escapes)]
            self._found[byte] = places
        return self._found[byte]

    def lines(self) -> Spans:
        """The lines: each ends at a newline, a carriage return, or both (as Hadoop reads lines)."""
        text = self.bytes
        is_newline = text == _NEWLINE
        after_return = np.zeros(len(text), dtype=bool)
        after_return[1:] = text[:-1] == _RETURN
        ends = np.flatnonzero((text == _RETURN) | (is_newline & ~after_return))
        follows = np.zeros(len(text) + 1, dtype=bool)
        follows[:-1] = is_newline & after_return
        starts = np.concatenate((np.zeros(1, np.int64), ends + 1 + follows[ends + 1]))
        if starts[-1] >= len(text):
            starts = starts[:-1]
        else:
            ends = np.append(ends, len(text))
        return Spans(self, starts, ends, np.ones(len(starts), dtype=bool))

    def unescaped(self, spans: Spans) -> pa.Array:
        """The bytes of each span without its escapes; ``\\n`` and ``\\r`` are line ends."""
        assert self._escapes is not None
        lengths = spans.ends - spans.starts
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        source = np.repeat(spans.starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        last = np.repeat(spans.ends - 1, lengths)
        escapes = np.isin(source, self._escapes) & (source != last)
        values = self.bytes[source].copy()
        after = np.flatnonzero(escapes) + 1
        values[after[values[after] == ord("n")]] = _NEWLINE
        values[after[values[after] == ord("r")]] = _RETURN
        dropped = np.concatenate((np.zeros(1, np.int64), np.cumsum(escapes)))
        return _binary((offsets - dropped[offsets]).astype(np.int32), values[~escapes].tobytes())

    @property
    def has_escapes(self) -> bool:
        """Whether anything is escaped."""
        return self._escapes is not None


@dataclass(frozen=True, slots=True)
class Spans:
    """One stretch a row; where ``present`` is False the row has none, and start and end say
    nothing but where it would be.
    """

    text: TextBuffer
    starts: Places
    ends: Places
    present: Mask

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, mask: Mask) -> Spans:
        """The same rows, with stretches only where ``mask`` holds too."""
        return Spans(self.text, self.starts, self.ends, self.present & mask)

    def only(self, mask: Mask) -> Spans:
        """The rows for which ``mask`` holds."""
        return Spans(self.text, self.starts[mask], self.ends[mask], self.present[mask])

    def fields(self, separator: int, count: int) -> list[Spans]:
        """The first ``count`` parts of each stretch; a row with fewer lacks the others."""
        places, low, found = self._separators(separator)
        parts: list[Spans] = []
        for number in range(count):
            starts, ends = self.ends, self.ends
            if number == 0:
                starts = self.starts
            else:
                later = found >= number
                starts = np.where(later, _at(places, low + number - 1) + 1, self.ends)
            inner = found > number
            ends = np.where(inner, _at(places, low + number), self.ends)
            parts.append(Spans(self.text, starts, ends, self.present & (found >= number)))
        return parts

    def items(self, separator: int) -> tuple[npt.NDArray[np.int32], Spans]:
        """All parts of all stretches, and the offsets at which each row's begin.

        An empty stretch has none, and an empty part at the end does not count (as Hive reads it).
        """
        places, low, found = self._separators(separator)
        counts = np.where(self.present & (self.ends > self.starts), found + 1, 0)
        final = np.where(found > 0, _at(places, low + found - 1) + 1, self.starts)
        counts -= (counts > 1) & (final == self.ends)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        row = np.repeat(np.arange(len(self)), counts)
        number = np.arange(offsets[-1]) - offsets[row]
        before = _at(places, low[row] + number - 1) + 1
        starts = np.where(number == 0, self.starts[row], before)
        ends = np.where(number < found[row], _at(places, low[row] + number), self.ends[row])
        parts = Spans(self.text, starts, ends, np.ones(len(row), dtype=bool))
        return offsets.astype(np.int32), parts

    def _separators(self, separator: int) -> tuple[Places, Places, Places]:
        """All separators, for each stretch the number of its first, and how many it has."""
        places = self.text.separators(separator)
        low = np.searchsorted(places, self.starts)
        return places, low, np.searchsorted(places, self.ends) - low

    def raw(self) -> pa.Array:
        """The bytes as they stand, as binary; NULL where there is no stretch."""
        count = len(self)
        if not count:
            return pa.array([], pa.binary())
        # starts and ends alternate: every second element is a stretch, the rest lies between
        offsets = np.empty(2 * count, dtype=np.int32)
        offsets[0::2], offsets[1::2] = self.starts, self.ends
        every = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), self.text.data]
        )
        take = pa.array(np.arange(0, 2 * count, 2), mask=~self.present)
        return every.take(take)

    def values(self) -> pa.Array:
        """The bytes without escapes, as binary; NULL where there is no stretch."""
        if not self.text.has_escapes:
            return self.raw()
        plain = self.text.unescaped(self)
        return plain.take(pa.array(np.arange(len(self)), mask=~self.present))


def _at(places: Places, index: Places) -> Places:
    """``places[index]``; 0 where there is no such place (the caller looks elsewhere then)."""
    if not len(places):
        return np.zeros(len(index), dtype=np.int64)
    found: Places = places[np.clip(index, 0, len(places) - 1)]
    return found


def _binary(offsets: npt.NDArray[np.int32], data: bytes) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
