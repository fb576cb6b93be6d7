"""What an SQLite metastore has acknowledged is on disk."""

from __future__ import annotations

import inspect
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.metastores import table_rows

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.errors import CommitOutcomeUnknownError, MetastoreError
from hiveacid.metastore.connect import SqlMetastore, connect, schema_differences
from hiveacid.metastore.sql import sqlite
from hiveacid.model.tables import TableName, TxnId
from hiveacid.model.transactions import LockComponent, LockState, LockType, OperationType, TxnType

TRANSACTIONAL = "tblproperties ('transactional'='true')"

if not hasattr(os, "fdatasync"):
    pytest.skip("SQLite syncs by itself", allow_module_level=True)


@pytest.fixture(autouse=True)
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for users: other tests do not wait for the disk."""
    original = inspect.unwrap(sqlite.SqliteDialect.__init__)
    monkeypatch.setattr(sqlite.SqliteDialect, "__init__", original)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metastore.db"


@pytest.fixture
def metastore(path: Path) -> Iterator[SqlMetastore]:
    with connect(f"sqlite:///{path}", clock=SystemClock()) as opened:
        yield opened


@pytest.fixture
def at_sync(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    def install(step: Callable[[int], None]) -> None:
        monkeypatch.setattr(sqlite, "_sync", step)

    return install


def test_a_look_at_the_schema_writes_nothing(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    synced: list[int] = []
    at_sync(synced.append)
    assert schema_differences(metastore.database) == ()
    assert synced == []


def test_a_page_that_is_damaged_is_told(path: Path) -> None:
    """As in a backup that was put beside the log of another metastore."""
    connect(f"sqlite:///{path}", clock=SystemClock()).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((page_bytes,),) = file.execute("PRAGMA page_size")
        ((number,),) = file.execute("SELECT max(rootpage) FROM sqlite_master WHERE type = 'index'")
    with path.open("r+b") as file:
        file.seek((number - 1) * page_bytes)
        file.write(bytes(200))
    with connect(f"sqlite:///{path}", clock=SystemClock()) as opened:
        (told,) = schema_differences(opened.database)
    assert told.startswith("damaged: ") and f"Page {number}" in told


def test_the_log_is_synced_after_the_commit_and_outside_of_the_writers_turn(
    metastore: SqlMetastore, path: Path, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    seen: list[tuple[bool, int]] = []

    def look(file: int) -> None:
        log = os.fstat(file).st_ino == Path(f"{path}-wal").stat().st_ino
        with sqlite3.connect(path, timeout=0) as other:  # a writer of another process
            other.execute("BEGIN IMMEDIATE")
            ((opened,),) = other.execute("SELECT count(*) FROM TXNS WHERE TXN_USER = 'u'")
        other.close()
        seen.append((log, opened))

    at_sync(look)
    metastore.open_txns(1, user="u", host="h", txn_type=TxnType.COMPACTION)

    assert seen == [(True, 1)]


def test_reading_syncs_nothing(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    def fail(file: int) -> None:
        raise AssertionError(file)

    at_sync(fail)

    assert metastore.show_txns() == ()


def test_only_what_somebody_relies_on_after_a_power_failure_waits_for_the_disk(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    synced: list[int] = []
    at_sync(synced.append)

    def syncs(step: Callable[[], Any]) -> tuple[int, Any]:
        before = len(synced)
        answer = step()
        return len(synced) - before, answer

    def open_txn(kind: TxnType) -> Any:
        return metastore.open_txns(1, user="u", host="h", txn_type=kind)[0]

    def lock(txn: TxnId, operation: OperationType) -> Any:
        one = LockComponent(LockType.SHARED_READ, "default", "t", operation=operation)
        return metastore.lock([one], txn=txn, user="u", host="h")

    count, reader = syncs(lambda: open_txn(TxnType.READ_ONLY))
    assert count == 0
    count, granted = syncs(lambda: lock(reader, OperationType.SELECT))
    assert (count, granted.state) == (0, LockState.ACQUIRED)
    assert syncs(lambda: metastore.check_lock(granted.lock_id))[0] == 0
    assert syncs(lambda: metastore.heartbeat(txn=reader))[0] == 0
    assert syncs(lambda: metastore.heartbeat_range(reader, reader))[0] == 0
    assert syncs(lambda: metastore.commit_txn(reader))[0] == 1  # what it saw is on disk

    assert syncs(lambda: open_txn(TxnType.COMPACTION))[0] == 1  # directories are named after it
    count, writer = syncs(lambda: open_txn(TxnType.DEFAULT))
    assert count == 0
    assert syncs(lambda: lock(writer, OperationType.SELECT))[0] == 0
    table = TableName("default", "t")
    assert syncs(lambda: metastore.allocate_write_ids((writer,), table))[0] == 1
    assert syncs(lambda: lock(writer, OperationType.INSERT))[0] == 1
    assert syncs(lambda: lock(writer, OperationType.INSERT))[0] == 0  # it stands there already
    assert syncs(lambda: lock(writer, OperationType.DELETE))[0] == 1
    assert syncs(lambda: metastore.commit_txn(writer))[0] == 1


def test_a_statement_that_writes_waits_for_the_disk_at_its_write_id_and_its_commit(
    path: Path, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    """What it is to write, whose files nobody may see if it dies, is recorded by the first."""
    with hiveacid.connect(None, f"sqlite:///{path}", warehouse=path.parent) as acid:
        recorded: list[list[str]] = []

        def look(file: int) -> None:
            del file
            rows = table_rows(acid.client.metastore, "TXN_COMPONENTS")
            recorded.append([row["TC_TABLE"] for row in rows])

        for name in "tu":
            acid.sql(f"create table {name} (id int) stored as orc {TRANSACTIONAL}")
        at_sync(look)
        acid.sql("insert into t values (1)")
        assert recorded == [["t"], []]
        recorded.clear()
        acid.sql("start transaction")
        acid.sql("insert into t values (2)")
        acid.sql("insert into u values (2)")
        assert recorded == [["t"], ["t", "u"]]
        acid.sql("insert into t values (3)")
        assert len(recorded) == 2
        acid.sql("commit")
        assert len(recorded) == 3


def test_of_transactions_of_a_stream_only_the_commit_waits_for_the_disk(
    path: Path, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    with hiveacid.connect(None, f"sqlite:///{path}", warehouse=path.parent) as acid:
        acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        acid.sql(
            "create table p (id int) partitioned by (k int) stored as orc"
            " tblproperties ('transactional'='true')"
        )
        acid.sql("alter table p add partition (k=1)")
        for table, partition in (("t", None), ("p", {"k": 1})):
            with acid.stream(table, partition=partition, transactions_per_batch=4) as stream:
                counts = []
                for number in range(3):
                    synced: list[int] = []
                    at_sync(synced.append)
                    stream.begin()
                    locked = len(synced)
                    stream.write({"id": number})
                    stream.commit()
                    counts.append((locked, len(synced) - locked))
                assert counts[1:] == [(0, 1), (0, 1)], table


def test_a_log_that_cannot_be_synced_is_an_error(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error", str(file))

    at_sync(fail)

    with pytest.raises(MetastoreError, match="may not be on disk") as caught:
        metastore.open_txns(1, user="u", host="h", txn_type=TxnType.COMPACTION)
    assert caught.value.context["outcome"] == "committed"


def test_a_commit_that_may_not_be_on_disk_is_none_that_is_known(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error", str(file))

    with hiveacid.connect(None, f"sqlite:///{path}", warehouse=path.parent) as acid:
        txn = acid.client.transactions.begin()
        with monkeypatch.context() as patched:
            patched.setattr(sqlite, "_sync", fail)
            with pytest.raises(CommitOutcomeUnknownError, match="power failure"):
                txn.commit()
