"""hiveacid against flat ORC and, where they are installed, its peers: ``make bench``.

All systems run in one session, round after round; figures are medians after a warm-up. The exit
code is 0 where all goals that could be measured are met and every result is right.

Where ``make bench-peers`` has made the peers' environment, the run takes place there (the PySpark
that they support), else in this one with ``hiveacid`` and ``orc`` alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hiveacid
from benchmarks import data, peers
from benchmarks.arrow import arrow
from benchmarks.goals import judged
from benchmarks.meter import OURS, Figures, Meter
from benchmarks.report import draw_bars, print_report
from benchmarks.systems import PEERS, SYSTEMS, start_spark
from benchmarks.workloads import WORKLOADS, Bench, brief

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[1]
_ALL: Final[dict[str, Callable[[Bench], None]]] = {**WORKLOADS, "arrow": arrow}


def main() -> int:
    """The command line."""
    options = _parser().parse_args()
    names = _chosen(options.systems.split(",") if options.systems else _there())
    if any(name in PEERS for name in names) and not peers.is_here():
        return peers.run("benchmarks.run")
    directory = Path(options.data).resolve()
    work = directory / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    made = data.make(scale=options.scale, directory=directory)
    systems = [SYSTEMS[name] for name in names]
    conf = dict(one.split("=", 1) for one in options.conf)
    spark = start_spark(systems, work, cores=options.cores, memory=options.driver_memory, conf=conf)
    figures = Figures(_about(options, spark))
    bench = Bench(
        spark=spark,
        systems=[system(spark, work / "tables") for system in systems],
        data=made,
        figures=figures,
        meter=Meter(spark),
        rounds=options.rounds,
        few=options.few,
    )
    out = Path(options.out).resolve()
    for name in options.only.split(",") if options.only else _ALL:
        try:
            _ALL[name](bench)
        except Exception as error:  # the other workloads go on
            figures.fail(f"{name}: {brief(error)}")
        figures.save(out)
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)
    changed = sum(made.rows(f"upsert_{n}") for n in range(1, data.UPSERTS + 1))
    verdicts = judged(figures, 1 + changed / made.rows("lineitem"))
    print_report(figures, verdicts)
    try:
        draw_bars(figures, out.with_suffix(".png"))
    except ImportError:
        print("no picture: matplotlib is not installed (pip install 'hiveacid[bench]')")
    return 1 if figures.failures or any(one.met is False for one in verdicts) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (1)")
    parser.add_argument("--only", default="", help=f"workloads: {','.join(_ALL)}")
    parser.add_argument("--systems", default="", help=f"of {','.join(SYSTEMS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--few", type=int, default=100, help="statements of single rows")
    parser.add_argument("--data", default=str(ROOT / "bench-data"), help="input and tables")
    parser.add_argument("--out", default=str(ROOT / "bench-data" / "bench.json"))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    return parser


def _there() -> list[str]:
    return [name for name in SYSTEMS if name not in PEERS or peers.is_installed()]


def _chosen(names: list[str]) -> list[str]:
    unknown = sorted(set(names) - set(SYSTEMS))
    if unknown or OURS not in names:
        raise SystemExit(f"bench: {OURS} and any of {', '.join(SYSTEMS)}, not {','.join(names)}")
    return names


def _about(options: argparse.Namespace, spark: SparkSession) -> dict[str, Any]:
    return {
        "scale": options.scale,
        "rounds": options.rounds,
        "cores": options.cores,
        "driver_memory": options.driver_memory,
        "spark": spark.version,
        "hiveacid": hiveacid.__version__,
        "load_average": os.getloadavg(),
    }


if __name__ == "__main__":
    raise SystemExit(main())
