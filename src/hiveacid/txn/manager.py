"""Begins transactions, finds them again where nobody else can, and keeps locks without one.

How long what a compaction replaced is kept, and which reads need no lease because of it: where only
cleaners of ours work (no service of Hive has been seen on the database), a file is removed at the
earliest its table's retention after the compaction that replaced it committed. A reader that has
planned needs its files for ``reads.lease_s`` at most, and chose none that was replaced before it
began: where the retention is no shorter, its transaction may end when the plan is made, and holds
up no cleaner.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hiveacid.clock import Clock, DaemonThreads, Threads
from hiveacid.errors import InvalidInputError, MetastoreError, tolerated
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
    LockState,
    TxnState,
    TxnType,
)
from hiveacid.settings import Settings
from hiveacid.settings_parts import parse_seconds
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files
from hiveacid.storage.stores import s3_of_settings
from hiveacid.txn.heartbeat import Heartbeat
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.waiting import wait_for_lock

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


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
        self._opens = itertools.count(1)
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
        chosen = isolation or Isolation(self.settings.isolation)
        kind = TxnType.READ_ONLY if read_only else TxnType.DEFAULT
        made = partial(Transaction, self, read_only=read_only, isolation=chosen)
        return self._opened(1, kind, lambda txns: made(txns[0]))

    def begin_batch(
        self, n: int, table: TableName, *, writes: Sequence[LockComponent] = ()
    ) -> tuple[Transaction, ...]:
        """Open ``n`` transactions of one snapshot with consecutive write ids of ``table``, to be
        used one after the other. ``writes`` are recorded now for all of them: of the locks of each
        nothing has to be on disk then.

        Raises:
            InvalidInputError: more than the metastore opens at once.
            MetastoreError: the metastore failed; what was opened may have to time out.
        """
        self._housekeeping_if_due()

        def batch(ids: Sequence[TxnId]) -> tuple[Transaction, ...]:
            valid = self.metastore.valid_txns(ids[0])
            write_ids = self.metastore.allocate_write_ids(ids, table, writes=writes)
            return tuple(self.take_over(HandedOn(table, txn, write_ids[txn], valid)) for txn in ids)

        return self._opened(n, TxnType.DEFAULT, batch)

    def begin_for_another(self, table: TableName, *, agent: str = "") -> HandedOn:
        """Open a transaction that writes to a table, for another process to end; no heartbeat is
        sent from here. ``abort_of`` finds it by its ``agent``.

        Raises:
            MetastoreError: the metastore failed; what was opened may have to time out.
        """
        self._housekeeping_if_due()

        def handed_on(ids: Sequence[TxnId]) -> HandedOn:
            valid = self.metastore.valid_txns(ids[0])
            write_id = self.metastore.allocate_write_ids(ids, table)[ids[0]]
            return HandedOn(table, ids[0], write_id, valid)

        return self._opened(1, TxnType.DEFAULT, handed_on, agent)

    def abort_of(self, agent: str) -> tuple[TxnId, ...]:
        """Abort the open transactions of an agent, of which nobody knows more: which they were.

        Raises:
            MetastoreError: the metastore failed; they will time out.
        """
        known = self.metastore.show_txns()
        found = [one.id for one in known if one.agent == agent and one.state is TxnState.OPEN]
        return self.metastore.abort_txns(found, reason=AbortReason.ROLLBACK) if found else ()

    def give_up(self, batch: Sequence[TxnId]) -> None:
        """Abort transactions of ``begin_batch`` that have done nothing of what is recorded of them.

        Raises:
            MetastoreError: it could not be told; it will be told later.
        """

        def end() -> None:
            own(self.metastore).forget_writes(batch)
            self.metastore.abort_txns(batch, reason=AbortReason.ROLLBACK)

        self.tell(end)

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
        made = partial(Transaction, self, read_only=False, isolation=Isolation.SNAPSHOT)
        return self._opened(1, kind, lambda txns: made(txns[0]))

    def open_anew(self, *, read_only: bool, begin: Callable[[TxnId], None]) -> None:
        """Open a bare transaction in the place of one that has ended, for ``begin``."""
        kind = TxnType.READ_ONLY if read_only else TxnType.DEFAULT
        self._opened(1, kind, lambda txns: begin(txns[0]))

    def _opened(
        self, n: int, kind: TxnType, made: Callable[[Sequence[TxnId]], _T], agent: str = ""
    ) -> _T:
        """What is made of new transactions, opened again where it took too long (metastore.md 2.1).

        Where Ctrl-C came in between, or making it fails, nobody would ever end them: they are found
        by an agent that no others have, and aborted.
        """
        if not agent and self.agent_info is not None:
            agent = f"{self.agent_info}-{next(self._opens)}"
        self.heartbeat.tell_again()
        tries_left = _OPEN_TRIES
        is_there = True  # as far as is known
        try:
            while True:
                tries_left -= 1
                try:
                    txns = self.metastore.open_txns(
                        n, user=self.user, host=self.host, txn_type=kind, agent=agent
                    )
                except MetastoreError as error:
                    if not error.context.get("retryable") or tries_left == 0:
                        is_there = False
                        raise
                else:
                    return made(txns)
        except BaseException:
            if is_there and agent:
                with tolerated(_LOG, "They are left for later: %s"):
                    self.tell(partial(self._forget_all_of, agent))
            raise

    def _forget_all_of(self, agent: str) -> None:
        for txn in self.abort_of(agent):
            self.forget(txn, written=())

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

    def try_claim(self, components: Sequence[LockComponent], *, agent_info: str) -> LockId | None:
        """As ``claim``, without waiting: None where somebody is in the way, other than ``lock``.

        Raises:
            LockError: one of ``lock`` is lost.
            MetastoreError: the metastore failed.
        """
        found = self.metastore.lock(
            components,
            txn=None,
            user=self.user,
            host=self.host,
            agent_info=agent_info,
            held=self.held_locks,
        )
        if found.state is not LockState.ACQUIRED:
            self.tell(partial(self.metastore.unlock, found.lock_id))
            return None
        self.heartbeat.add_lock(found.lock_id)
        return found.lock_id

    def unlock(self, lock: LockId) -> None:
        """Give locks of these three back; nothing happens where they are lost."""

        def given_back() -> None:
            self.metastore.unlock(lock)
            self._held.pop(lock, None)  # one that stays is still no obstacle here

        self.heartbeat.remove_lock(lock)
        self.tell(given_back)

    def tell(self, end: Callable[[], object]) -> None:
        """End in the metastore what others wait for; where it fails it is told again later.

        Raises:
            MetastoreError: it failed.
        """
        self.heartbeat.tell(end)

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
        self.heartbeat.tell_again()
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
            self.hive_cleans = ours.is_served_by_hive()
            ours.run_housekeeping(interval_s=interval_s)


def require_locks(txn: Transaction) -> None:
    """Files come to their places under a transaction's locks: where it was aborted while its
    process slept, the place may be that of another table by now, and what the files are of may be
    forgotten, so that they would count.

    Raises:
        TransactionError: somebody aborted it.
    """
    txn.look_up()
    txn.require_open()


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
    except InvalidInputError:  # the cleaner reports it; here nothing is kept
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
