"""What a user can do wrong with transactions, and what a database can do to them: on each kind of
database, without Spark. Ctrl-C while Spark works is in ``tests/spark/test_interrupts.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.e2e.conftest import ACID
from tests.e2e.tables import rows_of
from tests.proxy import proxy

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    InvalidInputError,
    MetastoreError,
    NotFoundError,
    TransactionError,
)
from hiveacid.metastore.connect import connect as open_metastore
from hiveacid.metastore.sql import schema, sqlite
from hiveacid.model.transactions import TxnState
from hiveacid.session import Session

Outage = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    with _connected(metastore_url, tmp_path) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        session.sql(f"create table u (id int, v string) {ACID}")
        yield session


@pytest.fixture
def other(acid: Session, metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    del acid
    with _connected(metastore_url, tmp_path) as session:
        yield session


def _connected(url: str, where: Path, **settings: str) -> Session:
    named = {f"hiveacid.{name.replace('__', '.')}": value for name, value in settings.items()}
    return hiveacid.connect(None, url, warehouse=str(where / "wh"), settings=named)


def _all_but(acid: Session) -> tuple[object, ...]:
    """What nobody may leave behind."""
    store = acid.client.metastore
    opened = [one.id for one in store.show_txns() if one.state is TxnState.OPEN]
    return opened, list(store.show_locks())


# -------------------------------------------------------------------- wrong statements


def test_statements_where_they_do_not_belong(acid: Session) -> None:
    acid.sql("begin")
    acid.sql("insert into t values (1, 'a')")
    for statement, error, match in (
        ("start transaction", InvalidInputError, "do not nest"),
        ("rollback to nowhere", NotFoundError, "no savepoint nowhere"),
        ("release nowhere", NotFoundError, "no savepoint nowhere"),
        ("create table x (a int)", InvalidInputError, "CREATE TABLE is not allowed"),
        ("alter table t add columns (b int)", InvalidInputError, "it commits at once"),
        ("lock table t exclusive", InvalidInputError, "the session's"),
    ):
        with pytest.raises(error, match=match):
            acid.sql(statement)
    acid.sql("insert into u values (2, 'b')")
    acid.sql("commit")
    assert (rows_of(acid), rows_of(acid, "u")) == ([(1, "a")], [(2, "b")])
    assert _all_but(acid) == ([], [])


def test_a_finished_or_aborted_transaction_takes_no_statement(
    acid: Session, other: Session
) -> None:
    with acid.transaction() as done:
        done.sql("insert into t values (1, 'a')")
    gone = acid.transaction()
    gone.sql("insert into t values (2, 'b')")
    other.sql(f"abort transactions {gone.id}")
    for txn in (done, gone):
        for statement in ("insert into t values (3, 'c')", "savepoint a", "commit"):
            with pytest.raises(TransactionError):
                txn.sql(statement)
    assert rows_of(other) == [(1, "a")]
    assert _all_but(other) == ([], [])


def test_more_statements_than_there_are_ids(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        txn._unit.txn.take_statement_ids(acid.table("t").name, 4095)
        with pytest.raises(InvalidInputError, match="has used 4096 of 4096"):
            txn.sql("insert into t values (2, 'b')")
        txn.sql("insert into u values (3, 'c')")
    assert (rows_of(acid), rows_of(acid, "u")) == ([(1, "a")], [(3, "c")])


# -------------------------------------------------------------------- time


@pytest.mark.timing
def test_a_commit_after_the_heartbeat_was_lost(
    acid: Session, other: Session, metastore_url: str, tmp_path: Path
) -> None:
    with _connected(metastore_url, tmp_path, txn__timeout_s="0.4") as sleepy:
        txn = sleepy.transaction()
        txn.sql("insert into t values (1, 'a')")
        sleepy.client.transactions.heartbeat.stop()
        SystemClock().sleep_s(0.6)
        with _connected(metastore_url, tmp_path, txn__timeout_s="0.4") as third:
            assert third.client.metastore.perform_timeouts() == (txn.id,)
        with pytest.raises(TransactionError, match=r"abort|not open"):
            txn.commit()
        assert rows_of(other) == []
        sleepy.sql("insert into t values (2, 'b')")
    assert rows_of(acid) == [(2, "b")]
    assert _all_but(acid) == ([], [])


class _HourAhead(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


def test_a_client_whose_clock_is_an_hour_ahead(acid: Session, metastore_url: str) -> None:
    with open_metastore(metastore_url, clock=_HourAhead()) as ahead:
        txn = acid.transaction()
        txn.sql("insert into t values (1, 'a')")
        aborted = ahead.perform_timeouts()
        if metastore_url.startswith("sqlite"):
            # One machine has one clock: it jumped, and everybody looks dead.
            assert aborted == (txn.id,)
            with pytest.raises(TransactionError):
                txn.commit()
            assert rows_of(acid) == []
        else:
            assert aborted == ()  # the time is the server's
            txn.commit()
            assert rows_of(acid) == [(1, "a")]
    assert _all_but(acid) == ([], [])


# -------------------------------------------------------------------- the database


@pytest.fixture
def breakable(
    metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Session, Outage]]:
    """A session, and what takes its database away for the length of a block."""
    if metastore_url.startswith("sqlite"):
        monkeypatch.setattr(sqlite, "_LOCK_WAIT_S", 0.2)
        path = metastore_url.removeprefix("sqlite:///")

        @contextmanager
        def busy() -> Iterator[None]:
            holder = sqlite3.connect(path, isolation_level=None)
            holder.execute("begin immediate")
            yield
            holder.rollback()
            holder.close()

        with _connected(metastore_url, tmp_path) as session:
            yield session, busy
        return
    with proxy(metastore_url) as way:

        @contextmanager
        def away() -> Iterator[None]:
            way.refuses = True
            way.cut_all()
            yield
            way.refuses = False

        with _connected(way.url, tmp_path, commit__retries="1") as session:
            yield session, away


def test_the_database_is_away_at_the_beginning(breakable: tuple[Session, Outage]) -> None:
    acid, away = breakable
    acid.sql(f"create table t (id int, v string) {ACID}")
    with away():
        with pytest.raises(MetastoreError):
            acid.sql("insert into t values (1, 'a')")
        txn = acid.transaction()
        with pytest.raises(MetastoreError):
            txn.sql("insert into t values (1, 'a')")
    txn.sql("insert into t values (2, 'b')")
    txn.commit()
    assert rows_of(acid) == [(2, "b")]


def test_the_database_is_away_in_the_middle(breakable: tuple[Session, Outage]) -> None:
    acid, away = breakable
    acid.sql(f"create table t (id int, v string) {ACID}")
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        with away(), pytest.raises(MetastoreError):
            txn.sql("insert overwrite table t values (9, 'z')")
        txn.sql("insert into t values (2, 'b')")
    assert rows_of(acid) == [(1, "a"), (2, "b")]
    assert _all_but(acid) == ([], [])


def test_the_database_is_away_at_the_commit(breakable: tuple[Session, Outage]) -> None:
    acid, away = breakable
    acid.sql(f"create table t (id int, v string) {ACID}")
    txn = acid.transaction()
    txn.sql("insert into t values (1, 'a')")
    with away(), pytest.raises((MetastoreError, CommitOutcomeUnknownError)):
        txn.commit()
    assert txn.id is not None
    info = acid.client.metastore.txn_info(txn.id)  # type: ignore[arg-type]
    assert info is not None and info.state is not TxnState.COMMITTED
    assert rows_of(acid) == []
    with suppress(AcidError):
        txn.rollback()
    acid.client.metastore.abort_txns([info.id])
    acid.sql("insert into t values (2, 'b')")
    assert rows_of(acid) == [(2, "b")]
    assert _all_but(acid) == ([], [])


def test_a_newer_schema_and_one_of_hives_own_are_refused(
    metastore_url: str, tmp_path: Path
) -> None:
    _connected(metastore_url, tmp_path).close()
    engine = create_engine(metastore_url)
    version = schema.HIVEACID_VERSION
    with engine.begin() as connection:
        connection.execute(version.update().values(SCHEMA_VERSION=schema.SCHEMA_VERSION + 1))
    with pytest.raises(MetastoreError, match="newer than the version") as caught:
        _connected(metastore_url, tmp_path)
    assert caught.value.__notes__ == ["Upgrade hiveacid."]
    with (
        engine.begin() as connection
    ):  # as schematool makes it: Hive's tables and no version of ours
        connection.execute(text(f'drop table "{version.name}"'))
    engine.dispose()
    with pytest.raises(MetastoreError, match="is not a metastore of hiveacid: it holds other"):
        _connected(metastore_url, tmp_path)
