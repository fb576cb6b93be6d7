"""What a compactor counts, as Prometheus reads it.

Counters are this process's since it started; queue lengths and ages are the metastore's as it is
asked, the same from every service on it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hiveacid.compaction.worker import CompactionResult
from hiveacid.metastore.api import TxnInfo
from hiveacid.model.compactions import CompactionInfo, CompactionState
from hiveacid.model.transactions import TxnState

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """A name as Prometheus knows it, its kind (``counter`` or ``gauge``) and what it says."""

    name: str
    kind: str
    help: str


INITIATED: Final = Metric(
    "hiveacid_compactions_initiated_total", "counter", "Compactions that thresholds asked for."
)
FINISHED: Final = Metric(
    "hiveacid_compactions_finished_total", "counter", "Compactions carried out, by outcome."
)
SECONDS: Final = Metric(
    "hiveacid_compaction_seconds_total", "counter", "Time that compactions took."
)
ROWS: Final = Metric("hiveacid_compaction_rows_total", "counter", "Row events written.")
WRITTEN: Final = Metric("hiveacid_compaction_written_bytes_total", "counter", "Bytes written.")
REMOVED: Final = Metric(
    "hiveacid_cleaner_removed_directories_total", "counter", "Directories and files removed."
)
REMOVED_BYTES: Final = Metric(
    "hiveacid_cleaner_removed_bytes_total", "counter", "Bytes of files removed."
)
ERRORS: Final = Metric(
    "hiveacid_compactor_errors_total", "counter", "Rounds that failed, by what was done."
)
QUEUE: Final = Metric("hiveacid_compaction_queue_length", "gauge", "Entries of the queue by state.")
OLDEST: Final = Metric(
    "hiveacid_compaction_oldest_age_seconds",
    "gauge",
    "For how long the oldest entry of a state has waited or been worked on.",
)
TXNS: Final = Metric("hiveacid_transactions", "gauge", "Transactions that are open or aborted.")
OLDEST_TXN: Final = Metric(
    "hiveacid_oldest_open_transaction_age_seconds",
    "gauge",
    "Age of the oldest open transaction; nothing that it may read is cleaned.",
)
_COUNTERS: Final = (
    INITIATED, FINISHED, SECONDS, ROWS, WRITTEN, REMOVED, REMOVED_BYTES, ERRORS,
)  # fmt: skip
_QUEUED: Final = tuple(state for state in CompactionState if state.is_queued)


class Metrics:
    """The counters of a process; safe to share between threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts: dict[tuple[Metric, Labels], float] = {}
        for metric in _COUNTERS:
            if metric not in (FINISHED, ERRORS):
                self._counts[metric, ()] = 0.0

    def add(self, metric: Metric, amount: float = 1.0, **labels: str) -> None:
        """Count."""
        key = (metric, tuple(sorted(labels.items())))
        with self._mutex:
            self._counts[key] = self._counts.get(key, 0.0) + amount

    def value(self, metric: Metric, **labels: str) -> float:
        """What was counted so far."""
        with self._mutex:
            return self._counts.get((metric, tuple(sorted(labels.items()))), 0.0)

    def add_compaction(self, result: CompactionResult) -> None:
        """Count what became of a compaction."""
        kind, outcome = result.compaction.type.name.lower(), result.outcome.value
        self.add(FINISHED, type=kind, outcome=outcome)
        self.add(SECONDS, result.elapsed_s)
        self.add(ROWS, result.rows or 0)
        self.add(WRITTEN, result.size_bytes)

    def render(
        self, *, queue: Iterable[CompactionInfo], txns: Iterable[TxnInfo], now_ms: int
    ) -> str:
        """All metrics in Prometheus' text format (version 0.0.4)."""
        with self._mutex:
            counts = dict(self._counts)
        blocks = [
            _block(metric, {key[1]: value for key, value in counts.items() if key[0] is metric})
            for metric in _COUNTERS
        ]
        lengths, ages = _queue_figures(tuple(queue), now_ms)
        by_state, oldest = _txn_figures(tuple(txns), now_ms)
        blocks += [_block(QUEUE, lengths), _block(OLDEST, ages)]
        blocks += [_block(TXNS, by_state), _block(OLDEST_TXN, {(): oldest})]
        return "".join(blocks)


def _queue_figures(
    queue: Sequence[CompactionInfo], now_ms: int
) -> tuple[dict[Labels, float], dict[Labels, float]]:
    lengths: dict[Labels, float] = {}
    ages: dict[Labels, float] = {}
    for state in _QUEUED:
        since = [_since_ms(entry) for entry in queue if entry.state is state]
        labels = (("state", state.phrase),)
        lengths[labels] = float(len(since))
        ages[labels] = max(0.0, (now_ms - min(since, default=now_ms)) / 1000)
    return lengths, ages


def _since_ms(entry: CompactionInfo) -> int:
    """Since when an entry has been in its state."""
    times = {
        CompactionState.INITIATED: entry.enqueued_ms,
        CompactionState.WORKING: entry.started_ms,
        CompactionState.READY_FOR_CLEANING: entry.committed_ms or entry.started_ms,
    }
    return times.get(entry.state) or entry.enqueued_ms or 0


def _txn_figures(txns: Sequence[TxnInfo], now_ms: int) -> tuple[dict[Labels, float], float]:
    by_state: dict[Labels, float] = {}
    for state in (TxnState.OPEN, TxnState.ABORTED):
        labels = (("state", state.name.lower()),)
        by_state[labels] = 0.0 + sum(txn.state is state for txn in txns)
    started = [txn.started_ms for txn in txns if txn.state is TxnState.OPEN]
    return by_state, max(0.0, (now_ms - min(started, default=now_ms)) / 1000)


def _block(metric: Metric, values: Mapping[Labels, float]) -> str:
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    lines += [f"{metric.name}{_label_text(one)} {_number(values[one])}" for one in values]
    return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _label_text(labels: Labels) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + inner + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
