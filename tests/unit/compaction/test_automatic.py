"""Compaction without asking: in the writing session, as a service, from cron; without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from tests.metastores import NoThreads
from tests.unit.compaction.quick import (
    ACID,
    DELTAS,
    names_of,
    rows_of,
    session_of,
    settings_of,
    write,
)

from hiveacid.client import Client, open_client
from hiveacid.clock import DaemonThreads
from hiveacid.compaction.compactor import (
    CompactionService,
    Compactor,
    EmbeddedCompactor,
    ServiceOptions,
    run_once,
)
from hiveacid.compaction.metrics import FINISHED, INITIATED, REMOVED
from hiveacid.compaction.process import ProcessRewrite
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Step, Worker
from hiveacid.layout.compaction import RewritePlan
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import WrittenFile
from hiveacid.testing import ManualClock

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long("cli", "compacting", "compaction", "metastore", "session", "storage", "txn"),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'metastore.db'}"


def _until(holds: Callable[[], object], *, timeout_s: float = 300.0) -> None:
    waited, pause = 0.0, threading.Event()
    while not holds():
        assert waited < timeout_s, "took too long"
        pause.wait(0.05)
        waited += 0.05


def _arrow(fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
    return rewrite(fs, plan, settings=Settings())


# -------------------------------------------------------------------- in the session


def test_a_session_compacts_and_cleans_what_it_writes_to(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path, compactor_auto="embedded") as acid:
        write(acid)
        _until(lambda: acid.compactions("t", status="succeeded"))
        _until(lambda: len(names_of(acid)) < DELTAS)
        assert any(name.startswith("base_") for name in names_of(acid))
        assert rows_of(acid) == list(range(DELTAS))


def test_below_the_thresholds_nothing_happens(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path, compactor_auto="embedded") as acid:
        write(acid, deltas=3)
    with session_of(url, tmp_path) as acid:
        assert acid.compactions() == ()
        assert len(names_of(acid)) == 3


def test_a_session_that_ends_soon_looks_at_what_it_has_written(url: str, tmp_path: Path) -> None:
    with session_of(
        url, tmp_path, compactor_auto="embedded", compactor_embedded_pause_s=600.0
    ) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (0)")
        _until(lambda: acid.compacting.is_idle)
        write(acid)
    with session_of(url, tmp_path) as acid:
        assert any(name.startswith("base_") for name in names_of(acid))


def test_a_session_that_is_told_not_to_leaves_its_tables_alone(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path, compactor_auto="off") as acid:
        write(acid)
    with session_of(url, tmp_path) as acid:
        assert acid.compactions() == ()
        assert len(names_of(acid)) == DELTAS


def test_what_fails_in_the_background_is_in_the_history_and_raised_nowhere(
    url: str, tmp_path: Path
) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        damaged = next(Path(acid.table("t").definition.location).glob("delta_0000002*/bucket*"))
        damaged.write_bytes(b"no ORC file")
    with session_of(url, tmp_path, compactor_auto="embedded") as acid:
        acid.sql("insert into t values (99)")
        _until(lambda: acid.compactions("t", status="failed"))
        (entry,) = acid.compactions("t", status="failed")
        assert damaged.name in (entry.error or "")
        acid.sql("insert into t values (100)")


class _Blocked:
    """A rewrite that begins and waits to be let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
        self.begun.set()
        self.go_on.wait(300)
        return _arrow(fs, plan)


@contextmanager
def _client(url: str, path: Path, **settings: object) -> Iterator[Client]:
    opened = open_client(url, warehouse=str(path / "wh"), settings=settings_of(**settings))
    try:
        yield opened
    finally:
        opened.close()


def test_what_does_not_end_with_the_session_is_given_back(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        before = names_of(acid)
    blocked = _Blocked()
    with _client(url, tmp_path, compactor_drain_s=0.2) as client:
        compactor = Compactor(client, blocked, version="1")
        embedded = EmbeddedCompactor(
            lambda: compactor,
            clock=client.clock,
            is_on=lambda: True,
            settings=lambda: client.settings,
            threads=DaemonThreads(),
        )
        embedded.note({TableName("default", "t")})
        assert blocked.begun.wait(300)
        embedded.close()
        (entry,) = client.metastore.show_compactions()
        assert (entry.state, entry.worker) == (CompactionState.INITIATED, None)
        blocked.go_on.set()
        _until(lambda: compactor.metrics.value(FINISHED, type="major", outcome="failed"))
        (entry,) = client.metastore.show_compactions()
        assert entry.state is CompactionState.INITIATED, "another worker's by now"
    with session_of(url, tmp_path) as acid:
        assert [name for name in names_of(acid) if name in before] == before
        assert rows_of(acid) == list(range(DELTAS))


def test_what_is_rewritten_after_the_end_of_its_session_is_not_published(
    url: str, tmp_path: Path
) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        acid.table("t").compact("major")
        before = names_of(acid)
    with _client(url, tmp_path) as client:
        rewrite = ProcessRewrite(lambda: client.settings, spark=lambda: None)
        rewrite.stop()
        published: list[Step] = []
        worker = Worker(client, rewrite, name="w", version="1", reached=published.append)
        done = worker.run_next()
        assert done is not None and "ended after its session" in (done.message or "")
        assert published == [Step.CLAIMED]
    with session_of(url, tmp_path) as acid:
        assert names_of(acid) == before


def test_a_table_is_looked_at_again_only_after_a_pause(url: str, tmp_path: Path) -> None:
    clock = ManualClock()
    opened = open_client(
        url,
        warehouse=str(tmp_path / "wh"),
        settings=settings_of(),
        clock=clock,
        threads=NoThreads(),
    )
    looked: list[frozenset[TableName]] = []

    class Noting(Compactor):
        def initiate(self, tables: object = None) -> frozenset[str | None]:
            looked.append(frozenset(tables or ()))  # type: ignore[call-overload]
            return frozenset()

    pauses = settings_of(compactor_embedded_pause_s=10.0, compactor_check_interval_s=1000.0)
    embedded = EmbeddedCompactor(
        lambda: Noting(opened, _arrow, version="1"),
        clock=clock,
        is_on=lambda: True,
        settings=lambda: pauses,
        threads=NoThreads(),
    )
    table = TableName("default", "t")
    for _ in range(5):
        embedded.note({table})
        embedded.step()
    assert looked == [{table}]
    clock.sleep_s(10)
    embedded.step()
    embedded.step()
    assert looked == [{table}, {table}]
    embedded.close()
    opened.close()


def test_where_nobody_commits_the_hours_are_noticed_and_aborted_writes_cleaned(
    url: str, tmp_path: Path
) -> None:
    clock = ManualClock()

    def hour() -> int:
        return datetime.fromtimestamp(clock.now_ms() / 1000).hour

    opens = (hour() + 3) % 24
    settings = settings_of(
        compactor_offpeak=f"{opens}-{(opens + 3) % 24}",
        compactor_delta_pct_threshold=0.0,
        compactor_check_interval_s=300.0,
    )
    opened = open_client(
        url, warehouse=str(tmp_path / "wh"), settings=settings, clock=clock, threads=NoThreads()
    )
    acid = Session(opened)
    embedded = EmbeddedCompactor(
        lambda: Compactor(opened, _arrow, version="1"),
        clock=clock,
        is_on=lambda: True,
        settings=lambda: settings,
        threads=NoThreads(),
    )
    write(acid, deltas=2)
    acid.table("t").compact(wait=True)
    acid.sql("insert into t values (8)")
    txn = acid.transaction()
    txn.__enter__()
    txn.sql("insert into t values (9)")
    opened.metastore.abort_txns([one.id for one in opened.metastore.show_txns()])
    embedded.note({TableName("default", "t")})
    while hour() != opens:
        embedded.step()
        clock.sleep_s(301)
    assert len(acid.compactions("t", status="succeeded")) == 1
    assert len(names_of(acid)) == 2, "what was aborted is gone"
    while hour() != (opens + 2) % 24:
        embedded.step()
        clock.sleep_s(301)
    assert len(names_of(acid)) == 1
    assert rows_of(acid) == [0, 1, 8]
    embedded.close()
    opened.close()


# -------------------------------------------------------------------- service and cron


def test_one_round_compacts_what_the_thresholds_ask_for_and_cleans(
    url: str, tmp_path: Path
) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        write(acid, "small", deltas=2)
    with _client(url, tmp_path) as client:
        compactor = Compactor(client, _arrow, version="1")
        (result,) = run_once(compactor, pool=None, clock=client.clock)
        assert (result.outcome, result.compaction.type) == (
            Outcome.COMPACTED,
            CompactionType.MAJOR,
        )
        assert compactor.metrics.value(INITIATED) == 1
        assert compactor.metrics.value(REMOVED) == DELTAS
    with session_of(url, tmp_path) as acid:
        assert len(names_of(acid)) == 1
        assert len(names_of(acid, "small")) == 2


def test_what_a_killed_writer_left_staged_is_swept(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid, deltas=1)
        with acid.transaction() as txn:
            txn.sql("insert into t values (7)")
            staged = [
                tmp_path / "wh" / "t" / f"_hiveacid_staging_{number}_0" for number in (1, txn.id)
            ]
            for directory in staged:
                directory.mkdir()
                (directory / "bucket_00000").write_bytes(b"half")
            with _client(url, tmp_path) as client:
                run_once(Compactor(client, _arrow, version="1"), pool=None, clock=client.clock)
            assert [one.exists() for one in staged] == [False, True]
        assert rows_of(acid) == [0, 7]


def test_a_service_compacts_serves_metrics_and_drains(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path) as acid, _client(url, tmp_path) as client:
        options = ServiceOptions(workers=2, metrics_port=0)
        compactor = Compactor(client, _arrow, version="1")
        service = CompactionService(client, compactor, options, threads=DaemonThreads())
        service.start()
        write(acid)
        _until(lambda: acid.compactions("t", status="succeeded"))
        address = f"http://127.0.0.1:{service.metrics_port}/metrics"

        def told() -> str:
            with urllib.request.urlopen(address, timeout=300) as answer:
                return str(answer.read().decode())

        done = 'hiveacid_compactions_finished_total{outcome="compacted",type="major"} 1.0'
        _until(lambda: done in told())  # counted after others see it
        assert 'hiveacid_compaction_queue_length{state="working"} 0.0' in told()
        assert service.drain(timeout_s=300) == 0
        write(acid)
        assert len(acid.compactions("t", status="initiated")) == 0
        assert rows_of(acid) == sorted([*range(DELTAS)] * 2)


def test_a_service_does_at_once_what_it_asks_for_itself(url: str, tmp_path: Path) -> None:
    """Its workers looked before there was anything, and pause for an hour."""
    hour = {"compactor_worker_pause_s": 3600.0, "compactor_check_interval_s": 0.3}
    with session_of(url, tmp_path) as acid, _client(url, tmp_path, **hour) as client:
        compactor = Compactor(client, _arrow, version="1")
        service = CompactionService(
            client, compactor, ServiceOptions(workers=2), threads=DaemonThreads()
        )
        service.start()
        threading.Event().wait(0.5)
        write(acid)
        _until(lambda: acid.compactions("t", status="succeeded"))
        assert service.drain(timeout_s=300) == 0


def test_several_services_share_a_queue(url: str, tmp_path: Path) -> None:
    tables = [f"t{number}" for number in range(6)]
    with session_of(url, tmp_path) as acid:
        for table in tables:
            write(acid, table, deltas=3)
            acid.table(table).compact("major")
        with _client(url, tmp_path) as one, _client(url, tmp_path) as other:
            compactors = [Compactor(client, _arrow, version="1") for client in (one, other)]
            services = [
                CompactionService(
                    client, compactor, ServiceOptions(workers=2), threads=DaemonThreads()
                )
                for client, compactor in zip((one, other), compactors, strict=True)
            ]
            for service in services:
                service.start()
            _until(lambda: len(acid.compactions(status="succeeded")) == len(tables))
            assert [service.drain(timeout_s=300) for service in services] == [0, 0]
            done = [
                c.metrics.value(FINISHED, type="major", outcome="compacted") for c in compactors
            ]
            assert sum(done) == len(tables)
        for table in tables:
            assert (len(names_of(acid, table)), rows_of(acid, table)) == (1, [0, 1, 2])


@pytest.mark.parametrize("goes_on", ["before", "after"])
def test_a_service_that_is_drained_gives_back_what_does_not_end(
    url: str, tmp_path: Path, goes_on: str
) -> None:
    """Its worker goes on before or after another one has done the work, which it leaves alone."""
    with session_of(url, tmp_path) as acid, _client(url, tmp_path) as client:
        write(acid, deltas=3)
        acid.table("t").compact("major")
        blocked = _Blocked()
        compactor = Compactor(client, blocked, version="1")
        service = CompactionService(client, compactor, ServiceOptions(), threads=DaemonThreads())
        service.start()
        assert blocked.begun.wait(300)
        assert service.drain(timeout_s=0.2) == 1
        if goes_on == "before":
            blocked.go_on.set()
        (entry,) = acid.table("t").compact("major", wait=True)
        assert entry.state is CompactionState.READY_FOR_CLEANING
        blocked.go_on.set()
        _until(lambda: compactor.metrics.value(FINISHED, type="major", outcome="failed"))
        (entry,) = acid.compactions("t")
        assert entry.state is CompactionState.READY_FOR_CLEANING
        assert rows_of(acid) == [0, 1, 2]


def _command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hiveacid.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_at_a_signal(url: str, tmp_path: Path, number: signal.Signals) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        process = _command("compactor", "run", "--metastore", url, "--metrics-port", "0")
        with process:
            assert process.stdout is not None
            _until(
                lambda: (
                    acid.compactions("t", status="ready for cleaning")
                    or acid.compactions("t", status="succeeded")
                )
            )
            process.send_signal(number)
            output = process.stdout.read()
            assert process.wait(timeout=300) == 0, output
    assert "metrics on port" in output
    assert "ended; 0 compactions given back" in output


def test_the_command_does_one_round_for_cron(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path) as acid:
        write(acid)
        with _command("compactor", "run", "--once", "--metastore", url) as process:
            output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output
        assert "MAJOR default.t: compacted in" in output
        assert len(names_of(acid)) == 1
