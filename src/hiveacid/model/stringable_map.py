"""Hive's text form of a map of texts, as CQ_TBLPROPERTIES holds it (metastore.md 4.1.1).

``<count>:`` and for each entry ``<length>:<key><length>:<value>``. Lengths are Java's: UTF-16 code
units; -1 stands for null.
"""

from __future__ import annotations

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
    def __init__(self, text: str) -> None:
        self._text = text
        self._units = text.encode("utf-16-le")
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._units)

    def number(self) -> int:
        colon = self._units.find(":".encode("utf-16-le"), self._at)
        while colon % 2 == 1:  # the bytes of two other characters
            colon = self._units.find(":".encode("utf-16-le"), colon + 1)
        digits = self._units[self._at : max(colon, self._at)].decode("utf-16-le", "replace")
        try:
            number = int(digits)
        except ValueError as error:
            raise self.error() from error
        self._at = colon + 2
        return number

    def text(self) -> str:
        length = max(self.number(), 0)
        end = self._at + 2 * length
        if end > len(self._units):
            raise self.error()
        found = self._units[self._at : end].decode("utf-16-le", "replace")
        self._at = end
        return found

    def error(self) -> FormatError:
        return FormatError(
            f"Not a map of texts: {self._text!r}", found=self._text, expected="1:<n>:key<n>:value"
        )
