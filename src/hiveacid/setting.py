"""One setting: a field of a settings class, with its dotted name and what it means."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

PREFIX: Final = "hiveacid."


def setting(
    default: Any,
    name: str,
    text: str,
    *,
    hive: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    pattern: str = "",
    fixed: str = "",
) -> Any:
    """A field; ``hive`` are Hive's names for it, ``pattern`` a regular expression of its texts,
    ``fixed`` says why it cannot change while a session is connected.
    """
    metadata = {
        "name": PREFIX + name,
        "text": text,
        "hive": hive,
        "choices": choices,
        "pattern": pattern,
        "fixed": fixed,
    }
    return field(default=default, metadata=metadata)
