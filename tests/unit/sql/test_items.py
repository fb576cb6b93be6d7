"""What the columns of a query are called: in its answer, and where it makes a table or a view."""

from __future__ import annotations

import re

import pytest
from tests.unit.sql.catalog import bound

from hiveacid.statements.ddl.tables import CreateTable
from hiveacid.statements.values import Query

TITLES = {
    "id, T.V, t.id AS `a B`, v Other, (id) p2": "id,v,a b,other,p2",
    "1, 'abc', 1.5 d, null, true, not id, current_date, current_date day": (
        "_c0,_c1,d,_c3,_c4,_c5,_c6,day"
    ),
    "id + v, id is null, id in (v), case id when 1 then v end, case when id then v end x": (
        "_c0,_c1,_c2,_c3,x"
    ),
    "id div v, v like p, interval '1' day, interval '1' day x, date '2020-01-01'": (
        "_c0,_c1,_c2,x,_c4"
    ),
    "m['k'], m['k'] k, s.f, a[0].f, upper(v), count(*) n, cast(id as int)": "_c0,k,f,f,_c4,n,id",
    "cast(t.v as decimal(5, 1)), cast(id + 1 as int), cast(f(v) as int), ((t.v)), (id) + (v)": (
        "v,_c1,_c2,_c3,_c4"
    ),
    "cast(null as int), cast('x' as char(1)), cast(id as int) c, -(id), (select 1 id)": (
        "_c0,_c1,c,_c3,_c4"
    ),
    "id, cast(id as bigint), cast(v as int), v, id": "id,_c1,v,_c3,_c4",
    "id, v, id, v, id, 1 a, 2 a": "id,v,id_1,v_1,id_2,a,a_1",
    "id between 1 and v, `id` `a``b`, -id, v || v": "_c0,a`b,_c2,_c3",
}


def _titles(query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    made = bound(f"create table n as {query}")
    assert isinstance(made, CreateTable) and isinstance(made.query, Query)
    return made.query.titles


@pytest.mark.parametrize(("items", "names"), TITLES.items())
def test_columns_are_called_by_alias_name_or_place(items: str, names: str) -> None:
    assert _titles(f"select {items} from t") == (tuple(names.split(",")), ())


def test_columns_beside_stars_and_generators_are_counted_from_both_ends() -> None:
    assert _titles("select 1, *, v, t.*, 2, id from t") == (("_c0",), ("_c4", "id"))
    assert _titles("select 1 a, explode(m) from t") == (("a",), ())
    assert _titles("(select 1 a, 2 from t) union all select 3, 4 b") == (("a", "_c1"), ())
    assert _titles("with q as (select 1 x) select x, 2 from q") == (("x", "_c1"), ())
    assert _titles("values (1, 2)") == _titles("table t") == ((), ())


@pytest.mark.parametrize(
    ("item", "alias"),
    [
        ("size(v)", " AS `size(v)`"),
        ("1 + size( `t`.v\n)", " AS `1 + size( ``t``.v )`"),
        ("size(v) n", ""),
        ("size(v) as n", ""),
        ("explode(sort_array(array(greatest(id, v)))) as n", ""),
        ("stack(1, size(v))", ""),
        ("upper(v)", ""),
        ("cast(t.v as varchar(3))", " AS `v`"),
        ("concat('${v}', size(v))", ""),
    ],
)
def test_a_column_is_called_by_what_was_said(item: str, alias: str) -> None:
    query = bound(f"select {item} from t")
    assert isinstance(query, Query)
    assert re.findall(r" AS `(?:[^`]|``)*`", query.text) == [alias] * bool(alias)
