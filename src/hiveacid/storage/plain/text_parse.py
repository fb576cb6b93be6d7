"""Lines of a text table as Arrow columns, as Hive's LazySimpleSerDe reads them.

What is no value of a column's type is NULL, as Hive does it: it refuses no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import UnsupportedError
from hiveacid.model.row_format import RowFormat
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.arrow_types import LOCAL_ZONED, arrow_type, conform
from hiveacid.storage.plain.text_format import decode
from hiveacid.storage.plain.text_spans import Mask, Spans

_INTEGER: Final = r"^[+-]?[0-9]+(\.[0-9]*)?$"
_FLOAT: Final = r"^\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\s*$"
_DECIMAL: Final = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*$"
_DATE: Final = r"^\s*(?P<y>[0-9]{1,4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})(?:[ T].*)?\s*$"
_TIMESTAMP: Final = (
    r"^\s*(?P<y>[0-9]{1,4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})[ T]"
    r"(?P<h>[0-9]{1,2}):(?P<n>[0-9]{1,2}):(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,9}))?"
)
_INT_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SECONDS_A_DAY: Final = 86_400
_WIDE: Final = pa.decimal256(76, 38)

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
        offsets, items = spans.items(row_format.separator(level))
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
    offsets, entries = spans.items(row_format.separator(level))
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
    if isinstance(kind, UnionType):
        raise UnsupportedError(f"a text table's {kind} is not read", type=str(kind))
    assert isinstance(kind, PrimitiveType)
    if kind.name in _INT_BITS:
        return _integer(_text(data), kind)
    reader = _READERS.get(kind.name)
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
    bits = _INT_BITS[kind.name]
    if bits < _INT_BITS["bigint"]:
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
    fraction = pc.replace_substring_regex(number, r"^(-?[0-9]*\.[0-9]{38})[0-9]+$", r"\1")
    whole = pc.binary_length(pc.replace_substring_regex(fraction, r"^-?0*|\..*$", ""))
    plain = pc.and_(pc.less_equal(whole, 38), pc.invert(pc.match_substring_regex(number, "[eE]")))
    exact = pc.if_else(plain, fraction, None).cast(_WIDE)
    scientific = pc.match_substring_regex(number, "[eE]")
    if pc.any(scientific).as_py():
        exact = pc.coalesce(exact, _scientific(pc.if_else(scientific, number, None)))
    rounded = pc.round(exact, ndigits=kind.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(10 ** (kind.precision - kind.scale), pa.decimal256(39, 0)).cast(_WIDE)
    fits = pc.less(pc.abs(rounded), limit)
    return pc.if_else(fits, rounded, None).cast(arrow_type(kind))


def _scientific(text: pa.Array) -> pa.Array:
    """Numbers with an exponent; those too small to be seen are 0, those too large NULL."""
    size = pc.abs(text.cast(pa.float64()))
    text = pc.if_else(pc.less(size, 1e-30), "0", pc.if_else(pc.less(size, 1e38), text, None))
    try:
        return text.cast(_WIDE)
    except pa.ArrowInvalid:  # digits beyond the 38th after the point
        return text.cast(pa.float64()).cast(_WIDE)


def _boolean(data: pa.Array) -> pa.Array:
    text = pc.ascii_lower(_text(data))
    known = pc.is_in(text, value_set=pa.array(["true", "false"]))
    return pc.if_else(known, pc.equal(text, "true"), None)


def _string(data: pa.Array) -> pa.Array:
    return _text(data)


def _date(data: pa.Array) -> pa.Array:
    found = pc.extract_regex(_text(data), _DATE)
    days, valid = _days(found)
    return pa.array(days.astype(np.int32), mask=~valid).cast(pa.date32())


def _timestamp(data: pa.Array) -> pa.Array:
    seconds, nanos, valid = _instants(data, _TIMESTAMP + r"\s*$")
    return pa.array(seconds * 10**6 + nanos // 1000, mask=~valid).cast(pa.timestamp("us"))


def _zoned(data: pa.Array) -> pa.Array:
    """A time and the name of its zone."""
    wall = _timestamp(pc.replace_substring_regex(data, rb" [A-Za-z][A-Za-z0-9_/+:-]*$", b""))
    zones = pc.extract_regex(_text(data), r" (?P<z>[A-Za-z][A-Za-z0-9_/+:-]*)\s*$")
    names = pc.struct_field(zones, [0]).dictionary_encode()
    found = pa.nulls(len(data), pa.timestamp("us", tz="UTC"))
    for number, name in enumerate(names.dictionary.to_pylist()):
        there = pc.fill_null(pc.equal(names.indices, number), False)
        local = pc.assume_timezone(
            pc.if_else(there, wall, None), name, ambiguous="earliest", nonexistent="latest"
        )
        found = pc.coalesce(found, local.cast(found.type))
    return found


def _instants(data: pa.Array, pattern: str) -> tuple[_Numbers, _Numbers, Mask]:
    found = pc.extract_regex(_text(data), pattern)
    days, valid = _days(found)
    hour, minute, second = (_number(found, 3 + i) for i in range(3))
    valid &= (hour < 24) & (minute < 60) & (second < 60)
    fraction = pc.utf8_rpad(pc.struct_field(found, [6]), 9, "0")
    nanos = _numbers(fraction)
    return days * _SECONDS_A_DAY + hour * 3600 + minute * 60 + second, nanos, valid


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
    "string": _string,
    "binary": decode,
    "date": _date,
    "timestamp": _timestamp,
    LOCAL_ZONED: _zoned,
}
