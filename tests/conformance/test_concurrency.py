"""Several processes and threads on one metastore at once, with the machine's clock."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance import allocating
from tests.forked import exit_statuses
from tests.metastores import table_rows
from tests.postgres import PostgresServer

from hiveacid.client import Client, open_client
from hiveacid.clock import SystemClock
from hiveacid.errors import ConflictError
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.transactions import TxnState
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite, WriteKind, alter_table

NAME = TableName("default", "t")


@pytest.fixture
def url(metastore_url: str) -> str:
    return metastore_url


@pytest.fixture
def client(url: str, tmp_path: Path) -> Iterator[Client]:
    settings = Settings(txn_timeout_s=300, lock_timeout_s=300, lock_poll_max_s=0.2)
    opened = open_client(url, warehouse=str(tmp_path / "warehouse"), settings=settings)
    yield opened
    opened.close()


@pytest.fixture
def table(client: Client) -> Table:
    made = Table(
        NAME,
        (Column("a", parse_type("int")),),
        f"{client.warehouse}/{NAME.table}",
        properties={"transactional": "true"},
    )
    client.metastore.create_table(made)
    return made


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place where there are no tables yet."""
    if request.param == "sqlite":
        return str(tmp_path / "new.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.empty()


def test_four_processes_that_make_a_new_metastore_get_different_write_ids(
    new_url: str, tmp_path: Path
) -> None:
    url = new_url
    found = [tmp_path / f"found-{number}" for number in range(4)]
    assert exit_statuses(allocating.main, *((url, path) for path in found)) == [0] * 4
    given = [[int(line) for line in path.read_text().split()] for path in found]
    assert all(ids == sorted(ids) for ids in given)
    assert sorted(one for ids in given for one in ids) == list(range(1, 101))
    with connect(url, clock=SystemClock()) as metastore:
        left = metastore.get_open_txns()
        assert left.open == left.aborted == ()
        (valid,) = metastore.valid_write_ids([NAME])
        assert (valid.hwm, valid.exceptions) == (100, ())


_DIE = """
    import os, signal, sys
    from hiveacid.model.tables import TableName
    from hiveacid.client import open_client
    from hiveacid.settings import Settings
    from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
    client = open_client(sys.argv[1], warehouse=sys.argv[2], settings=Settings(txn_timeout_s=2))
    table = client.metastore.get_table(TableName("default", "t"))
    txn = client.transactions.begin()
    txn.lock(Footprint(writes=(TableWrite(table, WriteKind.OVERWRITE),)))
    print(txn.id, txn.write_id(table.name), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.timing
def test_the_locks_and_writes_of_a_killed_process_are_given_up_after_the_time_out(
    table: Table, url: str, tmp_path: Path
) -> None:
    settings = Settings(txn_timeout_s=2, lock_timeout_s=60, lock_poll_max_s=0.2)
    client = open_client(url, warehouse=str(tmp_path / "warehouse"), settings=settings)
    process = _start(_DIE, url, client.warehouse)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == -9, errors
    dead, write_id = (int(one) for one in output.split())
    with client.transactions.begin() as txn:
        txn.lock(Footprint(writes=(TableWrite(table, WriteKind.INSERT),)))
        assert txn.write_id(NAME) == write_id + 1
        txn.commit()
    with client.transactions.begin(read_only=True) as reader:
        valid = reader.valid_write_ids(table)
    assert (valid.is_aborted(write_id), valid.is_valid(write_id + 1)) == (True, True)
    assert [(one.id, one.state) for one in client.metastore.show_txns()] == [
        (dead, TxnState.ABORTED)
    ]
    assert client.metastore.show_locks() == ()
    client.close()


def test_of_clients_that_do_the_housekeeping_at_once_one_does(client: Client) -> None:
    start = threading.Barrier(4)

    def run() -> bool:
        start.wait(timeout=300)
        return client.metastore.run_housekeeping(interval_s=1000)

    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            ran = [one.result(timeout=300) for one in [pool.submit(run) for _ in range(4)]]
        assert sum(ran) <= 1
    assert isinstance(client.metastore, SqlMetastore)
    rows = table_rows(client.metastore, "AUX_TABLE")
    keys = [row["MT_KEY1"] for row in rows]
    assert "HouseKeeper" in keys
    assert len(set(keys)) == len(keys)


def test_concurrent_increments_lose_nothing(client: Client, table: Table) -> None:
    """Each transaction reads the newest value it sees and writes one more under its write id."""
    values = {0: 0}
    update = Footprint(writes=(TableWrite(table, WriteKind.UPDATE),))

    def increment() -> None:
        won = False
        while not won:
            with suppress(ConflictError), client.transactions.begin() as txn:
                txn.lock(update)
                valid = txn.valid_write_ids(table)
                newest = max(one for one in sorted(values) if valid.is_valid(one))
                values[txn.write_id(NAME)] = values[newest] + 1
                txn.commit()
                won = True

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(increment) for _ in range(40)]:
            done.result(timeout=300)
    with client.transactions.begin(read_only=True) as reader:
        valid = reader.valid_write_ids(table)
    assert values[max(one for one in values if valid.is_valid(one))] == 40


def test_a_writer_is_not_starved_by_readers(client: Client, table: Table) -> None:
    """Readers that come after a waiting DROP wait behind it; all are served in the end."""
    first = client.transactions.begin(read_only=True)
    first.lock(Footprint(reads=(TableRead(table),)))
    served: list[str] = []

    def take(name: str, footprint: Footprint) -> None:
        with client.transactions.begin() as txn:
            txn.lock(footprint)
            served.append(name)
            txn.commit()

    def waiting() -> int:
        return sum(one.acquired_at_ms is None for one in client.metastore.show_locks())

    threads = []
    clock = SystemClock()
    for n, footprint in enumerate(
        [Footprint(definitions=alter_table(NAME)), Footprint(reads=(TableRead(table),))], start=1
    ):
        thread = threading.Thread(target=take, args=(f"{n}", footprint))
        thread.start()
        threads.append(thread)
        while waiting() < n:
            clock.sleep_s(0.01)
    first.close()
    for thread in threads:
        thread.join(timeout=300)
    assert served == ["1", "2"]
