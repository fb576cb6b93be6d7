"""``make soak``: writer processes that are killed at random, on both databases.

Half of them move money between accounts of real tables, with the statements and the ledger of the
simulation (``tests/simulation/bank.py``), half stream; on SQLite their sessions compact, too. At
the end nothing is lost, nothing is there twice, and no lock outlives the time-out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.process
import random
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.postgres import postgres_server
from tests.simulation.bank import (
    check,
    everything,
    ledger_of,
    make_tables,
)
from tests.soak.streamer import check_events, make_events, streamer, told_of
from tests.soak.writer import TIMEOUT_S, open_session, writer

from hiveacid.errors import AcidError
from hiveacid.session import Session

_IDLE_S = 120.0
"""Long enough for a start on a busy machine."""


def soak(url: str, *, seconds: float, writers: int, seed: int) -> str:
    """Run and look at what is left; a line of figures."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        with open_session(url, directory) as session:
            make_tables(session, directory, "plain")
            make_events(session)
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(
            ["tests.soak.streamer"]
        )  # each would take a second to load
        numbers = count()

        def start(at: int) -> multiprocessing.process.BaseProcess:
            target = streamer if at % 2 else writer
            process = processes.Process(target=target, args=(url, directory, next(numbers)))
            process.start()
            return process

        running = [start(at) for at in range(writers)]
        _wait_for_the_first(Path(directory))
        until, kills = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            time.sleep(chance.uniform(1, 3))
            at = chance.randrange(writers)
            code = running[at].exitcode
            errors = (Path(directory) / "errors").read_text()[-3000:]
            assert code is None, f"a writer ended with {code}: {errors}"
            running[at].kill()
            running[at].join()
            kills += 1
            running[at] = start(at)
        for one in running:
            one.kill()
            one.join()
        time.sleep(TIMEOUT_S + 1)
        told, streamed = told_of(Path(directory), "told"), told_of(Path(directory), "streamed")
        with open_session(url, directory) as session:
            _check_the_end(session, told)
            check_events(session, streamed)
    done = f"{len(told)} commits and {len(streamed)} of streams by {writers} writers"
    return f"{done}, {kills} killed: nothing lost, nothing twice"


def _wait_for_the_first(directory: Path) -> None:
    until = time.monotonic() + _IDLE_S
    while not (told_of(directory, "told") and told_of(directory, "streamed")):
        assert time.monotonic() < until, f"nobody committed anything in {_IDLE_S} s"
        time.sleep(0.2)


def _check_the_end(session: Session, told: set[int]) -> None:
    store = session.client.own
    store.perform_timeouts()
    assert store.show_locks() == (), "a lock is left"
    assert store.get_open_txns().open == (), "a transaction is left"
    with session.transaction() as txn:
        balances, ledger = everything(txn)
    check(balances, ledger)
    lost = sorted(told - set(ledger))
    assert not lost, f"lost: {lost}"
    assert ledger_of(session.table("ledger")) == ledger


def main() -> int:
    """The command line."""
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
