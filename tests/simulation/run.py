"""``make sim SEED=n RUNS=m``: histories from a seed on; those that fail are printed."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.simulation.bank import History, new_metastore

from hiveacid.testing.clock import ManualClock


def failure_of(seed: int, template: Path) -> str | None:
    """The trace and the error of a seed whose history breaks an invariant."""
    logging.disable(logging.WARNING)  # faults are many here
    path = template.with_name(f"{seed}.db")
    history = History(seed, path, template=template)
    try:
        history.run()
    except Exception as error:
        lines = [*history.trace, f"seed {seed}: {type(error).__name__}: {error}"]
        return "\n".join([*lines, f"again: make sim SEED={seed} RUNS=1"])
    finally:
        for file in template.parent.glob(f"{seed}.db*"):
            file.unlink()
    return None


def main() -> int:
    """0 where all invariants held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    started = time.monotonic()
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    with tempfile.TemporaryDirectory() as directory, ProcessPoolExecutor(chosen.jobs) as pool:
        template = Path(directory) / "template.db"
        new_metastore(template, ManualClock()).close()
        found = pool.map(partial(failure_of, template=template), seeds, chunksize=4)
        failures = [one for one in found if one is not None]
    for one in failures:
        print(one)
    held = chosen.runs - len(failures)
    print(f"{held} of {chosen.runs} histories held, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
