"""``make sim SEED=n RUNS=m``: histories from a seed on; those that fail are printed. Each fifth
seed has one of the past, too (``past.py``), each fourth one of definitions (``definitions.py``).
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.postgres import PostgresServer, postgres_server
from tests.simulation import definitions
from tests.simulation.bank import VARIANTS, History, make_tables
from tests.simulation.definitions import DefinitionHistory
from tests.simulation.past import PastHistory
from tests.simulation.world import World, emptied, keep_what_is_there, prepare_process, scratch

from hiveacid.session import Session

_TRACE_LINES = 400
_PAST_EVERY = 5
_DEFINITIONS_EVERY = 4
_AnyHistory = History | PastHistory | DefinitionHistory


class Place:
    """Where the histories of one process happen, one after the other, from copies of templates."""

    def __init__(self, directory: Path, server: PostgresServer | None = None) -> None:
        self._directory = directory
        self._server = server
        self._templates: dict[str, str] = {}
        self._url: str | None = None

    def history(self, seed: int) -> History:
        """The history of a seed, about to begin; the one before has to be over."""
        variant = VARIANTS[seed % len(VARIANTS)]
        root, url = self._prepared(variant, partial(make_tables, variant=variant))
        return History(seed, root, url=url)

    def definitions(self, seed: int) -> DefinitionHistory:
        """The history of a seed whose definitions change; every third q is insert-only."""
        only = seed % 3 == 0
        make = partial(definitions.make_tables, insert_only=only)
        root, url = self._prepared(f"definitions {only}", make)
        return DefinitionHistory(seed, root, url=url)

    def _prepared(self, variant: str, make: Callable[[Session, str], None]) -> tuple[Path, str]:
        template = self._directory / f"template-{variant}"
        root = self._directory / "history"
        if variant not in self._templates:
            self._templates[variant] = self._make(make, emptied(root))
            shutil.copytree(root, template)
            keep_what_is_there()
        shutil.rmtree(root)
        shutil.copytree(template, root)
        return root, self._copied(self._templates[variant])

    def past(self, seed: int) -> PastHistory:
        """The history of a seed whose past is asked for."""
        root = emptied(self._directory / "past")
        server = self._server
        url = f"sqlite:///{root}/metastore.db" if server is None else server.metastore()
        return PastHistory(seed, root, url=url)

    def histories(self, seed: int) -> Iterator[_AnyHistory]:
        """Those of a seed, each about to begin."""
        yield self.history(seed)
        if seed % _PAST_EVERY == 0:
            yield self.past(seed)
        if seed % _DEFINITIONS_EVERY == 0:
            yield self.definitions(seed)

    def _make(self, make: Callable[[Session, str], None], root: Path) -> str:
        server = self._server
        url = f"sqlite:///{root}/metastore.db" if server is None else server.metastore()
        world = World(0, root, url=url)
        with world.alive():
            make(world.healthy.session, world.warehouse)
        return url

    def _copied(self, url: str) -> str:
        """SQLite's file is among those of the history."""
        if self._server is None:
            return url
        if self._url is not None:
            self._server.drop(self._url)
        self._url = self._server.copy(url)
        return self._url


@contextmanager
def place(server: PostgresServer | None = None) -> Iterator[Place]:
    """A place for as long as the block lasts."""
    prepare_process()
    logging.disable(logging.WARNING)  # faults are many here
    directory = scratch()
    try:
        yield Place(directory, server)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        logging.disable(logging.NOTSET)


def outcomes_of(seeds: range, *, database: str) -> list[tuple[int, str, bool]]:
    """For each seed the digest of its history; where it breaks an invariant (False) the end of the
    trace, and the error.
    """
    found = []
    with ExitStack() as open_ones:
        server = open_ones.enter_context(postgres_server()) if database == "postgres" else None
        here = open_ones.enter_context(place(server))
        _stay_on_a_processor(seeds.start)
        for seed in seeds:
            found += [_outcome(one, seed, database) for one in here.histories(seed)]
    return found


def _outcome(history: _AnyHistory, seed: int, database: str) -> tuple[int, str, bool]:
    try:
        return seed, history.run(), True
    except BaseException as error:
        lines = history.trace[-_TRACE_LINES:]
        lines.append(f"seed {seed}: {type(error).__name__}: {error}")
        again = "" if database == "sqlite" else f" DATABASE={database}"
        lines.append(f"again: make sim SEED={seed} RUNS=1{again}")
        return seed, "\n".join(lines), False


def _stay_on_a_processor(number: int) -> None:
    """Actors are threads of which one runs at a time: to wake the next one on another processor
    takes a sixth of the time.
    """
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[number % len(processors)]})


def main() -> int:
    """0 where all invariants held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--digests", action="store_true", help="one line for each history")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        # An actor is a thread, and memory of its own for each costs more than it gains.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1"}
        return subprocess.call(
            [sys.executable, "-m", __spec__.name, *sys.argv[1:]], env=environment
        )
    started = time.monotonic()
    end = chosen.seed + chosen.runs
    shares = [range(chosen.seed + job, end, chosen.jobs) for job in range(chosen.jobs)]
    run = partial(outcomes_of, database=chosen.database)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        outcomes = [one for share in pool.map(run, shares) for one in share]
    for _, text, held in sorted(outcomes):
        if chosen.digests or not held:
            print(text)
    count = sum(held for _, _, held in outcomes)
    seconds = time.monotonic() - started
    print(f"{chosen.database}: {count} of {len(outcomes)} histories held, {seconds:.0f} s")
    return 0 if count == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
