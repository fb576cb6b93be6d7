"""Literals of Hive SQL: tokens -> Python values, and rows of them for INSERT ... VALUES."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([01][0-7][0-7])|(.))", re.DOTALL)
_NUMBER = re.compile(r"(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?(BD|bd|[LlSsYyDdFf])?")
_TIMESTAMP = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?)?\s*"
)


def string_value(token_text: str) -> str:
    """The value of a quoted string literal (quotes included in ``token_text``)."""
    body = token_text[1:-1]
    if "\\" not in body:
        return body
    text = _ESCAPE.sub(_unescape, body)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # two \\uXXXX escapes that are a surrogate pair are one character, as in Java
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _unescape(match: re.Match[str]) -> str:
    unicode, octal, other = match.groups()
    if unicode is not None:
        return chr(int(unicode, 16))
    if octal is not None:
        return chr(int(octal, 8))
    return _ESCAPES.get(other, other)


def number_value(text: str) -> int | Decimal | float | None:
    """The value of a number; None where its type is not decided here (suffix F)."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits, exponent, suffix = match.groups()
    suffix = (suffix or "").upper()
    if suffix == "F":
        return None
    if exponent is not None or suffix == "D":
        return (
            Decimal(digits + (exponent or ""))
            if suffix == "BD"
            else float(digits + (exponent or ""))
        )
    if suffix == "BD":
        return Decimal(digits)
    if "." in digits:
        return Decimal(digits) if suffix == "" else None
    return int(digits)


def date_value(text: str) -> datetime.date | None:
    """The value of DATE 'text'; None where it is not a plain date of the years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or match.group(4) is not None:
        return None
    try:
        return datetime.date(int(match.group(1)), int(match.group(2)), int(match.group(3)))
    except ValueError:
        return None


def timestamp_value(text: str) -> datetime.datetime | None:
    """The value of TIMESTAMP 'text' (no zone); None where Python's datetime cannot hold it."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match.group(n) or 0) for n in range(1, 7))
    micros = int((match.group(7) or "").ljust(6, "0"))
    try:
        return datetime.datetime(year, month, day, hour, minute, second, micros)
    except ValueError:
        return None
