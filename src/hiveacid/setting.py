"""One setting: a field of a settings class, with its dotted name and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from hiveacid.errors import InvalidInputError

PREFIX: Final = "hiveacid."
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_UNITS_S: Final[Mapping[str, float]] = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

_KIND_NAMES: Final[Mapping[type, str]] = {
    bool: "truth value",
    int: "whole number",
    float: "number of seconds",
}


def setting(
    default: Any,
    name: str,
    text: str,
    *,
    hive: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    pattern: str = "",
    fixed: str = "",
    as_is: bool = False,
    secret: bool = False,
) -> Any:
    """A field; ``hive`` are Hive's names for it, ``pattern`` a regular expression of its texts,
    ``fixed`` says why it cannot change while a session is connected. The case of a text counts
    where it is kept ``as_is``; what is ``secret`` is so, and never shown.
    """
    metadata = {
        "name": PREFIX + name,
        "text": text,
        "hive": hive,
        "choices": choices,
        "pattern": pattern,
        "fixed": fixed,
        "as_is": as_is or secret,
        "secret": secret,
    }
    return field(default=default, metadata=metadata, repr=not secret)


def parsed(name: str, text: str, kind: type) -> object:
    """The value that a text of SET stands for.

    Raises:
        InvalidInputError: it is none of that kind.
    """
    lower = text.lower()
    try:
        if kind is bool:
            if lower not in _TRUE | _FALSE:
                raise ValueError(text)
            return lower in _TRUE
        if kind is int:
            return int(text)
        if kind is float:
            return parse_seconds(lower)
    except ValueError as error:
        raise InvalidInputError(
            f"Setting {name} cannot be {text!r}: expected a {_KIND_NAMES[kind]}", setting=name
        ) from error
    return lower


def parse_seconds(text: str) -> float:
    """A length of time in seconds: a number, or one with a unit (``500ms``, ``12h``, ``7d``).

    Raises:
        ValueError: it is none, or negative.
    """
    text = text.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if unit and unit not in _UNITS_S:
        raise ValueError(text)
    seconds = float(number) * _UNITS_S.get(unit, 1.0)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds
