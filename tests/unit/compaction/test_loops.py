"""Loops over a compactor's steps: turns, pauses, ends; the metrics and their port."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from hiveacid.clock import SystemClock
from hiveacid.compaction.exposition import MetricsPort
from hiveacid.compaction.loops import Loop
from hiveacid.compaction.metrics import ERRORS, FINISHED, REMOVED_BYTES, Metrics
from hiveacid.compaction.worker import CompactionResult, Outcome
from hiveacid.errors import InvalidInputError, MetastoreError
from hiveacid.metastore.api import TxnInfo
from hiveacid.model.compactions import (
    CompactionId,
    CompactionInfo,
    CompactionState,
    CompactionType,
)
from hiveacid.model.ids import TxnId
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import TxnState, TxnType
from hiveacid.testing.clock import ManualClock
from hiveacid.txn.threads import DaemonThreads, NoThreads

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


def test_the_end_of_a_loop_waits_for_the_work_under_way() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)

    loop = Loop(work, pause_s=60, name="test", clock=SystemClock(), threads=DaemonThreads())
    assert begun.wait(10)
    loop.end()
    assert not loop.wait(timeout_s=0.05)
    go_on.set()
    assert loop.wait(timeout_s=10)


# -------------------------------------------------------------------- metrics


def _entry(number: int, state: CompactionState, **times: int) -> CompactionInfo:
    return CompactionInfo(CompactionId(number), T, None, CompactionType.MAJOR, state, **times)  # type: ignore[arg-type]


def _lines(metrics: Metrics) -> list[str]:
    queue = [
        _entry(1, CompactionState.INITIATED, enqueued_ms=1_000),
        _entry(2, CompactionState.INITIATED, enqueued_ms=4_000),
        _entry(3, CompactionState.WORKING, enqueued_ms=1_000, started_ms=9_000),
        _entry(4, CompactionState.FAILED, enqueued_ms=1_000, started_ms=2_000),
    ]
    txns = [
        TxnInfo(TxnId(5), TxnState.OPEN, TxnType.DEFAULT, 3_000, 9_000, "u", "h"),
        TxnInfo(TxnId(6), TxnState.ABORTED, TxnType.DEFAULT, 2_000, 2_000, "u", "h"),
    ]
    return metrics.render(queue=queue, txns=txns, now_ms=11_000).splitlines()


def test_metrics_are_prometheus_text_of_counters_queue_and_transactions() -> None:
    metrics = Metrics()
    entry = _entry(1, CompactionState.WORKING)
    metrics.add_compaction(
        CompactionResult(entry, Outcome.COMPACTED, rows=7, size_bytes=123_456_789, elapsed_s=1.5)
    )
    metrics.add(ERRORS, what='a "quoted"\nname')
    lines = _lines(metrics)
    assert {
        'hiveacid_compactions_finished_total{outcome="compacted",type="major"} 1',
        "hiveacid_compaction_seconds_total 1.5",
        "hiveacid_compaction_rows_total 7",
        "hiveacid_compaction_written_bytes_total 123456789",
        "hiveacid_compactions_initiated_total 0",
        'hiveacid_compactor_errors_total{what="a \\"quoted\\"\\nname"} 1',
        'hiveacid_compaction_queue_length{state="initiated"} 2',
        'hiveacid_compaction_queue_length{state="working"} 1',
        'hiveacid_compaction_queue_length{state="ready for cleaning"} 0',
        'hiveacid_compaction_oldest_age_seconds{state="initiated"} 10',
        'hiveacid_compaction_oldest_age_seconds{state="working"} 2',
        'hiveacid_transactions{state="open"} 1',
        "hiveacid_oldest_open_transaction_age_seconds 8",
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


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_port_serves_metrics_and_nothing_else() -> None:
    answers = iter(["first 1\n", "second 2\n"])

    def render() -> str:
        for text in answers:
            return text
        raise MetastoreError("the database is away")

    port = MetricsPort(render, host="127.0.0.1", port=0, threads=DaemonThreads())
    try:
        assert _get(port.port, "/metrics") == (200, "first 1\n")
        assert _get(port.port, "/etc/passwd")[0] == 404
        assert _get(port.port, "/metrics?x=1") == (200, "second 2\n")
        assert _get(port.port, "/metrics") == (503, "the database is away\n")
        with pytest.raises(InvalidInputError, match="cannot be served"):
            MetricsPort(render, host="127.0.0.1", port=port.port, threads=NoThreads())
    finally:
        port.close()
    with pytest.raises(OSError, match="refused"):
        _get(port.port, "/metrics")
