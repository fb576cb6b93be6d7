"""Long matrices: some of their parameters stay in every run, the others are ``long``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import pytest

_ROOMS = {path.stem for path in (Path(__file__).parents[1] / "src" / "hiveacid").iterdir()}


def sampled(
    values: Iterable[Any], *rooms: str, group: Callable[[Any], Hashable] = str
) -> list[Any]:
    """``values`` for ``parametrize``: all but the first of each group are marked long, for a change
    of one of ``rooms``. A tuple has one value for each name.
    """
    assert rooms and _ROOMS.issuperset(rooms), f"{rooms}: no rooms of the package"
    seen: set[Hashable] = set()
    found: list[Any] = []
    for value in values:
        of = group(value)
        each = value if isinstance(value, tuple) else (value,)
        marks = pytest.mark.long(*rooms) if of in seen else ()
        found.append(pytest.param(*each, marks=marks))
        seen.add(of)
    return found


def first_letter(name: str) -> str:
    """The group of a golden table, or of a command."""
    return name[0]
