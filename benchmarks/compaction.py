"""The rewrites: major beside plain ORC, copied stripes beside decoded ones, memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.meter import OTHER, OURS, Sample
from benchmarks.stages import CLEAN, Bench, collect, equal, interleave
from benchmarks.workloads import Q1
from hiveacid.compaction.rewrites import Method, rewrite
from hiveacid.layout.compaction import RewritePlan, plan_major, plan_minor
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import TxnId
from hiveacid.model.valid import ValidTxnList
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition

if TYPE_CHECKING:
    from hiveacid.table import AcidTable

_TABLE: Final = "compacted"
_DELTAS: Final = 50
_TXN: Final = TxnId(1 << 40)
_DELETE: Final = "delete from {table} where pmod(hash(l_orderkey, l_linenumber), 10) = 0"
_BUCKET_BYTES: Final = 1 << 30
_ROWS: Final = 6_000_000
"""about; of scale 1"""


def compaction(bench: Bench) -> None:
    """50 deltas: minor by either method, q1 after it; with 10 % deleted: major; then memory."""
    bench.clean()
    _make(bench)
    _minor(bench)
    _read_after(bench)
    _make(bench)
    deleted = bench.ours.run(_DELETE, _TABLE).rows
    _major(bench, rows=bench.made.loaded.rows - deleted)
    bench.ours.drop(_TABLE)
    _memory(bench)


def _make(bench: Bench) -> None:
    bench.ours.create(_TABLE)
    alter = "alter table {table} set tblproperties ('no_auto_compaction'='true')"
    bench.ours.run(alter, _TABLE)
    for number in range(_DELTAS):
        part = f"pmod(xxhash64(l_orderkey), {_DELTAS}) = {number}"
        bench.ours.load(_TABLE, bench.lineitem().where(part).coalesce(1))


def _minor(bench: Bench) -> None:
    rows = bench.made.loaded.rows

    def runner(side: str, method: Method) -> Callable[[bool], None]:
        def run(kept: bool) -> None:
            plan = _plan(bench, major=False)
            work = partial(_staged, bench, plan, method)
            written = bench.meter.measure("minor", side, work, rows=rows, kept=kept)
            equal("rows of the minor compaction", written, rows)

        return run

    interleave(bench.rounds, runner(OURS, Method.STRIPE_COPY), runner(OTHER, Method.ARROW))


def _read_after(bench: Bench) -> None:
    bench.ours.run("alter table {table} compact 'minor' and wait", _TABLE)
    rows = bench.made.loaded.rows

    def runner(name: str, side: str) -> Callable[[bool], object]:
        work = lambda: collect(bench.ours.query(Q1, name))  # noqa: E731
        return lambda kept: bench.meter.measure("minor_read", side, work, rows=rows, kept=kept)

    interleave(bench.rounds, runner(_TABLE, OURS), runner(CLEAN, OTHER))


def _major(bench: Bench, *, rows: int) -> None:
    copy = "written_back"

    def ours(kept: bool) -> None:
        work = partial(_staged, bench, _plan(bench, major=True), Method.SPARK)
        written = bench.meter.measure("major", OURS, work, rows=rows, kept=kept)
        equal("rows of the major compaction", written, rows)

    def flat(kept: bool) -> None:
        bench.flat.drop(copy)
        work = lambda: bench.flat.load(  # noqa: E731
            copy, bench.flat.query("select * from {table}", CLEAN)
        )
        bench.meter.measure("major", OTHER, work, rows=bench.made.loaded.rows, kept=kept)
        bench.flat.drop(copy)

    interleave(bench.rounds, ours, flat)


def _plan(bench: Bench, *, major: bool) -> RewritePlan:
    handle: AcidTable = bench.ours.acid.table(_TABLE)
    table = handle.definition
    fs, root = Files().at(table.location)
    valid = bench.ours.acid.client.metastore.valid_write_ids((table.name,))[0].for_compactor()
    directory = resolve(list_partition(fs, root), valid, ValidTxnList.everything())
    found = (plan_major if major else plan_minor)(directory, txn=_TXN)
    assert found is not None
    return RewritePlan(table, table.location, directory, valid, found, f"{root}/_staging_bench")


def _staged(bench: Bench, plan: RewritePlan, method: Method) -> int:
    """Rewrite, and take the result away; how many rows it has."""
    fs, _ = Files().at(plan.location)
    files = rewrite(fs, plan, settings=Settings(), spark=bench.spark, method=method)
    fs.delete_directory(plan.staging)
    return sum(file.rows or 0 for file in files if not file.directory.startswith("delete_"))


def _memory(bench: Bench) -> None:
    """A bucket of 1 GiB (times the scale, if below 1), in a process of its own."""
    directory = Path(bench.flat.directory) / "one_bucket"
    scale = min(bench.made.loaded.rows / _ROWS, 1.0)
    arguments = [bench.made.lineitem, str(directory), str(int(_BUCKET_BYTES * scale))]
    command = [sys.executable, "-m", "benchmarks.one_bucket", *arguments]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    shutil.rmtree(directory)
    sample = Sample(found["wall_s"], found["cpu_s"], 0, found["peak_bytes"], 0, found["peak_bytes"])
    bench.meter.keep("major_memory", OURS, found["rows"], [sample])


RUN: Final[dict[str, Callable[[Bench], None]]] = {"compaction": compaction}
