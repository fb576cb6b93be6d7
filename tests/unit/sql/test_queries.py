"""Query text as Spark gets it: what is spliced, and that nothing else changes."""

from __future__ import annotations

import re

import pytest
from tests.unit.sql.catalog import S, T, bound

from hiveacid.errors import InvalidInputError, SqlSyntaxError, UnsupportedError
from hiveacid.model.history import AsOf
from hiveacid.model.predicates import ANYTHING, Compare, Op
from hiveacid.statements.ddl.views import CreateView
from hiveacid.statements.values import Insert, Merge, Query, TableRef, Update, VirtualColumn

ROW_ID = frozenset([VirtualColumn.ROW_ID])
TEXTS = {
    "select col1 from values 1, 'x' as v, t": "select col1 from values 1, 'x' as v, P0 as `t`",
    "select a from values (1, 'x'), (-2, 'y') v(a, b), t": (
        "select a from values (1, 'x'), (-2, 'y') v(a, b), P0 as `t`"
    ),
    # a comment ends with its line, and one in brackets where Spark ends it
    "select id -- c:\\\nfrom t": "select id -- c:\nfrom P0 as `t`",
    "select id -- x\rfrom t": "select id -- x\rfrom P0 as `t`",
    "select '-- c:\\\n', id from t": "select '-- c:\\\n', id from P0 as `t`",
    "select /* a /* from ' */ b */ id from t": "select /* a /* from ' */ b */ id from P0 as `t`",
    # tables become placeholders, aliases stay or are added
    "select * from t": "select * from P0 as `t`",
    "select a.id from t a": "select a.id from P0 a",
    "select a.id from t as a, d2.s b": "select a.id from P0 as a, P1 b",
    "select `t`.id from `default`.`t`": "select `t`.id from P0 as `t`",
    "select `t`.id from `default.t`": "select `t`.id from P0 as `t`",
    "select default.t.id, default.t.* from default.t": "select t.id, `t`.* from P0 as `t`",
    "select x.t.id from t x": "select x.t.id from P0 x",
    # functions that Spark spells otherwise, nested and with subqueries inside
    "select size(v), istrue(isfalse(id > 1)), t.size from t": "select coalesce(size(v), -1), "
    "coalesce(coalesce(not (id > 1), false), false), t.size from P0 as `t`",
    "select floor_day(mid((select v from t), 1))": "select date_trunc('DAY', substring((select v "
    "from P0 as `t`), 1))",
    "select floor(1.5), floor(mid(v, 1) to month), t.floor from t": (
        "select floor(1.5), date_trunc('MONTH', substring(v, 1) ), t.floor from P0 as `t`"
    ),
    "select logged_in_user(), size": "select current_user(), size",
    "select stddev(distinct id), Variance(v) over (partition by p), std(id) from t": (
        "select stddev_pop(distinct id), var_pop(v) over (partition by p), stddev_pop(id) from "
        "P0 as `t`"
    ),
    "select greatest(1, least(id, v)) from t": (
        "select element_at(array_sort(array(1, sort_array(array(id, v))[0])), -1) from P0 as `t`"
    ),
    "select add_months(id, f(v, 1)), add_months(id, 1, 'yyyy') from t": (
        "select zip_with(array(id), array( f(v, 1)), (d, n) -> if(to_date(d) = last_day(d), "
        "last_day(add_months(d, n)), add_months(d, n)))[0], add_months(id, 1, 'yyyy') from P0 "
        "as `t`"
    ),
    "select pmod(id, 7) from t": "select pmod(id, 7) from P0 as `t`",
    "select pmod(id, -3), sqrt(id), array_contains(a, v) from t": (
        "select zip_with(array(id), array( -3), (d, n) -> if(n < 0, (d % n + n) % n, pmod(d, n)))"
        "[0], nullif(sqrt(id), double('NaN')), coalesce(array_contains(a, v), false) from P0 as "
        "`t`"
    ),
    "select ltrim(v), trim(both 'x' from v), trim(v, 'x'), rtrim(v, 'x') from t": (
        "select ltrim(v), trim(both 'x' from v), btrim(v,  'x'), zip_with(array(v), array( 'x'), "
        "(d, n) -> rtrim(n, d))[0] from P0 as `t`"
    ),
    "select v not like all ('a', 'b'), v not like any ('a'), v like all ('a') from t": (
        "select v not like ANY ('a', 'b'), v not like ALL ('a'), v like all ('a') from P0 as `t`"
    ),
    # || binds less than + and -
    "select 'a' || id + 1 || 'b' x, 1 + 1 || -2 y, id || v + 2 z from t where v - 1 || 'x' = 'y'": (
        "select 'a' || (id + 1) || 'b' x, (1 + 1) || -2 y, id || (v + 2) z from P0 as `t` where "
        "(v - 1) || 'x' = 'y'"
    ),
    "select 'a' 'b' || (id || v - 1) || f(1 - 2, 'x' || 1 - mid(v, 1)), date '2020-01-01' || 1": (
        "select 'a' 'b' || (id || (v - 1)) || f(1 - 2, 'x' || (1 - substring(v, 1))), "
        "date '2020-01-01' || 1"
    ),
    "select 'a' || case when v then 1 + 2 else 'x' || 3 - 4 end + 5 || (select 'b' || 1 + 2)": (
        "select 'a' || (case when v then 1 + 2 else 'x' || (3 - 4) end + 5) || "
        "(select 'b' || (1 + 2))"
    ),
    "select 'a' || id + sum(v) over (order by 1 + 2) || d + interval '1' day, 'x' || 1 q": (
        "select 'a' || id + sum(v) over (order by 1 + 2 NULLS LAST) || d + interval '1' day, "
        "'x' || 1 q"
    ),
    "select 'a' || id + rank() over (order by id) from t order by 'a' || 1 + 2": (
        "select 'a' || (id + rank() over (order by id NULLS LAST)) from P0 as `t` "
        "order by 'a' || (1 + 2) NULLS LAST"
    ),
    # a window without order for what ranks rows
    "select rank() over (partition by v), row_number() over (), lag(id, 1) ignore nulls over () "
    "from t": (
        "select rank() over (partition by v ORDER BY 1), row_number() over ( ORDER BY 1), "
        "lag(id, 1) ignore nulls over ( ORDER BY 1) from P0 as `t`"
    ),
    "select sum(id) over (), rank() over w, rank() over (w), ntile(2) over (sort by id) from t": (
        "select sum(id) over (), rank() over w, rank() over (w), "
        "ntile(2) over (sort by id NULLS LAST) from P0 as `t`"
    ),
    # views become their queries, with the columns that the catalog has
    "select w.x from w": "select w.x from"
    " (SELECT * FROM (select id from P0 as `t`) AS `w`(`x`)) as `w`",
    "select * from default.w a": "select * from"
    " (SELECT * FROM (select id from P0 as `t`) AS `w`(`x`)) a",
    "select 1 from t join t u on t.id=u.id": "select 1 from P0 as `t` join P0 u on t.id=u.id",
    "select 1 from (t a join d2.s on a.id=s.id)": (
        "select 1 from (P0 a join P1 as `s` on a.id=s.id)"
    ),
    "select 1 from t tablesample(5 rows) a": "select 1 from P0 tablesample(5 rows) a",
    "select 1 from t left semi join d2.s on t.id=s.id where 1=1": (
        "select 1 from P0 as `t` left semi join P1 as `s` on t.id=s.id where 1=1"
    ),
    "select 1 from t natural full outer join d2.s": (
        "select 1 from P0 as `t` natural full outer join P1 as `s`"
    ),
    "select id from t where id in (select id from d2.s)": (
        "select id from P0 as `t` where id in (select id from P1 as `s`)"
    ),
    "select (select max(id) from d2.s) from t": (
        "select (select max(id) from P1 as `s`) from P0 as `t`"
    ),
    # set operators from left to right
    "select id from t union select id from t intersect select 1 except select 2": (
        "(select id from P0 as `t` union select id from P0 as `t` ) intersect select 1 "
        "except select 2"
    ),
    "select 1 intersect select 2 union all select 3": (
        "select 1 intersect select 2 union all select 3"
    ),
    # what a QUALIFY wants is a column of a query within
    "select distinct id from t where v > 1 qualify rank() over (order by mid(v, 1)) = 1 or id in "
    "(select id from d2.s) order by id limit 1": (
        "SELECT DISTINCT * EXCEPT (__hiveacid_qualifies) FROM (select  id, rank() over (order by "
        "substring(v, 1) NULLS LAST) = 1 or id in (select id from P1 as `s`) AS "
        "__hiveacid_qualifies from P0 as `t` where v > 1 ) WHERE __hiveacid_qualifies  order by "
        "id NULLS LAST limit 1"
    ),
    "select 1 from (select * from t qualify v = 1) q": (
        "select 1 from (SELECT * EXCEPT (__hiveacid_qualifies) FROM (select *, v = 1 AS "
        "__hiveacid_qualifies from P0 as `t` ) WHERE __hiveacid_qualifies ) q"
    ),
    "from t select id, c lateral view explode(a) x as c where v=1": (
        "from P0 as `t` select id, c lateral view explode(a) x as c where v=1"
    ),
    "from t a join (from t select id where v > 1) b on a.id = b.id and a.v select b.id where b.id"
    " > 1": (
        "from P0 a join (from P1 as `t` select id where v > 1) b on a.id = b.id and a.v select "
        "b.id where b.id > 1"
    ),
    # a function of Spark's, which no USING follows
    "select transform(array(v), x -> x) a from t, lateral explode(array(id)) e": (
        "select transform(array(v), x -> x) a from P0 as `t`, lateral explode(array(id)) e"
    ),
    "from t select id where v=1": "from P0 as `t` select id where v=1",
    "(select id from t) union all (select 1)": "(select id from P0 as `t`) union all (select 1)",
    "select 1 from ((select id from t) union (select 2)) q": (
        "select 1 from ((select id from P0 as `t`) union (select 2)) q"
    ),
    "select 1 from ((select id from t) a join d2.s on 1=1)": (
        "select 1 from ((select id from P1 as `t`) a join P0 as `s` on 1=1)"
    ),
    # names of others: WITH queries, temporary views, Spark's tables
    "with t as (select * from t) select * from t": (
        "with t as (select * from P0 as `t`) select * from t"
    ),
    "with q as (select 1 a), r as (select * from q) select * from r, t": (
        "with q as (select 1 a), r as (select * from q) select * from r, P0 as `t`"
    ),
    # a WITH query may have more columns than its list has names
    "with q(a) as (select id x, v, 1, v a from t) select * from q": (
        "with q(a, `v`, `_col2`, `_col3`) as (select id x, v, 1, v a from P0 as `t`) "
        "select * from q"
    ),
    "with q(a, b) as (select id, v from t), r(a) as (select * from q) select * from r": (
        "with q(a, b) as (select id, v from P0 as `t`), r(a) as (select * from q) select * from r"
    ),
    "with q(a) as (select 1, 2 b union all (select 3, 4)) select * from q": (
        "with q(a, `b`) as (select 1, 2 b union all (select 3, 4)) select * from q"
    ),
    "select * from (with t as (select 1) select * from t) q, t": (
        "select * from (with t as (select 1) select * from t) q, P0 as `t`"
    ),
    "select * from view1, nosuch, cat.db.t": "select * from view1, nosuch, cat.db.t",
    "select * from range(5) r, t": "select * from range(5) r, P0 as `t`",
    # null order
    "select id from t order by id": "select id from P0 as `t` order by id NULLS LAST",
    "select id from t order by id desc, v asc nulls first": (
        "select id from P0 as `t` order by id desc NULLS FIRST, v asc nulls first"
    ),
    "select id from t sort by v limit 3": ("select id from P0 as `t` sort by v NULLS LAST limit 3"),
    "select sum(id) over (partition by v order by id desc rows unbounded preceding) from t": (
        "select sum(id) over (partition by v order by id desc NULLS FIRST rows unbounded "
        "preceding) from P0 as `t`"
    ),
    "select 1 from t window w as (order by id)": (
        "select 1 from P0 as `t` window w as (order by id NULLS LAST)"
    ),
    "select percentile_cont(0.5) within group (order by id) from t": (
        "select percentile_cont(0.5) within group (order by id) from P0 as `t`"
    ),
    "select id from t union select 1 order by 1": (
        "select id from P0 as `t` union select 1 order by 1 NULLS LAST"
    ),
    "select 1 order by case when 1=1 then 2 end": (
        "select 1 order by case when 1=1 then 2 end NULLS LAST"
    ),
    "select 1 from t cluster by id": "select 1 from P0 as `t` cluster by id",
    # words of Spark's: TABLE name is a query, a star leaves columns out
    "table t order by id": "SELECT * FROM P0 as `t` order by id NULLS LAST",
    "with q as (table t) (table q) union table w": "with q as (SELECT * FROM P0 as `t`) "
    "(SELECT * FROM q) union SELECT * FROM (SELECT * FROM (select id from P1 as `t`) "
    "AS `w`(`x`)) as `w`",
    "select id from t where id in (table d2.s)": (
        "select id from P0 as `t` where id in (SELECT * FROM P1 as `s`)"
    ),
    "select t.* except (v), default.t.* except (`id`, p) from t": (
        "select t.* except (v), `t`.* except (`id`, p) from P0 as `t`"
    ),
    "select * except (select 1)": "select * except (select 1)",
    "desc query with x as (select id from t) select 2 * id y from x": (
        "desc query with x as (select id from P0 as `t`) select 2 * id y from x"
    ),
    # where Spark reads the same text differently
    "select 1 limit 2, 5": "select 1 LIMIT 5 OFFSET 2",
    "select 1 limit 5 offset 2": "select 1 limit 5 offset 2",
    "select cast(x as varchar(3))": "select left(cast(x as string), 3)",
    "select cast(x as char(3))": "select rtrim(left(cast(x as string), 3))",
    "select cast(cast(a as int) as varchar(2))": "select left(cast(cast(a as int) as string), 2)",
    "select cast(x as timestamp with local time zone)": "select cast(x as timestamp_ltz)",
    "select cast(x as double precision), cast(y as decimal(4,1))": (
        "select cast(x as double), cast(y as decimal(4,1))"
    ),
    "select 'it''s', 'a' 'b'": "select 'it' 's', 'a' 'b'",
    "select * from table(values (1,2)) as q(a,b)": "select * from (values (1,2)) as q(a,b)",
    "select current_database ( )": "select 'default'",
    "select current_schema()": "select 'default'",
    # what must not change
    "select extract(year from d), trim(both ' ' from x) from t": (
        "select extract(year from d), trim(both ' ' from x) from P0 as `t`"
    ),
    "select a is not distinct from b from t": "select a is not distinct from b from P0 as `t`",
    "select x.`from`, case when a then b end from t x": (
        "select x.`from`, case when a then b end from P0 x"
    ),
    "select id /* from x */ -- order by y\n from t": (
        "select id /* from x */ -- order by y\n from P0 as `t`"
    ),
    "select /*+ broadcast(t) */ 'from t', \"order by\" from t": (
        "select /*+ broadcast(t) */ 'from t', 'order by' from P0 as `t`"
    ),
    "select e.x from t lateral view outer explode(a) e as x, y where x > 1": (
        "select e.x from P0 as `t` lateral view outer explode(a) e as x, y where x > 1"
    ),
    "select date '2020-01-01', interval '1' day, m['k'], a[0], s.x, !b, a <=> c, a == d": (
        "select date '2020-01-01', interval '1' day, m['k'], a[0], s.x, !b, a <=> c, a == d"
    ),
    "select 1 from t group by id, v grouping sets ((id), ()) having count(*) > 1": (
        "select 1 from P0 as `t` group by id, v grouping sets ((id), ()) having count(*) > 1"
    ),
    "select offset, limit as limit, a + offset, max(offset) offset from t where 1 = 1 and offset "
    "in (1) group by limit having not limit between 1 and 2 order by offset desc, limit limit 3 "
    "offset 1": (
        "select offset, limit as limit, a + offset, max(offset) offset from P0 as `t` where 1 = 1 "
        "and offset in (1) group by limit having not limit between 1 and 2 order by offset desc "
        "NULLS FIRST, limit NULLS LAST limit 3 offset 1"
    ),
    "select distinct offset from (select count(*) offset from t limit 1) where offset is null": (
        "select distinct offset from (select count(*) offset from P0 as `t` limit 1) where offset "
        "is null"
    ),
    "select 10L, 1.5BD, 1e3, .5, a.b.c, left(x, 1), insert(a, 1), window(ts, '1 day')": (
        "select 10L, 1.5BD, 1e3, .5, a.b.c, left(x, 1), insert(a, 1), window(ts, '1 day')"
    ),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_query_text(text: str, expected: str) -> None:
    """But for the names of columns."""
    query = bound(text)
    assert isinstance(query, Query)
    assert re.sub(r" AS `(?:[^`]|``)*`(?!\()", "", query.text) == expected


def test_one_placeholder_for_each_table_and_need_of_row_ids() -> None:
    query = bound("select a.row__id, b.id, c.id from t a, t b, t c, d2.s")
    assert isinstance(query, Query)
    assert query.tables == {
        "P0": TableRef(T, ROW_ID), "P1": TableRef(T), "P2": TableRef(S)
    }  # fmt: skip
    assert query.text == "select a.row__id, b.id, c.id from P0 a, P1 b, P1 c, P2 as `s`"


ROW_IDS = {
    "select row__id, * from t": "select row__id, `t`.`id`, `t`.`v`, `t`.`p` from P0 as `t`",
    "select ROW__ID.writeid, a.* from t a": (
        "select ROW__ID.writeid, `a`.`id`, `a`.`v`, `a`.`p` from P0 a"
    ),
    "select `row__id`.rowid from t": "select `row__id`.rowid from P0 as `t`",
    "select *, t.row__id from t, d2.s": (
        "select `t`.`id`, `t`.`v`, `t`.`p`, `s`.*, t.row__id from P0 as `t`, P1 as `s`"
    ),
    "select default.t.*, row__id from t": (
        "select `t`.`id`, `t`.`v`, `t`.`p`, row__id from P0 as `t`"
    ),
    "select id from t where exists (select 1 from d2.s where s.id=t.row__id.rowid)": (
        "select id from P0 as `t` where exists (select 1 from P1 as `s` where s.id=t.row__id.rowid)"
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROW_IDS.items())
def test_row_id_asks_the_scan_and_stays_out_of_stars(text: str, expected: str) -> None:
    query = bound(text)
    assert isinstance(query, Query)
    assert query.text == expected
    assert query.tables["P0"] == TableRef(T, ROW_ID)
    assert all(not ref.virtual for name, ref in query.tables.items() if name != "P0")


def test_row_id_of_a_subquery_asks_only_inside() -> None:
    query = bound("select q.row__id, s.id from (select row__id from t) q, d2.s")
    assert isinstance(query, Query)
    asked = {ref.name: ref.virtual for ref in query.tables.values()}
    assert asked == {S: frozenset(), T: ROW_ID}


def test_options_of_a_table_are_told_to_the_scan() -> None:
    query = bound(
        "select x.row__is__deleted, * from t('acid.fetch.deleted.rows'='TRUE', "
        "'insertonly.fetch.bucketid'='false') version as of 3 x"
    )
    assert isinstance(query, Query)
    assert query.text == "select x.row__is__deleted, `x`.`id`, `x`.`v`, `x`.`p` from P0 x"
    (ref,) = query.tables.values()
    assert ref.options == {"acid.fetch.deleted.rows"}
    assert ref.as_of == AsOf(write_id=3)
    plain = bound("select 1 from t a, t('insertonly.fetch.bucketid'='true') b")
    assert isinstance(plain, Query)
    assert len(plain.tables) == 2


def test_a_sample_of_buckets_is_a_condition_on_the_bucket() -> None:
    query = bound("select * from d2.b tablesample (bucket 2 out of 4 on id) s where v = 1")
    assert isinstance(query, Query)
    number = "cast(regexp_extract(INPUT__FILE__NAME, '/([0-9]+)_[^/]*$', 1) as int)"
    sample = f"(SELECT * FROM P0 WHERE {number} % 4 = 1)"
    assert query.text == f"select `s`.`id`, `s`.`v` from {sample} s where v = 1"
    assert query.tables["P0"].virtual == {VirtualColumn.FILE_NAME}


def test_a_statement_that_changes_rows_asks_for_the_virtual_columns_it_names() -> None:
    changed = bound("update t set v = input__file__name where bucket__id = 1")
    assert isinstance(changed, Update)
    assert changed.virtual == {VirtualColumn.FILE_NAME, VirtualColumn.BUCKET_ID}
    merged = bound(
        "merge into t using (select input__file__name f, id from d2.s) q on t.id = q.id "
        "when matched and t.row__id.writeid = 1 then delete"
    )
    assert isinstance(merged, Merge)
    assert merged.virtual == ROW_ID


@pytest.mark.parametrize(
    "where", ["exists (select id", "v > (select min(id) id", "id in (select id"]
)
def test_a_condition_on_a_derived_table_is_none_on_subqueries_in_it(where: str) -> None:
    query = bound(f"select 1 from (select id from t where {where} from d2.s)) q where id = 5")
    assert isinstance(query, Query)
    found = {ref.name: ref.predicate for ref in query.tables.values()}
    assert found == {T: Compare("id", Op.EQ, 5), S: ANYTHING}


def test_a_table_that_is_a_query_is_read_with_all_columns() -> None:
    query = bound("select id from t union all select v from (table t) x")
    assert isinstance(query, Query)
    assert [ref.columns for ref in query.tables.values()] == [{"id", "v"}, None]
    insert = bound("insert into d2.s table t")
    assert isinstance(insert, Insert) and isinstance(insert.source, Query)
    assert insert.source.text == "SELECT * FROM P0 as `t`"
    view = bound("create view x as table t")
    assert isinstance(view, CreateView)
    assert view.expanded == "SELECT `t`.`id`, `t`.`v`, `t`.`p` FROM `default`.`t`"


def test_a_name_outside_is_not_taken_for_a_column_that_a_star_leaves_out() -> None:
    for star, predicate in (("*", Compare("id", Op.EQ, 1)), ("* except (id)", ANYTHING)):
        query = bound(f"select v from (select {star} from t) x, (select 1 as id) y where id = 1")
        assert isinstance(query, Query)
        assert query.tables["P0"].predicate == predicate


REFUSED = {
    "select * except (v), row__id from t": UnsupportedError,
    "select t.* except (v), t.row__id from t": UnsupportedError,
    "create view x as select * except (v) from t": UnsupportedError,
    "select * except () from t": SqlSyntaxError,
    "table (select 1)": SqlSyntaxError,
    "comment on database d2 is 'x'": SqlSyntaxError,
    "select * from t join d2.s using (id) where t.row__id.rowid=1": UnsupportedError,
    "select * from (select 1), t where row__id.rowid=1": InvalidInputError,
    "select block__offset__inside__file from t": UnsupportedError,
    "select transform(a) using 'cat' from t": UnsupportedError,
    "select transform(*) row format delimited using 'cat' from t": UnsupportedError,
    "select * from t('acid.fetch.rows'='true')": UnsupportedError,
    "select * from v('acid.fetch.deleted.rows'='true')": InvalidInputError,
    "select * from w('acid.fetch.deleted.rows'='true')": InvalidInputError,
    "select * from t tablesample (bucket 1 out of 2)": UnsupportedError,
    "select * from d2.b tablesample (bucket 1 out of 8)": UnsupportedError,
    "select * from d2.b tablesample (bucket 1 out of 2 on v)": UnsupportedError,
    "select * from d2.b tablesample (bucket 3 out of 2 on id)": SqlSyntaxError,
    "vacuum": SqlSyntaxError,
    "vacuum t retain 5": SqlSyntaxError,
    "vacuum t retain -5 hours": SqlSyntaxError,
    "vacuum t dry": SqlSyntaxError,
    "optimize t": UnsupportedError,
    "select": SqlSyntaxError,
    "select 1 from": SqlSyntaxError,
    "select 1,": SqlSyntaxError,
    "select (1": SqlSyntaxError,
    "select 1) ": SqlSyntaxError,
    "select 'x": SqlSyntaxError,
    "select 1 /* x": SqlSyntaxError,
    "select * from t where": SqlSyntaxError,
    "select * from t order by": SqlSyntaxError,
    "select 1 union": SqlSyntaxError,
}


@pytest.mark.parametrize(("text", "error"), REFUSED.items())
def test_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        bound(text)


def test_syntax_errors_say_line_and_column() -> None:
    with pytest.raises(SqlSyntaxError, match="line 2:6 cannot recognize input near") as caught:
        bound("select 1\n from ) x")
    assert (caught.value.context["line"], caught.value.context["column"]) == (2, 7)


def test_a_count_of_a_view_is_not_that_of_its_table() -> None:
    query = bound("select count(*) from w")
    assert isinstance(query, Query)
    assert query.aggregates == ()
    assert bound("select count(*) from t").aggregates != ()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "words",
    [
        "version as of 7",
        "for version as of '7'",
        "for system_version as of 7",
        "FOR SYSTEM_VERSION AS OF 7",
    ],
)
def test_a_table_as_it_was_is_another_table(words: str) -> None:
    found = bound(f"select a.id, b.id from t {words} a join t b on a.id = b.id")
    assert isinstance(found, Query)
    assert found.text == "select a.id, b.id from P0 a join P1 b on a.id = b.id"
    then, now = found.tables.values()
    assert (then.as_of, now.as_of) == (AsOf(write_id=7), None)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("select * from t version as of 1.5", SqlSyntaxError, "version"),
        ("select * from t timestamp as of 'never'", InvalidInputError, "'never' is no time"),
        ("select * from t timestamp as of 7", UnsupportedError, "takes a time, not 7"),
        ("select * from w version as of 7", InvalidInputError, "is a view"),
    ],
)
def test_what_says_no_version(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        bound(text)


def test_parentheses_may_be_nested_as_deep_as_a_program_writes_them() -> None:
    inner = "case when (id = 1) then (select max(v) from t) else 2 end"
    text = f"select {'(' * 2000}{inner}{')' * 2000} from t"
    query = bound(text)
    assert isinstance(query, Query)
    assert query.text == text.replace("from t", "from P0 as `t`").replace(
        "(id)", "(id) nulls first"
    )


def test_queries_within_queries_have_an_end() -> None:
    with pytest.raises(UnsupportedError, match="nested too deeply"):
        bound("select * from " + "(select * from " * 400 + "t" + ") x" * 400)
