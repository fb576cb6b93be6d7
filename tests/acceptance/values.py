"""Values as Hive prints them, and when two printed rows are the same."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_LISTING = re.compile(r"\s*(describe|desc|show)\b", re.I)
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`", re.S)
_DOUBLE = re.compile(r"-?\d{1,17}\.\d+|.*E-?\d+")
_LAST_DIGIT = 1e-14


def render(value: Any, kind: Any = None, *, nested: bool = False) -> str:
    """One value; ``kind`` is its type in PySpark where that is known. Inside of a collection texts
    are in quotes, as in JSON.
    """
    name = type(kind).__name__
    if value is None:
        return "null" if nested else "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _java_double(value, single=name == "FloatType")
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, tuple):
        return _struct(value, kind)
    if isinstance(value, dict):
        key, item = (kind.keyType, kind.valueType) if name == "MapType" else (None, None)
        pairs = (f"{_inner(k, key)}:{_inner(v, item)}" for k, v in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        item = kind.elementType if name == "ArrayType" else None
        return "[" + ",".join(_inner(one, item) for one in value) + "]"
    text = _text(value)
    return json.dumps(text, ensure_ascii=False) if nested and _is_quoted(value) else text


def _inner(value: Any, kind: Any) -> str:
    return render(value, kind, nested=True)


def _is_quoted(value: Any) -> bool:
    return isinstance(value, str | date)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
        return text + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return str(value)


def _struct(value: tuple[Any, ...], kind: Any) -> str:
    names = getattr(value, "__fields__", None) or [f"col{n + 1}" for n in range(len(value))]
    fields = getattr(kind, "fields", None)
    kinds = [field.dataType for field in fields] if fields else [None] * len(value)
    pairs = (
        f'"{name}":{_inner(one, inner)}'
        for name, one, inner in zip(names, value, kinds, strict=True)
    )
    return "{" + ",".join(pairs) + "}"


def _java_double(value: float, *, single: bool) -> str:
    """As ``Double.toString`` and ``Float.toString``: the least digits that read back."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0:
        return str(value)
    reads_back = _same_single if single else _same_double
    shortest = next(t for t in (f"{value:.{n}e}" for n in range(1, 18)) if reads_back(t, value))
    digits, _, exponent = shortest.partition("e")
    if -3 <= int(exponent) <= 6:
        text = f"{Decimal(shortest):f}"
        whole, _, fraction = text.partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"
    head, _, fraction = digits.partition(".")
    return f"{head}.{fraction.rstrip('0') or '0'}E{int(exponent)}"


def _same_double(text: str, value: float) -> bool:
    return float(text) == value


def _same_single(text: str, value: float) -> bool:
    return bool(struct.pack("f", float(text)) == struct.pack("f", value))


def escaped(row: str) -> str:
    """A row as it stands on one line."""
    return row.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def difference(sql: str, wanted: Sequence[str], got: Sequence[str], *, unordered: bool) -> str:
    """Empty where the rows of ``sql`` are the wanted ones, in their order where it has ORDER BY."""
    if _LISTING.match(sql):
        wanted, got = _tidy(wanted), _tidy(got)
    if len(wanted) != len(got):
        return f"{len(wanted)} rows expected, {len(got)} returned"
    if not unordered and _has_order(sql):
        pairs = zip(wanted, got, strict=True)
        wrong = next((one for one, other in pairs if not same_row(one, other)), None)
    else:
        wrong = missing_row(wanted, got, same_row)
    return "" if wrong is None else f"row expected and not returned: {wrong!r}"


def missing_row(
    wanted: Sequence[str], got: Sequence[str], same: Callable[[str, str], bool]
) -> str | None:
    """The first wanted row for which none is left of those that were returned."""
    left = list(got)
    for row in wanted:
        hit = next((n for n, other in enumerate(left) if same(row, other)), None)
        if hit is None:
            return row
        del left[hit]
    return None


def _tidy(lines: Sequence[str]) -> list[str]:
    """Rows of DESCRIBE and SHOW: no padding, no empty cells at the end, no empty rows."""
    rows = (re.sub(r"(\t(NULL|None)?)+$", "", re.sub(r" *\t *", "\t", x.strip(" "))) for x in lines)
    return [row for row in rows if row.strip()]


def _has_order(sql: str) -> bool:
    """Whether ORDER BY stands outside of literals and parentheses."""
    flat = _LITERAL.sub("''", sql)
    while (shorter := re.sub(r"\([^()]*\)", " ", flat)) != flat:
        flat = shorter
    return re.search(r"\border\s+by\b", flat, re.I) is not None


def same_row(wanted: str, got: str) -> bool:
    """Cell by cell: blanks at the end (of a char) do not count, nor does a double's last digit; the
    null partition of a string column is shown by its name or as null.
    """
    one, other = wanted.split("\t"), got.split("\t")
    return len(one) == len(other) and all(map(_same_cell, one, other))


def _same_cell(wanted: str, got: str) -> bool:
    wanted, got = wanted.rstrip(" "), got.rstrip(" ")
    if wanted == got or {wanted, got} == {"NULL", NULL_PARTITION}:
        return True
    if not (_DOUBLE.fullmatch(wanted) and _DOUBLE.fullmatch(got)):
        return False
    try:
        return math.isclose(float(wanted), float(got), rel_tol=_LAST_DIGIT)
    except ValueError:
        return False
