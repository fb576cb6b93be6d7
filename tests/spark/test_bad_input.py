"""Bad input: a typed error that names what is wrong, and the table as it was afterwards."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from tests.sampling import sampled
from tests.spark.running import slow_rows, wait_for

import hiveacid
from hiveacid.errors import (
    CardinalityError,
    ConversionError,
    FormatError,
    InvalidInputError,
    MetastoreError,
    MissingFileError,
    NotFoundError,
    StorageError,
)

ACID = "stored as orc tblproperties ('transactional'='true')"
MERGE = "merge into b using (select 1 id) s on b.id = s.id when matched then update set "
LONG = ", ".join(f"column_{number} int" for number in range(30))
STATE = "select id, v, row__id.writeid w, row__id.bucketid b, row__id.rowid r from t"


def truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def text(path: Path) -> None:
    path.write_text("no ORC file at all\n" * 20)


def parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), path)


def plain_orc(path: Path) -> None:
    po.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), path)


DAMAGES = sampled(
    [truncated, text, parquet, plain_orc],
    *("spark", "storage", "statements"),
    group=lambda damage: damage is plain_orc,
)


@pytest.fixture
def table(acid, tmp_path):
    """Three rows written by Spark, one by the driver, one deleted; the directory of the table."""
    return make_table(acid)


def make_table(acid):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t select cast(id as int), concat('v', id) from range(0, 3, 1, 1)")
    acid.sql("insert into t values (9, 'x')")
    acid.sql("delete from t where id = 2")
    return Path(acid.table("t").definition.location)


@pytest.fixture(scope="module")
def standing(lasting):
    """The table, and all that a failed statement may leave behind: called again, it is the same."""
    directory = make_table(lasting)

    def state():
        rows = hiveacid.read_arrow(lasting.table("t"), row_ids=True).read_all().to_pylist()
        files = sorted(str(path) for path in directory.parent.rglob("*"))
        return rows, files, lasting.client.metastore.show_locks()

    return state


@pytest.fixture
def unharmed(acid, rows, table, layout):
    """Checks that nothing of a failed statement is left: rows, row ids, files, locks."""
    before, files = rows(STATE), layout("t")

    def check() -> None:
        assert layout("t") == files
        assert not list(table.glob("_hiveacid_staging*"))
        assert rows(STATE) == before
        assert len(acid.sql("show locks").collect()) <= 1  # Hive's header row
        acid.sql("update t set v = 'next' where id = 9")
        assert [row.v for row in acid.sql("select v from t where id = 9").collect()] == ["next"]

    return check


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_bucket_file_fails_every_statement(acid, table, damage, unharmed):
    (path,) = table.glob("delta_0000001_0000001_0000/bucket_00000_*")
    content = path.read_bytes()
    damage(path)
    for statement in (
        "update t set v = 'new' where id = 77",
        "delete from t where id = 77",
        "select count(*) from t where id = 77",
        "insert into t select id, v from t",
        "merge into t using (select 1 as id) s on t.id = s.id"
        " when not matched by source then delete",
    ):
        with pytest.raises(FormatError) as found:
            acid.sql(statement)
        assert str(path) in str(found.value), statement
    path.write_bytes(content)
    unharmed()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_delete_file_fails_every_statement(acid, table, damage, unharmed):
    (path,) = table.glob("delete_delta_*/bucket_*")
    content = path.read_bytes()
    damage(path)
    for statement in (
        "select * from t",
        "delete from t where id = 1",
        "insert into t select * from t",
    ):
        with pytest.raises(FormatError) as found:
            acid.sql(statement)
        assert str(path) in str(found.value)
    path.write_bytes(content)
    unharmed()


def test_a_delete_file_that_is_gone_after_the_listing_is_an_error(
    acid, table, unharmed, monkeypatch
):
    (path,) = table.glob("delete_delta_*/bucket_*")
    content = path.read_bytes()
    live = sorted(acid.sql("select * from t").collect())
    frame = acid.sql("select * from t")
    path.unlink()  # the driver has read what it deletes
    assert sorted(frame.collect()) == live
    path.write_bytes(content)
    monkeypatch.setattr("hiveacid.spark.delete_filter.EVENTS_HERE_MAX", 0)  # Spark's tasks read it
    (path,) = table.glob("delete_delta_*/bucket_*")
    content = path.read_bytes()
    frame = acid.sql("select * from t")
    path.unlink()
    with pytest.raises(Exception, match=f"{path.parent.name}/{path.name}"):
        frame.collect()
    path.write_bytes(content)
    gone = acid.sql("select id, v from t").where("id >= 0")
    path.unlink()
    acid.sql(f"create table copy (id int, v string) {ACID}")
    with pytest.raises(MissingFileError) as found:
        acid.table("copy").insert(gone)
    assert found.value.context["path"] == str(path)
    path.write_bytes(content)
    assert acid.sql("select * from copy").collect() == []
    unharmed()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.long("spark", "statements", "storage", "txn")
def test_a_full_disk_aborts_the_statement_and_the_next_one_works(spark, tmp_path, small_disk):
    noise = os.urandom(2_500_000).hex()
    with hiveacid.connect(
        spark, f"sqlite:///{tmp_path}/disk.db", warehouse=str(small_disk)
    ) as acid:
        acid.sql(f"create table t (id int, v string) {ACID}")
        acid.sql("insert into t values (1, 'a')")
        for statement in (
            f"insert into t values (2, '{noise}')",
            "insert into t select cast(id as int), concat(uuid(), uuid()) from range(200000)",
            "update t set v = (select concat_ws('', collect_list(sha2(string(id), 512)))"
            " from range(60000))",
        ):
            with pytest.raises(StorageError, match=r"(?i)space"):
                acid.sql(statement)
            assert not list((small_disk / "t").glob("_hiveacid_staging*"))
            assert [tuple(row) for row in acid.sql("select * from t").collect()] == [(1, "a")]
        acid.sql("update t set v = 'b' where id = 1")
        acid.sql("insert into t values (2, 'c')")
        assert sorted(row.v for row in acid.sql("select v from t").collect()) == ["b", "c"]


@pytest.mark.parametrize("kind", ["text", "other", "directory"])
def test_a_metastore_file_that_is_not_ours(tmp_path, kind):
    path = tmp_path / "other.db"
    if kind == "text":
        path.write_text("this is not a database\n" * 100)
    elif kind == "directory":
        path.mkdir()
    else:
        connection = sqlite3.connect(path)
        connection.execute("create table DBS (a int)")
        connection.commit()
        connection.close()
    with pytest.raises(MetastoreError):
        hiveacid.connect(None, f"sqlite:///{path}", warehouse=str(tmp_path / "wh"))
    if kind == "other":
        with sqlite3.connect(path) as connection:
            names = connection.execute("select name from sqlite_master").fetchall()
        connection.close()
        assert names == [("DBS",)]


def test_two_source_rows_for_one_target_row(acid, table, unharmed):
    with pytest.raises(CardinalityError):
        acid.sql(
            "merge into t using (select 1 as id, 'p' as v union all select 1, 'q') s on t.id = s.id"
            " when matched then update set v = s.v when not matched then insert values (s.id, s.v)"
        )
    unharmed()


def test_a_value_that_cannot_be_converted_under_ansi(acid, table, unharmed):
    acid.sql("set hiveacid.store_assignment=ansi")
    for statement in (
        "insert into t values ('seven', 'x')",
        "insert into t select 'seven', 'x'",
        "update t set id = 'seven' where id = 1",
        "merge into t using (select 1 as id) s on t.id = s.id"
        " when matched then update set id = 'x'",
        "merge into t using (select 77 as id) s on t.id = s.id"
        " when not matched then insert values ('seven', 'x')",
    ):
        with pytest.raises(ConversionError, match="column id of type int: "):
            acid.sql(statement)
    unharmed()


@pytest.mark.parametrize(
    "statement",
    [
        "select nosuch from t",
        "select * from nosuch",
        "select * from t where nosuch = 1",
        "insert into nosuch values (1, 'a')",
        "insert into nosuch select 1, 'a'",
        "insert into t (id, nosuch) values (1, 'a')",
        "insert into t select id, nosuch from t",
        "insert into t select * from nosuch",
        "insert overwrite table t select nosuch from t",
        "update nosuch set v = 'a'",
        "update t set nosuch = 'a'",
        "update t set v = nosuch",
        "update t set v = 'a' where nosuch = 1",
        "update t set v = 'a' where id in (select id from nosuch)",
        "delete from nosuch where id = 1",
        "delete from t where nosuch = 1",
        "merge into nosuch using t s on nosuch.id = s.id when matched then delete",
        "merge into t using nosuch s on t.id = s.id when matched then delete",
        "merge into t using (select 1 id) s on t.nosuch = s.id when matched then delete",
        "merge into t using (select 1 id) s on t.id = s.nosuch when matched then delete",
        "merge into t using (select 1 id) s on t.id = s.id"
        " when matched and s.nosuch = 1 then delete",
        "merge into t using (select 1 id) s on t.id = s.id when matched then update set nosuch = 1",
        "merge into t using (select 1 id) s on t.id = s.id when matched then update set v = nosuch",
        "merge into t using (select 1 id) s on t.id = s.id"
        " when not matched then insert values (s.id, s.nosuch)",
        "merge into t using (select 1 id) s on t.id = s.id"
        " when not matched then insert (id, nosuch) values (s.id, 'a')",
        "truncate table nosuch",
        "describe nosuch",
        "alter table nosuch add columns (x int)",
        "use nosuch",
        "explain select nosuch from t",
    ],
)
def test_unknown_names(lasting, standing, statement):
    before = standing()
    with pytest.raises((NotFoundError, InvalidInputError), match=r"(?i)nosuch"):
        lasting.sql(statement)
    assert standing() == before
    assert len(before[0]) == 3


def test_update_of_partition_and_bucketing_columns(acid, rows, layout):
    acid.sql(
        "create table b (id int, v string) partitioned by (p string)"
        f" clustered by (id) into 2 buckets {ACID}"
    )
    acid.sql("insert into b values (1, 'a', 'x')")
    before = layout("b")
    for statement, code in (
        ("update b set p = 'y'", 10292),
        ("update b set id = 2", 10302),
        (
            MERGE + "p = 'y'",
            10292,
        ),
        (
            MERGE + "id = 2",
            10302,
        ),
    ):
        with pytest.raises(InvalidInputError) as found:
            acid.sql(statement)
        assert found.value.code == code, statement
    assert layout("b") == before
    assert rows("select * from b") == [(1, "a", "x")]


def test_an_interrupt_aborts_the_transaction_and_frees_its_locks(
    acid, spark, table, unharmed, tmp_path
):
    slow = slow_rows(spark, tmp_path, sleep_s=120).selectExpr("id", "'slow' v")

    def press():
        wait_for(lambda: any(tmp_path.glob("started-*")))
        os.kill(os.getpid(), signal.SIGINT)

    def open_transactions():
        states = acid.sql("show transactions").collect()
        return {row.txnid for row in states if row.state == "OPEN"}

    before = open_transactions()  # queries' leases
    presses = threading.Thread(target=press)
    presses.start()
    # py4j of PySpark 3.5 makes an error of its own out of it
    with pytest.raises((KeyboardInterrupt, Py4JError)):
        acid.table("t").insert(slow)
    presses.join()
    assert open_transactions() == before
    unharmed()


SUGGESTED = {
    "select nam from emp": "`name`",
    "select e.nmae, d.title from emp e join dept d on e.id = d.no": "`name`",
    "select no from dept where titel = 'x'": "`title`",
    "select id from (select id, nam from emp) x": "`name`",
    "select nam from clerks": "`name`",
    "explain select nam from emp": "`name`",
    "update emp set name = titel where id in (select no from dept)": "`title`",
    "merge into emp t using dept s on t.id = s.no when matched and s.titel = 'x' then delete": (
        "`title`"
    ),
}


def test_an_unknown_column_is_told_with_the_nearest_of_all_tables(acid):
    acid.sql(f"create table emp (id int, name string, {LONG}) {ACID}")
    acid.sql(f"create table dept (no int, title string) {ACID}")
    acid.sql("create view clerks as select id, name from emp")
    for text, nearest in SUGGESTED.items():
        shown = rf"Did you mean one of the following\? \[{nearest}"
        with pytest.raises(InvalidInputError, match=shown) as told:
            acid.sql(text)
        assert told.value.code in (10002, 10004), text
