"""Columns of ids that come as one value: ten thousand rows cost the driver more than the query."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction


def packed(*columns: ColumnElement[Any]) -> ColumnElement[str]:
    """The integers of all rows, in no order of the rows, those of one row beside each other."""
    texts: list[ColumnElement[str]] = [cast(one, Text) for one in columns]
    return _Joined(reduce(lambda left, right: left + literal_column("','", Text) + right, texts))


def unpacked(value: str | None) -> list[int]:
    """What ``packed`` made; of no rows it makes None."""
    found: list[int] = json.loads(f"[{value or ''}]")  # in half the time of split and int
    return found


class _Joined(GenericFunction[str]):
    """SQLAlchemy's own (aggregate_strings) wants its separator at each execution."""

    type = Text()
    inherit_cache = True


@compiles(_Joined)
def _compile(element: Any, compiler: Any, **how: Any) -> str:
    return f"string_agg({compiler.process(element.clauses, **how)}, ',')"


@compiles(_Joined, "sqlite")
def _compile_for_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    return f"group_concat({compiler.process(element.clauses, **how)}, ',')"
