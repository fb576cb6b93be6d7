"""``python -m tests.soak.cluster``: two drivers on a standalone cluster of two workers, which share
no directory; executors, workers and drivers are killed in the middle of statements of each kind.

The warehouse is on a server of S3, which answers one request in thirty that it is too busy, or on
HDFS, whose name node is restarted with each worker that is killed; the metastore is on PostgreSQL;
the Python of the workers has no hiveacid. Each driver changes rows of its own, in partitions that
both write to; a model says after each statement what must be there. At the end nothing is lost,
nothing is there twice, and after a cleaning nothing is left of what was killed. With ``--hive`` it
is a table that real Hive wrote there, whose rows the drivers change, too; Hive reads it in the end.
A line tells what was done, and what S3 was asked for; 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests import standalone
from tests.hdfs import hdfs_server
from tests.interop.hive_tool import HiveTool
from tests.postgres import postgres_server
from tests.s3 import s3_server, variables
from tests.s3_proxy import proxy
from tests.soak.cluster_driver import IN_COMMIT, PARTITIONS, Rows, parents
from tests.soak.hive_table import read_by_hive, taken_over, written

import hiveacid
from hiveacid.session import Session

KINDS: Final = ("insert", "update", "merge", "stream", "delete", "minor", "major")
VICTIMS: Final = ("executor", "driver", "worker", "uncommitted", "committed")
PLACES: Final = ("s3", "hdfs")
_DRIVERS: Final = 2
_ROOT: Final = Path(__file__).parents[2]
_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_TIMEOUT_S: Final = 120.0
_BUSY: Final = 30
"""One request in so many is refused for now."""
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _JAVA,
}
_SETTINGS: Final = {
    "hiveacid.reads.local_bytes": "0",
    "hiveacid.compactor.spark_bytes": "0",
    "hiveacid.compactor.auto": "off",
    "hiveacid.txn.timeout_s": str(_TIMEOUT_S),
    "hiveacid.housekeeping.interval_s": "2",
    "hiveacid.retention_s": "0",
}

Plan = list[tuple[str, str]]


def short_plan(*, driver: int, place: str) -> Plan:
    """Each kind once, with one of the victims; another one for each driver and place."""
    shift = 2 * driver + PLACES.index(place)
    pairs = [(kind, VICTIMS[(n + shift) % len(VICTIMS)]) for n, kind in enumerate(KINDS)]
    return [("insert", ""), *map(_possible, pairs)]


def whole_plan(*, driver: int) -> Plan:
    """Each kind with each victim, those of one driver in another order than those of the other."""
    pairs = [(kind, victim) for victim in VICTIMS for kind in KINDS]
    shift = driver * len(pairs) // _DRIVERS
    return [("insert", ""), *map(_possible, [*pairs[shift:], *pairs[:shift]])]


def _possible(pair: tuple[str, str]) -> tuple[str, str]:
    """A sink commits in a process of Spark's, where nothing of ours can die by itself."""
    kind, victim = pair
    return (kind, "driver") if kind == "stream" and victim in IN_COMMIT else pair


@dataclass(slots=True)
class Drivers:
    """The processes, and what was killed so far."""

    where: Path
    cluster: standalone.Cluster
    environment: Mapping[str, str]
    python: str
    trouble: Callable[[], None]
    """What happens to the place while a worker is killed."""
    processes: list[subprocess.Popen[bytes] | None] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    deaths: int = 0

    def start(self, number: int) -> subprocess.Popen[bytes]:
        """One of them, which goes on where it was killed."""
        program = Path(__file__).with_name("cluster_driver.py")
        with (self.where / f"driver{number}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(program), str(self.where), str(number)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **standalone.environment(),
                    **self.environment,
                    "PYTHONPATH": f"{_ROOT}/src:{_ROOT}",
                    "PYSPARK_PYTHON": self.python,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                    "SPARK_SUBMIT_OPTS": _JAVA,
                },
            )

    def run(self) -> None:
        """Until they are done.

        Raises:
            AssertionError: one of them found something wrong.
        """
        self.processes = [self.start(number) for number in range(_DRIVERS)]
        while any(self.processes):
            for mark in sorted(self.where.glob("step*/running")):
                if not (mark.parent / "go").exists():
                    self.strike(mark)
            for number, process in enumerate(self.processes):
                if process is None or process.poll() is None:
                    continue
                if process.returncode == -signal.SIGKILL:
                    self.deaths += 1
                    self.processes[number] = self.start(number)
                else:
                    log = (self.where / f"driver{number}.log").read_text()
                    assert process.returncode == 0, f"driver {number}: {log[-4000:]}"
                    self.processes[number] = None
            time.sleep(0.05)

    def strike(self, mark: Path) -> None:
        """Kill what the statement of a mark is to lose."""
        number, _, victim = mark.parent.name.removeprefix("step").split("-")
        executor = int(mark.read_text())
        process = self.processes[int(number)]
        assert process is not None
        if victim == "driver":
            os.killpg(process.pid, signal.SIGKILL)
        elif executor:
            _, *above = parents(executor)  # none where its worker was killed before it
            is_worker = victim != "executor" and above
            with suppress(ProcessLookupError):  # it went with another's worker
                os.kill(above[0] if is_worker else executor, signal.SIGKILL)
            if victim == "worker":
                self.trouble()
                another = self.where / f"worker{len(self.struck) + _DRIVERS}"
                self.cluster.add_worker(another, cores=_DRIVERS)
        self.struck.append(mark.parent.name)
        (mark.parent / "go").touch()

    def kill_all(self) -> None:
        """Where something went wrong."""
        for process in self.processes:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@dataclass(slots=True)
class Warehouse:
    """Where tables are, the environment that reaches it, what makes trouble there, and what Hive
    has to know of it; ``asked`` are the requests of S3 that arrived there.
    """

    root: str
    environment: Mapping[str, str] = field(default_factory=dict)
    trouble: Callable[[], None] = lambda: None
    conf: Mapping[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def busy(self, verb: str, path: str) -> tuple[int, str] | None:
        """A request arrives: one of some is refused for now."""
        self.asked.append("LIST" if "list-type=" in path else verb)
        body = "<Error><Code>SlowDown</Code><Message>busy</Message></Error>"
        return None if len(self.asked) % _BUSY else (503, body)

    def told(self) -> str:
        """How often it was asked for what."""
        counts = Counter(self.asked)
        return "".join(f", {counts[verb]} {verb}" for verb in sorted(counts))


@contextmanager
def warehouse(place: str) -> Iterator[Warehouse]:
    """An empty one, for as long as the block lasts."""
    if place == "hdfs":
        with hdfs_server() as address:
            yield Warehouse(f"{address}/wh", trouble=partial(address.admin, "restart"))
    else:
        with s3_server() as server, proxy(server.endpoint) as between:
            environment = {**server.environment, "AWS_ENDPOINT_URL": between.endpoint}
            there = Warehouse(f"s3a://{server.bucket()}/wh", environment, conf=server.hadoop)
            between.rule = there.busy
            yield there
            assert between.failed, "it was never too busy"


def tried(directory: Path, *, place: str, plans: list[Plan], by_hive: bool = False) -> str:
    """What was done, in one line; ``by_hive`` a table that real Hive wrote, and reads in the end.

    Raises:
        AssertionError: rows are lost, or there twice, or files are left.
    """
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server()).metastore()
        there = stack.enter_context(warehouse(place))
        cluster = stack.enter_context(standalone.cluster())
        for number in range(2):
            cluster.add_worker(directory / f"worker{number}", cores=_DRIVERS)
        stack.enter_context(variables(there.environment))
        root = f"{there.root}/hive"
        hive = HiveTool("4.1", directory / "hive", directory / "answers", root, there.conf)
        with hiveacid.connect(None, url, warehouse=there.root) as acid:
            rows: Rows = {}
            if by_hive:
                rows = taken_over(acid, written(hive, drivers=_DRIVERS))
            else:
                acid.sql(
                    "create table t (id bigint, v bigint) partitioned by (p int)"
                    " stored as orc tblproperties ('transactional'='true')"
                )
        given = {
            "master": cluster.url,
            "url": url,
            "conf": {**_CONF, "spark.sql.warehouse.dir": str(directory / "spark")},
            "settings": _SETTINGS,
            "plans": plans,
            "rows": rows,
        }
        (directory / "drivers.json").write_text(json.dumps(given))
        python = standalone.make_python(directory / "python")
        drivers = Drivers(directory, cluster, there.environment, python, there.trouble)
        stack.callback(drivers.kill_all)
        drivers.run()
        rows = check(url, directory)
        _check_struck(drivers, plans)
        if by_hive:
            with hiveacid.connect(None, url) as acid:
                assert read_by_hive(hive, acid) == rows, "Hive reads something else"
        killed = f"killed {len(drivers.struck)} in tasks, {drivers.deaths} drivers"
        return f"{len(rows)} rows; {killed}{there.told()}"


def _check_struck(drivers: Drivers, plans: list[Plan]) -> None:
    """All was killed that was to be; a compaction may have had nothing to do."""
    wanted = {
        f"step{number}-{step}-{victim}"
        for number, plan in enumerate(plans)
        for step, (kind, victim) in enumerate(plan)
        if victim and victim not in IN_COMMIT and kind not in ("minor", "major")
    }
    assert wanted <= set(drivers.struck), wanted - set(drivers.struck)


def check(url: str, directory: Path) -> Rows:
    """The rows, which are those of both drivers, before and after a cleaning that leaves nothing of
    what was killed.
    """
    expected: Rows = {}
    for number in range(_DRIVERS):
        rows = json.loads((directory / f"rows{number}").read_text())
        expected |= {int(id): v for id, v in rows.items()}
    settings = {
        **_SETTINGS,
        "hiveacid.txn.timeout_s": "0.1",  # nobody else is alive
        "hiveacid.compactor.aborts_threshold": "0",
        "hiveacid.compactor.aborts_age_s": "0",
    }
    with hiveacid.connect(None, url, settings=settings) as acid:
        _check_rows(acid, expected)
        acid.client.own.perform_timeouts()
        assert acid.client.own.get_open_txns().open == (), "a transaction is left"
        assert acid.client.metastore.show_locks() == (), "a lock is left"
        for _ in range(2):
            acid.clean()
            acid.client.own.run_housekeeping(interval_s=0)
        _check_rows(acid, expected)
        _check_files(acid)
    return expected


def _check_rows(acid: Session, expected: Mapping[int, int]) -> None:
    read = hiveacid.read_arrow(acid.table("t"), row_ids=True).read_all()
    ids = [(row["p"], *row["row__id"].values()) for row in read.to_pylist()]
    found = dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))
    assert len(set(ids)) == len(ids), "an identity is there twice in a partition"
    assert len(found) == read.num_rows, "rows are there twice"
    assert found == expected, "rows are lost"
    assert set(read["p"].to_pylist()) <= set(range(PARTITIONS))


def _check_files(acid: Session) -> None:
    """What is there is what counts."""
    fs, path = acid.client.files.at(acid.table("t").definition.location)
    there = [info.path for info in fs.list_recursive(path) if not info.is_directory]
    files = [name for name in there if "/bucket_" in name]
    hidden = [name for name in there if "_hiveacid" in name]
    assert hidden == [], f"hidden files are left: {hidden[:9]}"
    detail = acid.table("t").detail()
    assert (len(files), 0) == (detail.files, detail.kept_files), "files are left"
    if fs.uploads is not None:
        assert list(fs.uploads.begun(path)) == [], "uploads are left"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--place", choices=PLACES, nargs="+", default=PLACES)
    parser.add_argument("--short", action="store_true", help="each kind once")
    parser.add_argument("--hive", action="store_true", help="a table that real Hive wrote")
    parser.add_argument("--keep", help="an empty directory for journals and logs")
    chosen = parser.parse_args()
    failures = 0
    for place in chosen.place:
        plans = [
            short_plan(driver=number, place=place) if chosen.short else whole_plan(driver=number)
            for number in range(_DRIVERS)
        ]
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(chosen.keep or scratch) / place
            directory.mkdir(parents=True)
            try:
                said = tried(directory, place=place, plans=plans, by_hive=chosen.hive)
            except AssertionError as error:
                failures, said = failures + 1, f"FAILED: {error}"
        print(f"{place:<5} {time.monotonic() - began_s:4.0f} s  {said}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
