"""INSERT, UPDATE, DELETE and MERGE: text -> value."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.unit.sql.catalog import S, SmallCatalog, T, bound

from hiveacid.errors import AcidError, NotFoundError, SqlSyntaxError, UnsupportedError
from hiveacid.sql import bind_texts
from hiveacid.sql.parse import parse_one
from hiveacid.statements.values import (
    Delete,
    Insert,
    Inserts,
    Literals,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
    TableRef,
    Update,
)

REFS_T = {"P0": TableRef(T)}
REFS_S = {"P0": TableRef(S)}

VALUES = {
    "insert into t values (1,'a','x'),(-2,null,\"y\")": Insert(
        T, Literals(((1, "a", "x"), (-2, None, "y")))
    ),
    "insert into table t (ID, `v`) values (+1, 2.50), (1e2, true)": Insert(
        T, Literals(((1, Decimal("2.50")), (100.0, True))), columns=("id", "v")
    ),
    "insert into t partition (p='x') values (date '2020-2-29', timestamp '2020-01-01 1:2:3.5')": (
        Insert(
            T,
            Literals(
                ((datetime.date(2020, 2, 29), datetime.datetime(2020, 1, 1, 1, 2, 3, 500000)),)
            ),
            partition={"p": "x"},
        )
    ),
    "insert into t values (99999999999999999999999999999999999999, -9223372036854775808)": Insert(
        T, Literals(((99999999999999999999999999999999999999, -9223372036854775808),))
    ),
    "insert into t select * from d2.s": Insert(T, Query("select * from P0 as `s`", REFS_S)),
    "insert overwrite table t partition (p) select 1": Insert(
        T, Query("select 1"), dynamic_partition=("p",), overwrite=True
    ),
    "insert overwrite table t partition (p=true, q=7, r=-1, s=date '2020-01-01') if not exists "
    "select 1": Insert(
        T,
        Query("select 1"),
        partition={"p": "TRUE", "q": "7", "r": "-1", "s": "2020-01-01"},
        overwrite=True,
        if_not_exists=True,
    ),
    "insert into t (select 1)": Insert(T, Query("(select 1)")),
    "insert into t (id) (select 1)": Insert(T, Query("(select 1)"), columns=("id",)),
    "insert into t with q as (select 1) select * from q": Insert(
        T, Query("with q as (select 1) select * from q")
    ),
    "with q as (select 1 from t) insert into t select * from q": Insert(
        T, Query("with q as (select 1 from P0 as `t`) select * from q", REFS_T)
    ),
    "from t insert into d2.s select id where v > 1": Inserts(
        (Insert(S, Query("from P0_0 as `t` select id where v > 1", {"P0_0": TableRef(T)})),)
    ),
    "from t x insert into d2.s select id insert overwrite table t partition(p='a') "
    "select x.id, v order by id": Inserts(
        (
            Insert(S, Query("from P0_0 x select id", {"P0_0": TableRef(T)})),
            Insert(
                T,
                Query("from P1_0 x select x.id, v order by id NULLS LAST", {"P1_0": TableRef(T)}),
                partition={"p": "a"},
                overwrite=True,
            ),
        )
    ),
    # DEFAULT is the column's default, NULL where there is none
    "insert into t values (1, default, 'x'), (default, 2, 'y')": Insert(
        T, Query("VALUES (1, 'none', 'x'), (null, string(2), 'y')")
    ),
    "insert into t (v, id) values (default, 1)": Insert(
        T, Query("VALUES ('none', 1)"), columns=("v", "id")
    ),
    "insert into t partition (p='x') values (1+1, concat('a', 'b'))": Insert(
        T, Query("VALUES (1+1, concat('a', 'b'))"), partition={"p": "x"}
    ),
    "update t set `a.b` = 1, t.`c.d` = 2": Update(T, (("a.b", "1"), ("c.d", "2"))),
    "update t set v = v+1, id=default": Update(T, (("v", "v+1"), ("id", "null"))),
    "update t set v=default where id = 1 or v is null -- end": Update(
        T, (("v", "'none'"),), "id = 1 or v is null"
    ),
    "update default.t as a set a.V = a.v, p='x' where a.id in (select id from t)": Update(
        T,
        (("v", "a.v"), ("p", "'x'")),
        "a.id in (select id from P0 as `t`)",
        "a",
        REFS_T,
    ),
    "update t set v=default.t.id, id=case when v=1 then 2 else (3) end": Update(
        T, (("v", "t.id"), ("id", "case when v=1 then 2 else (3) end"))
    ),
    "delete from t": Delete(T),
    "delete from t where row__id.writeid=2 and exists (select 1 from t x where x.id=t.id)": Delete(
        T,
        "row__id.writeid=2 and exists (select 1 from P0 x where x.id=t.id)",
        tables=REFS_T,
    ),
    "delete from d2.s x where x.id=1": Delete(S, "x.id=1", "x"),
}


@pytest.mark.parametrize(("text", "expected"), VALUES.items())
def test_value(text: str, expected: object) -> None:
    assert bound(text) == expected


def test_merge_with_schema_evolution() -> None:
    rest = "into t using d2.s on t.id = s.id when matched then update set *"
    assert bound(f"merge with schema evolution {rest}") == replace(
        bound(f"merge {rest}"), evolve=True
    )


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("update t set v = 1", "v"),
        ("update t set T.v = 1", "v"),
        ("update t x set x.v = 1", "v"),
        ("update t x set t.v = 1", "t.v"),
        ("update d2.s set d2.s.id = 1", "id"),
        ("update t set st.v = 1", "st.v"),
        ("update t set t.st.v = 1", "t.st.v"),
        ("update t set d2.t.v = 1", "d2.t.v"),
    ],
)
def test_a_column_that_is_set_stands_behind_the_table_s_name_or_alone(
    statement: str, column: str
) -> None:
    body = parse_one(statement).body
    assert isinstance(body, Update)
    assert [name for name, _ in body.assignments] == [column]


def test_merge_sets_no_column_of_the_source() -> None:
    text = "merge into t using s on t.id = s.id when matched then update set s.v = 1"
    body = parse_one(text).body
    assert isinstance(body, Merge)
    (clause,) = body.clauses
    assert isinstance(clause, MatchedUpdate)
    assert [name for name, _ in clause.assignments] == ["s.v"]


def test_merge_with_every_kind_of_clause() -> None:
    merge = bound(
        """merge into t as x using d2.s on x.id = s.id and x.v <> 'then'
        when matched and case when s.id=1 then true end then delete
        when matched and s.id in (select id from t) then update set x.v = s.id, id=default
        when matched then update set *
        when not matched by source and x.id=3 then delete
        when not matched by source then update set v = null
        when not matched by target and s.id > 1 then insert (v, id) values (default, s.id)
        when not matched then insert *"""
    )
    assert merge == Merge(
        T,
        Query("SELECT * FROM P0", REFS_S),
        "x.id = s.id and x.v <> 'then'",
        (
            MatchedDelete("case when s.id=1 then true end"),
            MatchedUpdate((("v", "s.id"), ("id", "null")), "s.id in (select id from Px0 as `t`)"),
            MatchedUpdate(all_columns=True),
            NotMatchedBySourceDelete("x.id=3"),
            NotMatchedBySourceUpdate((("v", "null"),)),
            NotMatchedInsert(("v", "id"), ("'none'", "s.id"), "s.id > 1"),
            NotMatchedInsert(all_columns=True),
        ),
        "x",
        "s",
        {"Px0": TableRef(T)},
    )


MERGE_SOURCES = {
    "(select id from t) q": (Query("select id from P0 as `t`", REFS_T), "q"),
    "(select 1 as id) as q": (Query("select 1 as id"), "q"),
    "view1": (Query("SELECT * FROM `view1`"), "view1"),
    "cat.db.x y": (Query("SELECT * FROM `cat`.`db`.`x`"), "y"),
    "t src": (Query("SELECT * FROM P0", REFS_T), "src"),
}


@pytest.mark.parametrize(("source", "expected"), MERGE_SOURCES.items())
def test_merge_sources(source: str, expected: tuple[Query, str]) -> None:
    merge = bound(f"merge into t using {source} on 1=1 when matched then delete")
    assert isinstance(merge, Merge)
    assert (merge.source, merge.source_alias) == expected


REFUSED: dict[str, type[AcidError]] = {
    "insert into nosuch values (1)": NotFoundError,
    "update nosuch set a=1": NotFoundError,
    "delete from nosuch": NotFoundError,
    "merge into nosuch using t on 1=1 when matched then delete": NotFoundError,
    "merge into t using d2.s on t.id=s.id": SqlSyntaxError,
    "merge into t using d2.s on t.id=s.id when not matched then update set v=1": SqlSyntaxError,
    "merge into t using d2.s on t.id=s.id when matched then insert values (1)": SqlSyntaxError,
    "insert t values (1)": SqlSyntaxError,
    "insert into t values (1": SqlSyntaxError,
    "insert into t values ()": SqlSyntaxError,
    "insert into t values (1) x y z": SqlSyntaxError,
    "insert into t partition (p='x'": SqlSyntaxError,
    "insert overwrite directory '/x' select 1": UnsupportedError,
    "update t set v": SqlSyntaxError,
    "update t set v=": SqlSyntaxError,
    "update t v=1": SqlSyntaxError,
    "update t set v=1 where": SqlSyntaxError,
    "delete t": SqlSyntaxError,
    "update a.b.t set v=1": SqlSyntaxError,
}


@pytest.mark.parametrize(("text", "error"), REFUSED.items())
def test_refused(text: str, error: type[AcidError]) -> None:
    with pytest.raises(error):
        bound(text)


def test_unknown_target_has_hives_code() -> None:
    with pytest.raises(NotFoundError, match=r"\[Error 10001\]: Table not found default.nosuch"):
        bound("delete from nosuch where 1=1")


def test_texts_of_statements_built_in_python_are_hive_sql() -> None:
    catalog = SmallCatalog()
    column = object()
    update = Update(T, (("v", "cast(v as varchar(2))"), ("id", column)), "id in (select id from t)")  # type: ignore[arg-type]
    assert bind_texts(update, catalog, prefix="P") == Update(
        T,
        (("v", "left(cast(v as string), 2)"), ("id", column)),  # type: ignore[arg-type]
        "id in (select id from P0 as `t`)",
        tables=REFS_T,
    )
    merge = Merge(
        T,
        Query("x"),
        "t.id = s.id",
        (
            MatchedDelete("s.v in (select id from d2.s)"),
            MatchedUpdate((("v", "default.t.id"),)),
            NotMatchedInsert(("v",), ("default",)),
        ),
        source_alias="s",
    )
    assert bind_texts(merge, catalog, prefix="P") == Merge(
        T,
        Query("x"),
        "t.id = s.id",
        (
            MatchedDelete("s.v in (select id from P0 as `s`)"),
            MatchedUpdate((("v", "t.id"),)),
            NotMatchedInsert(("v",), ("default",)),
        ),
        source_alias="s",
        tables=REFS_S,
    )
    for text in ("", "id = 1)", "(id = 1", "1; delete from t"):
        with pytest.raises(SqlSyntaxError):
            bind_texts(Delete(T, text), catalog)
