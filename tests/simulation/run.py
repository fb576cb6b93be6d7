"""``make sim SEED=n RUNS=m``: histories from a seed on; those that fail are printed."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.bank import VARIANTS, History, make_tables
from tests.simulation.world import World, be_deterministic, emptied, scratch

_TRACE_LINES = 400


@dataclass
class Place:
    """Where the histories of one process happen, one after the other, from copies of templates."""

    directory: Path

    def history(self, seed: int) -> History:
        """The history of a seed, about to begin."""
        variant = VARIANTS[seed % len(VARIANTS)]
        template = self.directory / f"template-{variant}"
        root = self.directory / "history"
        if not template.exists():
            self._make(variant, emptied(root))
            shutil.copytree(root, template)
        shutil.rmtree(root)
        shutil.copytree(template, root)
        return History(seed, root, url=_url(root))

    def _make(self, variant: str, root: Path) -> None:
        world = World(0, root, url=_url(root))
        with world.alive():
            make_tables(world.healthy.session, world.warehouse, variant)


def _url(root: Path) -> str:
    return f"sqlite:///{root}/metastore.db"


@contextmanager
def place() -> Iterator[Place]:
    """A place for as long as the block lasts."""
    be_deterministic()
    logging.disable(logging.WARNING)  # faults are many here
    directory = scratch()
    try:
        yield Place(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        logging.disable(logging.NOTSET)


def outcomes_of(seeds: range) -> list[tuple[int, str, bool]]:
    """For each seed the digest of its history; where it breaks an invariant (False) the end of the
    trace, and the error.
    """
    found = []
    with place() as here:
        for seed in seeds:
            history = here.history(seed)
            try:
                found.append((seed, history.run(), True))
            except BaseException as error:
                lines = history.trace[-_TRACE_LINES:]
                lines.append(f"seed {seed}: {type(error).__name__}: {error}")
                lines.append(f"again: make sim SEED={seed} RUNS=1")
                found.append((seed, "\n".join(lines), False))
    return found


def main() -> int:
    """0 where all invariants held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--digests", action="store_true", help="one line for each history")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        return subprocess.call(
            [sys.executable, "-m", __spec__.name, *sys.argv[1:]], env=environment
        )
    started = time.monotonic()
    end = chosen.seed + chosen.runs
    shares = [range(chosen.seed + job, end, chosen.jobs) for job in range(chosen.jobs)]
    with ProcessPoolExecutor(chosen.jobs) as pool:
        outcomes = [one for share in pool.map(outcomes_of, shares) for one in share]
    for _, text, held in sorted(outcomes):
        if chosen.digests or not held:
            print(text)
    held = sum(held for _, _, held in outcomes)
    print(f"{held} of {chosen.runs} histories held, {time.monotonic() - started:.0f} s")
    return 0 if held == chosen.runs else 1


if __name__ == "__main__":
    sys.exit(main())
