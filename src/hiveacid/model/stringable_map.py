"""Hive's text form of a map of texts, as CQ_TBLPROPERTIES holds it (metastore.md 4.1.1).

``<count>:`` and for each entry ``<length>:<key><length>:<value>``. Lengths are Java's: UTF-16 code
units; -1 stands for null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hiveacid.errors import FormatError


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
