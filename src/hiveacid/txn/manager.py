"""Begins transactions and keeps them alive: one background thread for all of a process.

A beat sends one heartbeat for each run of consecutive ids, tells transactions that the metastore
has given up, ends leases that are over, and does the housekeeping that is due.

How long what a compaction replaced is kept, and which reads need no lease because of it: where only
cleaners of ours work (no service of Hive has been seen on the database), a file is removed at the
earliest its table's retention after the compaction that replaced it committed. A reader that has
planned needs its files for ``reads.lease_s`` at most, and chose none that was replaced before it
began: where the retention is no shorter, its transaction may end when the plan is made, and holds
up no cleaner.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hiveacid.clock import Clock, DaemonThreads, Threads
from hiveacid.errors import AcidError, InvalidInputError, MetastoreError, NotFoundError, tolerated
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.ids import ValidTxnList
from hiveacid.model.tables import (
    RETENTION,
    AcidMode,
    Isolation,
    LockId,
    Table,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.model.transactions import (
    SESSION_PREFIX,
    AbortReason,
    LockComponent,
    TxnState,
    TxnType,
)
from hiveacid.setting import parse_seconds
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files
from hiveacid.storage.stores import s3_of_settings
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.waiting import wait_for_lock

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


_OPEN_TRIES = 5
CommitListener = Callable[[frozenset[TableName]], None]
"""Gets the tables that a committed transaction has written to."""


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A transaction that one process begins and another ends, with its snapshot and write id."""

    table: TableName
    txn: TxnId
    write_id: WriteId
    valid_txns: ValidTxnList


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
        self.metastore = metastore
        self.clock = clock
        self.settings = settings
        """as they are now"""
        self.user = user
        self.host = host
        self.files = files or Files(
            s3=s3_of_settings(settings), retries=Retries(settings.files_retry_s, clock)
        )
        """what snapshots are read from"""
        self.looked_at: set[str] = set()
        """locations of tables where no file is of a write id that nobody has"""
        self.agent_info = None if session is None else f"{SESSION_PREFIX}{session}"
        """what lock requests name as their session, as SHOW LOCKS EXTENDED prints it"""
        self.application = ""
        """what commits name as who they are, such as a Spark application"""
        self._listeners: tuple[CommitListener, ...] = ()
        self._housekept_s: float | None = None
        self.hive_cleans = False
        """whether a cleaner of Hive may work here, as far as was seen at the last housekeeping"""
        self._held: dict[LockId, Sequence[LockComponent]] = {}
        self.heartbeat = Heartbeat(
            metastore,
            clock=clock,
            settings=lambda: self.settings,
            threads=threads or DaemonThreads(),
        )

    def use_settings(self, settings: Settings) -> None:
        """Let these be the settings from now on, also of transactions under way."""
        self.settings = settings

    def begin(self, *, read_only: bool = False, isolation: Isolation | None = None) -> Transaction:
        """Open a transaction; a read-only one is a lease that ends by itself.

        ``isolation`` None is that of the settings.

        Raises:
            MetastoreError: the metastore failed.
        """
        self._housekeeping_if_due()
        txn = self.open_txn(read_only=read_only)
        chosen = isolation or Isolation(self.settings.isolation)
        return Transaction(self, txn, read_only=read_only, isolation=chosen)

    def begin_batch(
        self, n: int, table: TableName, *, writes: Sequence[LockComponent] = ()
    ) -> tuple[Transaction, ...]:
        """Open ``n`` transactions of one snapshot with consecutive write ids of ``table``, to be
        used one after the other. ``writes`` are recorded now for all of them: of the locks of each
        nothing has to be on disk then.

        Raises:
            InvalidInputError: more than the metastore opens at once.
            MetastoreError: the metastore failed; what was opened will time out.
        """
        self._housekeeping_if_due()
        ids = self._opened(n, TxnType.DEFAULT)
        valid = self.metastore.valid_txns(ids[0])
        write_ids = self.metastore.allocate_write_ids(ids, table, writes=writes)
        batch = [
            Transaction(self, txn, read_only=False, isolation=Isolation.SNAPSHOT) for txn in ids
        ]
        for txn in batch:
            txn.in_batch(valid, {table: write_ids[txn.id]})
        return tuple(batch)

    def begin_for_another(self, table: TableName, *, agent: str = "") -> HandedOn:
        """Open a transaction that writes to a table, for another process to end; no heartbeat is
        sent from here. ``abort_of`` finds it by its ``agent``.

        Raises:
            MetastoreError: the metastore failed; what was opened will time out.
        """
        self._housekeeping_if_due()
        (txn,) = self._opened(1, TxnType.DEFAULT, agent)
        valid = self.metastore.valid_txns(txn)
        write_id = self.metastore.allocate_write_ids((txn,), table)[txn]
        return HandedOn(table, txn, write_id, valid)

    def abort_of(self, agent: str) -> tuple[TxnId, ...]:
        """Abort the open transactions of an agent, of which nobody knows more: which they were.

        Raises:
            MetastoreError: the metastore failed; they will time out.
        """
        known = self.metastore.show_txns()
        found = [one.id for one in known if one.agent == agent and one.state is TxnState.OPEN]
        return self.metastore.abort_txns(found, reason=AbortReason.ROLLBACK) if found else ()

    def take_over(self, handed: HandedOn) -> Transaction:
        """The transaction that another process began, to be ended by this one."""
        txn = Transaction(self, handed.txn, read_only=False, isolation=Isolation.SNAPSHOT)
        txn.in_batch(handed.valid_txns, {handed.table: handed.write_id})
        return txn

    def begin_compaction(self, *, rebalance: bool) -> Transaction:
        """Open a compactor's transaction: it gets no write ids, and its commit takes part in no
        conflict, but that of a rebalance which recorded an UPDATE with its lock.

        Raises:
            MetastoreError: the metastore failed.
        """
        kind = TxnType.REBALANCE_COMPACTION if rebalance else TxnType.COMPACTION
        (txn,) = self._opened(1, kind)
        return Transaction(self, txn, read_only=False, isolation=Isolation.SNAPSHOT)

    def open_txn(self, *, read_only: bool) -> TxnId:
        """Open a bare transaction, again where it took too long (metastore.md 2.1)."""
        return self._opened(1, TxnType.READ_ONLY if read_only else TxnType.DEFAULT)[0]

    def _opened(self, n: int, kind: TxnType, agent: str = "") -> tuple[TxnId, ...]:
        tries_left = _OPEN_TRIES
        while True:
            tries_left -= 1
            try:
                return self.metastore.open_txns(
                    n, user=self.user, host=self.host, txn_type=kind, agent=agent
                )
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
        lock = wait_for_lock(self, components, txn=None).lock_id
        self._held[lock] = components
        self.heartbeat.add_lock(lock)
        return lock

    def claim(self, components: Sequence[LockComponent], *, agent_info: str) -> LockId:
        """Take locks of one transaction that are to outlive its commit, waiting for them; they are
        kept alive until they are given back. Other transactions of this manager wait for them.

        Raises:
            LockError: as ``lock``.
        """
        lock = wait_for_lock(self, components, txn=None, agent_info=agent_info).lock_id
        self.heartbeat.add_lock(lock)
        return lock

    def unlock(self, lock: LockId) -> None:
        """Give locks of ``lock`` or ``claim`` back; nothing happens where they are lost."""
        self.heartbeat.remove_lock(lock)
        self.metastore.unlock(lock)
        self._held.pop(lock, None)  # one that stays until it times out is still no obstacle here

    def keep_alive(
        self, txn: TxnId, *, on_lost: Callable[[], None], on_lease_over: Callable[[], None] | None
    ) -> None:
        """Send heartbeats for a transaction until it is forgotten; a lease is over in time."""
        lease_s = None if on_lease_over is None else self.settings.reads_lease_s
        self.heartbeat.add(txn, on_lost=on_lost, lease_s=lease_s, on_lease_over=on_lease_over)

    def forget(self, txn: TxnId, *, written: Collection[TableName]) -> None:
        """Send no more heartbeats for a transaction; who listens is told of tables that its commit
        has written to.
        """
        self.heartbeat.remove(txn)
        if written:
            for listener in self._listeners:
                listener(frozenset(written))

    def on_commit(self, listener: CommitListener) -> None:
        """Tell ``listener`` of each commit from now on; it must be quick and must not fail."""
        self._listeners = (*self._listeners, listener)

    def close(self) -> None:
        """Give the locks of LOCK TABLE back, end queries' leases and the background work; open
        transactions are left to their time-out.
        """
        with tolerated(_LOG, "Locks are left to their time-out: %s", only=MetastoreError):
            for lock in self.held_locks:
                self.unlock(lock)
        self.heartbeat.stop()
        self.heartbeat.end_leases()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """End the leases that queries within the block have begun at its end."""
        before = self.heartbeat.leased()
        try:
            yield
        finally:
            self.heartbeat.end_leases(but=before)

    def _housekeeping_if_due(self) -> None:
        now_s = self.clock.monotonic_s()
        interval_s = self.settings.housekeeping_interval_s
        if self._housekept_s is not None and now_s < self._housekept_s + interval_s:
            return
        self._housekept_s = now_s
        with tolerated(_LOG, "Housekeeping failed: %s", only=MetastoreError):
            ours = own(self.metastore)
            ours.run_housekeeping(interval_s=interval_s)
            self.hive_cleans = ours.is_served_by_hive()


def end_reading(txn: Transaction, tables: Iterable[Table], settings: Settings) -> None:
    """The reads of a read-only transaction are planned, files of ``tables`` are left to read: it
    ends where their retention keeps them, else it stays as a lease, without its locks.

    Raises:
        InvalidInputError: the transaction writes.
        TransactionError, MetastoreError: as ``Transaction.commit``.
    """
    kept_s = (_kept_s(one, settings) for one in tables if one.acid_mode is not AcidMode.NONE)
    if settings.reads_lease == "always" or any(
        txn.hive_cleans or one < settings.reads_lease_s for one in kept_s
    ):
        txn.release_locks()
    else:
        txn.close()


def _kept_s(table: Table, settings: Settings) -> float:
    try:
        return retention_s(table, settings)
    except InvalidInputError:  # the cleaner's to complain about
        return 0.0


def retained_until_ms(entry: CompactionInfo, kept_s: float) -> int | None:
    """When the retention ``kept_s`` of a compaction's inputs is over; None where they need not be
    kept.
    """
    begins_ms = entry.committed_ms or entry.started_ms
    if begins_ms is None or not kept_s:
        return None
    return begins_ms + int(kept_s * 1000)


def retention_s(table: Table, settings: Settings) -> float:
    """How long what was replaced in a table is kept.

    Raises:
        InvalidInputError: the table's property is no length of time.
    """
    text = table.properties.get(RETENTION)
    if text is None:
        return settings.retention_s
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InvalidInputError(
            f"Property {RETENTION} of {table.name} is no length of time: {text!r}",
            table=str(table.name),
        ) from error
