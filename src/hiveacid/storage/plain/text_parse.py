"""Lines of a text table as Arrow columns, as Hive's LazySimpleSerDe reads them.

What is no value of a column's type is NULL, as Hive does it: it refuses no line.

A field is never copied to look into it: it is a start and an end, found with numpy (``Spans``).
Stretches are in the buffer's order and do not overlap, so that the separators inside each are found
by bisection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_DOWN, Context, Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import Column, RowFormat
from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    VarcharType,
)
from hiveacid.storage.arrow_types import LOCAL_ZONED, arrow_type, conform
from hiveacid.storage.plain.writers import decode

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
        kept = (offsets - dropped[offsets]).astype(np.int32)
        buffers = [None, pa.py_buffer(kept), pa.py_buffer(values[~escapes].tobytes())]
        return pa.Array.from_buffers(pa.binary(), len(kept) - 1, buffers)

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

    def items(self, separator: int, *, texts: bool) -> tuple[npt.NDArray[np.int32], Spans]:
        """All parts of all stretches, and the offsets at which each row's begin.

        An empty stretch has none; an empty part at the end counts where the parts are ``texts`` (as
        Hive reads it).
        """
        places, low, found = self._separators(separator)
        counts = np.where(self.present & (self.ends > self.starts), found + 1, 0)
        if not texts:
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


_INTEGER: Final = r"^[+-]?[0-9]+(\.[0-9]*)?$"
_FLOAT: Final = r"^\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\s*$"
_DECIMAL: Final = r"^[\s\v]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[\s\v]*$"
_DATE: Final = r"^\s*(?P<y>[0-9]{1,4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})(?:[ T].*)?\s*$"
_TIMESTAMP: Final = (
    r"^\s*(?P<y>[0-9]{1,4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})[ T]"
    r"(?P<h>[0-9]{1,2}):(?P<n>[0-9]{1,2}):(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,9}))?\s*$"
)
_ZONED: Final = (
    r"^(?P<w>\s*[0-9]{1,4}-[0-9]{1,2}-[0-9]{1,2}(?: [0-9:.]+)?)\s*"
    r"(?P<z>[A-Za-z][A-Za-z0-9_/+:-]*|[+-][0-9:]+)?\s*$"
)
_OFFSET: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_SECONDS_A_DAY: Final = 86_400
_CUT: Final = Context(prec=100, rounding=ROUND_DOWN)

_Numbers = npt.NDArray[np.int64]


def parse_rows(lines: Spans, columns: Sequence[Column], row_format: RowFormat) -> list[pa.Array]:
    """One array for each column, of its Arrow type; columns that a line lacks are NULL.

    Raises:
        UnsupportedError: a type that text files cannot hold, or that is nested too deep.
    """
    fields = lines.fields(row_format.separator(0), len(columns))
    return [
        _parsed(spans, column.type, row_format, level=1)
        for spans, column in zip(fields, columns, strict=True)
    ]


def _parsed(spans: Spans, kind: HiveType, row_format: RowFormat, *, level: int) -> pa.Array:
    is_null = pc.fill_null(pc.equal(spans.raw(), pa.scalar(row_format.null, pa.binary())), True)
    spans = spans.where(~is_null.to_numpy(zero_copy_only=False))
    if isinstance(kind, ListType):
        texts = pa.types.is_string(arrow_type(kind.element))
        offsets, items = spans.items(row_format.separator(level), texts=texts)
        values = _parsed(items, kind.element, row_format, level=level + 1)
        return pa.ListArray.from_arrays(_with_nulls(offsets, spans.present), values).cast(
            arrow_type(kind)
        )
    if isinstance(kind, MapType):
        return _map(spans, kind, row_format, level=level)
    if isinstance(kind, StructType):
        fields = spans.fields(row_format.separator(level), len(kind.fields))
        children = [
            _parsed(field, child, row_format, level=level + 1)
            for field, (_, child) in zip(fields, kind.fields, strict=True)
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(arrow_type(kind)), mask=pa.array(~spans.present)
        )
    return _leaf(spans.values(), kind)


def _map(spans: Spans, kind: MapType, row_format: RowFormat, *, level: int) -> pa.Array:
    offsets, entries = spans.items(row_format.separator(level), texts=False)
    keys, values = entries.fields(row_format.separator(level + 1), 2)
    found_keys = _parsed(keys, kind.key, row_format, level=level + 2)
    found_values = _parsed(values, kind.value, row_format, level=level + 2)
    if found_keys.null_count:  # an entry without a key is none
        valid = found_keys.is_valid().to_numpy(zero_copy_only=False)
        kept = np.concatenate((np.zeros(1, np.int64), np.cumsum(valid)))
        offsets = kept[offsets].astype(np.int32)
        found_keys, found_values = (
            found_keys.filter(pa.array(valid)),
            found_values.filter(pa.array(valid)),
        )
    return pa.MapArray.from_arrays(
        _with_nulls(offsets, spans.present), found_keys, found_values
    ).cast(arrow_type(kind))


def _with_nulls(offsets: npt.NDArray[np.int32], present: Mask) -> pa.Array:
    """Offsets whose null entries make null lists."""
    return pa.array(offsets, mask=np.append(~present, False))


def _leaf(data: pa.Array, kind: HiveType) -> pa.Array:
    if isinstance(kind, CharType | VarcharType):
        return conform(_text(data), kind)
    if isinstance(kind, DecimalType):
        return _decimal(_text(data), kind)
    if isinstance(kind, PrimitiveType) and kind.name in INTEGER_BITS:
        return _integer(_text(data), kind)
    reader = _READERS.get(str(kind))
    if reader is None:
        raise UnsupportedError(f"a text table's {kind} is not read", type=str(kind))
    return reader(data)


def _text(data: pa.Array) -> pa.Array:
    """Bytes as text; Hive keeps what is no UTF-8, so nothing is looked at."""
    return data.view(pa.string())


def _only(text: pa.Array, pattern: str) -> pa.Array:
    """``text`` where it matches, else NULL."""
    return pc.if_else(pc.match_substring_regex(text.cast(pa.binary()), pattern), text, None)


def _integer(text: pa.Array, kind: PrimitiveType) -> pa.Array:
    """Digits with a sign; a fraction is cut off, what is out of range is NULL."""
    whole = pc.replace_substring_regex(_only(text, _INTEGER), r"\..*$", "")
    whole = pc.replace_substring_regex(whole, r"^([+-]?)0+([0-9])", r"\1\2")
    whole = pc.utf8_ltrim(whole, "+")
    digits = pc.binary_length(pc.utf8_ltrim(whole, "-"))
    negative = pc.starts_with(whole, "-")
    edge = pc.less_equal(whole, pc.if_else(negative, "-9223372036854775808", "9223372036854775807"))
    fits = pc.or_(pc.less(digits, 19), pc.and_(pc.equal(digits, 19), edge))
    numbers = pc.if_else(fits, whole, None).cast(pa.int64())
    bits = INTEGER_BITS[kind.name]
    if bits < INTEGER_BITS["bigint"]:
        limit = 1 << (bits - 1)
        inside = pc.and_(pc.greater_equal(numbers, -limit), pc.less(numbers, limit))
        numbers = pc.if_else(inside, numbers, None)
    return numbers.cast(arrow_type(kind))


def _float(target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def read(data: pa.Array) -> pa.Array:
        text = pc.utf8_trim_whitespace(_only(_text(data), _FLOAT))
        return (
            pc.utf8_ltrim(pc.utf8_rtrim(text, "fFdD"), "+")
            .cast(pa.float64())
            .cast(target, safe=False)
        )

    return read


def _decimal(text: pa.Array, kind: DecimalType) -> pa.Array:
    """Rounded half up to the scale; NULL where the digits before the point do not fit."""
    number = pc.utf8_ltrim(pc.utf8_trim_whitespace(_only(text, _DECIMAL)), "+")
    before, after = kind.precision - kind.scale, kind.scale + 1  # the next digit tells how to round
    wide = pa.decimal256(76, after)
    fraction = pc.replace_substring_regex(number, rf"^(-?[0-9]*\.[0-9]{{{after}}})[0-9]+$", r"\1")
    whole = pc.binary_length(pc.replace_substring_regex(fraction, r"^-?0*|\..*$", ""))
    scientific = pc.match_substring_regex(number, "[eE]")
    plain = pc.and_(pc.less_equal(whole, before), pc.invert(scientific))
    exact = pc.if_else(plain, fraction, None).cast(wide)
    if pc.any(scientific).as_py():
        texts = pc.if_else(scientific, number, None).to_pylist()
        values = [one and _scientific(one, before=before, after=after) for one in texts]
        exact = pc.coalesce(exact, pa.array(values, wide))
    rounded = pc.round(exact, ndigits=kind.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(10**before, pa.decimal256(39, 0)).cast(wide)
    fits = pc.less(pc.abs(rounded), limit)
    return pc.if_else(fits, rounded, None).cast(arrow_type(kind))


def _scientific(text: str, *, before: int, after: int) -> Decimal | None:
    """A number with an exponent, cut after so many digits; None with more before the point."""
    number = Decimal(text)
    if number and number.adjusted() >= before:
        return None
    return number.quantize(Decimal(1).scaleb(-after), context=_CUT)


def _boolean(data: pa.Array) -> pa.Array:
    text = pc.ascii_lower(_text(data))
    known = pc.is_in(text, value_set=pa.array(["true", "false"]))
    return pc.if_else(known, pc.equal(text, "true"), None)


def _date(data: pa.Array) -> pa.Array:
    found = pc.extract_regex(_text(data), _DATE)
    days, valid = _days(found)
    return pa.array(days.astype(np.int32), mask=~valid).cast(pa.date32())


def _timestamp(data: pa.Array) -> pa.Array:
    found = pc.extract_regex(_text(data), _TIMESTAMP)
    days, valid = _days(found)
    hour, minute, second = (_number(found, 3 + i) for i in range(3))
    valid &= (hour < 24) & (minute < 60) & (second < 60)
    seconds = days * _SECONDS_A_DAY + hour * 3600 + minute * 60 + second
    nanos = _numbers(pc.utf8_rpad(pc.struct_field(found, [6]), 9, "0"))
    return pa.array(seconds * 10**6 + nanos // 1000, mask=~valid).cast(pa.timestamp("us"))


def _zoned(data: pa.Array) -> pa.Array:
    """A time and its zone, by name or as an offset; UTC where there is none."""
    parts = pc.extract_regex(_text(data), _ZONED)
    text = pc.struct_field(parts, [0])
    midnight = pc.binary_join_element_wise(text, "00:00:00", " ")
    wall = _timestamp(pc.if_else(pc.match_substring(text, ":"), text, midnight))
    names = pc.struct_field(parts, [1]).dictionary_encode()
    found = pa.nulls(len(data), pa.timestamp("us", tz="UTC"))
    for number, name in enumerate(names.dictionary.to_pylist()):
        there = pc.fill_null(pc.equal(names.indices, number), False)
        found = pc.coalesce(found, _in_zone(pc.if_else(there, wall, None), name))
    return found


def _in_zone(wall: pa.Array, zone: str) -> pa.Array:
    """The moments of wall clocks in a zone; NULL in one that is not known."""
    kind = pa.timestamp("us", tz="UTC")
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        sign, hours, minutes = offset.groups("0")
        ahead = timedelta(hours=int(sign + hours), minutes=int(sign + minutes))
        wall, zone = pc.subtract(wall, pa.scalar(ahead, pa.duration("us"))), ""
    try:
        return pc.assume_timezone(
            wall, "UTC" if zone in ("", "Z") else zone, ambiguous="earliest", nonexistent="latest"
        ).cast(kind)
    except pa.ArrowInvalid:
        return pa.nulls(len(wall), kind)


def _days(found: pa.Array) -> tuple[_Numbers, Mask]:
    """Days since 1970 of the year, month and day in the first three fields, and whether there is
    such a day.
    """
    year, month, day = (_number(found, i) for i in range(3))
    valid = found.is_valid().to_numpy(zero_copy_only=False)
    valid &= (month >= 1) & (month <= 12) & (day >= 1) & (year >= 1)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    valid &= day <= length
    return first + day - 1, valid


def _number(found: pa.Array, field: int) -> _Numbers:
    return _numbers(pc.struct_field(found, [field]))


def _numbers(text: pa.Array) -> _Numbers:
    text = pc.if_else(pc.fill_null(pc.equal(text, ""), True), "0", text)
    numbers: _Numbers = text.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


_READERS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "float": _float(pa.float32()),
    "double": _float(pa.float64()),
    "boolean": _boolean,
    "string": _text,
    "binary": decode,
    "date": _date,
    "timestamp": _timestamp,
    LOCAL_ZONED: _zoned,
}
