"""Worker and cleaner of one process as steps.

An embedded compactor, a service and a cron job are ways to call them: see ``embedded.py`` and
``service.py``. What goes wrong is counted and logged here, never raised: the next round comes.
"""

from __future__ import annotations

import itertools
import logging
import os

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.metrics import ERRORS, REMOVED, Metrics
from hiveacid.compaction.worker import CompactionResult, Rewrite, Worker
from hiveacid.errors import AcidError
from hiveacid.model.compactions import CompactionState
from hiveacid.model.transactions import AbortReason
from hiveacid.runtime import Runtime

_LOG = logging.getLogger(__name__)
_SERIAL = itertools.count()


class Compactor:
    """The compactor of a process; safe to share between threads. ``version`` is the program's, for
    the history.
    """

    def __init__(self, runtime: Runtime, rewrite: Rewrite, *, version: str) -> None:
        self._runtime = runtime
        self._rewrite = rewrite
        self._version = version
        self._metrics = Metrics()
        self._prefix = f"{runtime.transactions.host}-{os.getpid()}.{next(_SERIAL)}."
        self._workers = itertools.count()
        self._cleaner = Cleaner(runtime)

    @property
    def metrics(self) -> Metrics:
        """What it has counted."""
        return self._metrics

    def render_metrics(self) -> str:
        """All metrics as Prometheus reads them.

        Raises:
            MetastoreError: the queue could not be read.
        """
        store = self._runtime.metastore
        return self._metrics.render(
            queue=store.show_compactions(),
            txns=store.show_txns(),
            now_ms=self._runtime.clock.now_ms(),
        )

    def worker(self) -> Worker:
        """A worker with a name of its own, for one thread."""
        name = f"{self._prefix}{next(self._workers)}"
        return Worker(self._runtime, self._rewrite, name=name, version=self._version)

    def work(self, worker: Worker, *, pool: str | None) -> CompactionResult | None:
        """One compaction of a pool; None where there is nothing to do, or nothing can be had."""
        try:
            result = worker.run_next(pool=pool)
        except AcidError as error:
            self._failed("worker", error)
            return None
        if result is not None:
            self._metrics.add_compaction(result)
        return result

    def clean(self) -> bool:
        """One round of the cleaner; whether something is left for another one."""
        try:
            for done in self._cleaner.run():
                self._metrics.add(REMOVED, len(done.removed))
            entries = self._runtime.metastore.show_compactions()
        except AcidError as error:
            self._failed("cleaner", error)
            return True
        return any(one.state is CompactionState.READY_FOR_CLEANING for one in entries)

    def give_back(self) -> int:
        """Abort the compactions that are under way here: others may take them at once.

        A worker that goes on nevertheless finds its transaction ended.
        """
        store = self._runtime.metastore
        txns = [
            entry.txn
            for entry in store.show_compactions()
            if entry.state is CompactionState.WORKING
            and entry.txn is not None
            and (entry.worker or "").startswith(self._prefix)
        ]
        return len(store.abort_txns(txns, reason=AbortReason.COMPACTION)) if txns else 0

    def _failed(self, what: str, error: AcidError) -> None:
        _LOG.warning("The %s failed: %s", what, error)
        self._metrics.add(ERRORS, what=what)
