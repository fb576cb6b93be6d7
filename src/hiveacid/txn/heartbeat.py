"""Keeps transactions and locks alive: one background thread for all of a process.

A beat sends one heartbeat for each run of consecutive ids, tells transactions that the metastore
has given up, ends leases that are over, tells the metastore what it could not be told before, and
does the housekeeping that is due.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from hiveacid.clock import Clock, Threads
from hiveacid.errors import AcidError, MetastoreError, NotFoundError, tolerated
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.tables import LockId, TxnId
from hiveacid.settings import Settings

_LOG = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeats of one metastore's transactions; safe to share between threads."""

    def __init__(
        self, store: Metastore, *, clock: Clock, settings: Callable[[], Settings], threads: Threads
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._threads = threads
        self._mutex = threading.Lock()
        self._lost: dict[TxnId, Callable[[], None]] = {}
        self._leases: dict[TxnId, tuple[float, Callable[[], None]]] = {}
        self._locks: set[LockId] = set()
        self._untold: list[Callable[[], object]] = []
        self._stop: Callable[[], None] | None = None

    def add(
        self,
        txn: TxnId,
        *,
        on_lost: Callable[[], None],
        lease_s: float | None = None,
        on_lease_over: Callable[[], None] | None = None,
    ) -> None:
        """Keep a transaction alive; ``on_lost`` is called where the metastore has ended it.

        A lease ends after ``lease_s`` by ``on_lease_over``.
        """
        with self._mutex:
            self._lost[txn] = on_lost
            if lease_s is not None and on_lease_over is not None:
                self._leases[txn] = (self._clock.monotonic_s() + lease_s, on_lease_over)
            self._start()

    def remove(self, txn: TxnId) -> None:
        """Forget a transaction that has ended."""
        with self._mutex:
            self._lost.pop(txn, None)
            self._leases.pop(txn, None)

    def add_lock(self, lock: LockId) -> None:
        """Keep a lock without a transaction alive."""
        with self._mutex:
            self._locks.add(lock)
            self._start()

    def remove_lock(self, lock: LockId) -> None:
        """Forget a lock that was given back."""
        with self._mutex:
            self._locks.discard(lock)

    def tell(self, end: Callable[[], object]) -> None:
        """End in the metastore what others wait for. Where it fails, on a full disk or for want of
        its server, it is told again until it knows: before the next transaction and by each beat.

        Raises:
            MetastoreError: it failed.
        """
        try:
            end()
        except MetastoreError:
            with self._mutex:
                self._untold.append(end)
            raise

    def tell_again(self) -> None:
        """Tell the metastore what it could not be told."""
        with self._mutex:
            due, self._untold = self._untold, []
        with tolerated(_LOG, "The metastore cannot be told yet: %s"):
            while due:
                self.tell(due.pop(0))
        with self._mutex:
            self._untold += due

    def stop(self) -> None:
        """End the background work."""
        with self._mutex:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def leased(self) -> frozenset[TxnId]:
        """The transactions that are leases."""
        with self._mutex:
            return frozenset(self._leases)

    def end_leases(self, *, but: Collection[TxnId] = ()) -> None:
        """End the leases but those before their time; where the metastore fails they are left to
        time out.
        """
        with self._mutex:
            ends = [end for txn, (_, end) in self._leases.items() if txn not in but]
        for end in ends:
            if not _end_lease(end):
                return

    def beat(self) -> None:
        """Send the heartbeats that are due; a failure is logged and the next beat tries again."""
        self.tell_again()
        now_s = self._clock.monotonic_s()
        with self._mutex:
            over = [end for until, end in self._leases.values() if now_s >= until]
        for end in over:
            _end_lease(end)
        with self._mutex:
            txns = sorted(self._lost)
            locks = sorted(self._locks)
        with tolerated(_LOG, "Heartbeat failed: %s", only=MetastoreError, txns=txns):
            for lock in locks:
                self._beat_lock(lock)
            for first, last in _runs(txns):
                found = self._store.heartbeat_range(first, last)
                for txn in (*found.aborted, *found.missing):
                    self._tell_lost(txn)
            own(self._store).run_housekeeping(interval_s=self._settings().housekeeping_interval_s)

    def _beat_lock(self, lock: LockId) -> None:
        try:
            self._store.heartbeat(lock=lock)
        except NotFoundError as error:
            with self._mutex:
                is_kept = lock in self._locks  # else it was given back meanwhile
                self._locks.discard(lock)
            if is_kept:
                _LOG.warning("A lock is lost: %s", error, extra={"lock": lock})

    def _start(self) -> None:
        if self._stop is None:
            self._stop = self._threads.every(
                self._settings().txn_timeout_s / 2, self.beat, name="hiveacid-heartbeat"
            )

    def _tell_lost(self, txn: TxnId) -> None:
        with self._mutex:
            on_lost = self._lost.pop(txn, None)
            self._leases.pop(txn, None)
        if on_lost is not None:
            on_lost()


def _end_lease(end: Callable[[], None]) -> bool:
    """Whether the metastore could be told."""
    try:
        end()
    except AcidError as error:
        _LOG.warning("A read lease could not be ended: %s", error)
        return not isinstance(error, MetastoreError)
    return True


def _runs(txns: Iterable[TxnId]) -> list[tuple[TxnId, TxnId]]:
    """Cut sorted ids into runs of consecutive ones."""
    runs: list[tuple[TxnId, TxnId]] = []
    for txn in txns:
        if runs and runs[-1][1] + 1 == txn:
            runs[-1] = (runs[-1][0], txn)
        else:
            runs.append((txn, txn))
    return runs
