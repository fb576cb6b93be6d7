"""Transactions in which something fails, or that are used in the wrong way; without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.e2e.tables import committed, data_of, directories, rows_of

import hiveacid
from hiveacid.errors import (
    AlreadyExistsError,
    ConflictError,
    ConversionError,
    InvalidInputError,
    LockError,
    NotFoundError,
    StorageError,
    TransactionError,
)
from hiveacid.model.commits import row_count
from hiveacid.session import Session
from hiveacid.storage.filesystem import FileSystem
from hiveacid.transaction import AcidTransaction


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
        assert rows_of(txn) == [(1, "a")]
        txn.sql("insert into t values (3, 'c')")
    assert rows_of(acid) == committed(acid) == [(1, "a"), (3, "c")]


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
        assert rows_of(txn) == [(1, "a")]
        txn.sql("insert into t values (3, 'c')")
    assert rows_of(acid) == committed(acid) == [(1, "a"), (3, "c")]


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
    assert rows_of(acid) == []


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


def test_of_two_transactions_that_wait_for_each_other_one_goes_on(
    acid: Session, other: Session
) -> None:
    first, second = acid.transaction(), other.transaction()
    first.sql("insert overwrite table t values (1, 'first')")
    second.sql("insert overwrite table u values (1, 'second')")
    failures: list[LockError] = []

    def overwrite(txn: AcidTransaction, table: str) -> None:
        try:
            txn.sql(f"insert overwrite table {table} values (2, 'both')")
        except LockError as error:
            failures.append(error)

    waiting = threading.Thread(target=overwrite, args=(first, "u"))
    waiting.start()
    overwrite(second, "t")
    waiting.join(timeout=300)
    assert len(failures) == 1 and "deadlock" in str(failures[0])
    (winner,) = [txn for txn in (first, second) if txn.is_open]
    (loser,) = [txn for txn in (first, second) if not txn.is_open]
    with pytest.raises(TransactionError, match="not open any more"):
        loser.sql("insert into t values (3, 'c')")
    loser.rollback()
    winner.commit()
    assert len(rows_of(acid)) == len(rows_of(acid, "u")) == 1
    assert (2, "both") in rows_of(acid) + rows_of(acid, "u")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_statement_in_a_finished_transaction_is_an_error(acid: Session, end: str) -> None:
    with acid.transaction() as txn:
        table = txn.table("t")
        getattr(txn, end)()
        for late in (
            lambda: txn.sql("insert into t values (1, 'a')"),
            lambda: table.write_arrow(data_of((1, "a"))),
            lambda: hiveacid.read_arrow(table),
            lambda: txn.savepoint("s"),
            txn.commit,
            lambda: txn.sql("begin"),
            lambda: txn.sql("create table x (a int)"),
        ):
            with pytest.raises(TransactionError, match="is not open any more"):
                late()
    assert rows_of(acid) == []


def test_a_commit_after_the_transaction_was_aborted_fails_and_leaves_its_files_to_the_cleaner(
    acid: Session, other: Session
) -> None:
    with pytest.raises(TransactionError), acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        other.sql(f"abort transactions {txn.id}")
    assert rows_of(acid) == committed(acid) == []
    assert directories(acid) == ["delta_0000001_0000001_0000"]  # its locks are gone


def test_a_statement_in_an_aborted_transaction_fails_until_rollback(
    acid: Session, other: Session
) -> None:
    acid.sql("begin")
    acid.sql("insert into t values (1, 'a')")
    (found,) = [one for one in acid.client.metastore.show_txns() if one.state.value == "o"]
    other.sql(f"abort transactions {found.id}")
    for _ in range(2):
        with pytest.raises(TransactionError):
            acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback")
    acid.sql("insert into t values (3, 'c')")
    assert rows_of(acid) == [(3, "c")]


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
    assert rows_of(acid) == [(1, "a")]


def test_more_than_4096_statement_ids_fail_before_anything_is_written(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        name = acid.table("t").name
        txn._unit.txn.take_statement_ids(name, 4094)
        with pytest.raises(InvalidInputError, match="has used 4095 of 4096"):
            txn.table("t").merge_arrow(data_of((1, "b")), on=["id"])
        txn.sql("insert into t values (2, 'b')")
        with pytest.raises(InvalidInputError, match="has used 4096 of 4096"):
            txn.sql("insert into t values (3, 'c')")
    assert rows_of(acid) == [(1, "a"), (2, "b")]
    assert directories(acid) == ["delta_0000001_0000001_0000", "delta_0000001_0000001_4095"]


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
    assert rows_of(acid, "plain") == []


def test_loaded_files_leave_their_place_with_the_commit(acid: Session, tmp_path: Path) -> None:
    import pyarrow.orc as orc

    source = tmp_path / "given.orc"
    orc.write_table(data_of((1, "a"), (2, "b")), str(source))
    load = f"load data inpath '{source}' into table t"
    txn = acid.transaction()
    txn.sql(load)
    assert rows_of(txn) == [(1, "a"), (2, "b")]
    txn.rollback()
    assert source.exists() and rows_of(acid) == []
    with acid.transaction() as txn:
        txn.sql("truncate table t")
        txn.sql(load)
        txn.table("t").delete_arrow("id = 1")
        assert source.exists()
    assert not source.exists()
    assert rows_of(acid) == committed(acid) == [(2, "b")]
    assert row_count(acid.table("t").definition.properties) == 1


def test_existing_error_types_pass_through(acid: Session) -> None:
    with acid.transaction() as txn, pytest.raises(NotFoundError):
        txn.sql("insert into nosuch values (1)")
    with pytest.raises(AlreadyExistsError):
        acid.sql("create table t (a int)")


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_savepoint_has_a_name(acid: Session, name: Any) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        for use in (txn.savepoint, txn.rollback_to, txn.release):
            with pytest.raises(InvalidInputError, match="name"):
                use(name)
    assert rows_of(acid) == [(1, "a")]


def test_rows_are_not_lost_in_a_partition_that_was_added_elsewhere_meanwhile(
    acid: Session, other: Session, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    txn = acid.transaction()
    txn.sql("insert into p partition (k='new') values (1, 'a')")
    with acid.transaction() as good:
        good.sql("insert into p partition (k='a b/c') values (3, 'c')")
        other.sql("alter table p add partition (k='a b/c')")
    other.sql(f"alter table p add partition (k='new') location '{elsewhere}'")
    with pytest.raises(ConflictError, match="added in another place"):
        txn.commit()
    assert not txn.is_open
    assert acid.sql("show locks").rows == ()
    acid.sql("insert into p partition (k='new') values (2, 'b')")
    with acid.transaction() as txn:
        txn.sql("insert into p partition (k='new') values (4, 'd')")
    assert rows_of(other, "p") == [(2, "b", "new"), (3, "c", "a b/c"), (4, "d", "new")]
