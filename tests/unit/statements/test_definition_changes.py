"""Changes of definitions that move files or rename records: what stays, what is refused, what is
left by a process that is killed in the middle."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from tests.e2e.tables import committed, rows_of
from tests.forked import exit_status_of

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
_CONVERT = """
import os, hiveacid
from hiveacid.metastore.connect import SqlMetastore
SqlMetastore.alter_table = lambda *_, **__: os._exit(9)
with hiveacid.connect(None, "{url}", warehouse="{warehouse}") as session:
    session.sql("alter table t set tblproperties ('transactional'='true',"
                "'transactional_properties'='insert_only')")
"""
MM = "tblproperties ('transactional'='true','transactional_properties'='insert_only')"


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def test_aborted_rows_of_a_partition_stay_invisible_when_it_is_renamed(acid: Session) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    txn = acid.transaction()
    txn.sql("insert into p partition (k='x') values (2)")
    assert txn.id is not None
    acid.client.metastore.abort_txns([txn.id])
    acid.sql("insert into p partition (k='x') values (3)")
    acid.sql("alter table p partition (k='x') rename to partition (k='y')")
    acid.client.metastore.run_housekeeping(interval_s=0)
    assert rows_of(acid, "p") == [(1, "y"), (3, "y")]
    found = acid.table("p").compact("major", partition={"k": "y"}, wait=False)
    assert [one.partition for one in found] == ["k=y"]


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("alter table p rename to q", "q"),
        ("alter table p partition (k='x') rename to partition (k='y')", "p/k=y"),
    ],
)
def test_a_rename_leaves_a_directory_alone_that_is_there(
    acid: Session, tmp_path: Path, text: str, directory: str
) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    kept = tmp_path / "wh" / directory / "kept"
    kept.mkdir(parents=True)
    with pytest.raises(AlreadyExistsError, match="New location already exists"):
        acid.sql(text)
    assert kept.exists() and rows_of(acid, "p") == [(1, "x")]
    kept.rmdir()
    kept.parent.rmdir()
    acid.sql(text)
    assert kept.parent.exists()


@pytest.mark.long("metastore", "statements", "txn")
@pytest.mark.slow
def test_a_conversion_that_is_killed_loses_nothing_and_can_be_repeated(
    acid: Session, metastore_url: str, tmp_path: Path
) -> None:
    acid.sql("create table t (id int, v string) stored as orc")
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert into t values (2, 'b')")
    convert = _CONVERT.format(url=metastore_url, warehouse=str(tmp_path / "wh"))
    assert exit_status_of(convert) == 9
    store = acid.client.metastore
    assert store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    assert rows_of(acid) == [(1, "a"), (2, "b")]
    acid.sql(f"alter table t set {MM}")
    acid.sql("insert into t values (3, 'c')")
    assert committed(acid) == rows_of(acid) == [(1, "a"), (2, "b"), (3, "c")]


_RENAME = """
import os, hiveacid
from hiveacid.metastore.connect import SqlMetastore
alter, calls = SqlMetastore.alter_table, []
def killed(self, name, change, **more):
    calls.append(name)
    return alter(self, name, change, **more) if len(calls) < 2 else os._exit(9)
SqlMetastore.alter_table = killed
with hiveacid.connect(None, "{url}", warehouse="{warehouse}") as session:
    session.sql("alter table p rename to q")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "insert into p partition (k='z') values (7)",
        "alter table p rename to other",
        "alter table p set tblproperties ('a'='b')",
        "alter table p add columns (c int)",
    ],
)
def test_a_rename_that_is_killed_loses_no_rows(
    acid: Session, metastore_url: str, tmp_path: Path, text: str
) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    code = _RENAME.format(url=metastore_url, warehouse=tmp_path / "wh")
    assert exit_status_of(code) == 9
    assert (tmp_path / "wh/q/k=x").exists() and not (tmp_path / "wh/p").exists()
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    acid.sql(text)
    name = "other" if "other" in text else "p"
    kept = (1, None, "x") if "columns" in text else (1, "x")
    assert kept in rows_of(acid, name)
    assert not (tmp_path / "wh/q").exists()
    assert not [row for row in acid.sql(f"show tblproperties {name}").rows if "renaming" in row[0]]


_RENAME_PARTITION = """
import os, hiveacid
from hiveacid.metastore.connect import SqlMetastore
{killed}
with hiveacid.connect(None, "{url}", warehouse="{warehouse}") as session:
    session.sql("alter table p partition (k='x') rename to partition (k='y')")
"""
_BEFORE_THE_CATALOG = "SqlMetastore.alter_partition = lambda *_: os._exit(9)"
_AFTER_THE_CATALOG = """
alter = SqlMetastore.alter_partition
SqlMetastore.alter_partition = lambda *args: (alter(*args), os._exit(9))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "value", "written"),
    [
        (_BEFORE_THE_CATALOG, "x", "x"),
        (_BEFORE_THE_CATALOG, "x", "y"),
        (_AFTER_THE_CATALOG, "y", "x"),
    ],
)
def test_a_rename_of_a_partition_that_is_killed_loses_no_rows(
    acid: Session, metastore_url: str, tmp_path: Path, killed: str, value: str, written: str
) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    code = _RENAME_PARTITION.format(killed=killed, url=metastore_url, warehouse=tmp_path / "wh")
    assert exit_status_of(code) == 9
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    assert rows_of(acid, "p") == [(1, value)]
    acid.sql(f"insert into p partition (k='{written}') values (2)")
    assert rows_of(acid, "p") == [(1, value), (2, written)]
    assert not [row for row in acid.sql("show tblproperties p").rows if "renaming" in row[0]]


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_cleaner_forgets_no_aborted_rows_of_a_table_whose_rename_was_killed(
    acid: Session, metastore_url: str, tmp_path: Path, partitioned: bool
) -> None:
    acid.sql(f"create table p (id int) {'partitioned by (k string)' * partitioned} {ACID}")
    into = "p partition (k='x')" if partitioned else "p"
    acid.sql(f"insert into {into} values (1)")
    txn = acid.transaction()
    txn.sql(f"insert into {into} values (2)")
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])
    acid.sql(f"insert into {into} values (3)")
    form, killed = (_RENAME_PARTITION, _BEFORE_THE_CATALOG) if partitioned else (_RENAME, "")
    code = form.format(killed=killed, url=metastore_url, warehouse=tmp_path / "wh")
    assert exit_status_of(code) == 9
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    cleaning = {"hiveacid.compactor.aborts_threshold": "0", "hiveacid.compactor.aborts_age_s": "0"}
    with hiveacid.connect(None, metastore_url, settings=cleaning) as other:
        Cleaner(other.client).run()
        store.run_housekeeping(interval_s=0)
        assert [row[0] for row in rows_of(acid, "p")] == [1, 3]
        acid.sql(f"insert into {into} values (4)")
        Cleaner(other.client).run()
        store.run_housekeeping(interval_s=0)
    assert [row[0] for row in rows_of(acid, "p")] == [1, 3, 4]


def test_what_a_killed_drop_left_is_not_taken_for_rows_of_a_new_table(
    acid: Session, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    left = tmp_path / "left"
    shutil.copytree(tmp_path / "wh/t", left)
    acid.sql("drop table t")
    shutil.copytree(left, tmp_path / "wh/t")
    with pytest.raises(InvalidInputError, match="holds files already"):
        acid.sql(f"create table t (id int) {ACID}")
    shutil.rmtree(tmp_path / "wh/t")
    acid.sql(f"create table t (id int) {ACID}")
    assert rows_of(acid, "t") == []


def test_properties_that_two_set_for_a_database_at_once_are_both_there(
    acid: Session, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, real = Barrier(2), SqlMetastore.alter_database

    def together(*args: Any) -> Any:
        both.wait(300)
        return real(*args)

    monkeypatch.setattr(SqlMetastore, "alter_database", together)

    def set_property(key: str) -> None:
        with hiveacid.connect(None, metastore_url) as session:
            session.sql(f"alter database default set dbproperties ('{key}'='1')")

    with ThreadPoolExecutor() as pool:
        list(pool.map(set_property, "ab"))
    found = acid.client.metastore.get_database("default").properties
    assert {key: found[key] for key in "ab"} == {"a": "1", "b": "1"}


_DROP_PARTITION = """
import os, hiveacid
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.statements.ddl import partitions
{killed} = lambda *_, **__: os._exit(9)
with hiveacid.connect(None, "{url}", warehouse="{warehouse}") as session:
    session.sql("alter table p drop partition (k='x')")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "is_done"),
    [
        ("partitions.hide", False),
        ("SqlMetastore.drop_partitions", False),
        ("partitions.delete_location", True),
    ],
)
def test_a_drop_of_partitions_that_was_killed_is_done_or_undone(
    acid: Session, metastore_url: str, tmp_path: Path, killed: str, is_done: bool
) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    acid.sql("insert into p partition (k='y') values (2)")
    code = _DROP_PARTITION.format(killed=killed, url=metastore_url, warehouse=tmp_path / "wh")
    assert exit_status_of(code) == 9
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    rows = [(2, "y")] if is_done else [(1, "x"), (2, "y")]
    assert rows_of(acid, "p") == rows
    assert len(acid.sql("show partitions p").rows) == len(rows)
    acid.sql("insert into p partition (k='x') values (3)")
    assert rows_of(acid, "p") == [*rows, (3, "x")]
    acid.sql("alter table p drop partition (k='x')")
    assert rows_of(acid, "p") == [(2, "y")]
    acid.sql("alter table p add partition (k='x')")
    assert rows_of(acid, "p") == [(2, "y")]
    left = {path.name for path in (tmp_path / "wh/p").iterdir()}
    assert left == {"k=x", "k=y"}
    assert not [key for key in acid.table("p").definition.properties if "dropping" in key]


def test_what_a_drop_at_work_has_hidden_is_left_to_it(acid: Session, tmp_path: Path) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql("insert into p partition (k='x') values (1)")
    acid.sql("insert into p partition (k='y') values (2)")
    with acid.client.transactions.begin() as dropping:
        hidden = tmp_path / f"wh/p/.dropped_{dropping.id}"
        note = f"alter table p set tblproperties ('hiveacid.dropping.{dropping.id}'='{hidden}')"
        acid.sql(note)
        hidden.mkdir()
        (tmp_path / "wh/p/k=x").rename(hidden / "k=x")
        acid.sql("insert into p partition (k='y') values (3)")
        assert (hidden / "k=x").is_dir()
        dropping.abort("killed")
    assert rows_of(acid, "p") == [(1, "x"), (2, "y"), (3, "y")]


def test_a_partition_column_gets_another_type_where_its_partitions_keep_their_names(
    acid: Session,
) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string, n int) {ACID}")
    acid.sql("insert into p values (1, '7', 1), (2, '10', null)")
    acid.sql("alter table p partition column (K bigint)")
    acid.sql("insert into p values (3, 8, 2)")
    assert sorted(rows_of(acid, "p")) == [(1, 7, 1), (2, 10, None), (3, 8, 2)]
    assert hiveacid.read_arrow(acid.table("p"), filter="k < 9").read_all().num_rows == 2
    acid.sql("alter table p partition column (k string comment 'key')")
    assert acid.table("p").definition.partition_columns[0].comment == "key"
    acid.sql("insert into p values (4, '08', 2)")
    found = hiveacid.read_arrow(acid.table("p"), filter="k in ('08', '7')").read_all()
    assert sorted(found["id"].to_pylist()) == [1, 4]
    for column in ("k int", "nosuch int", "id string", "n array<int>"):
        with pytest.raises(InvalidInputError):
            acid.sql(f"alter table p partition column ({column})")  # k=08 would be k=8


def test_what_a_table_is_already_may_be_said_of_it(acid: Session) -> None:
    acid.sql(f"create table p (id int) partitioned by (k string) skewed by (id) on (1, 2) {ACID}")
    acid.sql("insert into p values (1, 'x')")
    serde = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
    for clause in (
        "touch",
        "touch partition (k='x')",
        "skewed by (id) on (1, 2)",
        "skewed by (id, k) on ((1, 'a'), (2, 'b')) stored as directories",
        "not skewed",
        "not stored as directories",
        "set fileformat orc",
        f"set serde '{serde}' with serdeproperties ('a'='b')",
        "partition (k='x') set fileformat orc",
        "update statistics set ('numRows'='10')",
        "partition (k='x') update statistics set ('numRows'='10')",
        "update statistics for column id set ('numDVs'='10')",
    ):
        acid.sql(f"alter table p {clause}")
    assert acid.table("p").definition.properties["a"] == "b"
    acid.sql("alter table p unset serdeproperties ('a', 'nosuch')")
    assert "a" not in acid.table("p").definition.properties
    assert rows_of(acid, "p") == [(1, "x")]
    for clause in ("set fileformat parquet", "clustered by (id) into 2 buckets"):
        with pytest.raises(UnsupportedError) as refused:
            acid.sql(f"alter table p {clause}")
        assert "AS SELECT" in " ".join(refused.value.__notes__)


def test_a_comment_is_set_and_taken_away(acid: Session) -> None:
    acid.sql(f"create table t (id int) comment 'first' {ACID}")

    def comment() -> str | None:
        return acid.table("t").definition.comment

    acid.sql("alter table t set tblproperties ('a'='b')")
    assert comment() == "first"
    acid.sql("alter table t set tblproperties ('comment'='second')")
    assert comment() == "second"
    acid.sql("comment on table t is 'third'")
    assert comment() == "third" and acid.table("t").definition.properties["a"] == "b"
    for _ in range(2):
        acid.sql("comment on table t is null")
        assert comment() is None


def test_a_partition_in_an_empty_directory_is_known_to_have_no_rows(acid: Session) -> None:
    """Somebody who adds the same one at the same time may have made the directory."""
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    place = Path(acid.table("p").definition.location)
    for name in ("empty", "full"):
        (place / f"k={name}").mkdir()
    (place / "k=full" / "_left").write_text("", "utf-8")
    for name in ("empty", "full", "new"):
        acid.sql(f"alter table p add partition (k='{name}')")
    found = acid.client.metastore.list_partitions(acid.table("p").name, statistics=True)
    rows = {one.values[0]: one.properties.get("numRows") for one in found}
    assert rows == {"empty": "0", "full": None, "new": "0"}
