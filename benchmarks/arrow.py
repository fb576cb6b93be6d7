"""Without Spark: `read_arrow`, `dataset` below DuckDB and Polars, `merge_arrow`; beside pyarrow
over flat ORC files of the same rows. Each is a process of its own, so that memory is its own.

    python -m benchmarks.arrow TASK CORES LOCATION METASTORE [CHANGES]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.data import KEYS
from benchmarks.meter import OURS, Meter, Sample
from benchmarks.systems import HiveAcid

if TYPE_CHECKING:
    from benchmarks.workloads import Bench

_COLUMNS: Final = ["l_orderkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_comment"]
_SUM: Final = "select count(*), sum(l_extendedprice), max(length(l_comment)) from t"
_OVER: Final = {"read_1": 1, "read_2": 2, "duckdb": 2, "polars": 2}
"""tasks of both sides: on how many cores"""


def arrow(bench: Bench) -> None:
    """All tasks; the merge changes a table of its own."""
    ours = next(one for one in bench.systems if isinstance(one, HiveAcid))
    flat = next(one for one in bench.systems if one.name == "orc")
    for system in (ours, flat):
        bench.ensure(system, "clean")
    with bench.guarded(ours, "arrow"):
        for task, cores in _OVER.items():
            for turn in range(bench.rounds):
                answers = set()
                for side, system in ((OURS, ours), ("pyarrow", flat)):
                    place = [str(system.path("clean")), ours.session.client.metastore.url]
                    sample, answer = _task(f"{side}_{task}", cores, *place)
                    bench.figures.keep(f"arrow.{task}", side, sample, told=turn == 0)
                    answers.add(answer)
                if len(answers) != 1:
                    bench.failed(ours, f"arrow.{task}", f"answers differ: {answers}")
        for turn in range(1, min(bench.rounds, 3) + 1):
            bench.load(ours, "upsert_arrow")
            changes = bench.data.set(f"upsert_{turn}")[0]
            place = [str(ours.path("upsert_arrow")), ours.session.client.metastore.url, changes]
            sample, answer = _task("merge", 2, *place)
            bench.figures.keep("arrow.merge", OURS, sample)
            if answer != str(bench.data.rows(f"upsert_{turn}")):
                bench.failed(ours, "arrow.merge", f"{answer} rows changed")


def _task(name: str, cores: int, *arguments: str) -> tuple[Sample, str]:
    command = [sys.executable, "-m", "benchmarks.arrow", name, str(cores), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Sample(**found["sample"]), found["answer"]


def _read(side: str, location: str) -> str:
    import hiveacid

    if side == OURS:
        return str(hiveacid.read_arrow(location, columns=_COLUMNS).read_all().num_rows)
    return str(_flat(location).to_table(columns=_COLUMNS).num_rows)


def _flat(location: str) -> Any:
    from pyarrow import dataset

    files = sorted(str(one) for one in Path(location).glob("*.orc"))
    return dataset.dataset(files, format="orc")


def _dataset(side: str, location: str) -> Any:
    import hiveacid

    return hiveacid.dataset(location) if side == OURS else _flat(location)


def _duckdb(side: str, location: str) -> str:
    import duckdb

    connection = duckdb.connect()
    connection.register("t", _dataset(side, location))
    return str(connection.execute(_SUM).fetchone())


def _polars(side: str, location: str) -> str:
    import polars

    frame = polars.scan_pyarrow_dataset(_dataset(side, location))
    price, comment = polars.col("l_extendedprice"), polars.col("l_comment")
    found = frame.select(polars.len(), price.sum(), comment.str.len_bytes().max()).collect()
    return str(found.row(0))


def _merge(location: str, metastore: str, changes: str) -> str:
    from pyarrow import parquet

    import hiveacid

    settings = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, metastore, settings=settings) as acid:
        source = parquet.read_table(changes)
        result = acid.table(Path(location).name).merge_arrow(source, on=KEYS)
    return str(result.updated + result.inserted)


def main() -> None:
    """One task."""
    import pyarrow as pa

    task, cores, location, *more = sys.argv[1:]
    pa.set_cpu_count(int(cores))
    side, _, what = task.partition("_")
    works: dict[str, Callable[[], str]] = {
        "merge": lambda: _merge(location, *more),
        "duckdb": lambda: _duckdb(side, location),
        "polars": lambda: _polars(side, location),
        "read": lambda: _read(side, location),
    }
    chosen = what.rstrip("_12") or task
    answer, sample = Meter().measure(works[chosen], look_every_s=0.05)
    print(json.dumps({"sample": asdict(sample), "answer": answer}))


if __name__ == "__main__":
    main()
