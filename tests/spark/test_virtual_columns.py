"""ROW__ID, BUCKET__ID, INPUT__FILE__NAME and ROW__IS__DELETED, beside columns and stars."""

from __future__ import annotations

import pytest

from hiveacid.errors import UnsupportedError

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
    root = f"file:{tmp_path}/wh/t"
    found = rows("select id, input__file__name, row__id.writeid from t")
    assert found == [
        (1, f"{root}/p=1/delta_0000003_0000003_0001/bucket_00000_0", 3),
        (2, f"{root}/p=2/delta_0000001_0000001_0000/bucket_00000_0", 1),
        (3, f"{root}/p=1/delta_0000002_0000002_0000/bucket_00000_0", 2),
    ]
    acid.sql("create table plain (id int) stored as orc")
    assert rows("select input__file__name from plain") == []
    acid.sql("insert into plain values (1)")
    with pytest.raises(UnsupportedError, match="no ROW__ID"):
        acid.sql("select row__id from plain")
    assert rows("select x.input__file__name, x.* from plain x") == [
        (f"file:{tmp_path}/wh/plain/000000_0", 1)
    ]
