"""INSERT, UPDATE, DELETE, MERGE and SELECT end to end: rows, row ids, files on disk, results."""

from __future__ import annotations

import re
import sqlite3
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import hiveacid
from hiveacid.errors import (
    CardinalityError,
    ConversionError,
    InvalidInputError,
    NotFoundError,
    SqlSyntaxError,
)
from hiveacid.statements.values import (
    DeleteResult,
    InsertResult,
    Listing,
    MergeResult,
    UpdateResult,
    listing_frame,
)

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_statements_leave_the_directories_and_row_ids_of_hive_4(acid, rows, layout):
    acid.sql(f"create table t (id int, v string) {ACID}")
    assert acid.sql("insert into t values (1,'a'),(2,'b'),(3,'c')") == InsertResult(3, 1)
    assert acid.sql("update t set v = upper(v) where id = 2") == UpdateResult(1, 2)
    assert acid.sql("delete from t where id = 3") == DeleteResult(1, 3)
    merged = acid.sql(
        "merge into t using (select 1 id, 'x' v union all select 2, 'y' union all select 9, 'z') s"
        " on t.id = s.id when matched and s.v = 'x' then delete"
        " when matched then update set v = s.v when not matched then insert values (s.id, s.v)"
    )
    assert merged == MergeResult(updated=1, deleted=1, inserted=1, write_id=4)
    assert rows(
        "select id, v, row__id.writeid, row__id.bucketid & 4095 s, row__id.rowid from t"
    ) == [
        (2, "y", 4, 2, 0),
        (9, "z", 4, 3, 0),
    ]
    found = [re.sub(r"(0003/bucket_0000)\d", r"\g<1>N", name) for name in layout("t")]
    assert [name for name in found if "_orc_acid_version" not in name] == [
        "delete_delta_0000002_0000002_0000/bucket_00000",
        "delete_delta_0000003_0000003_0000/bucket_00000",
        "delete_delta_0000004_0000004_0000/bucket_00000",
        "delete_delta_0000004_0000004_0001/bucket_00000",
        "delta_0000001_0000001_0000/bucket_00000_N",
        "delta_0000002_0000002_0001/bucket_00000_N",
        "delta_0000004_0000004_0002/bucket_00000_N",
        "delta_0000004_0000004_0003/bucket_0000N_N",
    ]


def test_partitioned_and_bucketed_table_with_odd_partition_values(acid, rows, layout):
    acid.sql(
        "create table p (id int, v string) partitioned by (d string, k int)"
        f" clustered by (id) into 3 buckets {ACID}"
    )
    acid.sql("insert into p values (1,'a','x',1),(2,'b','y/z',2),(4,'d',null,null)")
    acid.sql("insert into p partition (d='x', k) select id + 10, v, 1 from p")
    acid.sql("update p set v = concat(v, '!') where id in (1, 14)")
    acid.sql("delete from p where d = 'y/z'")
    assert rows("select id, v, d, k from p") == [
        (1, "a!", "x", 1),
        (11, "a", "x", 1),
        (12, "b", "x", 1),
        (14, "d!", "x", 1),
        (4, "d", "__HIVE_DEFAULT_PARTITION__", None),
    ]
    assert "d=y%2Fz/k=2/delta_0000001_0000001_0000/bucket_00002_N" in layout("p")
    names = [row[0] for row in acid.sql("show partitions p").collect()]
    assert names == [
        "d=__HIVE_DEFAULT_PARTITION__/k=__HIVE_DEFAULT_PARTITION__",
        "d=x/k=1",
        "d=y%2Fz/k=2",
    ]


def test_a_query_sees_one_snapshot_of_all_its_tables(acid, rows):
    acid.sql(f"create table a (id int) {ACID}")
    acid.sql(f"create table b (id int) {ACID}")
    acid.sql("insert into a values (1)")
    acid.sql("insert into b values (1)")
    before = acid.sql("select a.id, (select count(*) from b) n from a")
    acid.sql("insert into a values (2)")
    acid.sql("insert into b values (2)")
    acid.sql("delete from a where id = 1")
    assert [tuple(row) for row in before.collect()] == [(1, 1)]
    assert rows("with x as (select * from a) select x.id, b.id from x join b on x.id = b.id") == [
        (2, 2)
    ]


def test_builders_do_what_sql_does(acid, spark, rows):
    frame = spark.createDataFrame(
        [(1, "Jo", 100), (2, "Al", 200)], "id int, name string, salary int"
    )
    emp = acid.create_table("emp", frame.schema)
    assert emp.insert(frame.select("salary", "id", "name")) == InsertResult(2, 1)
    assert emp.update({"salary": "salary * 2"}, where="name like 'J%'") == UpdateResult(1, 2)
    assert emp.delete(where=F.col("id") == 2).rows == 1
    changes = spark.createDataFrame(
        [(1, "Jo", 5, "U"), (7, "New", 7, "I")], "id int, name string, salary int, op string"
    )
    merged = (
        emp.merge(changes, on="t.id = s.id")
        .when_matched_delete(where="s.op = 'D'")
        .when_matched_update({"salary": "s.salary"})
        .when_not_matched_insert({"id": "s.id", "name": F.col("s.name"), "salary": "s.salary"})
        .run()
    )
    assert merged == MergeResult(updated=1, deleted=0, inserted=1, write_id=4)
    assert sorted(tuple(r) for r in emp.df().collect()) == [(1, "Jo", 5), (7, "New", 7)]
    assert emp.overwrite(frame).rows == 2
    assert rows("select * from emp") == [(1, "Jo", 100), (2, "Al", 200)]


def test_merge_star_and_not_matched_by_source(acid, rows):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t values (1,'a'),(2,'b'),(3,'c')")
    result = acid.sql(
        "merge into t using (select 2 as id, 'B' as v union all select 4, 'D') s on t.id = s.id"
        " when matched then update set * when not matched then insert *"
        " when not matched by source and t.id = 1 then delete"
        " when not matched by source then update set v = concat(t.v, '?')"
    )
    assert result == MergeResult(updated=2, deleted=1, inserted=1, write_id=2)
    assert rows("select * from t") == [(2, "B"), (3, "c?"), (4, "D")]


def test_two_source_rows_for_one_target_row_are_refused_and_change_nothing(acid, rows, layout):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t values (1,'a'),(2,'b')")
    before = layout("t")
    with pytest.raises(CardinalityError, match=r"Cardinality Violation.*\[1, 536870912, 0\]"):
        acid.sql(
            "merge into t using (select 1 id, 'x' v union all select 1, 'y') s on t.id = s.id"
            " when matched and s.v = 'x' then update set v = s.v"
        )
    assert rows("select * from t") == [(1, "a"), (2, "b")]
    assert layout("t") == before


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("update t set p = 'x'", 10292),
        ("update t set id = 1", 10302),
        ("update t set nosuch = 1", 10408),
        ("update plain set id = 1", 10297),
        ("delete from plain where id = 1", 10297),
        ("select * from nosuch", None),
        ("select nosuch from t", None),
        ("insert into t values (1)", 10044),
    ],
)
def test_wrong_statements_are_refused_before_anything_happens(acid, sql, code, layout):
    acid.sql(
        "create table t (id int, v string) partitioned by (p string) clustered by (id) into 2"
        f" buckets {ACID}"
    )
    acid.sql("create table plain (id int) stored as orc")
    with pytest.raises((InvalidInputError, NotFoundError)) as found:
        acid.sql(sql)
    if code is not None:
        assert found.value.code == code
    assert layout("t") == []
    assert acid.sql("insert into t values (1,'a','p')").write_id == 1


def test_store_assignment(acid, rows):
    acid.sql(f"create table t (c char(3), v varchar(2), d decimal(4,1), i int) {ACID}")
    acid.sql("insert into t select 'abcdef', 'xyz', cast(2.25 as decimal(9,2)), 7L")
    acid.sql("insert into t values ('abcdef', 'xyz', 2.25, 7), ('a', 'b', 12345.6, 1)")
    assert rows("select trim(c), v, d, i from t") == [
        ("a", "b", None, 1),
        ("abc", "xy", Decimal("2.3"), 7),
        ("abc", "xy", Decimal("2.3"), 7),
    ]
    acid.sql("set hiveacid.store_assignment=ansi")
    with pytest.raises(ConversionError, match="column i of type int"):
        acid.sql("insert into t select 'a', 'b', 1, 'no number'")
    with pytest.raises(ConversionError, match="column v"):
        acid.sql("insert into t select 'a', 'too long', 1, 1")
    assert len(rows("select * from t")) == 3


def test_plain_tables_are_read_and_appended_to(acid, rows, layout):
    acid.sql("create table s (id int, v string) stored as orc")
    acid.sql("insert into s values (1,'a')")
    acid.sql("insert into s select id + 1, v from s")
    assert layout("s") == ["000000_0", "000000_0_copy_1"]
    assert rows("select * from s") == [(1, "a"), (2, "a")]
    acid.sql("insert overwrite table s values (9,'z')")
    assert rows("select * from s") == [(9, "z")]


def test_overwrite_replaces_and_leaves_older_snapshots_alone(acid, rows, layout):
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    acid.sql("insert into t values (1,'a'),(2,'b')")
    old = acid.sql("select id from t")
    acid.sql("insert overwrite table t partition (p) select 5, 'a'")
    assert rows("select * from t") == [(2, "b"), (5, "a")]
    assert sorted(row.id for row in old.collect()) == [1, 2]
    acid.sql("insert overwrite table t partition (p='b') select id from t where 1 = 0")
    assert rows("select * from t") == [(5, "a")]
    acid.sql("delete from t")
    assert rows("select * from t") == []
    assert "p=a/base_0000002/bucket_00000_N" in layout("t")


def test_names_are_temporary_views_then_ours_then_sparks(acid, spark, rows):
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    spark.range(3).createOrReplaceTempView("t")
    try:
        assert rows("select count(*) from t") == [(3,)]
    finally:
        spark.catalog.dropTempView("t")
    assert rows("select count(*) from t") == [(1,)]


def test_read_arrow_reads_what_spark_wrote(acid, tmp_path):
    acid.sql(f"create table t (id bigint, v string) {ACID}")
    acid.sql("insert into t select id, concat('v', id) from range(1000)")
    acid.sql("update t set v = 'changed' where id % 7 = 0")
    acid.sql("delete from t where id % 5 = 0")
    table = hiveacid.read_arrow(str(tmp_path / "wh" / "t")).read_all().sort_by("id")
    expected = sorted(tuple(row) for row in acid.sql("select * from t").collect())
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected
    assert len(expected) == 800


def test_not_null_and_check_are_enforced_by_every_statement(acid, rows):
    acid.sql(f"create table t (id int not null, v int check (v > 0)) {ACID}")
    acid.sql("insert into t values (1, 1), (2, null)")
    for wrong in (
        "insert into t values (null, 1)",
        "insert into t values (3, 0)",
        "insert into t select cast(null as int), 1",
        "update t set id = null where id = 1",
        "update t set v = -1 where id = 1",
        "merge into t using (select 1 as id) s on t.id = s.id when matched then update set v = 0",
        "merge into t using (select 7 as id) s on t.id = s.id"
        " when not matched then insert values (null, 1)",
    ):
        with pytest.raises(ConversionError, match="Either CHECK or NOT NULL constraint violated!"):
            acid.sql(wrong)
    merged = "merge into t using (select 1 as id union all select 7) s on t.id = s.id"
    acid.sql(merged + " when matched then delete when not matched then insert values (s.id, 5)")
    assert rows("select * from t") == [(2, None), (7, 5)]


def test_multi_insert_is_one_transaction(acid, rows, layout):
    acid.sql(f"create table a (id int) {ACID}")
    acid.sql(f"create table b (id int) partitioned by (p string) {ACID}")
    acid.sql("create table s (id int) stored as orc")
    acid.sql("insert into s values (1), (2), (3)")
    results = acid.sql(
        "from s insert into table a select id where id < 3"
        " insert into table b partition (p='x') select id where id > 1"
        " insert into table b partition (p='y') select id where id > 2"
    )
    assert [(r.rows, r.write_id) for r in results] == [(2, 1), (2, 1), (1, 1)]
    assert rows("select * from a") == [(1,), (2,)]
    assert rows("select * from b") == [(2, "x"), (3, "x"), (3, "y")]
    assert "p=y/delta_0000001_0000001_0002/bucket_00000_N" in layout("b")
    committed = acid.client.metastore.valid_txns().hwm
    with pytest.raises(ConversionError):
        acid.sql("set hiveacid.store_assignment=ansi")
        acid.sql(
            "from s insert into table a select id insert into table b partition (p='z')"
            " select 'no number'"
        )
    assert acid.client.metastore.valid_txns().hwm == committed + 1
    assert rows("select * from a") == [(1,), (2,)]
    assert not any("0000002" in name for name in layout("a"))


def test_each_branch_of_a_multi_insert_has_lateral_views_of_its_own(acid, rows):
    acid.sql(f"create table a (id int, c int) {ACID}")
    acid.sql(f"create table b (id int, n bigint) {ACID}")
    acid.sql(f"create table d (id int, n int) {ACID}")
    acid.sql("create table s (id int) stored as orc")
    acid.sql("insert into s values (1), (2)")
    acid.sql(
        "from s insert into table a select id, c lateral view explode(array(id, id + 1)) e as c"
        " where c < 3 insert into table b select id, sum(c)"
        " lateral view explode(array(10, id)) e as c group by id"
        " insert into table d select id, 0"
    )
    assert rows("select * from a") == [(1, 1), (1, 2), (2, 2)]
    assert rows("select * from b") == [(1, 11), (2, 12)]
    assert rows("select * from d") == [(1, 0), (2, 0)]


@pytest.mark.long("spark", "statements")
def test_branches_into_the_same_dynamic_partitions_are_one_insert(acid, rows):
    acid.sql("create table s (a int, b bigint, c string) stored as orc")
    acid.sql(f"insert into s values (1, {2**60 + 1}, 'x'), (2, 2, 'y'), (3, 3, 'x'), (4, 4, null)")
    acid.sql(f"create table t (a int, b bigint) partitioned by (c string) {ACID}")
    both = "select a, b, c where c is not null {0} select a, a + 0.5, c where c is null sort by c"
    into, over = "insert into table t partition (c)", "insert overwrite table t partition (c)"
    results = acid.sql(f"from s {into} {both.format(into)}")
    assert [result.rows for result in results] == [4]
    unnamed = "__HIVE_DEFAULT_PARTITION__"
    expected = [(1, 2**60 + 1, "x"), (2, 2, "y"), (3, 3, "x"), (4, 4, unnamed)]
    assert rows("select * from t") == expected
    acid.sql(f"from s {over} select a, 0L, c where a = 1 {over} select a, 0L, c where a = 2")
    assert rows("select * from t") == [(1, 0, "x"), (2, 0, "y"), (4, 4, unnamed)]
    acid.sql("from s insert into t select a, b, 'z' insert into t select b, a, 'z' where b < 5")
    assert rows("select count(*) from t where c = 'z'") == [(7,)]
    explained = acid.sql(f"explain from s {into} {both.format(into)}").collect()
    assert [row[0] for row in explained].count("  source:") == 2
    explained = [row[0] for row in acid.sql("explain update t set b = 1 where a = 1").collect()]
    known = ["Update", "  table: default.t", "  assignments: (('b', '1'),)", "  where: a = 1"]
    assert explained[:-1] == known and explained[-1].startswith("  reads: ")
    with pytest.raises(InvalidInputError) as caught:
        acid.sql(f"from s {into} select a, b, c {over} select a, b, c")
    assert caught.value.code == 10087


def test_a_check_that_is_no_condition_on_the_tables_columns_is_refused(acid):
    acid.sql(f"create table t (id int, v string, check (v like 'a%' or id between 1 and 2)) {ACID}")
    for check in ("nosuch > 1", "id + 1", "v", "null", "'x'", "nosuch(id)"):
        for text in (
            f"create table x (id int, v string, check ({check}))",
            f"alter table t add constraint k check ({check})",
            f"alter table t change id id int check ({check})",
        ):
            with pytest.raises(InvalidInputError) as caught:
                acid.sql(text)
            assert caught.value.code == 10326


def test_a_default_has_a_name_and_a_zone(acid, rows):
    acid.sql(
        "create table t (a int, b tinyint constraint small default 127Y enable,"
        " z timestamp with local time zone default timestamplocaltz'2016-01-03 12:26:34 UTC',"
        f" c int check c > 5 or c = -1) {ACID}"
    )
    acid.sql("insert into t (a, c) values (1, 6)")
    query = "select a, b, z = timestamplocaltz '2016-01-03 13:26:34 Europe/Berlin' from t"
    assert rows(query) == [(1, 127, True)]
    with pytest.raises(InvalidInputError, match="CHECK"):
        acid.sql("insert into t (a, c) values (2, 5)")
    acid.sql("alter table t drop constraint small")
    acid.sql("insert into t (a, c) values (2, -1)")
    assert rows("select a, b, c from t") == [(1, 127, 6), (2, None, -1)]


def test_truncate_of_a_table_and_of_some_partitions(acid, rows):
    acid.sql(f"create table t (id int) partitioned by (p string, q int) {ACID}")
    acid.sql("insert into t values (1,'x',1), (2,'x',2), (3,'y',1)")
    acid.sql("truncate table t partition (p='x')")
    assert rows("select * from t") == [(3, "y", 1)]
    with pytest.raises(NotFoundError) as found:
        acid.sql("truncate table t partition (p='nosuch')")
    assert found.value.code == 10006
    acid.sql("truncate table t")
    assert rows("select * from t") == []


def test_an_overwrite_is_recorded_as_an_update_dynamic_partitions_too(acid):
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    acid.sql("insert overwrite table t partition (p) select 1, 'x'")
    with sqlite3.connect(acid.client.metastore.url.removeprefix("sqlite:///")) as database:
        found = database.execute(
            "select WS_PARTITION, WS_OPERATION_TYPE from WRITE_SET union"
            " select CTC_PARTITION, CTC_UPDATE_DELETE from COMPLETED_TXN_COMPONENTS"
        ).fetchall()
    assert ("p=x", "Y") in found


@pytest.mark.parametrize("count", [0, 1, 1000, 1001])
def test_a_listing_of_any_length_is_a_frame_of_strings(spark, count):
    listing = Listing(("a`b", "c"), tuple((f"it's \\{n}", None) for n in range(count)))
    frame = listing_frame(spark, listing)
    assert [(field.name, field.dataType.typeName()) for field in frame.schema] == [
        ("a`b", "string"),
        ("c", "string"),
    ]
    assert [tuple(row) for row in frame.collect()] == list(listing.rows)


def test_braces_in_a_query_are_texts(acid, rows):
    acid.sql(f"create table t (v string) {ACID}")
    acid.sql("insert into t values ('a')")
    assert rows("select concat('{', v, '}{v}{{'), v rlike '^a{1}$' from t") == [("{a}{v}{{", True)]


@pytest.mark.long("spark", "sql")
def test_words_of_sparks_for_queries(acid, rows):
    acid.sql(f"create table t (id int, v string, more struct<a:int>) {ACID}")
    acid.sql(f"create table s (id int, v string, more struct<a:int>) {ACID}")
    acid.sql("insert into t values (1, 'a', null), (2, 'b', named_struct('a', 7))")
    acid.sql("insert into s table t order by id")
    acid.sql("insert into table s (id) select id from (table t) x where v = 'b'")
    assert rows("table s") == [(1, "a", None), (2, "b", (7,)), (2, None, None)]
    assert rows("desc query select id as x, more.a from t") == [
        ("a", "int", None),
        ("x", "int", None),
    ]
    if acid.spark.version >= "4":
        assert rows("select * except (more, v) from t x where v = 'b'") == [(2,)]
        joined = "(select t.* except (id), 5 as n from t) x, (select 9 as id) y where id = 9"
        assert rows(f"select v from {joined}") == [("a",), ("b",)]
    else:
        with pytest.raises(SqlSyntaxError):
            acid.sql("select * except (v) from t").collect()
