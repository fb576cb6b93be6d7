"""What a compactor counts, and the port on which Prometheus reads it: ``GET /metrics``.

Counters are this process's since it started; queue lengths and ages are the metastore's as it is
asked, the same from every service on it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiveacid.client import Client
from hiveacid.compaction.worker import CompactionResult
from hiveacid.errors import AcidError, InvalidInputError, MissingExtraError
from hiveacid.model.compactions import CompactionInfo, CompactionState
from hiveacid.model.transactions import TxnInfo, TxnState

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily, Metric

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Count:
    """A counter: its name, to which Prometheus adds ``_total``, what it says, its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


INITIATED: Final = Count("hiveacid_compactions_initiated", "Compactions that thresholds asked for.")
FINISHED: Final = Count(
    "hiveacid_compactions_finished",
    "Compactions carried out, by outcome.",
    ("type", "outcome"),
)
SECONDS: Final = Count("hiveacid_compaction_seconds", "Time that compactions took.")
ROWS: Final = Count("hiveacid_compaction_rows", "Row events written.")
WRITTEN: Final = Count("hiveacid_compaction_written_bytes", "Bytes written.")
REMOVED: Final = Count("hiveacid_cleaner_removed_directories", "Directories and files removed.")
REMOVED_BYTES: Final = Count("hiveacid_cleaner_removed_bytes", "Bytes of files removed.")
ERRORS: Final = Count(
    "hiveacid_compactor_errors", "Rounds that failed, by what was done.", ("what",)
)
_COUNTS: Final = (INITIATED, FINISHED, SECONDS, ROWS, WRITTEN, REMOVED, REMOVED_BYTES, ERRORS)
_QUEUED: Final = tuple(state for state in CompactionState if state.is_queued)


class Metrics:
    """The counters of a process; safe to share between threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts: Counter[tuple[Count, tuple[str, ...]]] = Counter(
            {(count, ()): 0 for count in _COUNTS if not count.labels}
        )

    def add(self, count: Count, amount: float = 1, **labels: str) -> None:
        """Count."""
        with self._mutex:
            self._counts[count, tuple(labels[name] for name in count.labels)] += amount  # type: ignore[assignment]

    def value(self, count: Count, **labels: str) -> float:
        """What was counted so far."""
        return self._counts[count, tuple(labels[name] for name in count.labels)]

    def add_compaction(self, result: CompactionResult) -> None:
        """Count what became of a compaction."""
        kind, outcome = result.compaction.type.name.lower(), result.outcome.value
        self.add(FINISHED, type=kind, outcome=outcome)
        self.add(SECONDS, result.elapsed_s)
        self.add(ROWS, result.rows)
        self.add(WRITTEN, result.size_bytes)

    def counted(self) -> dict[tuple[Count, tuple[str, ...]], float]:
        """All values, by counter and the values of its labels."""
        with self._mutex:
            return dict(self._counts)


class MetricsCollector:
    """Gives the library of Prometheus all metrics of a process and its metastore."""

    def __init__(self, metrics: Metrics, client: Client) -> None:
        self._metrics = metrics
        self._client = client

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now; those of the metastore are missing while it fails."""
        from prometheus_client.core import CounterMetricFamily

        store = self._client.metastore
        gauges: Iterable[Metric] = ()
        try:
            now_ms = self._client.clock.now_ms()
            gauges = _gauges(store.show_compactions(), store.show_txns(), now_ms)
        except AcidError as error:
            _LOG.warning("Metrics of the metastore failed: %s", error)
            self._metrics.add(ERRORS, what="metrics")
        values = self._metrics.counted()
        for count in _COUNTS:
            family = CounterMetricFamily(count.name, count.help, labels=count.labels)
            for (of, labels), value in values.items():
                if of is count:
                    family.add_metric(labels, value)
            yield family
        yield from gauges


def _gauges(
    queue: Sequence[CompactionInfo], txns: Sequence[TxnInfo], now_ms: int
) -> tuple[GaugeMetricFamily, ...]:
    from prometheus_client.core import GaugeMetricFamily

    lengths = GaugeMetricFamily(
        "hiveacid_compaction_queue_length", "Entries of the queue by state.", labels=["state"]
    )
    ages = GaugeMetricFamily(
        "hiveacid_compaction_oldest_age_seconds",
        "For how long the oldest entry of a state has waited or been worked on.",
        labels=["state"],
    )
    for state in _QUEUED:
        since = [_since_ms(entry) for entry in queue if entry.state is state]
        lengths.add_metric([state.phrase], len(since))
        ages.add_metric([state.phrase], _age_s(since, now_ms))
    counts = GaugeMetricFamily(
        "hiveacid_transactions", "Transactions that are open or aborted.", labels=["state"]
    )
    for kind in (TxnState.OPEN, TxnState.ABORTED):
        counts.add_metric([kind.name.lower()], sum(txn.state is kind for txn in txns))
    begun = [txn.started_ms for txn in txns if txn.state is TxnState.OPEN]
    oldest = GaugeMetricFamily(
        "hiveacid_oldest_open_transaction_age_seconds",
        "Age of the oldest open transaction; nothing that it may read is cleaned.",
        value=_age_s(begun, now_ms),
    )
    return lengths, ages, counts, oldest


def _age_s(since_ms: Sequence[int], now_ms: int) -> float:
    return max(0.0, (now_ms - min(since_ms, default=now_ms)) / 1000)


def _since_ms(entry: CompactionInfo) -> int:
    """Since when an entry has been in its state."""
    times = {
        CompactionState.INITIATED: entry.enqueued_ms,
        CompactionState.WORKING: entry.started_ms,
        CompactionState.READY_FOR_CLEANING: entry.committed_ms or entry.started_ms,
    }
    return times.get(entry.state) or entry.enqueued_ms or 0


class MetricsPort:
    """The port, open until ``close``; ``port`` 0 takes a free one.

    Raises:
        MissingExtraError: the library of Prometheus is not installed.
        InvalidInputError: the address cannot be used.
    """

    def __init__(self, collector: MetricsCollector, *, host: str, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise MissingExtraError(
                "Metrics need prometheus_client, which is not installed",
                note="pip install 'hiveacid[metrics]'",
            ) from error
        registry = CollectorRegistry()
        registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            raise InvalidInputError(
                f"Metrics cannot be served at {host}:{port}: {error}", host=host, port=port
            ) from error

    @property
    def port(self) -> int:
        """The number of the port."""
        return self._server.server_port

    def close(self) -> None:
        """Give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
