"""Queries of a WHERE whose answer is known: which of them, and what stands in their place."""

from __future__ import annotations

import datetime

import pytest
from tests.unit.sql.catalog import SmallCatalog

from hiveacid.model.predicates import ANYTHING, Compare, In, Op
from hiveacid.sql import bind_answered, parse_one
from hiveacid.statements.values import Delete, Insert, Query, Update

ANSWERS = {"id": 5, "v": -2, "p": "2024-01-05", None: 7}
NEW = "select max(id) from d2.s"


def answered(text: str, answers: object = None, *, sparks: bool = False) -> object:
    known = ANSWERS if answers is None else answers
    return bind_answered(
        parse_one(text, sparks=sparks),
        SmallCatalog(),
        lambda _, wanted: known.get(wanted.column),
        prefix="P",
    )


def test_what_spark_means_by_a_text_of_its_own_calls_stays() -> None:
    text = f"select size(v) from t where id > ({NEW}) order by std(v), greatest(id, 1) || v + 2"
    found = answered(text, sparks=True)
    assert isinstance(found, Query)
    assert found.text == (
        "select size(v) from P0 as `t` where id >  5  order by std(v), greatest(id, 1) || v + 2"
    )


@pytest.mark.parametrize(
    ("condition", "text", "predicate"),
    [
        (f"id > ({NEW})", "id >  5", Compare("id", Op.GT, 5)),
        (f"id in ({NEW})", "id in (5)", In("id", frozenset({5}))),
        (f"id not in ({NEW})", "id not in (5)", None),
        ("v = (select min(v) from t x)", "v =  -2", Compare("v", Op.EQ, -2)),
        ("id<(select count(*) from t)", "id< 7L", Compare("id", Op.LT, 7)),
        ("p = (select max(p) from t)", "p =  '2024-01-05'", Compare("p", Op.EQ, "2024-01-05")),
        ("id > (select max(id) as date from d2.s)", "id >  5", Compare("id", Op.GT, 5)),
        ("id > (select max(id) day from d2.s x)", "id >  5", Compare("id", Op.GT, 5)),
        ("id > (select nvl(max(id), 0) as month from d2.s)", "id >  (nvl( 5, 0))", None),
        (
            "p > (select max(p) - interval '3' day from t)",
            "p >  ( '2024-01-05' - interval '3' day)",
            None,
        ),
        (
            "p > (select max(p) - interval 3 days from t)",
            "p >  ( '2024-01-05' - interval 3 days)",
            None,
        ),
        (f"(id > 1 and id <> ({NEW}))", "(id > 1 and id <>  5 )", None),
        (f"id > (select max(id) - 2 from d2.s) and id < ({NEW})", "id >  ( 5 - 2)", None),
        (
            "p >= (select cast(date_sub(max(p), 3) as string) from default.t)",
            "p >=  (cast(date_sub( '2024-01-05', 3) as string))",
            ANYTHING,
        ),
    ],
)
def test_an_answer_takes_the_place_of_its_query(condition, text, predicate):
    query = answered(f"select * from t where {condition}")
    assert isinstance(query, Query)
    squeezed = query.text.replace(" ", "")
    assert f"where{text}".replace(" ", "") in squeezed
    assert list(query.tables) == ["P0"]
    if predicate is not None:
        assert query.tables["P0"].predicate == predicate


def test_in_statements_that_write_too():
    statement = answered(f"insert into t select id, v, p from t where id > ({NEW})")
    assert isinstance(statement, Insert)
    assert statement.source.tables["P0"].predicate == Compare("id", Op.GT, 5)
    statement = answered(f"delete from t where id > ({NEW})")
    assert isinstance(statement, Delete)
    assert (statement.predicate, statement.exact) == (Compare("id", Op.GT, 5),) * 2
    statement = answered(f"update t set v = ({NEW}) where id > ({NEW})")
    assert isinstance(statement, Update)
    assert statement.predicate == Compare("id", Op.GT, 5)
    assert "select" in str(statement.assignments)


def test_a_date_is_a_literal_of_its_type():
    query = answered("select * from t where v = (select max(v) from t)", {"v": datetime.date.max})
    assert "DATE '9999-12-31'" in query.text


@pytest.mark.parametrize(
    "text",
    [
        "select * from t where id > 5",
        f"select id > ({NEW}) from t",
        f"select id from t having id > ({NEW})",
        f"select * from t join d2.s on t.id = ({NEW})",
        "select * from t where id > (select max(id) from d2.s where id < 3)",
        "select * from t where id > (select max(id) from d2.s group by id)",
        "select * from t where id > (select sum(id) from d2.s)",
        "select * from t where id > (select max(id + 1) from d2.s)",
        "select * from t where id > (select max(id) + id from d2.s)",
        "select * from t where id > (select distinct max(id) from d2.s)",
        "select * from t where id > (select max(id) over () from d2.s)",
        "select * from t where id > (select max(id), 1 from d2.s)",
        "select * from t where id > (select 1 from d2.s)",
        "select * from t where id > (select max(id) from d2.s, t)",
        "select * from t where id > (select max(x) from view1)",
        "select * from t where id > (select max(x) from nowhere)",
        f"with s as (select 1 id) select * from t where id > (select max(id) from s), ({NEW})",
        f"select * from t where id between 1 and ({NEW})",
        f"select * from t where exists ({NEW})",
        f"select count(*) filter (where id > ({NEW})) from t",
        "select * from t where id > (select max(id) as `a` b from d2.s)",
    ],
)
def test_what_is_left_as_it_is(text):
    assert answered(text) is None


@pytest.mark.parametrize("answer", [None, 1.5, "it's", "\\", "${x}"])
def test_an_answer_that_is_no_plain_literal_is_left_to_the_query(answer):
    assert answered(f"select * from t where id > ({NEW})", {"id": answer}) is None
