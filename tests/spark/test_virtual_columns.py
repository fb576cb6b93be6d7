"""ROW__ID, BUCKET__ID, INPUT__FILE__NAME and ROW__IS__DELETED, beside columns and stars."""

from __future__ import annotations

import pytest

from hiveacid.errors import UnsupportedError

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_virtual_columns_name_bucket_and_state_and_stay_out_of_stars(acid, rows):
    acid.sql(f"create table t (id int) clustered by (id) into 4 buckets {ACID}")
    acid.sql("insert into t select id from range(20)")
    found = rows("select distinct bucket__id, shiftright(row__id.bucketid, 16) & 4095 from t")
    assert found == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert rows("select distinct x.row__is__deleted from t x") == [(False,)]
    assert acid.sql("select *, BUCKET__ID from t").columns == ["id", "BUCKET__ID"]
    assert rows("select count(*) from t where bucket__id >= 0 and not row__is__deleted") == [(20,)]


def test_a_column_of_that_name_hides_the_virtual_one(acid, rows):
    acid.sql(f"create table t (bucket__id string) {ACID}")
    acid.sql("insert into t values ('mine')")
    assert rows("select bucket__id, * from t") == [("mine", "mine")]


def test_offsets_inside_files_are_refused(acid):
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(UnsupportedError, match="BLOCK__OFFSET__INSIDE__FILE"):
        acid.sql("select block__offset__inside__file from t")


def test_input_file_name_is_the_file_of_each_row(acid, rows, tmp_path):
    acid.sql(f"create table t (id int, v string) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1,'a',1),(2,'b',2)")
    acid.sql("insert into t values (3,'c',1)")
    acid.sql("update t set v = 'z' where id = 1")
    root, name = f"file:{tmp_path}/wh/t", f"bucket_00000_{acid.table('t').definition.id}"
    found = rows("select id, input__file__name, row__id.writeid from t")
    assert found == [
        (1, f"{root}/p=1/delta_0000003_0000003_0001/{name}", 3),
        (2, f"{root}/p=2/delta_0000001_0000001_0000/{name}", 1),
        (3, f"{root}/p=1/delta_0000002_0000002_0000/{name}", 2),
    ]
    acid.sql("create table plain (id int) stored as orc")
    assert rows("select input__file__name from plain") == []
    acid.sql("insert into plain values (1)")
    assert rows("select row__id, bucket__id from plain") == [(None, None)]
    assert rows("select x.input__file__name, x.* from plain x") == [
        (f"file:{tmp_path}/wh/plain/000000_0", 1)
    ]


DELETED = "('acid.fetch.deleted.rows'='true')"


@pytest.mark.long("reading", "spark")
def test_deleted_rows_are_read_where_the_query_asks_for_them(acid, rows):
    acid.sql(f"create table t (id int, v string) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1,'a',1),(2,'b',1),(3,'c',2)")
    acid.sql("delete from t where id = 1")
    acid.sql("update t set v = 'z' where id = 3")
    found = rows(f"select row__is__deleted, row__id.writeid, * from t{DELETED}")
    assert found == [
        (False, 1, 2, "b", 1), (False, 3, 3, "z", 2), (True, 2, 1, "a", 1), (True, 3, 3, "c", 2)
    ]  # fmt: skip
    assert rows(f"select count(*) from t{DELETED}") == [(4,)]
    assert rows(f"select v from t{DELETED} x where x.row__is__deleted and id = 3") == [("c",)]
    assert rows(f"select * from t{DELETED} version as of 2") == [
        (1, "a", 1), (2, "b", 1), (3, "c", 2)
    ]  # fmt: skip
    assert rows(f"select a.id, b.v from t{DELETED} a join t b on a.id = b.id where a.p = 2") == [
        (3, "z"), (3, "z")
    ]  # fmt: skip
    assert rows("select id, row__is__deleted from t('acid.fetch.deleted.rows'='false')") == [
        (2, False), (3, False)
    ]  # fmt: skip
    acid.sql("alter table t compact 'major' and wait")
    assert rows(f"select id from t{DELETED}") == [(2,), (3,)]


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_rows_of_insert_only_tables_have_the_write_id_and_bucket_of_their_file(acid, rows, kind):
    acid.sql(
        f"create table t (a int, b int) clustered by (a) into 2 buckets stored as {kind} "
        "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql("insert into t values (1, 1), (10, 10)")
    acid.sql("insert into t values (2, 20)")
    assert rows("select row__id, row__id.writeid, bucket__id, a from t where a = 2") == [
        (None, None, None, 2)
    ]
    asked = "t('insertonly.fetch.bucketid'='true')"
    found = rows(f"select row__id, bucket__id, row__is__deleted, a from {asked}")
    assert found == [((1, 0, 0), 0, False, 10), ((1, 1, 0), 1, False, 1), ((2, 0, 0), 0, False, 2)]
    assert rows(f"select sum(b) from {asked} where row__id.writeid > 1") == [(20,)]
    acid.sql("alter table t compact 'major' and wait")
    acid.sql("insert into t values (3, 3)")
    assert rows(f"select row__id.writeid, a from {asked} where a in (3, 10)") == [
        (3, 3), (None, 10)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["default", "insert_only"])
def test_samples_are_the_buckets_of_a_table(acid, rows, kind):
    acid.sql(
        "create table t (id int, v string) clustered by (id) into 4 buckets stored as orc "
        f"tblproperties ('transactional'='true', 'transactional_properties'='{kind}')"
    )
    acid.sql("insert into t select id, 'x' from range(40)")
    quarters = [
        rows(f"select * from t tablesample (bucket {n} out of 4 on id) s where s.v = 'x'")
        for n in (1, 2, 3, 4)
    ]
    assert sorted(row for quarter in quarters for row in quarter) == [(n, "x") for n in range(40)]
    assert all(quarters)
    half = rows("select * from t tablesample (bucket 2 out of 2)")
    assert sorted(half) == sorted(quarters[1] + quarters[3])
    assert rows("select count(*) from t tablesample (bucket 1 out of 1)") == [(40,)]
    for wrong in ("1 out of 3", "1 out of 8", "1 out of 2 on v", "1 out of 2 on rand()"):
        with pytest.raises(UnsupportedError, match="TABLESAMPLE"):
            acid.sql(f"select * from t tablesample (bucket {wrong})")


@pytest.mark.long("reading", "spark", "statements")
def test_statements_that_change_rows_may_name_their_files(acid, rows):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t values (1, 'a'), (2, 'b')")
    acid.sql("insert into t values (3, 'c')")
    directory = "regexp_extract(input__file__name, '.*/(.*)/[^/]*', 1)"
    acid.sql(f"update t set v = {directory} where id = 3")
    assert rows("select v from t where id = 3") == [("delta_0000002_0000002_0000",)]
    assert acid.sql("delete from t where t.input__file__name like '%delta_0000003%'").rows == 1
    merged = acid.sql(
        f"merge into t x using (select 2 id) s on x.id = s.id and bucket__id = 0 "
        f"when matched and x.row__id.rowid = 1 then update set v = {directory}"
    )
    assert merged.updated == 1
    assert rows("select * from t") == [(1, "a"), (2, "delta_0000001_0000001_0000")]


@pytest.mark.long("reading", "spark")
def test_a_temporary_table_goes_by_its_name(acid, rows):
    acid.sql(f"create table scratch (id int) {ACID}")
    acid.sql(f"create temporary table scratch (id int, v string) {ACID}")
    acid.sql("insert into scratch values (1, 'a'), (2, 'b')")
    acid.sql("update scratch set v = 'c' where scratch.id + 0 = 2")
    acid.sql("delete from scratch where scratch.id + 0 = 1")
    acid.sql(
        "merge into scratch using (select 3 as id, 'd' as v) s on scratch.id = s.id"
        " when not matched then insert values (s.id, s.v)"
    )
    assert rows("select scratch.id, v from default.scratch") == [(2, "c"), (3, "d")]
    assert acid.table("scratch").df().count() == 2
    acid.sql("drop table scratch")
    assert rows("select * from scratch") == []
