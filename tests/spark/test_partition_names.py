"""Names of partitions' directories: one for each value, whoever writes it, and Hive's."""

from __future__ import annotations

import shutil
from datetime import datetime

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.commits import row_count
from hiveacid.model.tables import TableName

HIVES = [
    "x=-0.05/y=0/ts=1969-12-31 23%3A59%3A58.000001",
    "x=0/y=0.0000001/ts=2024-01-01 00%3A00%3A00",
    "x=1.5/y=0.05/ts=2024-01-01 00%3A00%3A00.5",
    "x=100/y=0.999999999999999999/ts=2024-01-01 00%3A00%3A00",
]
"""As Hive 4.1 names them."""
ROWS = (
    "(1, 1.50, 0.050000000000000000, timestamp'2024-01-01 00:00:00.500'),"
    "(2, 100.00, 0.999999999999999999, timestamp'2024-01-01 00:00:00'),"
    "(3, -0.05, 0.0, timestamp'1969-12-31 23:59:58.000001'),"
    "(4, 0, 0.0000001, timestamp'2024-01-01 00:00:00')"
)


def test_a_partition_of_a_time_that_the_session_skips_is_no_other_one(acid, spark, paris):
    """Spark took its row for one of the other partition, which MERGE deleted in its place."""
    acid.sql(
        "create table t (id int) partitioned by (ts timestamp)"
        " stored as orc tblproperties('transactional'='true')"
    )
    times = [datetime(2024, 3, 31, 2, 30), datetime(2024, 3, 31, 3, 30)]
    acid.table("t").write_arrow(pa.table({"id": pa.array([1, 2], pa.int32()), "ts": times}))
    merge = "merge into t using (select 1 id) s on t.id = s.id when matched then delete"
    for statement in (merge, "update t set id = id + 5 where id + 0 = 1"):
        with pytest.raises(UnsupportedError, match="ts=2024-03-31 02:30:00, a time that Europe/P"):
            acid.sql(statement)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert acid.sql(merge).deleted == 1
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert found == [{"id": 2, "ts": times[1]}]


@pytest.mark.long("layout", "spark", "statements")
def test_decimals_and_timestamps_have_one_name_and_it_is_hives(acid, tmp_path, rows):
    acid.sql(
        "create table t (id int) partitioned by (x decimal(8,2), y decimal(18,18), ts timestamp)"
        " stored as orc tblproperties('transactional'='true')"
    )
    acid.sql(f"insert into t values {ROWS}")  # the driver
    acid.sql("insert into t select id + 10, x, y, ts from t")  # Spark
    acid.sql(
        "insert into t partition (x='1.500', y='.05', ts='2024-01-01 00:00:00.50') values (21)"
    )
    names = sorted({str(path.parents[1].relative_to(tmp_path / "wh/t"))
                    for path in (tmp_path / "wh/t").rglob("bucket_*")})  # fmt: skip
    assert names == HIVES
    acid.sql("update t set id = id + 100 where x = 1.5 and id < 20")
    acid.sql("delete from t where y = 0.0000001")
    assert sorted(row[0] for row in rows("select id from t")) == [2, 3, 12, 13, 21, 101, 111]


def odd(acid, tmp_path, *names):
    """A table whose partitions were named by somebody else; rows 1 and 2 in the first, 3 and 4 in
    the second.
    """
    acid.sql(
        "create table made (id int) partitioned by (n int, ts timestamp) stored as orc"
        " tblproperties('transactional'='true')"
    )
    acid.sql(
        "insert into made values (1, 1, timestamp'2024-01-01 00:00:00'),"
        " (2, 1, timestamp'2024-01-01 00:00:00'), (3, 2, timestamp'2024-01-01 00:00:00'),"
        " (4, 2, timestamp'2024-01-01 00:00:00')"
    )
    for number, name in enumerate(names, start=1):
        (root,) = (tmp_path / f"wh/made/n={number}").iterdir()
        shutil.copytree(root, tmp_path / "odd" / name)
    acid.sql(
        "create table t (id int) partitioned by (n int, ts timestamp) stored as orc"
        f" location '{tmp_path}/odd' tblproperties('transactional'='true')"
    )


def test_partitions_with_other_names_for_their_values_stay_one_partition(acid, tmp_path, rows):
    odd(acid, tmp_path, "n=007/ts=2024-01-01 00%3A00%3A00.0")
    acid.sql("update t set id = 10 where id = 1")
    acid.sql("delete from t where id = 2")
    acid.sql("insert into t values (3, 7, timestamp'2024-01-01 00:00:00')")
    acid.sql("insert into t select id + 1, n, ts from t where id = 3")
    assert sorted(row[0] for row in rows("select id from t")) == [3, 4, 10]
    assert len(rows("show partitions t")) == 1
    assert len(list((tmp_path / "odd").glob("*/*"))) == 1


@pytest.mark.long("layout", "spark", "statements")
def test_two_names_for_the_same_values_refuse_to_be_changed(acid, tmp_path, rows):
    odd(acid, tmp_path, "n=7/ts=2024-01-01 00%3A00%3A00.0", "n=7/ts=2024-01-01 00%3A00%3A00")
    with pytest.raises(UnsupportedError, match="have the same values"):
        acid.sql("delete from t where id + 0 = 2")
    acid.sql("insert into t values (3, 7, timestamp'2024-01-01 00:00:00')")
    assert [row[0] for row in rows("select id from t")] == [1, 2, 3, 3, 4]
    acid.sql(
        "delete from t where id = 2"
    )  # by the driver, which reads one partition after the other
    assert [row[0] for row in rows("select id from t")] == [1, 3, 3, 4]


def test_a_name_that_its_type_cannot_say_is_read_as_null_and_its_rows_change(acid, tmp_path, rows):
    acid.sql(
        "create table t (id int) partitioned by (n tinyint) stored as orc"
        " tblproperties('transactional'='true')"
    )
    acid.sql("insert into t values (1, 1), (2, 2), (3, 2), (4, 2)")
    (tmp_path / "wh/t/n=2").rename(tmp_path / "wh/t/n=300")
    acid.sql("msck repair table t sync partitions")
    assert sorted(rows("select id, n from t")) == [(1, 1), (2, None), (3, None), (4, None)]
    assert sorted(rows("select id from t where n is null and id * 2 > 5")) == [(3,), (4,)]
    acid.sql("analyze table t partition (n) compute statistics for columns")
    assert rows("select count(*), max(n) from t") == [(4, 1)]
    assert acid.sql("update t set id = id + 10 where id + 0 = 2").rows == 1  # Spark
    assert acid.sql("update t set id = 13 where id = 3").rows == 1  # the driver
    assert acid.sql("delete from t where id + 0 = 4").rows == 1
    assert sorted(rows("select id, n from t")) == [(1, 1), (12, None), (13, None)]
    acid.sql("insert into t values (20, null)")
    assert rows("show partitions t") == [("n=1",), ("n=300",)]


def test_partitions_of_the_same_values_are_counted_one_by_one(acid, tmp_path, rows):
    """ANALYZE gave the rows of both to one: `count(*)` was wrong once that one was emptied."""
    acid.sql(
        "create table t (id int) partitioned by (d double) stored as orc"
        " tblproperties('transactional'='true')"
    )
    acid.sql("insert into t values (1, 1), (2, 1), (3, null), (4, 'NaN')")
    (one,) = (tmp_path / "wh/t").glob("d=1*")
    for name in ("d=01", "d=junk"):
        shutil.copytree(one, tmp_path / "wh/t" / name)
    acid.sql("msck repair table t")
    acid.sql("analyze table t partition (d) compute statistics for columns")
    assert rows("select count(*) from t") == [(8,)]
    name = TableName("default", "t")
    partitions = acid.client.metastore.list_partitions(name, statistics=True)
    counts = {part.values[0]: row_count(part.properties) for part in partitions}
    assert counts == {"1.0": 2, "01": 2, "junk": 2, None: 1, "NaN": 1}


@pytest.mark.long("layout", "spark", "statements")
def test_chars_are_padded_in_names_and_not_in_values(acid, tmp_path, rows):
    acid.sql(
        "create table t (id int) partitioned by (c char(4))"
        " stored as orc tblproperties('transactional'='true')"
    )
    acid.sql("insert into t values (1, 'ab'), (2, null)")  # the driver
    acid.sql("insert into t select id + 10, c from t")  # Spark
    acid.sql("insert into t partition (c='ab') values (21)")
    assert sorted(path.name for path in (tmp_path / "wh/t").glob("c=*")) == [
        "c=__HIVE_DEFAULT_PARTITION__",
        "c=ab  ",
    ]
    assert sorted(acid.sql("select id, c from t where c = 'ab'").collect()) == [
        (1, "ab"), (11, "ab"), (21, "ab"),
    ]  # fmt: skip
    acid.sql("update t set id = id + 100 where c = '__HI'")
    acid.sql("delete from t where c = 'ab' and id > 1")
    assert sorted(acid.sql("select id, c from t").collect()) == [
        (1, "ab"), (102, "__HI"), (112, "__HI"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "properties",
    [
        "",
        "'transactional'='true'",
        "'transactional'='true','transactional_properties'='insert_only'",
    ],
)
def test_a_name_that_no_directory_can_have_is_refused_before_anything_is_moved(
    acid, spark, tmp_path, rows, properties
):
    told = f" tblproperties ({properties})" if properties else ""
    acid.sql(f"create table t (id int) partitioned by (p string) stored as orc{told}")
    acid.sql("insert into t values (1, 'a')")
    before = {path for path in (tmp_path / "wh/t").rglob("*") if path.is_file()}
    for long in ("x" * 254, "\u00e9" * 127):
        frame = spark.createDataFrame([(2, long)], "id int, p string")
        for write in (
            lambda long=long: acid.sql(f"insert into t values (2, '{long}')"),
            lambda long=long: acid.sql(f"insert into t partition (p='{long}') values (2)"),
            lambda long=long: acid.sql(f"insert into t select id + 1, '{long}' from t"),
            lambda frame=frame: acid.table("t").insert(frame),
            lambda long=long: acid.table("t").write_arrow(pa.table({"id": [2], "p": [long]})),
            lambda long=long: acid.sql(f"alter table t add partition (p='{long}')"),
        ):
            with pytest.raises(InvalidInputError, match=f"p={long}") as error:
                write()
            assert error.value.context["partition"].startswith("p=")
    assert {path for path in (tmp_path / "wh/t").rglob("*") if path.is_file()} == before
    acid.sql(f"insert into t values (3, '{'y' * 253}')")
    assert [row[0] for row in rows("select id from t")] == [1, 3]


def test_such_a_name_leaves_a_transaction_of_several_statements_as_it_was(acid, rows):
    acid.sql(
        "create table t (id int) partitioned by (p string) tblproperties ('transactional'='true')"
    )
    acid.sql("start transaction")
    acid.sql("insert into t values (1, 'a')")
    with pytest.raises(InvalidInputError, match="255 are possible"):
        acid.sql(f"insert into t values (2, '{'x' * 300}')")
    acid.sql("insert into t values (3, 'b')")
    acid.sql("commit")
    assert rows("select id from t") == [(1,), (3,)]
