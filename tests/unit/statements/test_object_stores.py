"""Statements on tables in an object store, without Spark: what they ask of the server, what they
leave where they fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.forked import exit_status_of
from tests.s3 import S3Server
from tests.s3_proxy import proxy

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.errors import AcidError, StorageError, TransactionError
from hiveacid.session import Session
from hiveacid.statements.locations import DROPPING, RENAMING_FROM, RENAMING_TO, hide
from hiveacid.storage.filesystem import FileSystem
from hiveacid.transaction import AcidTransaction

pytestmark = pytest.mark.long("statements", "storage")

FULL = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def acid(s3: S3Server, tmp_path: Path) -> Iterator[Session]:
    """A session whose warehouse is a bucket."""
    with hiveacid.connect(
        None,
        f"sqlite:///{tmp_path}/metastore.db",
        warehouse=f"s3a://{s3.bucket()}/wh",
        settings={**s3.settings, "hiveacid.compactor.auto": "off"},
    ) as session:
        yield session


def rows(acid: Session, table: str) -> list[tuple[object, ...]]:
    """Sorted."""
    read = hiveacid.read_arrow(acid.table(table)).read_all()
    return sorted((tuple(row.values()) for row in read.to_pylist()), key=str)


def files(acid: Session, table: str) -> list[str]:
    """Of a table, hidden ones included."""
    fs, path = acid.client.files.at(f"{acid.client.warehouse}/{table}")
    found = [info for info in fs.list_recursive(path) if not info.is_directory]
    return [info.path[len(path) + 1 :] for info in found]


def new(acid: Session) -> None:
    """Table t with two rows of one statement, and two of another."""
    acid.sql(f"create table t (id int, v string) {FULL}")
    acid.sql("insert into t values (1, 'a'), (2, 'b')")
    acid.sql("insert into t values (3, 'c'), (4, 'd')")


WRITES: dict[str, tuple[Callable[[Session], object], int, int]] = {
    "insert": (lambda acid: acid.sql("insert into t values (5, 'e')"), 1, 0),
    "overwrite": (lambda acid: acid.sql("insert overwrite table t values (5, 'e')"), 1, 0),
    "write_arrow": (
        lambda acid: acid.table("t").write_arrow(pa.table({"id": [5], "v": ["e"]})),
        1,
        0,
    ),
    "delete": (lambda acid: acid.table("t").delete_arrow("id = 1"), 1, 1),
    "merge": (
        lambda acid: acid.table("t").merge_arrow(
            pa.table({"id": pa.array([1, 5], pa.int32()), "v": ["x", "y"]}), on=["id"]
        ),
        3,
        1,
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_one_put_for_each_file_and_one_listing(
    acid: Session, s3: S3Server, name: str
) -> None:
    write, data_files, listings = WRITES[name]
    new(acid)
    with s3.requests() as made:
        write(acid)
    count = Counter(one.partition(" ")[0] for one in made)
    opened = 2 * 4  # two data files, their tails and their rows
    sides = sum("_orc_acid_version" in one for one in made)
    assert count["PUT"] == data_files + sides
    assert sides == data_files, "each is alone in its directory"
    assert count["LIST"] == listings
    assert count["GET"] <= listings * opened
    assert set(count) <= {"PUT", "LIST", "GET"}


@pytest.mark.parametrize("clause", ["", "partitioned by (p string)"])
def test_a_transaction_of_a_stream_is_one_put_for_each_file(
    acid: Session, s3: S3Server, clause: str
) -> None:
    acid.sql(f"create table t (id int, v string) {clause} {FULL}")
    there = {"p": "a b"} if clause else {}
    with acid.stream("t") as stream:
        for number in range(2):
            with s3.requests() as made, stream.transaction():
                stream.write({"id": number, "v": "s", **there})
        verbs = [one.partition(" ")[0] for one in made]
    assert verbs == ["PUT", "PUT"] and made[1].endswith("/_orc_acid_version")
    assert rows(acid, "t") == [(n, "s", *there.values()) for n in range(2)]


@pytest.mark.parametrize("clause", ["", "partitioned by (p string)"])
def test_the_first_write_of_a_process_lists_twice_however_many_partitions(
    acid: Session, s3: S3Server, tmp_path: Path, clause: str
) -> None:
    acid.sql(f"create table t (id int, v string) {clause} {FULL}")
    write = "insert into t values " + ", ".join(
        f"({n}, 'v', 'p{n}')" if clause else f"({n}, 'v')" for n in range(5)
    )
    acid.sql(write)
    url = f"sqlite:///{tmp_path}/metastore.db"
    settings = {**s3.settings, "hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, url, settings=settings) as another:
        with s3.requests() as made:
            another.sql(write)
        assert Counter(one.partition(" ")[0] for one in made)["LIST"] == (2 if clause else 1)
        with s3.requests() as made:
            another.sql(write)
        assert Counter(one.partition(" ")[0] for one in made)["LIST"] == 0


def test_a_read_lists_once_and_asks_for_each_file_once(acid: Session, s3: S3Server) -> None:
    new(acid)
    with s3.requests() as made:
        assert len(rows(acid, "t")) == 4
    assert Counter(one.partition(" ")[0] for one in made) == {"LIST": 1, "GET": 2}


PARTITIONED: dict[str, tuple[Callable[[Session], object], int]] = {
    "insert": (lambda acid: acid.sql("insert into t values (5, 'a'), (5, 'new')"), 2),
    "static": (lambda acid: acid.sql("insert into t partition (p='b') values (5)"), 1),
    "truncate": (lambda acid: acid.sql("truncate table t"), 5),
    "read": (lambda acid: rows(acid, "t"), 0),
    "read one": (lambda acid: hiveacid.read_arrow(acid.table("t"), filter="p='a'").read_all(), 0),
    "delete": (lambda acid: acid.table("t").delete_arrow("id = 1"), 5),
    "merge": (
        lambda acid: acid.table("t").merge_arrow(
            pa.table({"id": pa.array([1, 7], pa.int32()), "p": ["a", "z"]}), on=["id", "p"]
        ),
        3,
    ),
}


@pytest.mark.parametrize("name", PARTITIONED)
def test_statements_on_partitions_list_them_together(
    acid: Session, s3: S3Server, name: str
) -> None:
    acid.sql(f"create table t (id int) partitioned by (p string) {FULL}")
    for n in range(2):
        acid.sql("insert into t values " + ", ".join(f"({n}, '{p}')" for p in "abcde"))
    change, data_files = PARTITIONED[name]
    with s3.requests() as made:
        change(acid)
    count = Counter(one.partition(" ")[0] for one in made)
    beside = 0 if name == "truncate" else data_files
    assert count["PUT"] == data_files + beside, "each with its _orc_acid_version"
    assert count["LIST"] == (0 if name in ("insert", "static", "truncate") else 1)
    assert set(count) <= {"PUT", "LIST", "GET"}


@pytest.mark.parametrize("part", ["/bucket_", "/_orc_acid_version", "/_metadata_acid"])
def test_files_of_partitions_are_sent_together(
    acid: Session, s3: S3Server, tmp_path: Path, part: str
) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {FULL}")
    values = pa.array(range(8), pa.int32())
    with proxy(s3.endpoint) as between:
        settings = {**s3.settings, "hiveacid.s3.endpoint": between.endpoint}
        with hiveacid.connect(None, f"sqlite:///{tmp_path}/metastore.db", settings=settings) as far:
            between.hold(part, 4)
            far.table("t").write_arrow(pa.table({"id": values, "p": values}))
            assert rows(acid, "t") == [(n, n) for n in range(8)]
            far.sql("truncate table t")
    assert between.most >= 4
    assert rows(acid, "t") == []


@pytest.mark.parametrize("way", ["partitioned by (p int)", "clustered by (p) into 70 buckets"])
def test_tails_of_many_files_are_asked_for_together(
    acid: Session, s3: S3Server, tmp_path: Path, way: str
) -> None:
    is_partitioned = way.startswith("partitioned")
    columns = "id int" if is_partitioned else "id int, p int"
    acid.sql(f"create table t ({columns}) {way} {FULL}")
    values = pa.array(range(70 if is_partitioned else 700), pa.int32())
    acid.table("t").write_arrow(pa.table({"id": values, "p": values}))
    assert sum("/bucket_" in name for name in files(acid, "t")) >= 64
    with proxy(s3.endpoint) as between:
        settings = {**s3.settings, "hiveacid.s3.endpoint": between.endpoint}
        url = f"sqlite:///{tmp_path}/metastore.db"
        with hiveacid.connect(None, url, settings=settings) as far:
            between.hold("/bucket_", 64)
            read = hiveacid.read_arrow(far.table("t"), filter="id < 3").read_all()
    assert read.num_rows == 3
    assert 64 <= between.most <= 66


def test_a_compaction_lists_once_and_writes_one_file(acid: Session, s3: S3Server) -> None:
    new(acid)
    with s3.requests() as made:
        acid.sql("alter table t compact 'major' and wait")
    assert sum(one.startswith("PUT") and "/bucket_" in one for one in made) == 1
    count = Counter(one.partition(" ")[0] for one in made)
    sides = 2  # _orc_acid_version, and the mark for readers by path, which goes again
    assert (count["PUT"], count["DELETE"]) == (1 + sides, 1)
    assert not [one for one in made if "_hiveacid_staging" in one], "written in its place"
    assert count["LIST"] <= 3
    assert rows(acid, "t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_files_that_were_loaded_are_read_changed_and_compacted(
    acid: Session, tmp_path: Path
) -> None:
    plain = "(id int, v string) stored as orc location"
    new(acid)
    for n, place in enumerate((f"{acid.client.warehouse}/here", f"{tmp_path}/there")):
        acid.sql(f"create table from{n} {plain} '{place}' tblproperties ('transactional'='false')")
        acid.sql(f"insert into from{n} values ({n + 5}, 'e'), ({n + 7}, 'f')")
        acid.sql(f"load data inpath '{place}' into table t")
    expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "e"), (7, "f"), (8, "f")]
    assert rows(acid, "t") == expected
    acid.table("t").delete_arrow("id = 5")
    expected.remove((5, "e"))
    assert rows(acid, "t") == expected
    acid.sql("alter table t compact 'major' and wait")
    assert rows(acid, "t") == expected


def test_markers_of_directories_are_no_files(acid: Session) -> None:
    partitioned(acid)
    fs, path = acid.client.files.at(f"{acid.client.warehouse}/t")
    for info in fs.list_recursive(path):
        if info.is_directory:
            fs.create_directory(info.path)
    fs.create_directory(f"{path}/p=a/delta_0000009_0000009_0000")
    acid.sql("insert into t values (7, 'a')")
    assert rows(acid, "t") == [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (7, "a")]
    acid.sql("alter table t partition (p='a') compact 'major' and wait")
    assert rows(acid, "t") == [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (7, "a")]


# -------------------------------------------------------------------- what fails leaves nothing


def test_a_statement_that_fails_half_way_leaves_no_file_in_a_transaction_that_goes_on(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(acid)
    before = files(acid, "t")
    write = FileSystem.write_bytes
    failing = [True]

    def full(self: FileSystem, path: str, *, data: bytes) -> None:
        if failing and path.endswith("_orc_acid_version"):
            failing.pop()
            raise AcidError("the store is full")
        write(self, path, data=data)

    monkeypatch.setattr(FileSystem, "write_bytes", full)
    with acid.transaction() as txn:
        with pytest.raises(AcidError, match="the store is full"):
            txn.sql("insert into t values (7, 'lost')")
        assert files(acid, "t") == before
        txn.sql("insert into t values (8, 'h')")
        txn.savepoint("s")
        txn.sql("insert into t values (9, 'i')")
        txn.rollback_to("s")
        txn.sql("insert overwrite table t values (10, 'j')")
        txn.sql("insert into t values (11, 'k')")
    assert rows(acid, "t") == [(10, "j"), (11, "k")]
    assert not [name for name in files(acid, "t") if "_hiveacid" in name]


def test_a_file_that_was_written_before_its_statement_failed_is_removed(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(acid)
    before = files(acid, "t")
    opened: list[str] = []
    open_output = FileSystem.open_output

    def second_fails(self: FileSystem, path: str) -> pa.NativeFile:
        opened.append(path)
        if len(opened) == 3:
            raise AcidError("no more")
        return open_output(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "open_output", second_fails)
        with acid.transaction() as txn, pytest.raises(AcidError, match="no more"):
            WRITES["merge"][0](txn)  # type: ignore[arg-type]
    assert len(opened) == 3
    assert files(acid, "t") == before
    assert rows(acid, "t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_transaction_that_is_rolled_back_leaves_nothing(acid: Session) -> None:
    new(acid)
    before = files(acid, "t")
    with acid.transaction() as txn:
        txn.sql("insert into t values (8, 'h')")
        txn.rollback()
    assert files(acid, "t") == before


class Unanswered:
    """A file of which nobody knows whether the store has it, or will have it."""

    def write(self, data: bytes) -> None:
        """Kept."""

    def close(self) -> None:
        """No answer."""
        raise OSError("AWS Error SLOW_DOWN")


def fails(txn: AcidTransaction, monkeypatch: pytest.MonkeyPatch) -> None:
    """An INSERT that the store does not answer."""
    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "open_output", lambda *_: Unanswered())
        with pytest.raises(StorageError, match="SLOW_DOWN"):
            txn.sql("insert into t values (7, 'lost')")


def test_a_file_that_may_still_come_to_its_place_ends_the_transaction(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(acid)
    with pytest.raises(TransactionError), acid.transaction() as txn:
        fails(txn, monkeypatch)
        txn.sql("insert into t values (8, 'h')")
    with acid.transaction() as txn:
        txn.sql("insert into t values (5, 'e')")
        fails(txn, monkeypatch)  # its file was staged
    assert rows(acid, "t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]


# -------------------------------------------------------------------- moved, place by place


def partitioned(acid: Session) -> None:
    """Table t with partitions a and b of two files each."""
    acid.sql(f"create table t (id int) partitioned by (p string) {FULL}")
    for n in range(2):
        acid.sql(f"insert into t values ({n}, 'a'), ({n}, 'b')")


def test_tables_and_partitions_are_renamed_and_dropped(acid: Session) -> None:
    partitioned(acid)
    acid.sql("alter table t add partition (p='empty %+é')")
    acid.sql("alter table t partition (p='a') rename to partition (p='c/d é')")
    acid.sql("alter table t partition (p='empty %+é') rename to partition (p='still')")
    acid.sql("alter table t drop partition (p='b')")
    assert rows(acid, "t") == [(0, "c/d é"), (1, "c/d é")]
    acid.sql("alter table t rename to u")
    assert rows(acid, "u") == [(0, "c/d é"), (1, "c/d é")]
    assert files(acid, "t") == []
    acid.sql("drop table u")
    assert files(acid, "u") == []


def killed_in(step: str) -> Callable[..., None]:
    """A rename of a directory that ends with its process, while it copies or while it deletes."""

    def rename(self: FileSystem, source: str, *, target: str) -> None:
        moves = [i.path for i in self.list_recursive(source) if not i.is_directory]
        for number, path in enumerate(moves):
            if step == "copying" and number:
                break
            self.copy_file(path, target=f"{target}{path[len(source) :]}")
        if step == "deleting":
            self.delete_file(moves[0])
        raise KeyboardInterrupt

    return rename


@pytest.mark.parametrize("step", ["copying", "deleting"])
@pytest.mark.parametrize("kind", ["rename", "drop"])
def test_a_move_that_was_killed_half_way_loses_no_file(
    acid: Session, monkeypatch: pytest.MonkeyPatch, step: str, kind: str
) -> None:
    partitioned(acid)
    store, root = acid.client.metastore, f"{acid.client.warehouse}/t"
    name = acid.table_name("t")
    expected = rows(acid, "t")
    table = store.get_table(name)
    fs, path = acid.client.files.at(root)
    if kind == "rename":
        target = f"{acid.client.warehouse}/u"
        note = {RENAMING_FROM: root, RENAMING_TO: target}
        move = lambda: fs.rename(path, target=acid.client.files.at(target)[1])  # noqa: E731
    else:
        hidden = f"{root}/_hiveacid_dropped_9"
        note = {f"{DROPPING}999999": hidden}
        parts = store.list_partitions(name)
        move = lambda: hide(table, parts, hidden, acid.client.files)  # noqa: E731
    store.alter_table(name, lambda t: replace(t, properties={**t.properties, **note}))
    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "rename", killed_in(step))
        with pytest.raises(KeyboardInterrupt):
            move()
    acid.sql("insert into t values (7, 'a')")
    assert rows(acid, "t") == sorted([*expected, (7, "a")], key=str)
    assert not any("dropped" in name for name in files(acid, "t"))
    assert files(acid, "u") == []


# -------------------------------------------------------------------- a process that dies


_DIES = """
import os, sys
import hiveacid
from hiveacid.statements import run
run._publish = lambda *_: os._exit(9)
url, statement = sys.argv[1:]
hiveacid.connect(None, url, settings={"hiveacid.compactor.auto": "off"}).sql(statement)
"""


_COMPACTION_DIES = """
import os, sys
import hiveacid
from hiveacid.compaction import worker
worker._publish = lambda *_, **__: os._exit(9)
acid = hiveacid.connect(None, sys.argv[1], settings={"hiveacid.compactor.auto": "off"})
acid.sql("alter table t compact 'major' and wait")
"""


def _as_by_environment(s3: S3Server, text: str) -> str:
    """For a process that finds the server by its environment."""
    return f"import os; os.environ.update({s3.environment!r}){text}"


def test_what_a_compaction_wrote_that_was_killed_counts_for_nobody_and_goes(
    acid: Session, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(acid)
    expected, before = rows(acid, "t"), files(acid, "t")
    dying = _as_by_environment(s3, _COMPACTION_DIES)
    assert exit_status_of(dying, f"sqlite:///{tmp_path}/metastore.db") == 9
    left = set(files(acid, "t")) - set(before)
    assert any("/bucket_" in name for name in left) and all("base_" in name for name in left)
    assert rows(acid, "t") == expected
    for name, text in s3.environment.items():
        monkeypatch.setenv(name, text)
    by_path = hiveacid.read_arrow(acid.table("t").definition.location).read_all()
    assert by_path.num_rows == len(expected), "to a reader by path all else counts"
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    acid.table("t").compact("major", wait=True)
    acid.sql("set hiveacid.retention_s = 0")
    acid.sql("set hiveacid.compactor.aborts_age_s = 0")
    acid.clean()
    acid.clean()
    assert rows(acid, "t") == expected
    assert not left & set(files(acid, "t"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_process_wrote_that_died_is_seen_by_nobody_and_cleaned(
    acid: Session, s3: S3Server, tmp_path: Path, dynamic: bool
) -> None:
    partitioned(acid)
    expected, before = rows(acid, "t"), files(acid, "t")
    into = (
        "partition (p) values (9, 'new'), (9, 'a')" if dynamic else "partition (p='a') values (9)"
    )
    url = f"sqlite:///{tmp_path}/metastore.db"
    dying = _as_by_environment(s3, _DIES)
    assert exit_status_of(dying, url, f"insert into t {into}") == 9
    left = set(files(acid, "t")) - set(before)
    assert len(left) == (2 if dynamic else 1) and all("/bucket_" in name for name in left)
    assert rows(acid, "t") == expected
    store = acid.client.metastore
    store.abort_txns([one.id for one in store.show_txns()])  # its time-out is long
    acid.sql("insert into t values (7, 'a')")
    acid.sql("set hiveacid.compactor.aborts_threshold = 0")
    acid.sql("set hiveacid.compactor.aborts_age_s = 0")
    Cleaner(acid.client).run()
    store.run_housekeeping(interval_s=0)
    assert rows(acid, "t") == sorted([*expected, (7, "a")], key=str)
    assert not left & set(files(acid, "t"))
