"""Views: what they show, what they survive, what is refused; a catalog row as Hive's."""

from __future__ import annotations

import sqlite3

import pytest

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)

pytestmark = pytest.mark.long("model", "reading", "spark", "sql", "statements")

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def people(acid):
    acid.sql(f"create table t (id int, v string) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1,'a',1),(2,'b',2),(3,'c',2)")


@pytest.mark.long("spark", "sql", "statements")
@pytest.mark.usefixtures("people")
def test_views_over_views_keep_their_columns_and_their_database(acid, rows, tmp_path):
    acid.sql("create view v1 as select * from t where p = 2")
    acid.sql(
        "create view v2 (x comment 'cx', n) comment 'cv' as select v, count(*) from v1 group by v"
    )
    assert rows("select * from v2") == [("b", 1), ("c", 1)]
    acid.sql("alter table t add columns (more int)")
    acid.sql("create database other")
    acid.sql("use other")
    assert acid.sql("select * from default.v1").columns == ["id", "v", "p"]
    assert rows("select a.x, v1.id from default.v2 a join default.v1 on v1.v = a.x") == [
        ("b", 2),
        ("c", 3),
    ]
    assert rows("select x from default.v2 where x = 'b' order by x limit 1") == [("b",)]
    assert acid.table("default.v1").df().count() == 2
    acid.sql("insert into default.t values (9,'z',null,2)")
    assert acid.table("default.v1").df().count() == 3
    with sqlite3.connect(tmp_path / "metastore.db") as db:
        found = db.execute(
            "select TBL_TYPE, VIEW_ORIGINAL_TEXT, VIEW_EXPANDED_TEXT from TBLS where TBL_NAME='v1'"
        ).fetchall()
    assert found == [
        (
            "VIRTUAL_VIEW",
            "select * from t where p = 2",
            "select `t`.`id`, `t`.`v`, `t`.`p` from `default`.`t` where p = 2",
        )
    ]


@pytest.mark.usefixtures("people")
def test_views_as_hive_stores_them(acid, rows, tmp_path):
    """It calls expressions by their place, and keeps the columns of PARTITIONED ON apart."""
    inside = "select `t`.`id` + 1, count(*), `t`.`p` from `default`.`t` group by `t`.`id`, `t`.`p`"
    text = f"SELECT `_c0` AS `x`, `_c1` AS `n`, `p` AS `p` FROM ({inside}) `v`"
    acid.sql("create view v as select id x, id n, p from t")
    with sqlite3.connect(tmp_path / "metastore.db") as db:
        db.execute("update TBLS set VIEW_EXPANDED_TEXT = ? where TBL_NAME = 'v'", (text,))
        table = "(select TBL_ID from TBLS where TBL_NAME = 'v')"
        columns = "(select CD_ID from TBLS natural join SDS where TBL_NAME = 'v')"
        db.execute(f"delete from COLUMNS_V2 where CD_ID = {columns} and COLUMN_NAME = 'p'")
        db.execute(
            "insert into PARTITION_KEYS (TBL_ID, PKEY_NAME, PKEY_TYPE, INTEGER_IDX)"
            f" values ({table}, 'p', 'int', 0)"
        )
    assert acid.sql("select * from v").columns == ["x", "n", "p"]
    assert rows("select * from v where p = 2") == [(3, 1, 2), (4, 1, 2)]
    assert rows("with q as (select id * 2, v from t) select _c0, v from q where v = 'c'") == [
        (6, "c")
    ]


@pytest.mark.usefixtures("people")
def test_views_are_sources_of_dml_never_targets(acid, rows):
    acid.sql("create view v1 as select id, v from t")
    acid.sql(f"create table u (id int, v string) {ACID}")
    acid.sql("insert into u select * from v1")
    acid.sql("delete from u where id in (select id from v1 where id > 1)")
    acid.sql(
        "merge into u using v1 on u.id = v1.id when matched then update set v = upper(v1.v)"
        " when not matched then insert values (v1.id, 'new')"
    )
    assert rows("select * from u") == [(1, "A"), (2, "new"), (3, "new")]
    for code, text in {
        10090: "insert into v1 values (1,'a')",
        10402: "delete from v1",
        10131: "alter table v1 add columns (q int)",
        10146: "truncate table v1",
    }.items():
        with pytest.raises(InvalidInputError) as refused:
            acid.sql(text)
        assert refused.value.context.get("code", refused.value.code) == code, text
    for text in ("drop table v1", "drop view t", "alter view t as select 1"):
        with pytest.raises(InvalidInputError):
            acid.sql(text)


@pytest.mark.usefixtures("people")
def test_views_are_replaced_altered_renamed_and_never_circular(acid, rows):
    acid.sql("create view a as select id from t")
    acid.sql("create view b as select id from a")
    with pytest.raises(AlreadyExistsError):
        acid.sql("create view a as select 1 as id")
    acid.sql("create view if not exists a as select 1 as id")
    for text in ("create or replace view a as select * from b", "alter view a as select * from a"):
        with pytest.raises(InvalidInputError, match=r"Recursive view default\.a detected"):
            acid.sql(text)
    with pytest.raises(InvalidInputError, match="number of columns"):
        acid.sql("create view c (x) as select 1, 2")
    with pytest.raises(InvalidInputError, match="Duplicate column name: x"):
        acid.sql("create view c as select 1 as x, 2 as x")
    acid.sql("alter view a as select id + 10 as id from t")
    assert rows("select * from b") == [(11,), (12,), (13,)]
    acid.sql("alter view a set tblproperties ('k'='v')")
    acid.sql("alter view a rename to z")
    assert rows("show views") == [("b",), ("z",)]
    assert rows("show views like 'z*'") == [("z",)]
    assert ("k", "v") in rows("show tblproperties z")
    acid.sql("drop view z")
    acid.sql("drop view if exists z")
    with pytest.raises(NotFoundError):
        acid.table("z")


def test_create_table_as_select_needs_types_and_no_columns(acid, rows):
    for text, code in {
        f"create table t {ACID} as select 1 as a, null as n": 10305,
        f"create table t {ACID} as select 1 as a, array(named_struct('n', null)) as n": 10305,
        f"create table t partitioned by (p int) {ACID} as select 1 as a": 10068,
        f"create table t (a int) {ACID} as select 1 as a": 10065,
    }.items():
        with pytest.raises(InvalidInputError) as caught:
            acid.sql(text)
        assert caught.value.code == code
    assert rows("show tables") == []
    acid.sql(f"create table t clustered by (a) into 2 buckets {ACID} as select 1 as a, 2")
    acid.sql("create table p partitioned by (b) stored as orc as select 1 as a, 2 as b")
    assert rows("select a, _c1 from t") == [(1, 2)]
    acid.sql(f"create table n {ACID} as select 'x', 3 as `a B`, *, cast(a + 0 as string) from t")
    assert acid.sql("select * from n").columns == ["_c0", "a b", "a", "_c1", "_c3"]
    assert rows("select * from n where `a b` = 3") == [("x", 3, 1, 2, "1")]
    acid.sql("create view w (k, v) as select `a b`, 'x' from n")
    assert rows("select v, k from w") == [("x", 3)]
    assert rows("show partitions p") == [("b=2",)]


@pytest.mark.usefixtures("people")
def test_a_count_of_a_view_is_of_its_rows(acid, rows):
    acid.sql("create view few as select * from t where id > 1")
    assert rows("select count(*) from few") == [(2,)]
    assert rows("select max(id), count(*) from few where p = 2") == [(3, 2)]


@pytest.mark.usefixtures("people")
def test_a_view_partitioned_on_its_last_columns_is_one_like_another(acid, rows):
    acid.sql("create view w (k, q) comment 'c' partitioned on (q) as select v, p from t")
    assert rows("select * from w where q = 2") == [("b", 2), ("c", 2)]
    for columns, code in {"v, p": 10092, "v": 10093, "nosuch": 10093}.items():
        with pytest.raises(InvalidInputError) as caught:
            acid.sql(f"create view x partitioned on ({columns}) as select v, p from t")
        assert caught.value.code == code
    for clause in ("add partition (q='1')", "drop if exists partition (q='1')"):
        with pytest.raises(UnsupportedError, match="partitions of a view are not supported"):
            acid.sql(f"alter view w {clause}")
