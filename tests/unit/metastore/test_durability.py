"""What an SQLite metastore has acknowledged is on disk."""

from __future__ import annotations

import inspect
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.errors import CommitOutcomeUnknownError, MetastoreError
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql import sqlite

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
    metastore.open_txns(1, user="u", host="h")

    assert seen == [(True, 1)]


def test_reading_syncs_nothing(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    def fail(file: int) -> None:
        raise AssertionError(file)

    at_sync(fail)

    assert metastore.show_txns() == ()


def test_a_log_that_cannot_be_synced_is_an_error(
    metastore: SqlMetastore, at_sync: Callable[[Callable[[int], None]], None]
) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error", str(file))

    at_sync(fail)

    with pytest.raises(MetastoreError, match="may not be on disk") as caught:
        metastore.open_txns(1, user="u", host="h")
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
