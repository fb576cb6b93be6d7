"""Initiator, worker and cleaner of one process as three steps, and a service: loops over them.

An embedded compactor, a service and a cron job are ways to call them. What goes wrong is counted
and logged here, never raised: the next round comes.

Several services on one database share its queue: the initiator's and the cleaner's turns are taken
in the metastore, an entry is claimed by one worker.

Inside a writing application it is one background thread, one thing at a time:

    commit -> note(tables) -> thresholds -> one compaction after the other -> cleaner

``note`` is all that a commit pays for: it remembers names. The thread starts with the first of
them. A table is looked at again only some time after its last look, however often it is written to;
what is replaced is cleaned when its last reader has gone, so the cleaner comes again, ever more
seldom, while there is something for it to do. A session that lives long takes turns with others in
looking at everything, and cleans then; one that ends soon looks at what it has written before it
ends.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from hiveacid.client import Client
from hiveacid.clock import Clock, Loop, Threads
from hiveacid.compaction.cleaner import Cleaned, Cleaner
from hiveacid.compaction.cleaning_report import (
    CleanedPath,
    of_cleaning,
    of_preview,
    of_sweep,
    preview_cleaning,
)
from hiveacid.compaction.initiator import Initiator, Verdict
from hiveacid.compaction.metrics import (
    ERRORS,
    INITIATED,
    REMOVED,
    REMOVED_BYTES,
    Metrics,
    MetricsCollector,
    MetricsPort,
)
from hiveacid.compaction.worker import CompactionResult, Rewrite, Worker
from hiveacid.errors import AcidError, InvalidInputError, StorageError
from hiveacid.model.compactions import CompactionState
from hiveacid.model.tables import RETENTION, Table, TableName
from hiveacid.model.transactions import AbortReason
from hiveacid.settings import Settings
from hiveacid.txn.manager import retention_s

if TYPE_CHECKING:
    from hiveacid.compaction.worker import Worker

_LOG = logging.getLogger(__name__)
_SERIAL = itertools.count()
_SWEEP_TURN: Final = "HiveacidSweeper"
"""The key of the turn in Hive's AUX_TABLE."""
_SWEEP_S: Final = 3600.0


class Compactor:
    """The compactor of a process; safe to share between threads. ``beside`` is the rewrite for
    workers beside an application, ``version`` is the program's, for the history.
    """

    def __init__(
        self, client: Client, rewrite: Rewrite, *, version: str, beside: Rewrite | None = None
    ) -> None:
        self._client = client
        self._rewrite = rewrite
        self._beside = beside or rewrite
        self._version = version
        self.metrics = Metrics()
        self._prefix = f"{client.transactions.host}-{os.getpid()}.{next(_SERIAL)}."
        self._workers = itertools.count()
        self.initiator = Initiator(client, name=f"{self._prefix}initiator")
        self._cleaner = Cleaner(client)

    def initiate(
        self, tables: Collection[TableName] | None = None, *, always: bool = False
    ) -> frozenset[str | None]:
        """Ask for what these tables need, or, if it is this process's turn or ``always``, what any
        needs; the pools of what was asked for.
        """
        initiator = self.initiator
        with self._noting("initiator"):
            if tables is not None:
                return self._asked(initiator.look_at(tables))
            return self._asked(initiator.run_cycle() if always else initiator.run_if_due())
        return frozenset()

    def _asked(self, verdicts: Iterable[Verdict]) -> frozenset[str | None]:
        asked = [one.compaction for one in verdicts if one.compaction is not None]
        self.metrics.add(INITIATED, len(asked))
        show = self._client.metastore.show_compactions
        return frozenset(entry.pool for one in asked for entry in show(compaction=one))

    def worker(self, rewrite: Rewrite | None = None, *, beside: bool = False) -> Worker:
        """A worker with a name of its own, for one thread; ``beside``: of an application that goes
        on meanwhile. ``rewrite`` None is the compactor's.
        """
        name = f"{self._prefix}{next(self._workers)}"
        rewrite = rewrite or (self._beside if beside else self._rewrite)
        return Worker(self._client, rewrite, name=name, version=self._version)

    def work(self, worker: Worker, *, pool: str | None) -> CompactionResult | None:
        """One compaction of a pool; None where there is nothing to do, or nothing can be had."""
        result = None
        with self._noting("worker"):
            result = worker.run_next(pool=pool)
        if result is not None:
            self.metrics.add_compaction(result)
        return result

    def clean(self) -> bool:
        """One round of the cleaner; whether something is left for another one."""
        with self._noting("cleaner"):
            self._cleaned(self._cleaner, None)
            entries = self._client.metastore.show_compactions()
            return any(one.state is CompactionState.READY_FOR_CLEANING for one in entries)
        return True

    def housekeep(self, *, always: bool = False) -> None:
        """End transactions that have timed out, of killed workers and readers, and forget what
        nobody needs; once in the interval of the settings for all processes, unless ``always``.
        """
        interval_s = 0.0 if always else self._client.settings.housekeeping_interval_s
        with self._noting("housekeeper"):
            self._client.own.run_housekeeping(interval_s=interval_s)

    def relieve(self) -> None:
        """Give back what dead workers hold, for who waits for it and may be all alone."""
        self.housekeep()
        with self._noting("initiator"):
            self.initiator.relieve_if_due()

    def sweep(self, *, always: bool = False) -> None:
        """Remove what killed writers left staged, in all tables; once an hour for all processes of
        a metastore, unless ``always``.
        """
        with self._noting("sweeper"):
            turn = self._client.own.begin_cycle(_SWEEP_TURN, interval_s=_SWEEP_S)
            tables = tuple(self._cleaner.all_tables()) if always or turn is not None else ()
            for table in tables:
                with self._noting("sweeper"):  # one table's directory says nothing of others
                    self.metrics.add(REMOVED, len(self._cleaner.sweep((table,))))

    def clean_tables(
        self, tables: Sequence[Table] | None, *, dry_run: bool, retain_s: float | None = None
    ) -> tuple[CleanedPath, ...]:
        """Clean these tables, or all, now, orphans too; ``dry_run`` only tells. What was replaced
        within ``retain_s`` stays.

        Raises:
            MetastoreError, FormatError: as ``preview_cleaning`` and ``sweep``.
            StorageError: a table's directory failed; the others are clean.
            InvalidInputError: ``retain_s`` is shorter than a table's retention.
        """
        chosen = tuple(self._cleaner.all_tables()) if tables is None else tuple(tables)
        if retain_s is not None:
            for table in chosen:
                _check_retained(table, retain_s, self._client.settings)
        if dry_run:
            return tuple(of_preview(preview_cleaning(self._client, chosen, retain_s=retain_s or 0)))
        names = [None] if tables is None else [table.name for table in chosen]
        cleaner = Cleaner(self._client, retain_s=retain_s) if retain_s else self._cleaner
        done = [one for name in names for one in self._cleaned(cleaner, name)]
        swept: list[CleanedPath] = []
        failed: list[StorageError] = []
        for table in chosen:
            try:
                swept += of_sweep(table, self._cleaner.sweep((table,)))
            except StorageError as error:  # noqa: PERF203 - one table says nothing of the others
                failed.append(error)
        if failed:
            raise failed[0]
        return (*of_cleaning(done), *swept)

    def _cleaned(self, cleaner: Cleaner, table: TableName | None) -> tuple[Cleaned, ...]:
        done = cleaner.run_all(table)
        self.metrics.add(REMOVED, sum(len(one.removed) for one in done))
        self.metrics.add(REMOVED_BYTES, sum(one.removed_bytes for one in done))
        return done

    def give_back(self) -> int:
        """Abort the compactions that are under way here: others may take them at once.

        A worker that goes on nevertheless finds its transaction ended.
        """
        store = self._client.metastore
        txns = [
            entry.txn
            for entry in store.show_compactions()
            if entry.state is CompactionState.WORKING
            and entry.txn is not None
            and (entry.worker or "").startswith(self._prefix)
        ]
        return len(store.abort_txns(txns, reason=AbortReason.COMPACTION)) if txns else 0

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """What fails in one round is noted, and tried again in the next."""
        try:
            yield
        except AcidError as error:
            _LOG.warning("The %s failed: %s", what, error)
            self.metrics.add(ERRORS, what=what)


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


def _check_retained(table: Table, retain_s: float, settings: Settings) -> None:
    kept_s = retention_s(table, settings)
    if retain_s < kept_s:
        raise InvalidInputError(
            f"{table.name} keeps what was replaced for {kept_s / 3600:g} h: {retain_s / 3600:g} h"
            " are fewer",
            table=str(table.name),
            note=f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{RETENTION}'='{retain_s:g}s')"
            " shortens it for all; queries that run longer than that may then end in an error",
        )


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


# -------------------------------------------------------------------- inside a writing application

_TICK_S: Final = 0.25
_CLEANING_PAUSE_MAX_S: Final = 60.0


class EmbeddedCompactor:
    """Compacts what a session writes to, and what it was asked to compact, while ``is_on``.

    ``compactor`` makes that of the process when it is first needed.
    """

    def __init__(
        self,
        compactor: Callable[[], Compactor],
        *,
        is_on: Callable[[], bool],
        clock: Clock,
        settings: Callable[[], Settings],
        threads: Threads,
    ) -> None:
        self._compactor = compactor
        self._is_on = is_on
        self._clock = clock
        self._settings = settings
        self._threads = threads
        self._mutex = threading.Lock()
        self._noted: set[TableName] = set()
        self._looked_s: dict[TableName, float] = {}
        self._requested: set[str | None] = set()
        self._cycled_s = clock.monotonic_s()
        self._cleaning_due_s: float | None = None
        self._cleaning_pause_s = settings().compactor_cleaner_interval_s
        self._worker: Worker | None = None
        self._loop: Loop | None = None
        self._ends = False
        """Whether this is the last step."""
        self._ended = threading.Event()
        self._is_over = False
        """Whether nobody waits any more for what is done here."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is noted, asked for or under way."""
        with self._mutex:
            waits = self._noted or self._requested
            return not waits and (self._loop is None or self._loop.is_idle)

    def note(self, tables: Collection[TableName]) -> None:
        """Tables were written to: look at them soon."""
        with self._mutex:
            if self._is_on():
                self._noted.update(tables)
                self._start()

    def request(self, pool: str | None) -> None:
        """There is a request of this pool in the queue."""
        with self._mutex:
            if self._is_on():
                self._requested.add(pool)
                self._start()

    def step(self) -> None:
        """Do what is due; the thread calls this, or a simulation."""
        if self._is_on():
            self._do_what_is_due()
        if self._ends:
            self._ended.set()

    def _do_what_is_due(self) -> None:
        now_s, settings = self._clock.monotonic_s(), self._settings()
        tables, pools = self._take_due(now_s)
        if tables:
            # The default pool also without a new request: an earlier session may have left one.
            pools |= {None} | self._compactor().initiate(tables)
        if now_s >= self._cycled_s + settings.compactor_check_interval_s:
            self._cycled_s = now_s
            pools |= self._compactor().initiate()
            self._compactor().sweep()
            self._cleaning_due_s = now_s  # of aborted transactions no compaction need tell
        for pool in pools:
            self._work(pool)
        if pools:
            self._cleaning_pause_s = settings.compactor_cleaner_interval_s
            self._cleaning_due_s = now_s
        self._clean_if_due()

    def close(self) -> None:
        """Look at what was noted, and end; a compaction that does not end in time is given back to
        the queue.
        """
        with self._mutex:
            loop, self._loop = self._loop, None
            has_work = bool(self._noted or self._requested)
            self._ends = True
        if loop is None:
            return
        timeout_s = self._settings().compactor_drain_s
        if has_work:
            loop.wake()
            self._ended.wait(timeout_s)
            timeout_s = 0.0
        self._is_over = True
        loop.end()
        if not loop.wait(timeout_s=timeout_s):
            count = self._compactor().give_back()
            _LOG.info(
                "%s compactions were given back to the queue; what is rewritten of them still"
                " ends by itself, and is published nowhere",
                count,
            )

    def _start(self) -> None:
        if self._loop is None and not self._ends:
            self._loop = Loop(
                self.step,
                pause_s=_TICK_S,
                name="hiveacid-compactor",
                clock=self._clock,
                threads=self._threads,
            )

    def _take_due(self, now_s: float) -> tuple[set[TableName], set[str | None]]:
        pause_s = 0.0 if self._ends else self._settings().compactor_embedded_pause_s
        with self._mutex:
            due = {
                table
                for table in self._noted
                if now_s - self._looked_s.get(table, -pause_s) >= pause_s
            }
            self._noted -= due
            self._looked_s.update(dict.fromkeys(due, now_s))
            pools, self._requested = self._requested, set()
        return due, pools

    def _work(self, pool: str | None) -> None:
        if self._worker is None:
            self._worker = self._compactor().worker(beside=True)
        while not self._is_over and self._compactor().work(self._worker, pool=pool) is not None:
            pass

    def _clean_if_due(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._is_over or self._cleaning_due_s is None or now_s < self._cleaning_due_s:
            return
        if self._compactor().clean():
            self._cleaning_due_s = now_s + self._cleaning_pause_s
            self._cleaning_pause_s = min(2 * self._cleaning_pause_s, _CLEANING_PAUSE_MAX_S)
        else:
            self._cleaning_due_s = None
