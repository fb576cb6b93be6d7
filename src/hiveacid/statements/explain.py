"""EXPLAIN: Spark's plan of a query; for everything else what the statement would touch.

Nothing is executed, no lock is taken.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.listing import Listing
from hiveacid.statements.values import Insert, Inserts, Literals, Merge, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MODES = {"extended": "extended", "formatted": "formatted", "cost": "cost", "cbo": "cost"}


def explain(statement: ddl.Explain, *, frame: Callable[[Query], DataFrame]) -> Listing:
    """The plan as lines of text; ``frame`` makes the DataFrame of a query."""
    lines = _lines(statement.statement, statement.mode, frame)
    return Listing(("Explain",), tuple((line,) for line in lines))


def _lines(value: object, mode: str, frame: Callable[[Query], DataFrame]) -> list[str]:
    if isinstance(value, Query):
        return _plan(frame(value), mode)
    if isinstance(value, Inserts):
        return [line for branch in value.branches for line in _lines(branch, mode, frame)]
    lines = [type(value).__name__]
    lines += [f"  {name}: {text}" for name, text in _described(value)]
    if isinstance(value, (Insert, Merge)) and isinstance(value.source, Query):
        lines += ["  source plan:", *(f"    {line}" for line in _plan(frame(value.source), mode))]
    return lines


def _plan(frame: DataFrame, mode: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(mode=_MODES.get(mode, "simple"))
    return out.getvalue().rstrip("\n").split("\n")


def _described(value: Any) -> list[tuple[str, str]]:
    if not is_dataclass(value):
        return []
    found = []
    for one in fields(value):
        content = getattr(value, one.name)
        if content is None or content in ((), {}, "", False):
            continue
        if isinstance(content, Query):
            content = content.text
        elif isinstance(content, Literals):
            content = f"{len(content.rows)} literal rows"
        found.append((one.name, str(content)))
    return found
