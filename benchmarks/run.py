"""hiveacid against flat ORC read and written by Spark: ``python -m benchmarks.run``.

Both sides run in the same session, interleaved; figures are medians after a warm-up. Every result
is checked. The exit code is 0 where all limits are met, 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

import hiveacid
from benchmarks import compaction, concurrent, data, less, stages
from benchmarks.meter import OTHER, OURS, Meter, Series, WrongResultError
from benchmarks.sides import FlatOrc, HiveAcid
from benchmarks.workloads import STAGES, WORKLOADS, Unit, Workload
from hiveacid.spark.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[1]
_HEADINGS: Final = (
    "workload", "rows", "ours s", "other s", "ratio", "of CPU", "limit", "met", "jobs", "MiB",
)  # fmt: skip


def main() -> int:
    """The command line."""
    options = _parser().parse_args()
    chosen = [stage for stage in STAGES if not options.only or stage in options.only.split(",")]
    directory = Path(options.data).resolve()
    made = data.make(scale=options.scale, directory=directory / f"sf{options.scale:g}")
    work = directory / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    spark = _session(options, work)
    console = Console(soft_wrap=True)
    meter = Meter(spark, told=lambda line: console.print(line, markup=False, highlight=False))
    failed = ""
    try:
        with hiveacid.connect(
            spark,
            f"sqlite:///{work}/metastore.db",
            warehouse=str(work / "warehouse"),
            settings={"hiveacid.compactor.auto": "off"},
        ) as acid:
            bench = stages.Bench(
                spark=spark,
                ours=HiveAcid(acid),
                flat=FlatOrc(spark, work / "flat"),
                made=made,
                meter=meter,
                rounds=options.rounds,
                inserts=options.inserts,
            )
            _run(bench, chosen)
    except WrongResultError as error:
        failed = f"wrong result: {error}"
    finally:
        about = _about(options, spark)
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    missed = _print(console, meter.series, about)
    if options.json:
        _write_json(Path(options.json), about, meter.series, failed)
    if failed:
        print(failed, file=sys.stderr)
    return 1 if failed or missed else 0


def _run(bench: stages.Bench, chosen: list[str]) -> None:
    bench.spark.read.parquet(bench.made.keys).createOrReplaceTempView("deleted_keys")
    bench.spark.read.parquet(bench.made.changes).createOrReplaceTempView("changes")
    if chosen != ["insert"]:
        stages.warm_up(bench)
    for stage in chosen:
        runs = stages.RUN | less.RUN | concurrent.RUN | compaction.RUN
        runs[stage](bench)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (1)")
    parser.add_argument("--only", default="", help=f"stages: {','.join(STAGES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inserts", type=int, default=200)
    parser.add_argument("--json", default="", help="write all samples here")
    parser.add_argument("--data", default=str(ROOT / "bench-data"), help="input and tables")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    return parser


def _session(options: argparse.Namespace, work: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.master": f"local[{options.cores}]",
        "spark.driver.memory": options.driver_memory,
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(work / "tmp"),
        "spark.sql.warehouse.dir": str(work / "spark-warehouse"),
        **dict(one.split("=", 1) for one in options.conf),
    }
    return local_session("hiveacid benchmark", conf=conf)


def _about(options: argparse.Namespace, spark: SparkSession) -> dict[str, Any]:
    return {
        "scale": options.scale,
        "rounds": options.rounds,
        "inserts": options.inserts,
        "cores": options.cores,
        "driver_memory": options.driver_memory,
        "spark": spark.version,
        "hiveacid": hiveacid.__version__,
        "load_average": os.getloadavg(),
    }


def _print(console: Console, series: dict[tuple[str, str], Series], about: dict[str, Any]) -> int:
    """The table; how many limits were missed."""
    table = Table(
        title=f"TPC-H SF {about['scale']:g} lineitem, PySpark {about['spark']},"
        f" local[{about['cores']}], driver {about['driver_memory']}, medians of {about['rounds']}",
        caption="s: wall seconds (CPU seconds of driver, JVM and Python workers); jobs: Spark jobs"
        " of our statement; MiB: peak resident memory of all processes while ours ran",
    )
    for name in _HEADINGS:
        table.add_column(name, justify="left" if name == "workload" else "right")
    missed = 0
    for workload in WORKLOADS:
        ours = series.get((workload.name, OURS))
        if ours is None:
            continue
        other = series.get((workload.name, OTHER))
        _, met = _verdict(workload, ours, other)
        missed += not met
        jobs = str(ours.highest("jobs"))
        limit = f"{workload.at_most:g} {workload.unit.value}"
        if workload.jobs_max is not None:
            limit += f", {workload.jobs_max} jobs"
        table.add_row(
            workload.title + (f" / {workload.other}" if workload.other else ""),
            f"{ours.rows:,}",
            _seconds(ours),
            _seconds(other) if other else "",
            *([f"{one:.2f}" for one in _ratios(workload, ours, other)] if other else ("", "")),
            limit,
            "yes" if met else "NO",
            jobs,
            f"{ours.highest('peak_bytes') >> 20:,}",
        )
    if not console.is_terminal:
        console = Console(width=Console(width=10_000).measure(table).maximum)
    console.print(table)
    return missed


def _verdict(workload: Workload, ours: Series, other: Series | None) -> tuple[float, bool]:
    """The figure that the limit limits, and whether it is kept."""
    figure = ours.median("wall_s")
    if workload.unit is Unit.MIB:
        figure = ours.highest("peak_bytes") / (1 << 20)
    if workload.unit in (Unit.RATIO, Unit.PER_ROW):
        if other is None:
            return float("nan"), False
        figure = max(_ratios(workload, ours, other))
    jobs_kept = workload.jobs_max is None or ours.highest("jobs") <= workload.jobs_max
    return figure, figure <= workload.at_most and jobs_kept


def _ratios(workload: Workload, ours: Series, other: Series) -> tuple[float, float]:
    """Ours by the other's: wall, CPU."""
    rows = other.rows / ours.rows if workload.unit is Unit.PER_ROW else 1.0
    wall = ours.median("wall_s") / other.median("wall_s")
    return wall * rows, ours.median("cpu_s") / max(other.median("cpu_s"), 0.01) * rows


def _seconds(series: Series) -> str:
    return f"{series.median('wall_s'):.3f} ({series.median('cpu_s'):.2f})"


def _write_json(
    path: Path, about: dict[str, Any], series: dict[tuple[str, str], Series], failed: str
) -> None:
    workloads = []
    for workload in WORKLOADS:
        ours = series.get((workload.name, OURS))
        if ours is None:
            continue
        other = series.get((workload.name, OTHER))
        figure, met = _verdict(workload, ours, other)
        sides = {OURS: ours.to_json()} | ({OTHER: other.to_json()} if other else {})
        workloads.append(
            {
                "workload": workload.name,
                "other_side": workload.other,
                "figure": figure,
                "at_most": workload.at_most,
                "unit": workload.unit.value,
                "met": met,
                **sides,
            }
        )
    text = json.dumps({**about, "error": failed, "workloads": workloads}, indent=1)
    path.write_text(text + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
