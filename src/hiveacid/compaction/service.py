"""A compaction service: initiator, workers and cleaner in loops of their own, and its metrics.

Several services on one database share its queue: the initiator's and the cleaner's turns are taken
in the metastore, an entry is claimed by one worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hiveacid.client import Client
from hiveacid.clock import Clock, Threads
from hiveacid.compaction.compactor import Compactor
from hiveacid.compaction.embedded import Loop
from hiveacid.compaction.metrics import MetricsCollector, MetricsPort
from hiveacid.compaction.worker import CompactionResult, Worker

_TURN_S: Final = 10.0
"""How often a service looks whether it is the initiators' turn."""
_UNKNOWN_READERS_S: Final = 1.2
"""For a second after a commit there may be a reader whose transaction cannot be seen yet
(metastore.md 2.3): nothing is cleaned before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How many workers of which pool (None: the default pool); where metrics are served, on no
    port where that is None.
    """

    workers: int = 1
    pool: str | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"


class CompactionService:
    """Loops over one compactor's steps, from ``start`` to ``drain``."""

    def __init__(
        self, client: Client, compactor: Compactor, options: ServiceOptions, *, threads: Threads
    ) -> None:
        self._client = client
        self._compactor = compactor
        self._options = options
        self._threads = threads
        self._loops: list[Loop] = []
        self._workers: list[Loop] = []
        self._port: MetricsPort | None = None
        self._draining = False

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics, None where they are not served."""
        return None if self._port is None else self._port.port

    def start(self) -> None:
        """Begin.

        Raises:
            MissingExtraError, InvalidInputError: the metrics' port cannot be used.
        """
        options, settings = self._options, self._client.settings
        if options.metrics_port is not None:
            collector = MetricsCollector(self._compactor.metrics, self._client)
            self._port = MetricsPort(
                collector, host=options.metrics_host, port=options.metrics_port
            )
        interval_s = settings.compactor_check_interval_s
        for number in range(options.workers):
            work = partial(self._work, self._compactor.worker())
            name, pause_s = f"worker-{number}", settings.compactor_worker_pause_s
            self._workers.append(self._loop(name, work, pause_s))
        self._loop("initiator", self._initiate, min(interval_s, _TURN_S))
        self._loop("cleaner", self._compactor.clean, settings.compactor_cleaner_interval_s)
        self._loop("housekeeper", self._compactor.housekeep, settings.housekeeping_interval_s)
        self._loop("sweeper", self._compactor.sweep, interval_s)

    def drain(self, *, timeout_s: float) -> int:
        """End: finish what is under way, give back to the queue what does not end in time; how
        much that was.
        """
        self._draining = True
        for loop in self._loops:
            loop.end()
        clock = self._client.clock
        until_s = clock.monotonic_s() + timeout_s
        idle = [loop.wait(timeout_s=until_s - clock.monotonic_s()) for loop in self._loops]
        given_back = 0 if all(idle) else self._compactor.give_back()
        if self._port is not None:
            self._port.close()
        return given_back

    def _initiate(self) -> None:
        """What is asked for here is not left for as long as a worker pauses."""
        if self._options.pool in self._compactor.initiate():
            for worker in self._workers:
                worker.wake()

    def _work(self, worker: Worker) -> None:
        while not self._draining and self._compactor.work(worker, pool=self._options.pool):
            pass

    def _loop(self, name: str, work: Callable[[], object], pause_s: float) -> Loop:
        loop = Loop(
            work,
            pause_s=pause_s,
            name=f"hiveacid-{name}",
            clock=self._client.clock,
            threads=self._threads,
        )
        self._loops.append(loop)
        return loop


def run_once(
    compactor: Compactor, *, pool: str | None, clock: Clock, workers: int = 1
) -> tuple[CompactionResult, ...]:
    """One round for cron: look at everything, work until a pool's queue is empty (not where there
    are no ``workers``), clean.
    """
    compactor.housekeep(always=True)
    compactor.initiate(always=True)
    worker = compactor.worker()
    results: list[CompactionResult] = []
    while workers and (result := compactor.work(worker, pool=pool)) is not None:
        results.append(result)
    if results:
        clock.sleep_s(_UNKNOWN_READERS_S)
    compactor.clean()
    compactor.sweep(always=True)
    return tuple(results)
