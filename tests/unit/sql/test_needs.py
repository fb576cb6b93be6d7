"""What is read of a table, told from the statement's text."""

from __future__ import annotations

from datetime import date
from typing import cast

import pytest

from hiveacid.metastore.api import Catalog
from hiveacid.model.history import AsOf, Version
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.predicates import (
    ANYTHING,
    And,
    Compare,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
    conjunction,
)
from hiveacid.model.tables import Column, Table, TableKind, TableName, WriteId
from hiveacid.model.types import parse_type
from hiveacid.sql import bind, parse_one
from hiveacid.sql.needs import columns_of_statement, lookup_of
from hiveacid.statements.values import Delete, Insert, Merge, Query, Update
from hiveacid.txn.view import Look

COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("string")))
T = Table(TableName("default", "t"), COLUMNS, "/t", (Column("p", parse_type("date")),))
S = Table(TableName("default", "s"), COLUMNS, "/s")
ID_IS_1 = Compare("id", Op.EQ, 1)


class Names(Look):
    def __init__(self) -> None:
        super().__init__(cast("Catalog", None), database="default")

    def table(self, name: TableName) -> Table | None:
        return {"t": T, "s": S}.get(name.table)

    def version(self, table: Table, wanted: AsOf) -> Version:
        write_id = WriteId(wanted.write_id or 0)
        return Version(write_id, ValidWriteIdList.of(str(table.name), hwm=write_id), 1, 1)

    def hide(self, name: TableName) -> TableName:
        return TableName(name.database, f"hidden_{name.table}")


def needs(text: str) -> dict[str, Predicate]:
    """table -> predicate, of a query's relations."""
    query = bind(parse_one(text), Names())
    assert isinstance(query, Query)
    return {ref.name.table: ref.predicate for ref in query.tables.values()}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 1", ID_IS_1),
        ("1 = t.id", ID_IS_1),
        ("`ID` = 1 and abs(id) = 3", ID_IS_1),
        ("default.t.id = 1", ID_IS_1),
        ("x.id = 1", ANYTHING),
        ("id + 1 = 2", ANYTHING),
        ("id = '1'", ANYTHING),
        ("not (id = 1 and abs(id) = 1)", ANYTHING),
        ("not (id = 1 or v is null)", And((Compare("id", Op.NE, 1), IsNull("v", negated=True)))),
        ("id = 1 or v in ('a')", Or((ID_IS_1, In("v", frozenset({"a"}))))),
        ("id = 1 or rand() > 0.5", ANYTHING),
        (
            "id between 1 and 3 and exists (select 1 from s where id = 7)",
            And((Compare("id", Op.GE, 1), Compare("id", Op.LE, 3))),
        ),
        ("case when id = 1 then true else false end", ANYTHING),
        ("id = (select max(id) from s) and id = 1", ID_IS_1),
        ("v = 'a\\\\b'", ANYTHING),
    ],
)
def test_where(condition: str, expected: Predicate) -> None:
    assert needs(f"select v from t where {condition}")["t"] == expected


def test_joins() -> None:
    text = "select 1 from t a left join s b on a.id = b.id where a.id = 1 and b.id = 2 and b.v is"
    found = needs(f"{text} null")
    assert found == {"t": ID_IS_1, "s": Compare("id", Op.EQ, 2)}
    assert needs("select 1 from t join s using (id) where id = 1")["t"] == ANYTHING
    assert needs("select 1 from t full join s on t.id = s.id where t.id is null")["t"] == ANYTHING
    for word in ("semi", "anti"):  # whose columns WHERE does not see
        expected = {"t": ID_IS_1, "s": ANYTHING}
        for other in ("s", "(select id from s) s", "(s cross join s b)"):
            joined = f"left {word} join {other} on true"
            assert needs(f"select 1 from t {joined} where id = 1") == expected


def test_subqueries_have_their_own_condition() -> None:
    found = needs("select * from (select id from t where id = 1) x join s on x.id = s.id")
    assert found == {"t": ID_IS_1, "s": ANYTHING}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select v from t where id = 1", {"id", "v"}),
        ("select count(*) from t", set()),
        ("select * from t", None),
        ("select count(*), struct(t.*) from t", None),
        ("select id * 2 from t", {"id"}),
        ("select 1 from t natural join s", None),
        ("select a from t as x(a, b, c)", None),
    ],
)
def test_columns(text: str, expected: set[str] | None) -> None:
    query = bind(parse_one(text), Names())
    assert isinstance(query, Query)
    found = next(ref.columns for ref in query.tables.values() if ref.name == T.name)
    assert found == expected


def test_statements_that_change_rows() -> None:
    update = bind(parse_one("update t set v = 'x' where id = 1"), Names())
    assert isinstance(update, Update)
    assert update.predicate == ID_IS_1
    delete = bind(parse_one("delete from t as a where a.id = 1 and t.id = 2"), Names())
    assert isinstance(delete, Delete)
    assert (delete.predicate, delete.columns) == (ID_IS_1, {"id"})
    matched = "merge into t using s on t.id = s.id and t.id = 1 when matched then delete"
    merge = bind(parse_one(matched), Names())
    assert isinstance(merge, Merge)
    assert merge.predicate == ID_IS_1
    by_source = bind(parse_one(f"{matched} when not matched by source then delete"), Names())
    assert isinstance(by_source, Merge)
    assert by_source.predicate == ANYTHING
    insert = bind(parse_one("insert into s select id, v from t where id = 1"), Names())
    assert isinstance(insert, Insert)
    assert isinstance(insert.source, Query)
    assert [ref.predicate for ref in insert.source.tables.values()] == [ID_IS_1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select count(*) from t", [("count", None, "count(1)")]),
        ("SELECT Count(1) AS n FROM default.t x", [("count", None, "n")]),
        (
            "select min(ID) low, max(`id`), count(v) from t as a",
            [("min", "id", "low"), ("max", "id", "max(id)"), ("count", "v", "count(v)")],
        ),
        ("select count(*) from t where id = 1", []),
        ("select count(*) from t, s", []),
        ("select count(distinct id) from t", []),
        ("select sum(id) from t", []),
        ("select count(*) + 1 from t", []),
        ("select count(*) from t group by id", []),
        ("select count(*) from t limit 0", []),
        ("select min(t.id) from t", []),
        ("select count(*) from (select 1 from t) x", []),
    ],
)
def test_queries_that_ask_for_aggregates_only(
    text: str, expected: list[tuple[str, str | None, str]]
) -> None:
    query = bind(parse_one(text), Names())
    assert isinstance(query, Query)
    assert [(one.function, one.column, one.title) for one in query.aggregates] == expected


V = Table(
    TableName("default", "v"),
    (Column("num", parse_type("int")), Column("day", parse_type("date"))),
    "",
    kind=TableKind.VIEW,
    view_expanded="select `id`, `p` from `default`.`t` where `v` <> 'x'",
)


class NamesWithView(Names):
    def table(self, name: TableName) -> Table | None:
        return V if name.table == "v" else super().table(name)


DAY = Compare("p", Op.EQ, date(2020, 1, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1 from (select * from t) x where x.id = 1", ID_IS_1),
        ("select 1 from (select id as k, v from t) x where k = 1 and v = 'a'", None),
        ("select 1 from (select id + 1 as id from t) x where id = 1", ANYTHING),
        ("select 1 from (select id from (select id from t) y) x where id = 1", ID_IS_1),
        ("select 1 from (select max(id) id from t group by v) x where id = 1", ANYTHING),
        ("select 1 from (select id from t limit 5) x where id = 1", ANYTHING),
        ("select 1 from ((select id from t) limit 5) x where id = 1", ANYTHING),
        ("select 1 from (select id, sum(id) over (order by v) from t) x where id = 1", ANYTHING),
        ("select 1 from (select id from t union all select id from s) x where id = 1", ANYTHING),
        ("select 1 from (select id from t) x(k) where k = 1", ANYTHING),
        ("select 1 from t x(v, id, p) where id = 1", ANYTHING),
        ("select 1 from s join (t join s) as x(v, id, p, a, b) where x.id = 1", ANYTHING),
        ("select 1 from ((select id, v from t) y) as x(v, id) where id = 1", ANYTHING),
        ("select 1 from (select t.id from t left join s on t.id = s.id) x where id = 1", ID_IS_1),
        ("select 1 from (select t.* from t join s on t.id = s.id) x where x.id = 1", ID_IS_1),
        ("select 1 from s left join (select id from t) x on true where x.id is null", ANYTHING),
        ("select 1 from v where day = '2020-01-02'", DAY),
        ("select 1 from (select * from v) w where w.day = '2020-01-02'", DAY),
        ("select 1 from (select day from v limit 1) w where w.day = '2020-01-02'", ANYTHING),
        ("select 1 from v as a left join s b on a.num = b.id where a.num = 1", ID_IS_1),
    ],
)
def test_conditions_reach_into_derived_tables_and_views(
    text: str, expected: Predicate | None
) -> None:
    query = bind(parse_one(text), NamesWithView())
    assert isinstance(query, Query)
    found = next(ref.predicate for ref in query.tables.values() if ref.name == T.name)
    if expected is None:
        expected = And((ID_IS_1, Compare("v", Op.EQ, "a")))
    of_the_view = Compare("v", Op.NE, "x")
    parts = found.parts if isinstance(found, And) else (found,)
    without = tuple(part for part in parts if part != of_the_view)
    assert conjunction(without) == expected


@pytest.mark.parametrize(
    ("condition", "exact"),
    [
        ("id = 1", ID_IS_1),
        ("t.id = 1 and v = 'a'", And((ID_IS_1, Compare("v", Op.EQ, "a")))),
        ("id = 1 and v like 'a%'", None),
        ("id = 1 or id + 1 = 3", None),
        ("id = 1 and v = 5", None),
        ("id = (select max(id) from s)", None),
        ("id in (1, (select 2))", None),
        ("id = 1 and rand() < 0.5", None),
    ],
)
def test_a_change_knows_whether_its_predicate_says_all(
    condition: str, exact: Predicate | None
) -> None:
    for text in (f"delete from t where {condition}", f"update t set v = 'x' where {condition}"):
        bound = bind(parse_one(text), Names())
        assert isinstance(bound, Delete | Update)
        assert bound.exact == exact


@pytest.mark.parametrize(
    ("assigned", "literals"),
    [
        ("v = 'x'", {"v": "x"}),
        ("V = null, id = -3", {"v": None, "id": -3}),
        ("v = 'x', id = id + 1", None),
        ("v = default", None),
        ("v = upper('x')", None),
    ],
)
def test_an_update_knows_its_values_where_all_are_literals(
    assigned: str, literals: dict[str, object] | None
) -> None:
    bound = bind(parse_one(f"update t set {assigned} where id = 1"), Names())
    assert isinstance(bound, Update)
    assert bound.literals == literals


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select * from t where id = 5", [("id", "id"), ("v", "v"), ("p", "p")]),
        ("select id, e.v as N from default.t e where e.id in (1, 2)", [("id", "id"), ("v", "N")]),
        ("select default.t.id from t where t.id = 1 and not v = 'x'", [("id", "id")]),
        ("select distinct id from t where id = 1", None),
        ("select ID from t where id = 1", None),
        ("select id x from t where id = 1", None),
        ("select id from t", None),
        ("select id from t where id = 1 limit 1", None),
        ("select id from t where id = 1 union select 2", None),
        ("select id from t tablesample (1 rows) where id = 1", None),
        ("select t.id from t as e where e.id = 1", None),
        ("select count(*) from t where id = 1", None),
        ("select *, id from t where id = 1", None),
        ("select id from t, dept where id = 1", None),
        ("select id from t where id + 1 = 2", None),
        ("select id from t where id = 1 and rand() < 1", None),
        ("with t as (select 1) select id from t where id = 1", None),
    ],
)
def test_what_a_lookup_asks_for(query: str, columns: list[tuple[str, str]] | None) -> None:
    found = lookup_of(query, T)
    assert (None if found is None else list(found.columns)) == columns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select id from t where exists (select * from s where s.id = t.id)", {"id"}),
        ("select v from t where not exists(select  *\nfrom s where p = id)", {"id", "v", "p"}),
        ("select 1 from t where exists (select * from s)", set()),
        ("select id, exists (select * from s where v in (select v from s)) from t", {"id", "v"}),
        ("select * from t where exists (select * from s)", None),
        ("select 1 from t where exists (select distinct * from s)", None),
        ("select 1 from t where exists (select * from s union all select * from t)", None),
        ("select 1 from t where exists (select * from s except select * from t)", None),
        ("select 1 from t where exists (select * from s order by 2)", None),
        ("select 1 from t where exists (select * from s group by all)", None),
        ("select 1 from t where exists (select * from s where s.ROW__ID is null)", None),
        ("select 1 from t where exists (select * from s) union all select * from s", None),
        ("select 1 from t where exists (select id from (select * from s) x)", None),
        ("select 1 from t where exists (select s.* from s)", None),
    ],
)
def test_a_star_that_only_asks_for_a_row_needs_no_column(text, expected):
    found = columns_of_statement(text, T)
    assert found == (None if expected is None else frozenset(expected))
