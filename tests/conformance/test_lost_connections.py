"""Connections to PostgreSQL that are lost: before, in the middle of and after a commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from psycopg.errors import AdminShutdown
from sqlalchemy import Engine, create_engine, select, text
from tests.metastores import table_rows
from tests.postgres import PostgresServer
from tests.proxy import Cut, Proxy, proxy

import hiveacid
from hiveacid import read_arrow
from hiveacid.client import open_client
from hiveacid.clock import SystemClock
from hiveacid.errors import CommitOutcomeUnknownError, MetastoreError
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql import postgres as module
from hiveacid.metastore.sql.dialect import Answer
from hiveacid.metastore.sql.postgres import Pipelined
from hiveacid.metastore.sql.schema import TXNS
from hiveacid.model.tables import Database, TableName
from hiveacid.model.transactions import TxnState

NAME = TableName("default", "t")
COMMIT = "COMMIT\0"


@pytest.fixture
def way(postgres: PostgresServer) -> Iterator[Proxy]:
    with proxy(postgres.metastore()) as made:
        yield made


@pytest.fixture
def metastore(way: Proxy) -> Iterator[SqlMetastore]:
    with connect(way.url, clock=SystemClock()) as opened:
        yield opened


@pytest.mark.parametrize("when", Cut)
def test_a_commit_whose_answer_is_lost_takes_place_once(
    metastore: SqlMetastore, way: Proxy, when: Cut
) -> None:
    way.cut_once(COMMIT, when)
    (txn,) = metastore.open_txns(1, user="u", host="h")
    assert [one.id for one in metastore.show_txns()] == [txn]

    way.cut_once(COMMIT, when)
    assert metastore.allocate_write_ids([txn], NAME) == {txn: 1}
    assert len(table_rows(metastore, "TXN_TO_WRITE_ID")) == 1

    way.cut_once(COMMIT, when)
    assert metastore.create_database(Database("d", "/d"))

    way.cut_once(COMMIT, when)
    metastore.commit_txn(txn)
    info = metastore.txn_info(txn)
    assert info is not None
    assert info.state is TxnState.COMMITTED
    assert way.cuts == 4


def test_a_commit_answered_by_the_end_of_the_connection_takes_place_once(
    metastore: SqlMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_terminate_backend: the driver tells what the server said, and finds it gone later."""
    commit = Pipelined.commit

    def killed(channel: Pipelined) -> None:
        monkeypatch.setattr(Pipelined, "commit", commit)
        commit(channel)
        raise AdminShutdown("terminating connection due to administrator command")

    (txn,) = metastore.open_txns(1, user="u", host="h")
    monkeypatch.setattr(Pipelined, "commit", killed)
    assert metastore.allocate_write_ids([txn], NAME) == {txn: 1}
    assert len(table_rows(metastore, "TXN_TO_WRITE_ID")) == 1


def test_a_value_that_cannot_be_sent_is_not_sent_again(
    metastore: SqlMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver refuses it, and the connection is as good as before."""
    sent: list[str] = []
    send = Pipelined.send

    def counted(channel: Pipelined, sql: str, values: Any = ()) -> Answer:
        sent.append(sql)
        return send(channel, sql, values)

    monkeypatch.setattr(Pipelined, "send", counted)
    with pytest.raises(MetastoreError, match="NUL"):
        metastore.create_database(Database("a\0b", "file:/a"))
    assert len(sent) == len(set(sent)), sent


def test_a_unit_whose_server_process_is_killed_before_its_commit_is_run_again(
    metastore: SqlMetastore,
) -> None:
    with pytest.raises(MetastoreError) as caught, metastore.database.write() as unit:
        unit.ask(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert caught.value.context["transient"]


def test_a_connection_lost_in_the_middle_does_nothing_and_is_made_again(
    metastore: SqlMetastore, way: Proxy
) -> None:
    (txn,) = metastore.open_txns(1, user="u", host="h")
    way.cut_once("NEXT_WRITE_ID", Cut.AFTER)
    assert metastore.allocate_write_ids([txn], NAME) == {txn: 1}
    assert way.cuts == 1


def test_connections_lost_while_idle_are_made_again(metastore: SqlMetastore, way: Proxy) -> None:
    """One is enough to notice that all were."""
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(metastore.database.query()).ask(select(TXNS.c.TXN_ID))
    way.cut_all()
    assert len(metastore.open_txns(1, user="u", host="h")) == 1


@pytest.mark.parametrize("when", Cut)
def test_a_query_whose_answer_is_lost_is_asked_again(
    metastore: SqlMetastore, way: Proxy, when: Cut
) -> None:
    """SQLAlchemy, which runs some, has dropped the connection by then."""
    way.cut_once("HIVE_LOCKS", when)
    assert metastore.show_locks() == ()


def test_an_outcome_that_nobody_can_tell_is_not_guessed(
    metastore: SqlMetastore, way: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (txn,) = metastore.open_txns(1, user="u", host="h")
    monkeypatch.setattr(metastore.database.clock, "sleep_s", lambda _: None, raising=False)
    way.cut_once(COMMIT, Cut.AFTER)
    way.refuses = True
    with pytest.raises(MetastoreError, match="lost during a commit, which is unknown") as caught:
        metastore.commit_txn(txn)
    assert caught.value.context["outcome"] == "unknown"
    way.refuses = False
    info = metastore.txn_info(txn)
    assert info is not None
    assert info.state is TxnState.COMMITTED


def test_a_transaction_looks_its_outcome_up_when_the_server_is_back(
    way: Proxy, tmp_path: Path
) -> None:
    client = open_client(way.url, warehouse=str(tmp_path))
    with client.transactions.begin() as txn:
        txn.write_id(NAME)
        way.cut_once(COMMIT, Cut.AFTER)
        txn.commit()
    (valid,) = client.metastore.valid_write_ids([NAME])
    assert valid.is_valid(1)
    client.close()


_HOLD = 4711
_COMMITS_HANG = f"""
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared({_HOLD}); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER hang AFTER UPDATE OF "TXN_STATE" ON "TXNS" DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW."TXN_STATE" = 'c') EXECUTE FUNCTION hang()
"""
_HANGS = f"SELECT count(*) FROM pg_locks WHERE objid = {_HOLD} AND NOT granted"


def test_a_commit_that_hangs_in_the_server_is_not_taken_for_open(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a standby: its files stay, since it may come true later."""
    monkeypatch.setattr(module, "_SESSION", "SET lock_timeout = '50ms'; SET timezone = 'UTC'")
    url = postgres.metastore()
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    settings = {"hiveacid.compactor.auto": "off"}
    with (
        proxy(url) as way,
        server.connect() as holder,
        hiveacid.connect(None, way.url, warehouse=str(tmp_path), settings=settings) as acid,
    ):
        acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        holder.execute(text(_COMMITS_HANG))
        holder.execute(text(f"SELECT pg_advisory_lock({_HOLD})"))
        cutter = threading.Thread(target=_cut_what_hangs, args=(server, way))
        cutter.start()
        monkeypatch.setattr(SystemClock, "sleep_s", lambda *_: None)
        with pytest.raises(CommitOutcomeUnknownError):
            acid.table("t").write_arrow([{"id": 1}])
        cutter.join()
        holder.execute(text(f"SELECT pg_advisory_unlock({_HOLD})"))
        while holder.execute(text('SELECT 1 FROM "TXNS" WHERE "TXN_STATE" = \'o\'')).scalar():
            threading.Event().wait(0.01)
        assert read_arrow(acid.table("t")).read_all().to_pylist() == [{"id": 1}]
    server.dispose()


def _cut_what_hangs(server: Engine, way: Proxy) -> None:
    with server.connect() as looking:
        while not looking.execute(text(_HANGS)).scalar():
            threading.Event().wait(0.01)
    way.cut_all()
