"""Loops over a compactor's steps: turns, pauses, ends; the metrics and their port."""

from __future__ import annotations

import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tests.metastores import NoThreads

from hiveacid.clock import DaemonThreads, Loop, SystemClock
from hiveacid.compaction.metrics import (
    ERRORS,
    FINISHED,
    REMOVED_BYTES,
    Metrics,
    MetricsCollector,
    MetricsPort,
)
from hiveacid.compaction.worker import CompactionResult, Outcome
from hiveacid.errors import InvalidInputError, MetastoreError, MissingExtraError
from hiveacid.model.compactions import (
    CompactionId,
    CompactionInfo,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import TableName, TxnId
from hiveacid.model.transactions import TxnInfo, TxnState, TxnType
from hiveacid.testing import ManualClock

T = TableName("default", "t")


def _loop(work: Callable[[], object], clock: ManualClock) -> Loop:
    return Loop(work, pause_s=10.0, name="test", clock=clock, threads=NoThreads())


def test_a_loop_works_at_once_and_again_after_its_pause_or_when_it_is_woken() -> None:
    clock, done = ManualClock(), []
    loop = _loop(lambda: done.append(1), clock)
    loop.turn()
    loop.turn()
    assert len(done) == 1
    clock.sleep_s(10)
    loop.turn()
    assert len(done) == 2
    loop.wake()
    loop.turn()
    assert len(done) == 3


def test_a_loop_goes_on_after_a_failure_and_not_after_its_end() -> None:
    clock, done = ManualClock(), []

    def fail() -> None:
        done.append(1)
        raise ValueError("this time")

    loop = _loop(fail, clock)
    loop.turn()
    clock.sleep_s(10)
    loop.turn()
    assert len(done) == 2
    loop.end()
    clock.sleep_s(10)
    loop.turn()
    assert len(done) == 2


@pytest.mark.slow
def test_the_end_of_a_loop_waits_for_the_work_under_way() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(300)

    loop = Loop(work, pause_s=60, name="test", clock=SystemClock(), threads=DaemonThreads())
    assert begun.wait(300)
    loop.end()
    assert not loop.wait(timeout_s=0.05)
    go_on.set()
    assert loop.wait(timeout_s=300)


# -------------------------------------------------------------------- metrics


def _entry(number: int, state: CompactionState, **times: int) -> CompactionInfo:
    return CompactionInfo(CompactionId(number), T, None, CompactionType.MAJOR, state, **times)  # type: ignore[arg-type]


QUEUE = (
    _entry(1, CompactionState.INITIATED, enqueued_ms=1_000),
    _entry(2, CompactionState.INITIATED, enqueued_ms=4_000),
    _entry(3, CompactionState.WORKING, enqueued_ms=1_000, started_ms=9_000),
    _entry(4, CompactionState.FAILED, enqueued_ms=1_000, started_ms=2_000),
)
TXNS = (
    TxnInfo(TxnId(5), TxnState.OPEN, TxnType.DEFAULT, 3_000, 9_000, "u", "h"),
    TxnInfo(TxnId(6), TxnState.ABORTED, TxnType.DEFAULT, 2_000, 2_000, "u", "h"),
)


class Store:
    """A metastore of which metrics are made; ``is_away`` while it fails."""

    is_away = False

    def show_compactions(self) -> tuple[CompactionInfo, ...]:
        if self.is_away:
            raise MetastoreError("the database is away")
        return QUEUE

    def show_txns(self) -> tuple[TxnInfo, ...]:
        return TXNS


def _collector(metrics: Metrics, store: Store) -> MetricsCollector:
    client = SimpleNamespace(metastore=store, clock=ManualClock(now_ms=11_000))
    return MetricsCollector(metrics, client)  # type: ignore[arg-type]


@contextmanager
def _served(metrics: Metrics, store: Store) -> Iterator[MetricsPort]:
    port = MetricsPort(_collector(metrics, store), host="127.0.0.1", port=0)
    try:
        yield port
    finally:
        port.close()


@pytest.mark.slow
def test_metrics_are_prometheus_text_of_counters_queue_and_transactions() -> None:
    metrics = Metrics()
    entry = _entry(1, CompactionState.WORKING)
    metrics.add_compaction(
        CompactionResult(entry, Outcome.COMPACTED, rows=7, size_bytes=123_456_789, elapsed_s=1.5)
    )
    metrics.add(ERRORS, what='a "quoted"\nname')
    with _served(metrics, Store()) as port:
        lines = _get(port.port, "/metrics").splitlines()
    assert {
        'hiveacid_compactions_finished_total{outcome="compacted",type="major"} 1.0',
        "hiveacid_compaction_seconds_total 1.5",
        "hiveacid_compaction_rows_total 7.0",
        "hiveacid_compaction_written_bytes_total 1.23456789e+08",
        "hiveacid_compactions_initiated_total 0.0",
        "hiveacid_cleaner_removed_directories_total 0.0",
        'hiveacid_compactor_errors_total{what="a \\"quoted\\"\\nname"} 1.0',
        'hiveacid_compaction_queue_length{state="initiated"} 2.0',
        'hiveacid_compaction_queue_length{state="working"} 1.0',
        'hiveacid_compaction_queue_length{state="ready for cleaning"} 0.0',
        'hiveacid_compaction_oldest_age_seconds{state="initiated"} 10.0',
        'hiveacid_compaction_oldest_age_seconds{state="working"} 2.0',
        'hiveacid_transactions{state="open"} 1.0',
        'hiveacid_transactions{state="aborted"} 1.0',
        "hiveacid_oldest_open_transaction_age_seconds 8.0",
    } <= set(lines)
    assert "# TYPE hiveacid_cleaner_removed_bytes_total counter" in lines
    names = {line.split()[2] for line in lines if line.startswith("# HELP")}
    assert {line.partition("{")[0].split()[0] for line in lines if line[0] != "#"} == names


def test_counters_count_by_label() -> None:
    metrics = Metrics()
    metrics.add(REMOVED_BYTES, 10)
    metrics.add(REMOVED_BYTES, 5)
    metrics.add(FINISHED, type="minor", outcome="failed")
    assert metrics.value(REMOVED_BYTES) == 15
    assert metrics.value(FINISHED, outcome="failed", type="minor") == 1
    assert metrics.value(FINISHED, outcome="failed", type="major") == 0


def _get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as answer:
        assert answer.status == 200
        text: str = answer.read().decode()
        return text


@pytest.mark.slow
def test_while_the_metastore_fails_counters_are_served_and_count_it() -> None:
    store = Store()
    with _served(Metrics(), store) as port:
        assert "hiveacid_transactions{" in _get(port.port, "/metrics?x=1")
        store.is_away = True
        text = _get(port.port, "/metrics")
        assert 'hiveacid_compactor_errors_total{what="metrics"} 1.0' in text
        assert "hiveacid_transactions" not in text
        with pytest.raises(InvalidInputError, match="cannot be served"):
            MetricsPort(_collector(Metrics(), store), host="127.0.0.1", port=port.port)
    with pytest.raises(OSError, match="refused"):
        _get(port.port, "/metrics")


def test_metrics_without_their_library_name_its_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match="prometheus_client") as caught:
        MetricsPort(_collector(Metrics(), Store()), host="127.0.0.1", port=0)
    assert caught.value.__notes__ == ["pip install 'hiveacid[metrics]'"]
