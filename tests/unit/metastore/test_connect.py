from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import delete, select

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.errors import InvalidInputError, MetastoreError, UnsupportedError
from hiveacid.metastore.api import own
from hiveacid.metastore.connect import SqlMetastore, _postgres, connect
from hiveacid.metastore.sql import sqlite
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.sql.postgres import PostgresDialect
from hiveacid.metastore.sql.schema import TXNS
from hiveacid.model.tables import Database


def _open(url: object) -> SqlMetastore:
    return connect(str(url), clock=SystemClock())


def test_a_new_file_becomes_a_metastore_with_hives_tables_and_durable_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_shipped = sqlite.SqliteDialect.__init__.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(sqlite.SqliteDialect, "__init__", as_shipped)
    path = tmp_path / "deep" / "er" / "metastore.db"
    _open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as raw:
        names = {row[0] for row in raw.execute("select name from sqlite_master where type='table'")}
        assert raw.execute("pragma journal_mode").fetchone() == ("wal",)
    assert {"TXNS", "TXN_COMPONENTS", "HIVE_LOCKS", "WRITE_SET", "DBS", "TBLS", "SDS"} <= names
    with _open(path) as metastore, metastore.database.read() as unit:
        assert unit.channel.send("pragma synchronous").rows() == [(1,)]  # see test_durability


def test_a_file_of_other_bytes_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "random"
    content = os.urandom(5000)
    path.write_bytes(content)
    with pytest.raises(MetastoreError, match="not an SQLite database"):
        _open(path)
    assert path.read_bytes() == content


def test_a_damaged_database_is_a_metastore_error(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(b"SQLite format 3\x00" + os.urandom(5000))
    with pytest.raises(MetastoreError, match="not an SQLite database"):
        _open(path)


def test_another_sqlite_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as raw:
        raw.execute("create table customers (id int)")
    with pytest.raises(MetastoreError, match=r"is not a metastore of hiveacid.*customers"):
        _open(path)
    with sqlite3.connect(path) as raw:
        assert raw.execute("select name from sqlite_master").fetchall() == [("customers",)]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metastore.db"
    _open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute('update "HIVEACID_VERSION" set "SCHEMA_VERSION" = 99')
    with pytest.raises(MetastoreError, match="schema version 99, newer than"):
        _open(path)


def test_a_directory_is_a_metastore_error(tmp_path: Path) -> None:
    with pytest.raises(MetastoreError, match="cannot be opened"):
        _open(tmp_path)


def test_a_kind_to_come_says_so() -> None:
    with pytest.raises(UnsupportedError, match="by its Thrift service"):
        _open("thrift://host:9083")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:secret@localhost:1/db",
        "postgres://u@localhost:1/db?password=secret",
    ],
)
def test_a_server_that_is_not_there_is_an_error_that_keeps_the_password_to_itself(url: str) -> None:
    with pytest.raises(MetastoreError, match="localhost:1/db failed") as caught:
        _open(url)
    assert "secret" not in str(caught.value) + str(caught.value.context)


def test_a_url_as_it_is_shown_has_no_password() -> None:
    options = MetastoreOptions()
    dialect, shown = _postgres("postgresql+psycopg://me:secret@host/m", options=options)
    assert shown == "postgresql+psycopg://me:***@host/m"
    dialect, shown = _postgres(shown, options=options)
    assert isinstance(dialect, PostgresDialect)
    assert (dialect._url.password, shown) == (None, "postgresql+psycopg://me@host/m")


def test_a_url_that_cannot_be_parsed_keeps_the_password_to_itself() -> None:
    with pytest.raises(InvalidInputError, match="URL of the metastore is wrong") as caught:
        _open("postgresql://u:secret@h:port/db")
    assert "secret" not in str(caught.value) + str(caught.value.context)


@pytest.mark.parametrize(
    "url",
    ["mysql://h/db", "sqlite://", "sqlite:///:memory:", "", "what?.db", "sqlite:///m.db?mode=ro"],
)
def test_other_urls_are_invalid(url: str) -> None:
    with pytest.raises(InvalidInputError):
        _open(url)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_the_process_connects_by_itself(metastore_url: str, tmp_path: Path) -> None:
    where = str(tmp_path / "wh")

    def in_the_fork() -> None:
        for text in ("show tables", "create database d"):
            with pytest.raises(MetastoreError, match="is a fork"):
                acid.sql(text)
        acid.close()
        with hiveacid.connect(None, metastore_url) as own:
            own.sql("create table u (id int)")

    with hiveacid.connect(None, metastore_url, warehouse=where) as acid:
        acid.sql("create table t (id int)")
        fork = get_context("fork").Process(target=in_the_fork)
        fork.start()
        fork.join()
        assert fork.exitcode == 0
        assert acid.sql("show tables").rows == (("t",), ("u",))


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_the_turn_to_write_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metastore.db"
    with _open(path) as metastore:
        stopped = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"{path}-turn"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with stopped:
            assert stopped.stdout is not None and stopped.stdin is not None
            assert stopped.stdout.readline() == "held\n"
            with monkeypatch.context() as patched:
                patched.setattr(sqlite, "_LOCK_WAIT_S", 0.3)
                for _ in range(2):
                    with pytest.raises(MetastoreError, match="another process keeps its turn"):
                        metastore.open_txns(1, user="u", host="h")
            with futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(metastore.open_txns, 1, user="u", host="h")
                with pytest.raises(futures.TimeoutError):
                    waiting.result(timeout=0.2)
                stopped.stdin.close()
                assert len(waiting.result(timeout=300)) == 1
        assert len(metastore.open_txns(1, user="u", host="h")) == 1
        with _open(path) as other:
            assert len(other.open_txns(1, user="u", host="h")) == 1


@pytest.mark.slow
def test_what_a_second_connection_of_a_process_does_keeps_the_first_ones_log(
    tmp_path: Path,
) -> None:
    """A process keeps its locks on the file: else another one, which thinks to be the last, takes
    the log away, and what is written from then on is seen by nobody.
    """
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    script = (
        "import sys; from hiveacid.clock import SystemClock\n"
        "from hiveacid.metastore.connect import connect\n"
        "with connect(sys.argv[1], clock=SystemClock()) as store:\n"
        "    print(store.open_txns(1, user='u', host='h')[0], len(store.show_txns()))\n"
    )

    def elsewhere() -> str:
        command = [sys.executable, "-c", script, url]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with _open(url) as metastore:
        _open(url).close()
        assert elsewhere() == "1 1"
        assert [one.id for one in metastore.show_txns()] == [1]
        assert metastore.open_txns(1, user="u", host="h") == (2,)
        assert elsewhere() == "3 3"


def test_ctrl_c_in_a_query_is_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the unit stays."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with _open(tmp_path / "metastore.db") as metastore:
        (txn,) = metastore.open_txns(1, user="u", host="h")
        with (
            monkeypatch.context() as patch,
            pytest.raises(KeyboardInterrupt),
            metastore.database.write() as unit,
        ):
            unit.ask(delete(TXNS))
            patch.setattr(unit.channel, "send", interrupted)
            unit.rows(select(TXNS))
        assert [one.id for one in metastore.show_txns()] == [txn]


def test_what_only_a_database_of_ours_can_do_is_refused_by_name_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _open(tmp_path / "metastore.db") as metastore:
        assert own(metastore).places() == ()
        monkeypatch.setattr(SqlMetastore, "own", None)
        with pytest.raises(UnsupportedError, match="is a service of Hive, which cannot do this"):
            own(metastore)


@pytest.mark.parametrize("what", ["file", "directory", "index of the log"])
def test_a_metastore_that_is_read_only_says_what_is_and_why_that_matters(what: str) -> None:
    root = Path(tempfile.mkdtemp())  # that of pytest is its user's alone
    path, made = root / "db/metastore.db", Database("d", str(root / "d"))
    try:
        _open(path).close()
        root.chmod(0o755)
        index = path.with_name(f"{path.name}-shm")
        if what == "index of the log":  # as one leaves it who has opened a file that was read-only
            index.touch()
        closed = {"file": path, "directory": path.parent}.get(what, index)
        for one in (path, path.parent):
            one.chmod(0o777)
        closed.chmod(0o555)
        with as_nobody(), pytest.raises(MetastoreError, match="readonly") as raised:
            _open(path).create_database(made)
        assert str(path) in str(raised.value)
        assert f"No right to write to {closed}. " in raised.value.__notes__[0]
    finally:
        path.parent.chmod(0o755)
        shutil.rmtree(root)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
