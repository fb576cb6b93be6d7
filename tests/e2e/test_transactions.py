"""Transactions of several statements on several tables, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import (
    AlreadyExistsError,
    ConflictError,
    ConversionError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TransactionError,
)
from hiveacid.layout.names import is_hidden
from hiveacid.model.statistics import row_count
from hiveacid.session import Session
from hiveacid.storage.filesystem import FileSystem

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true','transactional_properties'='insert_only')"
)
Rows = list[tuple[Any, ...]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def acid(url: str, tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        session.sql(f"create table u (id int, v string) {ACID}")
        session.sql(f"create table p (id int, v string) partitioned by (k string) {ACID}")
        session.sql(f"create table m (id int, v string) {INSERT_ONLY}")
        yield session


@pytest.fixture
def other(url: str, tmp_path: Path) -> Iterator[Session]:
    """Another client of the same metastore."""
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def _rows(where: Any, table: str = "t") -> Rows:
    found = hiveacid.read_arrow(where.table(table)).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def _data(*rows: tuple[int, str], **more: str) -> pa.Table:
    ids, values = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "v": list(values)}
    return pa.table(columns | {name: [text] * len(rows) for name, text in more.items()})


def _directories(acid: Session, table: str = "t") -> list[str]:
    root = Path(acid.table(table).definition.location)
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted({str(path.parent) for path in files})


def _committed(acid: Session, table: str = "t") -> Rows:
    """What any reader of the committed write ids reads, told nothing of own transactions."""
    definition = acid.table(table).definition
    (valid,) = acid.runtime.metastore.valid_write_ids((definition.name,))
    found = hiveacid.read_arrow(definition.location, valid_write_ids=str(valid))
    return sorted(tuple(row.values()) for row in found.read_all().to_pylist())


def test_several_tables_change_in_one_commit(acid: Session, other: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a'), (2, 'b')")
        txn.table("u").write_arrow(_data((7, "x")))
        txn.sql("insert into p partition (k='n') values (1, 'a')")
        assert _rows(other, "t") == _rows(other, "u") == _rows(other, "p") == []
        assert other.sql("show partitions p").rows == ()
        assert _rows(txn) == [(1, "a"), (2, "b")]
        assert _rows(txn, "p") == [(1, "a", "n")]
    assert _rows(other) == [(1, "a"), (2, "b")]
    assert _rows(other, "u") == [(7, "x")]
    assert _rows(other, "p") == [(1, "a", "n")]


def test_rows_of_the_same_transaction_are_updated_merged_and_deleted_again(acid: Session) -> None:
    acid.sql("insert into t values (1, 'old'), (2, 'old')")
    with acid.transaction() as txn:
        txn.sql("insert into t values (3, 'new')")
        for text in ("once", "twice", "thrice"):
            change = _data((1, text), (3, text))
            assert txn.table("t").merge_arrow(change, on=["id"]).updated == 2
        assert _rows(txn) == [(1, "thrice"), (2, "old"), (3, "thrice")]
        assert txn.table("t").delete_arrow("id = 3").rows == 1
        assert txn.table("t").delete_arrow("id = 3").rows == 0
        assert txn.table("t").merge_arrow(_data((3, "back"), (2, "b")), on=["id"]).inserted == 1
        assert _rows(acid) == [(1, "old"), (2, "old")]
    expected = [(1, "thrice"), (2, "b"), (3, "back")]
    assert _rows(acid) == _committed(acid) == expected


def test_statement_ids_are_those_of_the_directories_and_are_never_used_twice(
    acid: Session,
) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        txn.savepoint("s")
        txn.sql("insert into t values (2, 'b')")
        txn.rollback_to("s")
        txn.table("t").merge_arrow(_data((1, "c")), on=["id"], when_not_matched=None)
        txn.sql("insert into t values (3, 'd')")
    assert _directories(acid) == [
        "delete_delta_0000001_0000001_0002",
        "delta_0000001_0000001_0000",
        "delta_0000001_0000001_0003",
        "delta_0000001_0000001_0004",
    ]
    assert _rows(acid) == _committed(acid) == [(1, "c"), (3, "d")]


def test_one_snapshot_for_the_whole_transaction_taken_at_its_first_statement(
    acid: Session, other: Session
) -> None:
    with acid.transaction() as txn:
        other.sql("insert into t values (1, 'before')")
        assert _rows(txn) == [(1, "before")]
        other.sql("insert into t values (2, 'after')")
        other.sql("insert into u values (2, 'after')")
        assert _rows(txn) == [(1, "before")]
        assert _rows(txn, "u") == []
    assert len(_rows(acid)) == 2


def test_rollback_leaves_nothing_visible_and_no_files(acid: Session) -> None:
    acid.sql("insert into t values (1, 'a')")
    before = _directories(acid)
    with pytest.raises(ZeroDivisionError), acid.transaction() as txn:
        txn.sql("insert overwrite table t values (2, 'b')")
        txn.sql("insert into t values (3, 'c')")
        txn.sql("insert into p partition (k='n') values (1, 'a')")
        raise ZeroDivisionError
    assert not txn.is_open
    assert _rows(acid) == _committed(acid) == [(1, "a")]
    assert _directories(acid) == before
    assert _directories(acid, "p") == []
    assert acid.sql("show partitions p").rows == ()
    assert acid.sql("show locks").rows == ()


@pytest.mark.parametrize("table", ["t", "m"])
def test_statements_after_an_overwrite_rewrite_its_base(acid: Session, table: str) -> None:
    acid.sql(f"insert into {table} values (1, 'old')")
    with acid.transaction() as txn:
        txn.sql(f"insert into {table} values (2, 'gone')")
        txn.sql(f"insert overwrite table {table} values (3, 'c'), (4, 'd')")
        assert _rows(txn, table) == [(3, "c"), (4, "d")]
        txn.sql(f"insert into {table} values (5, 'e')")
        txn.sql(f"insert into {table} values (6, 'f')")
        expected = [(3, "c"), (4, "d"), (5, "e"), (6, "f")]
        assert _rows(txn, table) == expected
        assert _rows(acid, table) == [(1, "old")]
    assert _rows(acid, table) == _committed(acid, table) == expected
    assert _directories(acid, table) == [
        "base_0000002", "delta_0000001_0000001_0000", "delta_0000002_0000002_0000",
    ]  # fmt: skip


def test_rows_of_an_own_base_are_changed_and_keep_their_identities(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a'), (2, 'b'), (3, 'c')")
        assert txn.table("t").delete_arrow("id = 2").rows == 1
        txn.table("t").merge_arrow(_data((3, "C"), (4, "D")), on=["id"])
        txn.table("t").merge_arrow(_data((4, "DD")), on=["id"])
        assert _rows(txn) == [(1, "a"), (3, "C"), (4, "DD")]
    assert _rows(acid) == _committed(acid) == [(1, "a"), (3, "C"), (4, "DD")]
    assert _directories(acid) == ["base_0000001"]
    read = hiveacid.read_arrow(acid.table("t"), row_ids=True).read_all().to_pylist()
    ids = [tuple(row["row__id"].values()) for row in read]
    assert ids == sorted(ids) and len(set(ids)) == 3
    assert {write_id for write_id, _, _ in ids} == {1}
    assert acid.table("t").delete_arrow("id = 4").rows == 1  # by a later transaction
    assert _rows(acid) == [(1, "a"), (3, "C")]


def test_an_own_base_may_empty_and_fill_again(acid: Session) -> None:
    acid.sql("insert into t values (1, 'a')")
    with acid.transaction() as txn:
        txn.sql("truncate table t")
        assert _rows(txn) == []
        txn.sql("insert into t values (2, 'b')")
        txn.table("t").delete_arrow("id = 2")
        assert _rows(txn) == []
        txn.sql("insert into t values (3, 'c')")
        txn.sql("insert overwrite table t values (4, 'd')")
        txn.sql("truncate table t")
        txn.sql("insert into t values (5, 'e')")
    assert _rows(acid) == _committed(acid) == [(5, "e")]
    assert _directories(acid)[0] == "base_0000002"


def test_only_the_overwritten_partition_is_rewritten(acid: Session) -> None:
    acid.sql("insert into p partition (k='x') values (1, 'a')")
    acid.sql("insert into p partition (k='y') values (2, 'b')")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table p partition (k='x') values (3, 'c')")
        txn.table("p").write_arrow(
            pa.table({"id": pa.array([4, 5, 6], pa.int32()), "v": ["d"] * 3, "k": ["x", "y", "z"]})
        )
        txn.sql("truncate table p partition (k='z')")
    assert _rows(acid, "p") == [(2, "b", "y"), (3, "c", "x"), (4, "d", "x"), (5, "d", "y")]
    assert _directories(acid, "p") == [
        "k=x/base_0000003",
        "k=x/delta_0000001_0000001_0000",
        "k=y/delta_0000002_0000002_0000",
        "k=y/delta_0000003_0000003_0001",
        "k=z/base_0000003",
        "k=z/delta_0000003_0000003_0001",
    ]


@pytest.mark.parametrize("table", ["t", "m"])
def test_rolled_back_to_a_savepoint_an_own_base_is_what_it_was(acid: Session, table: str) -> None:
    with acid.transaction() as txn:
        txn.sql(f"insert into {table} values (1, 'a')")
        txn.savepoint("one")
        txn.sql(f"insert overwrite table {table} values (2, 'b')")
        txn.savepoint("two")
        txn.sql(f"insert into {table} values (3, 'c')")
        txn.sql(f"insert overwrite table {table} values (4, 'd')")
        txn.sql(f"truncate table {table}")
        txn.rollback_to("two")
        assert _rows(txn, table) == [(2, "b")]
        txn.rollback_to("ONE")
        assert _rows(txn, table) == [(1, "a")]
        with pytest.raises(NotFoundError, match="no savepoint two"):
            txn.rollback_to("two")
        txn.sql(f"insert into {table} values (5, 'e')")
    assert _rows(acid, table) == _committed(acid, table) == [(1, "a"), (5, "e")]
    assert not [name for name in _directories(acid, table) if "base" in name or is_hidden(name)]


def test_a_failed_statement_takes_itself_back_and_the_transaction_goes_on(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a')")
        with pytest.raises(ConversionError):
            txn.table("t").write_arrow(pa.table({"id": ["no number"]}))
        with monkeypatch.context() as failing:
            _fail_at(failing, lambda path: path.endswith("_orc_acid_version"))
            with pytest.raises(StorageError, match="disk"):
                txn.sql("insert into t values (2, 'b')")
        assert _rows(txn) == [(1, "a")]
        txn.sql("insert into t values (3, 'c')")
    assert _rows(acid) == _committed(acid) == [(1, "a"), (3, "c")]


@pytest.mark.parametrize("at", ["delta_0000001_0000001_0001", "_base", "base_0000001"])
def test_interrupted_anywhere_in_a_statement_the_transaction_stays_usable(
    acid: Session, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a')")
        with monkeypatch.context() as failing:
            _fail_at(failing, lambda path: at in path, error=KeyboardInterrupt, once=True)
            with pytest.raises(KeyboardInterrupt):
                txn.sql("insert into t values (2, 'b')")
        assert txn.is_open
        assert _rows(txn) == [(1, "a")]
        txn.sql("insert into t values (3, 'c')")
    assert _rows(acid) == _committed(acid) == [(1, "a"), (3, "c")]


def test_where_taking_back_fails_the_transaction_is_aborted(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = acid.transaction()
    txn.sql("insert into t values (1, 'a')")
    txn.savepoint("s")
    txn.sql("insert into t values (2, 'b')")
    with monkeypatch.context() as failing:

        def refuse(_: FileSystem, path: str) -> None:
            raise StorageError("disk", path=path)

        failing.setattr(FileSystem, "delete_directory", refuse)
        with pytest.raises(TransactionError, match="savepoint s could not be taken back: disk"):
            txn.rollback_to("s")
    with pytest.raises(TransactionError, match="not open any more"):
        txn.commit()
    assert _rows(acid) == []


def _fail_at(
    patch: pytest.MonkeyPatch,
    chosen: Callable[[str], bool],
    *,
    error: type[BaseException] = StorageError,
    once: bool = False,
) -> None:
    """Writing or moving a file to a place that is chosen fails, after it was done."""
    left = [1]
    for name, key in (("write_bytes", None), ("rename", "target"), ("create_directory", None)):
        original = getattr(FileSystem, name)

        def failing(
            self: FileSystem, path: str, _original: Any = original, _key: Any = key, **kw: Any
        ) -> None:
            _original(self, path, **kw)
            if chosen(kw[_key] if _key else path) and (left[0] or not once):
                left[0] = 0
                raise error("disk")

        patch.setattr(FileSystem, name, failing)


def test_the_first_to_commit_wins_and_nothing_of_the_other_stays(
    acid: Session, other: Session
) -> None:
    acid.sql("insert into t values (1, 'a')")
    with pytest.raises(ConflictError), acid.transaction() as txn:
        txn.table("u").write_arrow(_data((1, "mine")))
        txn.table("t").merge_arrow(_data((1, "mine")), on=["id"])
        other.table("t").merge_arrow(_data((1, "theirs")), on=["id"])
    assert _rows(acid) == _committed(acid) == [(1, "theirs")]
    assert _rows(acid, "u") == [] and _directories(acid, "u") == []


def test_statistics_stay_right(acid: Session) -> None:
    def known(table: str = "t") -> tuple[int | None, str]:
        found = acid.table(table).definition.properties
        return row_count(found), found["numFiles"]

    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a'), (2, 'b')")
        txn.savepoint("s")
        txn.sql("insert into t values (3, 'c')")
        txn.rollback_to("s")
        txn.table("t").merge_arrow(_data((2, "B"), (4, "D")), on=["id"])
    assert known() == (3, "4")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a'), (2, 'b')")
        txn.table("t").merge_arrow(_data((2, "B"), (4, "D")), on=["id"])
        txn.table("t").delete_arrow("id = 1")
    assert known() == (2, "1")
    assert len(_rows(acid)) == 2


def test_sql_begins_and_ends_transactions_of_a_session(acid: Session, other: Session) -> None:
    acid.sql("START TRANSACTION")
    acid.sql("insert into t values (1, 'a')")
    acid.sql("savepoint x")
    acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback to savepoint X")
    acid.sql("release savepoint x")
    assert _rows(other) == []
    acid.sql("commit work")
    assert _rows(other) == [(1, "a")]
    acid.sql("begin")
    acid.sql("insert into t values (3, 'c')")
    acid.sql("rollback")
    assert _rows(acid) == [(1, "a")]
    acid.sql("insert into t values (4, 'd')")  # commits itself again
    assert _rows(other) == [(1, "a"), (4, "d")]


def test_without_autocommit_each_statement_begins_or_continues_a_transaction(
    acid: Session, other: Session
) -> None:
    acid.sql("set autocommit = false")
    assert acid.sql("set autocommit").rows == (("autocommit=false",),)
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert into u values (1, 'a')")
    assert _rows(other) == []
    acid.sql("commit")
    assert _rows(other) == _rows(other, "u") == [(1, "a")]
    acid.sql("create table w (a int)")  # nothing is open
    acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback")
    acid.sql("insert into t values (3, 'c')")
    acid.sql("SET AUTOCOMMIT TRUE")
    assert _rows(other) == [(1, "a"), (3, "c")]


def test_a_closed_session_rolls_back(url: str, acid: Session, tmp_path: Path) -> None:
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        session.sql("begin")
        session.sql("insert into t values (1, 'a')")
    assert _rows(acid) == []
    assert acid.sql("show locks").rows == ()


def test_several_transactions_of_one_session_are_apart(acid: Session) -> None:
    with acid.transaction() as one, acid.transaction() as two:
        one.sql("insert into t values (1, 'a')")
        two.sql("insert into t values (2, 'b')")
        acid.sql("insert into t values (3, 'c')")
        assert (_rows(one), _rows(two), _rows(acid)) == ([(1, "a")], [(2, "b")], [(3, "c")])
    assert len(_rows(acid)) == 3


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_statement_in_a_finished_transaction_is_an_error(acid: Session, end: str) -> None:
    with acid.transaction() as txn:
        table = txn.table("t")
        getattr(txn, end)()
        for late in (
            lambda: txn.sql("insert into t values (1, 'a')"),
            lambda: table.write_arrow(_data((1, "a"))),
            lambda: hiveacid.read_arrow(table),
            lambda: txn.savepoint("s"),
            txn.commit,
            lambda: txn.sql("begin"),
            lambda: txn.sql("create table x (a int)"),
        ):
            with pytest.raises(TransactionError, match="is not open any more"):
                late()
    assert _rows(acid) == []


def test_a_commit_after_the_transaction_was_aborted_fails_and_leaves_nothing(
    acid: Session, other: Session
) -> None:
    with pytest.raises(TransactionError), acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        other.sql(f"abort transactions {txn.id}")
    assert _rows(acid) == _committed(acid) == []
    assert _directories(acid) == []


def test_a_statement_in_an_aborted_transaction_fails_until_rollback(
    acid: Session, other: Session
) -> None:
    acid.sql("begin")
    acid.sql("insert into t values (1, 'a')")
    (found,) = [one for one in acid.runtime.metastore.show_txns() if one.state.value == "o"]
    other.sql(f"abort transactions {found.id}")
    for _ in range(2):
        with pytest.raises(TransactionError):
            acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback")
    acid.sql("insert into t values (3, 'c')")
    assert _rows(acid) == [(3, "c")]


@pytest.mark.parametrize(
    "text",
    [
        "create table x (a int)",
        "drop table t",
        "alter table t add columns (b int)",
        "alter table p add partition (k='x')",
        "create database d",
        "analyze table t compute statistics noscan",
        "msck repair table p",
        "drop view v",
    ],
)
def test_definitions_are_refused_in_a_transaction_before_they_do_anything(
    acid: Session, text: str
) -> None:
    tables = acid.sql("show tables").rows
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        with pytest.raises(InvalidInputError, match="not allowed in a transaction"):
            txn.sql(text)
        with pytest.raises(InvalidInputError, match="CREATE TABLE is not allowed"):
            txn._within.create_table("x", "a int")  # type: ignore[attr-defined]
        txn.sql("describe t")
        txn.sql("show tables")
    assert acid.sql("show tables").rows == tables
    assert _rows(acid) == [(1, "a")]


def test_more_than_4096_statement_ids_fail_before_anything_is_written(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        name = acid.table("t").name
        txn._unit.txn.take_statement_ids(name, 4094)
        with pytest.raises(InvalidInputError, match="has used 4095 of 4096"):
            txn.table("t").merge_arrow(_data((1, "b")), on=["id"])
        txn.sql("insert into t values (2, 'b')")
        with pytest.raises(InvalidInputError, match="has used 4096 of 4096"):
            txn.sql("insert into t values (3, 'c')")
    assert _rows(acid) == [(1, "a"), (2, "b")]
    assert _directories(acid) == ["delta_0000001_0000001_0000", "delta_0000001_0000001_4095"]


def test_begin_and_end_where_they_do_not_belong(acid: Session) -> None:
    for text in ("commit", "rollback", "savepoint a", "rollback to a", "release a"):
        with pytest.raises(InvalidInputError, match="without a transaction"):
            acid.sql(text)
    acid.sql("begin work")
    with pytest.raises(InvalidInputError, match="do not nest"):
        acid.sql("start transaction")
    with pytest.raises(NotFoundError, match="no savepoint nowhere"):
        acid.sql("rollback to nowhere")
    with pytest.raises(InvalidInputError, match="true or false"):
        acid.sql("set autocommit = perhaps")
    acid.sql("rollback")


def test_what_cannot_be_rolled_back_is_refused(acid: Session) -> None:
    acid.sql("create table plain (id int, v string) stored as orc")
    with acid.transaction() as txn:
        for text in ("insert into plain values (1, 'a')", "truncate table plain"):
            with pytest.raises(InvalidInputError, match="plain is not transactional"):
                txn.sql(text)
    assert _rows(acid, "plain") == []


def test_loaded_files_leave_their_place_with_the_commit(acid: Session, tmp_path: Path) -> None:
    import pyarrow.orc as orc

    source = tmp_path / "given.orc"
    orc.write_table(_data((1, "a"), (2, "b")), str(source))
    load = f"load data inpath '{source}' into table t"
    txn = acid.transaction()
    txn.sql(load)
    assert _rows(txn) == [(1, "a"), (2, "b")]
    txn.rollback()
    assert source.exists() and _rows(acid) == []
    with acid.transaction() as txn:
        txn.sql("truncate table t")
        txn.sql(load)
        txn.table("t").delete_arrow("id = 1")
        assert source.exists()
    assert not source.exists()
    assert _rows(acid) == _committed(acid) == [(2, "b")]
    assert row_count(acid.table("t").definition.properties) == 1


def test_existing_error_types_pass_through(acid: Session) -> None:
    with acid.transaction() as txn, pytest.raises(NotFoundError):
        txn.sql("insert into nosuch values (1)")
    with pytest.raises(AlreadyExistsError):
        acid.sql("create table t (a int)")
