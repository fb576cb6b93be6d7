"""Which texts of a MERGE the driver takes for what they say, and which it leaves to Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.types import CharType, PrimitiveType
from hiveacid.statements.few_rows import _Reader
from hiveacid.statements.values import (
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeClause,
    NotMatchedInsert,
)

NAME = TableName("default", "emp")
BIGINT, STRING = PrimitiveType("bigint"), PrimitiveType("string")
TABLE = Table(
    NAME,
    (Column("id", BIGINT), Column("name", STRING), Column("code", CharType(3))),
    "/w/emp",
    partition_columns=(Column("day", STRING),),
)
READER = _Reader(TABLE, {"id", "name", "key", "op", "day"}, "t", "s")


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("s.op = 'D'", True),
        ("not s.op in ('I', 'U') and S.`name` is not null", True),
        ("(s.id >= 5 or s.id between 1 and 2)", True),
        ("s.op = name", False),
        ("t.name = 'x'", False),
        ("op = 'D'", False),
        ("upper(s.op) = 'D'", False),
        ("s.op = 'a\\'b'", False),
        ("s.other = 1", False),
        ("exists (select 1)", False),
        ("s.id + 1 = 2", False),
        ("s.op like 'D%'", False),
        ("s.op -- = 'D'", False),
    ],
)
def test_conditions_that_cannot_fail_and_name_the_source_alone(text: str, simple: bool) -> None:
    assert READER.is_simple(text, ansi=False) is simple


def test_numbers_are_sparks_where_a_text_beside_them_may_fail() -> None:
    assert not READER.is_simple("s.name = 5", ansi=True)
    assert READER.is_simple("s.name = '5'", ansi=True)
    assert READER.is_simple(None, ansi=True)


def merge(on: object, clauses: Sequence[MergeClause]) -> Merge:
    return Merge(NAME, None, on, tuple(clauses), "t", "s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("t.id = s.id", {"id": "id"}),
        ("S.key=T.`ID` AND t.name = s.name", {"id": "key", "name": "name"}),
        ("t.id = s.id or t.id = s.key", None),
        ("t.id = s.id + 1", None),
        ("t.id <=> s.id", None),
        ("id = s.id", None),
        ("t.id = t.name", None),
        ("t.id = s.id and t.id = s.key", None),
        ("t.code = s.op", None),
    ],
)
def test_columns_that_on_compares(text: str, pairs: dict[str, str] | None) -> None:
    way = READER.way(merge(text, [MatchedDelete()]))
    assert (None if way is None else dict(way.on)) == pairs


def test_what_clauses_take_of_the_source() -> None:
    insert = NotMatchedInsert(("id", "NAME"), ("s.key", "s.op"))
    way = READER.way(merge("t.id = s.id", [MatchedUpdate((("name", "s.`op`"),)), insert]))
    assert way is not None
    assert (way.assigned, way.inserted) == ({"name": "op"}, {"id": "key", "name": "op"})


@pytest.mark.parametrize(
    "clause",
    [
        MatchedUpdate((("name", "upper(s.op)"),)),
        MatchedUpdate((("name", "t.name"),)),
        MatchedUpdate((("name", "op"),)),
        MatchedUpdate((("code", "s.op"),)),
        MatchedUpdate((("id", "s.key"),)),
        MatchedUpdate(all_columns=True),
        NotMatchedInsert(("id",), ("default",)),
        NotMatchedInsert(all_columns=True),
    ],
)
def test_other_values_are_sparks(clause: MergeClause) -> None:
    assert READER.way(merge("t.id = s.id", [clause])) is None
