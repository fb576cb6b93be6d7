"""One run of the peers' workloads, in the environment that ``benchmarks.peers`` makes for it."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import peer_data
from benchmarks.peer_adapter import HiveAcid
from benchmarks.peer_systems import EXTENSIONS, GROUPS, PEERS, System
from benchmarks.peer_workloads import WORKLOADS, Bench, Options, brief

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL: tuple[type[System], ...] = (HiveAcid, *PEERS)
SYSTEMS: dict[str, type[System]] = {system.name: system for system in _ALL}
QUIET = {"insert", "update"}
"""Metrics of which there are hundreds."""


class Samples:
    """All samples by workload, system and metric; the file is whole after each workload."""

    def __init__(self, out: Path, scale: float) -> None:
        self._out, self._scale = out, scale
        self._values: dict[tuple[str, str, str], list[float | str]] = {}

    def record(self, workload: str, system: str, metric: str, value: float | str) -> None:
        """Keep one, and print it."""
        self._values.setdefault((workload, system, metric), []).append(value)
        if metric.removesuffix("_s").removesuffix("_cpu") not in QUIET:
            shown = value if isinstance(value, str) else f"{value:.3f}"
            at = time.strftime("%H:%M:%S")
            print(f"{at} {workload} {system:12s} {metric} {shown}", flush=True)

    def save(self) -> None:
        """Write what there is."""
        results = [
            {
                "scale": self._scale,
                "workload": workload,
                "system": system,
                "metric": metric,
                "value": _middle(values),
                "samples": values,
            }
            for (workload, system, metric), values in self._values.items()
        ]
        self._out.write_text(json.dumps({"results": results}, indent=1))


def _middle(values: list[float | str]) -> float | str:
    """The median; of texts the last."""
    numbers = [value for value in values if not isinstance(value, str)]
    return statistics.median(numbers) if numbers else values[-1]


def main() -> None:
    """Run; errors of single systems are samples."""
    given = _arguments()
    data, work = Path(given.data), Path(given.data) / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = peer_data.make(given.scale, data)
    chosen = [SYSTEMS[name] for name in _names(given.systems)]
    spark = _session(chosen, work, Path(given.jars), given.conf)
    samples = Samples(Path(given.out), given.scale)
    options = Options(rounds=given.rounds, inserts=given.inserts, updates=given.updates)
    systems = [system(spark, work / "tables") for system in chosen]
    bench = Bench(spark, systems, source, samples.record, options)
    for name in given.workloads.split(","):
        try:
            WORKLOADS[name](bench)
        except Exception as error:  # the other workloads go on
            samples.record(name, "-", "workload_error", brief(error))
        samples.save()
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", required=True)
    parser.add_argument("--workloads", required=True)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=3, help="of reads (3)")
    parser.add_argument("--inserts", type=int, default=200, help="of B8 (200)")
    parser.add_argument("--updates", type=int, default=50, help="of B8 (50)")
    parser.add_argument("--conf", action="append", default=[], help="NAME=VALUE for Spark")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = [name for word in text.split(",") for name in GROUPS.get(word, (word,))]
    unknown = sorted(set(names) - set(SYSTEMS))
    if unknown:
        raise SystemExit(f"bench-peers: there is no {unknown[0]}; there are {', '.join(SYSTEMS)}")
    return list(dict.fromkeys(names))


def _session(systems: list[type[System]], work: Path, jars: Path, conf: list[str]) -> SparkSession:
    from pyspark.sql import SparkSession

    settings: dict[str, Any] = {
        "spark.driver.memory": "8g",
        "spark.driver.extraClassPath": ":".join(map(str, sorted(jars.glob("*.jar")))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.orc.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work / "scratch"),
    }
    extensions: list[str] = []
    for system in systems:
        own = system.conf(work / "tables")
        extensions += [one for one in [own.pop(EXTENSIONS, "")] if one]
        settings |= own
    settings[EXTENSIONS] = ",".join(dict.fromkeys(extensions))
    settings |= dict(pair.split("=", 1) for pair in conf)
    builder = SparkSession.builder.master("local[2]").appName("peers")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    main()
