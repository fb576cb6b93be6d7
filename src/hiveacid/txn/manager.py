"""Begins transactions and keeps them alive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hiveacid.clock import Clock, DaemonThreads, Threads
from hiveacid.errors import MetastoreError
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.ids import LockId, TxnId
from hiveacid.model.locks import SESSION_PREFIX, LockComponent
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import Isolation, TxnType
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files
from hiveacid.txn.heartbeat import Heartbeat
from hiveacid.txn.manager_api import Managed
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.waiting import wait_for_lock

_LOG = logging.getLogger(__name__)
_OPEN_TRIES = 5
CommitListener = Callable[[frozenset[TableName]], None]
"""Gets the tables that a committed transaction has written to."""


class TransactionManager:
    """Begins transactions on one metastore; safe to share between threads."""

    def __init__(
        self,
        metastore: Metastore,
        clock: Clock,
        settings: Settings,
        *,
        user: str = "hiveacid",
        host: str = "localhost",
        threads: Threads | None = None,
        files: Files | None = None,
        session: str | None = None,
    ) -> None:
        """``session`` is a name that no other manager has; without one a deadlock over the locks of
        ``lock`` is not found.
        """
        self._metastore = metastore
        self._clock = clock
        self._settings = settings
        self._user = user
        self._host = host
        self._files = files or Files()
        self._agent_info = None if session is None else f"{SESSION_PREFIX}{session}"
        self._listeners: tuple[CommitListener, ...] = ()
        self._housekept_s: float | None = None
        self._hive_cleans = False
        self._held: dict[LockId, Sequence[LockComponent]] = {}
        self._heartbeat = Heartbeat(
            metastore,
            clock=clock,
            settings=lambda: self._settings,
            threads=threads or DaemonThreads(),
        )

    @property
    def metastore(self) -> Metastore:
        """Where the transactions are."""
        return self._metastore

    @property
    def clock(self) -> Clock:
        """The time."""
        return self._clock

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._settings

    @property
    def files(self) -> Files:
        """What snapshots are read from."""
        return self._files

    @property
    def user(self) -> str:
        """Whom the transactions belong to."""
        return self._user

    @property
    def host(self) -> str:
        """The machine they run on."""
        return self._host

    @property
    def agent_info(self) -> str | None:
        """What the lock requests name as their session, as SHOW LOCKS EXTENDED prints it."""
        return self._agent_info

    @property
    def heartbeat(self) -> Heartbeat:
        """What keeps the transactions alive; a simulation calls its ``beat``."""
        return self._heartbeat

    @property
    def hive_cleans(self) -> bool:
        """Whether a cleaner of Hive may work on the metastore, as far as was seen at the last
        housekeeping.
        """
        return self._hive_cleans

    def use_settings(self, settings: Settings) -> None:
        """Let these be the settings from now on, also of transactions under way."""
        self._settings = settings

    def begin(self, *, read_only: bool = False, isolation: Isolation | None = None) -> Transaction:
        """Open a transaction; a read-only one is a lease that ends by itself.

        ``isolation`` None is that of the settings.

        Raises:
            MetastoreError: the metastore failed.
        """
        self._housekeeping_if_due()
        txn = self.open_txn(read_only=read_only)
        chosen = isolation or Isolation(self._settings.isolation)
        return Transaction(self, txn, read_only=read_only, isolation=chosen)

    def begin_batch(self, n: int, table: TableName) -> tuple[Transaction, ...]:
        """Open ``n`` transactions of one snapshot with consecutive write ids of ``table``, to be
        used one after the other.

        Raises:
            InvalidInputError: more than the metastore opens at once.
            MetastoreError: the metastore failed; what was opened will time out.
        """
        self._housekeeping_if_due()
        ids = self._opened(n, TxnType.DEFAULT)
        valid = self._metastore.valid_txns(ids[0])
        write_ids = self._metastore.allocate_write_ids(ids, table)
        batch = [
            Transaction(self, txn, read_only=False, isolation=Isolation.SNAPSHOT) for txn in ids
        ]
        for txn in batch:
            txn.in_batch(valid, {table: write_ids[txn.id]})
        return tuple(batch)

    def begin_compaction(self, *, rebalance: bool) -> Transaction:
        """Open a compactor's transaction: it gets no write ids, and its commit takes part in no
        conflict, but that of a rebalance which recorded an UPDATE with its lock.

        Raises:
            MetastoreError: the metastore failed.
        """
        kind = TxnType.REBALANCE_COMPACTION if rebalance else TxnType.COMPACTION
        txn = self._open(kind)
        return Transaction(self, txn, read_only=False, isolation=Isolation.SNAPSHOT)

    def open_txn(self, *, read_only: bool) -> TxnId:
        """Open a bare transaction, again where it took too long (metastore.md 2.1)."""
        return self._open(TxnType.READ_ONLY if read_only else TxnType.DEFAULT)

    def _open(self, kind: TxnType) -> TxnId:
        return self._opened(1, kind)[0]

    def _opened(self, n: int, kind: TxnType) -> tuple[TxnId, ...]:
        tries_left = _OPEN_TRIES
        while True:
            tries_left -= 1
            try:
                return self._metastore.open_txns(n, user=self._user, host=self._host, txn_type=kind)
            except MetastoreError as error:
                if not error.context.get("retryable") or tries_left == 0:
                    raise

    @property
    def held_locks(self) -> Mapping[LockId, Sequence[LockComponent]]:
        """What ``lock`` took and ``unlock`` has not given back."""
        return dict(self._held)

    def lock(self, components: Sequence[LockComponent]) -> LockId:
        """Take locks that belong to no transaction (LOCK TABLE), waiting for them; they are kept
        alive until they are given back. Transactions of this manager do not wait for them.

        Raises:
            LockError: not granted before the deadline, or given up to break a deadlock; the locks
            taken before stay.
        """
        lock = wait_for_lock(
            self._metastore,
            components,
            txn=None,
            user=self._user,
            host=self._host,
            clock=self._clock,
            settings=self._settings,
            agent_info=self._agent_info,
            held=lambda: self.held_locks,
        )
        self._held[lock] = components
        self._heartbeat.add_lock(lock)
        return lock

    def unlock(self, lock: LockId) -> None:
        """Give such locks back (UNLOCK TABLE); nothing happens where they are lost."""
        self._held.pop(lock, None)
        self._heartbeat.remove_lock(lock)
        self._metastore.unlock(lock)

    def keep_alive(self, transaction: Managed) -> None:
        """Send heartbeats for the transaction until it is forgotten."""
        is_lease = transaction.is_read_only
        self._heartbeat.add(
            transaction.id,
            on_lost=transaction.lost,
            lease_s=self._settings.reads_lease_s if is_lease else None,
            on_lease_over=transaction.close if is_lease else None,
        )

    def forget(self, transaction: Managed) -> None:
        """Send no more heartbeats for the transaction; who listens is told of its commit."""
        self._heartbeat.remove(transaction.id)
        if transaction.is_committed and transaction.written_tables:
            for listener in self._listeners:
                listener(transaction.written_tables)

    def on_commit(self, listener: CommitListener) -> None:
        """Tell ``listener`` of each commit from now on; it must be quick and must not fail."""
        self._listeners = (*self._listeners, listener)

    def close(self) -> None:
        """Give the locks of LOCK TABLE back, end queries' leases and the background work; open
        transactions are left to their time-out.
        """
        try:
            for lock in self.held_locks:
                self.unlock(lock)
        except MetastoreError as error:
            _LOG.warning("Locks are left to their time-out: %s", error)
        self._heartbeat.stop()
        self._heartbeat.end_leases()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """End the leases that queries within the block have begun at its end."""
        before = self._heartbeat.leased()
        try:
            yield
        finally:
            self._heartbeat.end_leases(but=before)

    def _housekeeping_if_due(self) -> None:
        now_s = self._clock.monotonic_s()
        interval_s = self._settings.housekeeping_interval_s
        if self._housekept_s is not None and now_s < self._housekept_s + interval_s:
            return
        self._housekept_s = now_s
        try:
            ours = own(self._metastore)
            ours.run_housekeeping(interval_s=interval_s)
            self._hive_cleans = ours.is_served_by_hive()
        except MetastoreError as error:
            _LOG.warning("Housekeeping failed: %s", error)
