"""hiveacid beside Delta Lake, Iceberg and plain files in one run.

The run has a virtual environment of its own (the PySpark that the peers support) and their jars
from Maven (``pom.xml``). Which figures have a limit is in ``LIMITS``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
VENV: Final = ROOT / ".venv-peers"
DATA: Final = ROOT / "bench-data" / "peers"
JARS: Final = DATA / "jars"
POM: Final = ROOT / "benchmarks" / "pom.xml"
PACKAGES: Final = ("pyspark==4.1.4", "pandas>=2,<3", "duckdb", "tpchgen-cli")
JAR_GROUPS: Final = "io.delta,io.unitycatalog,org.apache.iceberg"
OURS: Final = "hiveacid"


@dataclass(frozen=True, slots=True)
class Limit:
    """``metric`` of ours is at most ``factor`` times the one of ``system``; 0 is no limit."""

    workload: str
    metric: str
    title: str
    system: str
    factor: float


LIMITS: Final = (
    Limit("B3", "merge_s", "MERGE of 500k changes, 70 % update", "delta_dv", 1.0),
    Limit("B3", "merge_s", "MERGE of 500k changes, 70 % update", "iceberg_v3", 1.3),
    Limit("B5", "delete_s", "DELETE of 100k scattered keys", "delta_dv", 1.0),
    Limit("B5", "delete_s", "DELETE of 100k scattered keys", "iceberg_v3", 1.3),
    Limit("B8", "insert_s", "INSERT VALUES of a row, p50", "delta_dv", 0.0),
    Limit("B8", "insert_s", "INSERT VALUES of a row, p50", "iceberg_v3", 0.0),
    Limit("B8", "update_s", "UPDATE of a row in a small table", "delta_dv", 0.0),
    Limit("B8", "update_s", "UPDATE of a row in a small table", "iceberg_v3", 0.0),
    Limit("B8", "update_one_row_of_big_s", "UPDATE of a row of 6 M", "delta_dv", 0.0),
    Limit("B8", "update_one_row_of_big_cpu_s", "same, CPU", "iceberg_v3", 0.5),
)

_B7: Final = ("compact_s", "q1_after_compact_s", "q1_clean_s")
_B7_AT_ONCE: Final = ("concurrent_compact", "concurrent_update")
_B9: Final = ("commits", "aborts", "wall_s")


def main() -> int:
    """The command line; 0 where every limit is met, 2 where there is nothing to run with."""
    options, rest = _parser().parse_known_args()
    if shutil.which("mvn") is None:
        print("bench-peers: needs Maven for the peers' jars (apt install maven)", file=sys.stderr)
        return 2
    _make_environment()
    _fetch_jars()
    out = Path(options.out).resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(VENV / "bin" / "python"),
        "-m",
        "benchmarks.peer_run",
        f"--systems={options.systems}",
        f"--workloads={options.workloads}",
        f"--scale={options.scale:g}",
        f"--jars={JARS}",
        f"--data={DATA}",
        f"--out={out}",
        *rest,
    ]
    environment = {
        **os.environ,
        "TZ": "UTC",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": command[0],
        "PYSPARK_DRIVER_PYTHON": command[0],
    }
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode != 0:
        return done.returncode
    return 0 if _report(json.loads(out.read_text()), options.scale) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        epilog="Other options go to benchmarks.peer_run (--rounds, --inserts, --updates, --conf).",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (1)")
    parser.add_argument(
        "--systems",
        default="hiveacid,delta_dv,iceberg_v3",
        help="also: delta, iceberg, flat (groups), orc, parquet, delta_cow, iceberg_v2 ...",
    )
    parser.add_argument("--workloads", default="B3,B5,B8")
    parser.add_argument("--out", default=str(DATA / "results.json"), help="all samples as JSON")
    return parser


def _make_environment() -> None:
    stamp = VENV / ".installed"
    wanted = "\n".join(PACKAGES) + (ROOT / "pyproject.toml").read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing {', '.join(PACKAGES)} into {VENV.name}", flush=True)
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [str(python), "-m", "pip", "install", *quiet, "-e", str(ROOT), *PACKAGES], check=True
    )
    stamp.write_text(wanted)


def _fetch_jars() -> None:
    stamp = JARS / ".fetched"
    if stamp.is_file() and stamp.read_text() == POM.read_text():
        return
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    print("fetching the peers' jars with Maven", flush=True)
    goal = "dependency:copy-dependencies"
    chosen = [f"-DincludeGroupIds={JAR_GROUPS}", f"-DoutputDirectory={JARS}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(POM), goal, *chosen], check=True)
    stamp.write_text(POM.read_text())


def _report(results: dict[str, Any], scale: float) -> bool:
    """Prints what has a limit; whether all limits are met."""
    found = {
        (one["workload"], one["system"], one["metric"]): one["value"]
        for one in results["results"]
        if one["scale"] == scale
    }
    table = Table(title=f"hiveacid beside its peers, TPC-H SF {scale:g}: wall s (CPU s)")
    for name in ("workload", OURS, "peer", "its figure", "ratio", "of CPU", "limit", "met"):
        table.add_column(name, justify="left" if name in ("workload", "peer") else "right")
    all_met = True
    for limit in LIMITS:
        ours, cpu = _figures(found, limit, OURS)
        other, other_cpu = _figures(found, limit, limit.system)
        if ours is None or other is None:
            continue
        met = not limit.factor or ours <= limit.factor * other
        all_met &= met
        table.add_row(
            limit.title,
            f"{ours:.2f} ({cpu:.2f})",
            limit.system,
            f"{other:.2f} ({other_cpu:.2f})",
            f"{ours / other:.2f}",
            f"{cpu / max(other_cpu, 0.01):.2f}",
            f"{limit.factor:g} x" if limit.factor else "",
            ("yes" if met else "NO") if limit.factor else "",
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=Console(width=10_000).measure(table).maximum, soft_wrap=True)
    console.print(table)
    all_met &= _report_compaction(console, found)
    all_met &= _report_concurrency(console, found)
    for key, value in found.items():
        if key[2] == "check" or key[2].endswith("error"):
            console.print(" ".join(key), value, markup=False, highlight=False)
    return all_met and _checks_agree(found)


def _report_compaction(console: Console, found: dict[tuple[str, str, str], Any]) -> bool:
    """Prints B7, where it ran; whether neither of ours failed."""
    systems = dict.fromkeys(system for workload, system, _ in found if workload == "B7")
    if not systems:
        return True
    table = Table(title="B7: compaction of the B6 table; then one beside an UPDATE of its rows")
    for name in ("system", "compact s", "q1 after s", "q1 clean s", "compaction", "UPDATE"):
        table.add_column(name, justify="right" if name.endswith(" s") else "left")
    all_met = True
    for system in systems:
        seconds = [found.get(("B7", system, one)) for one in _B7]
        ends = [str(found.get(("B7", system, one), "not run"))[:60] for one in _B7_AT_ONCE]
        all_met &= system != OURS or all(end.startswith("ok") for end in ends)
        figures = ["" if one is None else f"{one:.2f}" for one in seconds]
        table.add_row(system, *figures, *ends)
    console.print(table)
    return all_met


def _report_concurrency(console: Console, found: dict[tuple[str, str, str], Any]) -> bool:
    """Prints B9, where it ran; whether none of ours was aborted."""
    systems = dict.fromkeys(system for workload, system, _ in found if workload == "B9")
    if not systems:
        return True
    table = Table(title="B9: 4 threads update rows of their own in one table, without a retry")
    for name in ("system", "layout", "commits", "aborts", "wall s"):
        table.add_column(name, justify="left" if name in ("system", "layout") else "right")
    all_met = True
    for system in systems:
        for layout in ("one_file", "file_per_thread"):
            of = {one: found.get(("B9", system, f"{layout}_noretry_{one}")) for one in _B9}
            if None in of.values():
                all_met &= system != OURS
                continue
            all_met &= system != OURS or not of["aborts"]
            counts = [f"{of[one]:.0f}" for one in ("commits", "aborts")]
            table.add_row(system, layout.replace("_", " "), *counts, f"{of['wall_s']:.1f}")
    console.print(table)
    return all_met


def _checks_agree(found: dict[tuple[str, str, str], Any]) -> bool:
    """Whether every system ended with the same rows and sums, and none failed."""
    sums: dict[str, set[str]] = {}
    for (workload, _, metric), value in found.items():
        if metric == "check":
            sums.setdefault(workload, set()).add(str(value))
    agreed = all(len(values) == 1 for values in sums.values())
    if not agreed:
        print(f"bench-peers: the systems' tables differ: {sums}", file=sys.stderr)
    errors = [key for key in found if key[2].endswith("error")]
    return agreed and not errors


def _figures(
    found: dict[tuple[str, str, str], Any], limit: Limit, system: str
) -> tuple[float | None, float]:
    """Wall seconds (or CPU seconds, where the limit is on those), None where not measured, and CPU
    seconds.
    """
    wall = found.get((limit.workload, system, limit.metric))
    if limit.metric.endswith("_cpu_s"):
        return wall, wall or 0.0
    cpu = found.get((limit.workload, system, limit.metric.removesuffix("_s") + "_cpu_s"), 0.0)
    return wall, cpu


if __name__ == "__main__":
    raise SystemExit(main())
