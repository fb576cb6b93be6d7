"""``make soak``: writer processes that are killed at random, on both databases.

Each moves money between accounts; its changes are a file per write id, written before the commit,
as a delta is. At the end nothing is lost, nothing is there twice, and no lock outlives the
time-out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.postgres import postgres_server

from hiveacid.errors import AcidError, ConflictError
from hiveacid.model.bucket import RowId
from hiveacid.model.ids import WriteId
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.model.types import parse_type
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.runtime import Runtime, open_runtime
from hiveacid.settings import Settings
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind

NAME = TableName("default", "bank")
ACCOUNTS, BALANCE = 8, 1000
TIMEOUT_S = 5.0


def _open(url: str, directory: str) -> Runtime:
    settings = Settings(
        txn_timeout_s=TIMEOUT_S, housekeeping_interval_s=2, lock_timeout_s=60, lock_poll_max_s=0.2
    )
    return open_runtime(url, warehouse=directory, settings=settings)


def _write(directory: str, write_id: int, changes: dict[int, tuple[int, int]]) -> None:
    """Account -> (write id of the row it replaces, new balance); the file is there at once."""
    path = Path(directory) / f"{write_id}.json"
    staged = path.with_suffix(f".{os.getpid()}")
    staged.write_text(json.dumps(changes))
    staged.rename(path)


def _changes(directory: str, write_id: int) -> dict[int, tuple[int, int]]:
    path = Path(directory) / f"{write_id}.json"
    if not path.exists():
        return {}
    return {int(k): (v[0], v[1]) for k, v in json.loads(path.read_text()).items()}


def _balances(directory: str, valid: ValidWriteIdList) -> dict[int, tuple[int, int]]:
    """Account -> (write id of its row, balance)."""
    versions: dict[tuple[int, int], int] = {}
    replaced: set[tuple[int, int]] = set()
    for path in Path(directory).glob("*.json"):
        write_id = int(path.stem)
        if valid.is_valid(write_id):
            for account, (old, balance) in _changes(directory, write_id).items():
                assert (account, old) not in replaced, f"row {account} of {old} replaced twice"
                replaced.add((account, old))
                versions[account, write_id] = balance
    return {
        account: (write_id, balance)
        for (account, write_id), balance in versions.items()
        if (account, write_id) not in replaced
    }


def writer(url: str, directory: str, seed: int) -> None:
    """Transfer until killed; each commit is printed once it is known."""
    chance = random.Random(seed)
    runtime = _open(url, directory)
    table = runtime.metastore.get_table(NAME)
    while True:
        source, target = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 9)
        with suppress(ConflictError), runtime.transactions.begin() as txn:
            txn.lock(Footprint(writes=(TableWrite(table, WriteKind.UPDATE),)))
            have = _balances(directory, txn.valid_write_ids(table))
            mine = {
                source: (have[source][0], have[source][1] - amount),
                target: (have[target][0], have[target][1] + amount),
            }
            write_id = txn.write_id(NAME)
            _write(directory, write_id, mine)
            for operation in (OperationType.DELETE, OperationType.INSERT):
                txn.record_write(table, [None], operation)
            txn.commit(overlap=_overlap(directory, mine))
            print(write_id, flush=True)


def _overlap(
    directory: str, mine: dict[int, tuple[int, int]]
) -> Callable[[TableName, str | None, Sequence[WriteId]], Sequence[RowId]]:
    def rows(
        table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId]:
        del table, partition
        theirs = {
            (account, old)
            for one in winners
            for account, (old, _) in _changes(directory, one).items()
        }
        own = {(account, old) for account, (old, _) in mine.items()}
        return [RowId(old, 0, account) for account, old in sorted(own & theirs)]

    return rows


def soak(url: str, *, seconds: float, writers: int, seed: int) -> str:
    """Run and look at what is left; a line of figures."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        runtime = _open(url, directory)
        column = Column("a", parse_type("int"))
        runtime.metastore.create_table(
            Table(NAME, (column,), directory, properties={"transactional": "true"})
        )
        table = runtime.metastore.get_table(NAME)
        with runtime.transactions.begin() as txn:
            write_id = txn.write_id(NAME)
            _write(directory, write_id, dict.fromkeys(range(ACCOUNTS), (0, BALANCE)))
            txn.commit()
        outputs: list[Path] = []
        running: list[subprocess.Popen[bytes]] = []

        def start() -> subprocess.Popen[bytes]:
            outputs.append(Path(directory) / f"output{len(outputs)}")
            command = [sys.executable, "-m", "tests.soak.run", "--writer", url, directory]
            with outputs[-1].open("wb") as file:
                return subprocess.Popen([*command, str(chance.random())], stdout=file)

        running = [start() for _ in range(writers)]
        until, kills = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            time.sleep(chance.uniform(1, 3))
            at = chance.randrange(writers)
            code = running[at].poll()
            assert code is None, f"a writer ended with {code}"
            running[at].kill()
            running[at].wait()
            kills += 1
            running[at] = start()
        for one in running:
            one.send_signal(signal.SIGKILL)
            one.wait()
        time.sleep(TIMEOUT_S + 1)
        runtime.metastore.perform_timeouts()
        assert runtime.metastore.show_locks() == (), "a lock is left"
        assert runtime.metastore.get_open_txns().open == (), "a transaction is left"
        with runtime.transactions.begin(read_only=True) as reader:
            valid = reader.valid_write_ids(table)
        told = {int(line) for one in outputs for line in one.read_text().split()}
        assert told, "nobody committed anything"
        lost = [one for one in told if not valid.is_valid(one)]
        assert not lost, f"lost: {lost}"
        balances = _balances(directory, valid)
        total = sum(balance for _, balance in balances.values())
        assert total == ACCOUNTS * BALANCE, f"{balances} make {total}"
        runtime.close()
    return f"{len(told)} commits of {writers} writers, {kills} killed: nothing lost, nothing twice"


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["--writer"]:
        url, directory, seed = sys.argv[2:]
        with suppress(BrokenPipeError):
            writer(url, directory, hash(seed))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    amounts = {"seconds": chosen.seconds, "writers": chosen.writers, "seed": chosen.seed}
    try:
        with tempfile.TemporaryDirectory() as directory:
            print("sqlite:", soak(f"sqlite:///{directory}/metastore.db", **amounts), flush=True)
        with postgres_server() as server:
            print("postgres:", soak(server.metastore(), **amounts), flush=True)
    except (AssertionError, AcidError) as error:
        print(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
