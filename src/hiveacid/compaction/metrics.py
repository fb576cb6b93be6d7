"""What a compactor counts, and the port on which Prometheus reads it: ``GET /metrics``.

Counters are this process's since it started; queue lengths and ages are the metastore's as it is
asked, the same from every service on it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiveacid.client import Client
from hiveacid.compaction.cleaning import keeps_all
from hiveacid.compaction.cleaning_report import kept_bytes
from hiveacid.compaction.worker import CompactionResult
from hiveacid.errors import AcidError, InvalidInputError, MissingExtraError, NotFoundError
from hiveacid.model.compactions import CompactionId, CompactionInfo, CompactionState
from hiveacid.model.transactions import TxnInfo, TxnState
from hiveacid.txn.manager import retained_until_ms, retention_s

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
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
_KEPT_S: Final = 600.0
"""The bytes that are kept are looked up no more often."""
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
        self._kept: tuple[float, dict[str, int]] | None = None

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now; those of the metastore are missing while it fails."""
        from prometheus_client.core import CounterMetricFamily

        store = self._client.metastore
        gauges: Iterable[Metric] = ()
        try:
            now_ms = self._client.clock.now_ms()
            queue = store.show_compactions()
            overdue = _overdue(self._client, queue)
            gauges = (*_gauges(queue, store.show_txns(), now_ms, overdue), self._kept_bytes())
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

    def _kept_bytes(self) -> GaugeMetricFamily:
        """Takes a listing of tables: looked at once in a while."""
        from prometheus_client.core import GaugeMetricFamily

        now_s = self._client.clock.monotonic_s()
        if self._kept is None or now_s - self._kept[0] > _KEPT_S:
            self._kept = now_s, kept_bytes(self._client)
        family = GaugeMetricFamily(
            "hiveacid_kept_bytes", "Bytes of replaced files, by what keeps them.", labels=["reason"]
        )
        for reason, size_bytes in self._kept[1].items():
            family.add_metric([reason], size_bytes)
        return family


def _overdue(client: Client, queue: Sequence[CompactionInfo]) -> dict[CompactionId, int]:
    """Since when what a compaction replaced could be gone: not while a retention, a tag, a consumer
    or ``no_cleanup`` keeps it on purpose.
    """
    ready = [one for one in queue if one.state is CompactionState.READY_FOR_CLEANING]
    if not ready:
        return {}
    now_ms, tables = client.clock.now_ms(), {}
    pinned = {one.table for one in client.own.pins() if (one.expires_ms or now_ms + 1) > now_ms}
    for name in {one.table for one in ready} - pinned:
        with suppress(NotFoundError, InvalidInputError):
            table = client.metastore.get_table(name)
            if not keeps_all(table, None):
                tables[name] = retention_s(table, client.settings)
    return {
        one.id: retained_until_ms(one, tables[one.table]) or _since_ms(one)
        for one in ready
        if one.table in tables
    }


def _gauges(
    queue: Sequence[CompactionInfo],
    txns: Sequence[TxnInfo],
    now_ms: int,
    overdue: Mapping[CompactionId, int],
) -> tuple[GaugeMetricFamily, ...]:
    from prometheus_client.core import GaugeMetricFamily

    lengths = GaugeMetricFamily(
        "hiveacid_compaction_queue_length", "Entries of the queue by state.", labels=["state"]
    )
    ages = GaugeMetricFamily(
        "hiveacid_compaction_oldest_age_seconds",
        "How long the oldest entry of a state has waited or been worked on; for cleaning, since "
        "nothing keeps its files on purpose.",
        labels=["state"],
    )
    for state in _QUEUED:
        since = [_since_ms(entry) for entry in queue if entry.state is state]
        lengths.add_metric([state.phrase], len(since))
        if state is CompactionState.READY_FOR_CLEANING:
            since = [overdue[entry.id] for entry in queue if entry.id in overdue]
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


def metrics_text(client: Client) -> str:
    """The metrics of a metastore now, as Prometheus reads them.

    Raises:
        MissingExtraError: the library of Prometheus is not installed.
        AcidError: the metastore or a listing failed.
    """
    registry = _registry(MetricsCollector(Metrics(), client))
    from prometheus_client import generate_latest

    return str(generate_latest(registry).decode())


def _registry(collector: MetricsCollector) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise MissingExtraError(
            "Metrics need prometheus_client, which is not installed",
            note="pip install 'hiveacid[metrics]'",
        ) from error
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class MetricsPort:
    """The port, open until ``close``; ``port`` 0 takes a free one.

    Raises:
        MissingExtraError: the library of Prometheus is not installed.
        InvalidInputError: the address cannot be used.
    """

    def __init__(self, collector: MetricsCollector, *, host: str, port: int) -> None:
        registry = _registry(collector)
        from prometheus_client import start_http_server

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
