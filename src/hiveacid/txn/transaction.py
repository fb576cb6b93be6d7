"""One client's transaction: begin, lock, snapshot, write id, commit, abort. Never ambient.

Order of a write, which keeps write ids and visibility in step:

1. the valid transactions are taken, once for the whole transaction;
2. write ids are allocated, so they are higher than all that the snapshot can see, and the lock
   request records them;
3. locks are requested and waited for;
4. if somebody committed meanwhile what mine would lose to (an overwrite of the targets; where a
   partition decides, any change; mine overwrites, any write) and nothing was handed out yet, the
   transaction is opened anew (a new id, a new snapshot), else the check at the commit decides;
5. files are written and published, still invisible; what was written is recorded;
6. commit: the one place where visibility flips.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType

from hiveacid.errors import (
    AcidError,
    ConflictError,
    InvalidInputError,
    MetastoreError,
    TransactionError,
    tolerated,
)
from hiveacid.layout.directories import Snapshot
from hiveacid.metastore.api import own
from hiveacid.model.commits import CommittedWrite, ConflictUnit, StatisticsChange, Written
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import (
    MAX_STATEMENT_ID,
    AcidMode,
    Isolation,
    Partition,
    StatementId,
    Table,
    TableName,
    TxnId,
    WriteId,
    check_mode,
)
from hiveacid.model.transactions import AbortReason, LockComponent, OperationType, TxnState
from hiveacid.storage.listing import read_snapshot
from hiveacid.txn.conflicts import (
    Overlap,
    Pending,
    Reads,
    Records,
    check_not_replaced,
    commit_or_look_up,
    commit_rows,
    outdated_by,
)
from hiveacid.txn.footprint import Footprint, lock_components
from hiveacid.txn.waiting import Manager, wait_for_lock

_LOG = logging.getLogger(__name__)


class Transaction(AbstractContextManager["Transaction"]):
    """An open transaction; a context manager that aborts on an exception.

    Left without one, the caller must have committed (a read-only one is simply closed). Not for
    several threads at once.
    """

    def __init__(
        self, manager: Manager, txn: TxnId, *, read_only: bool, isolation: Isolation
    ) -> None:
        self.manager = manager
        self._store = manager.metastore
        self.is_read_only = read_only
        """whether it can only read"""
        self._isolation = isolation
        self._phase = TxnState.OPEN
        self._ending = threading.Lock()
        self._end_reason = ""
        self._begin_with(txn)

    def _begin_with(self, txn: TxnId) -> None:
        self._id = txn
        self._pristine = True
        self._valid_txns: ValidTxnList | None = None
        self._write_ids: dict[TableName, WriteId] = {}
        self._next_statement: dict[TableName, int] = {}
        self._records = Records()
        self._reads = Reads(self._isolation)
        self.pending = Pending()
        """What the commit is to do besides; a statement that is taken back takes its part back."""
        over = self.close if self.is_read_only else None
        self.manager.keep_alive(txn, on_lost=self.lost, on_lease_over=over)

    def in_batch(self, valid_txns: ValidTxnList, write_ids: Mapping[TableName, WriteId]) -> None:
        """Its snapshot and write ids are those of a batch: what was replaced since is found."""
        self._valid_txns = valid_txns
        self._write_ids.update(write_ids)
        self._pristine = False

    @property
    def id(self) -> TxnId:
        """The transaction's id; ``lock`` may change it as long as nothing was handed out."""
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor aborted, as far as is known here."""
        return self._phase is TxnState.OPEN

    @property
    def is_committed(self) -> bool:
        """Whether it is known to be committed."""
        return self._phase is TxnState.COMMITTED

    @property
    def valid_txns(self) -> ValidTxnList:
        """The transactions that this one sees, taken at the first call."""
        self.require_open()
        if self._valid_txns is None:
            self._valid_txns = self._store.valid_txns(self._id)
        return self._valid_txns

    def lock(self, footprint: Footprint) -> None:
        """Take the locks of a statement, waiting for them, and the write ids of what it writes.

        May open the transaction anew, under a new id, if its snapshot is outdated by then and
        nothing (snapshot, write id, statement id) was handed out before.

        Raises:
            LockError: not granted before the deadline; the context names the holder.
            ConflictError: what is to be written was replaced meanwhile, or what is to be replaced
            was written to.
            TransactionError: the transaction is not open.
            InvalidInputError: it is not known how a table's files are to be read.
        """
        self.require_open()
        for table in footprint.tables:
            check_mode(table)
            self._reads.touch(table)
        components = lock_components(footprint)
        if not components:
            return
        rounds = self.manager.settings.snapshot_retries
        while True:
            winner = self._take_locks(footprint, components)
            if winner is None:
                return
            if not self._pristine or rounds == 0:
                check_not_replaced(self.manager, self._id, footprint, sees=self.valid_txns)
                return
            rounds -= 1
            _LOG.debug("Snapshot outdated by txn %s", winner, extra={"txn": self._id})
            self._store.abort_txn(self._id, reason=AbortReason.CONCURRENT)
            self.manager.forget(self._id, written=())
            isolation, pending = self._reads.isolation, self.pending  # a batch may be begun
            self.manager.open_anew(read_only=self.is_read_only, begin=self._begin_with)
            self._reads.isolation, self.pending = isolation, pending

    @property
    def hive_cleans(self) -> bool:
        """Whether a cleaner of Hive, which knows of no retention, may take files that it reads."""
        return self.manager.hive_cleans

    def release_locks(self) -> None:
        """Give the locks of a read-only transaction back and stay open, as a lease of its snapshot.

        A lazy DataFrame may live for long: it keeps its files from the cleaner, and DDL need not
        wait for it.

        Raises:
            InvalidInputError: the transaction writes.
        """
        if not self.is_read_only:
            raise InvalidInputError(f"Transaction {self._id} writes: it keeps its locks")
        own(self._store).release_locks(self._id)

    def snapshot(
        self,
        table: Table,
        *,
        partitions: Sequence[Partition] | None = None,
        of: Sequence[Partition] | None = None,
    ) -> Snapshot:
        """What this transaction sees of a table: every call sees the same, and its own writes.

        ``partitions`` narrows a partitioned table; None reads all that the catalog has. ``of`` are
        those that they were chosen from: what was left out of them may be written meanwhile.

        Raises:
            StorageError: a directory could not be listed.
            SnapshotExpiredError: cleaned beyond what this snapshot sees.
        """
        self.require_open()
        if partitions is None or not table.partition_columns:
            partitions, of = self.partitions(table), None
        self._reads.note(table, chosen=partitions, of=of)
        valid, files = self._valid_write_ids(table), self.manager.files
        txns = self.valid_txns
        return read_snapshot(table, partitions, files=files, valid=valid, valid_txns=txns)

    def partitions(self, table: Table) -> tuple[Partition, ...]:
        """The table's partitions as the catalog has them now, and those that this transaction
        makes; one stands for all of a table without.
        """
        self.require_open()
        if not table.partition_columns:
            return (Partition((), table.location),)
        return self.pending.with_new(table.name, self._store.list_partitions(table.name))

    @property
    def written_tables(self) -> frozenset[TableName]:
        """The tables of which it has a write id: of these statistics do not tell what it sees."""
        return frozenset(self._write_ids)

    def valid_write_ids(self, table: Table) -> ValidWriteIdList:
        """The table's write ids that this transaction sees; all of them where it has none:
        to ask is to read all of the table.
        """
        self._reads.note(table)
        return self._valid_write_ids(table)

    def _valid_write_ids(self, table: Table) -> ValidWriteIdList:
        self.require_open()
        self._pristine = False
        if table.acid_mode is AcidMode.NONE:
            return ValidWriteIdList.everything(str(table.name))
        (valid,) = self._store.valid_write_ids((table.name,), self.valid_txns)
        return valid

    def write_id(self, table: TableName) -> WriteId:
        """The transaction's one write id of the table, allocated at the first call.

        Raises:
            TransactionError: the transaction is read-only or not open.
        """
        self.require_open()
        self._pristine = False
        return self._allocate(table)

    def take_statement_ids(
        self, table: TableName, n: int, *, least: int = 0
    ) -> tuple[StatementId, ...]:
        """``n`` statement ids from ``least`` on, increasing, never given before for this table.

        Raises:
            InvalidInputError: more than 4096 in one transaction.
        """
        self.require_open()
        self._pristine = False
        first = max(self._next_statement.get(table, 0), least)
        if first + n > MAX_STATEMENT_ID + 1:
            raise InvalidInputError(
                f"Transaction {self._id} has used {first} of {MAX_STATEMENT_ID + 1} statement ids "
                f"of {table}, the next statement needs {n}",
                txn=self._id,
                table=str(table),
                note="Commit and go on in a new transaction.",
            )
        self._next_statement[table] = first + n
        return tuple(StatementId(first + at) for at in range(n))

    def record_write(
        self, table: Table, partitions: Sequence[str | None], operation: OperationType
    ) -> None:
        """Record which partitions were written, by name; None is an unpartitioned table's whole.

        Needed for each operation of a statement on a partitioned table, also with no partitions at
        all: it takes the place of what the lock request recorded when they were not known.
        """
        self.require_open()
        new = self._records.missing(table.name, partitions, operation)
        if new is None:
            return
        write_id = self._allocate(table.name)
        self._records.asked = True
        self._store.add_dynamic_partitions(self._id, write_id, table.name, new, operation)
        self._records.note(table.name, new, operation)

    @property
    def records(self) -> frozenset[Written]:
        """What is recorded as written, to go back to."""
        return self._records.known

    def forget_records(self, *, but: frozenset[Written]) -> None:
        """Take back what was recorded since ``records`` was ``but``: the files are gone.

        Where the metastore fails they stay, and another transaction may lose to what is not there.
        """
        if not self.is_open or not self._records.differ_from(but):
            return
        try:
            own(self._store).replace_writes(self._id, but)
        except TransactionError:
            return  # aborted, and they with it
        except AcidError as error:
            _LOG.warning("Records of a statement stay: %s", error, extra={"txn": self._id})
        else:
            self._records.go_back(but)

    def record_statistics(self, changes: Iterable[StatisticsChange]) -> None:
        """What the commit is to make of statistics; a table written without them loses its own."""
        self.require_open()
        self.pending.statistics.extend(changes)

    def commit(self, *, overlap: Overlap | None = None) -> None:
        """Make everything visible, in one step; of two changes to a partition the first wins, with
        ``overlap``, which compares delete events, only of two to the same row.

        Raises:
            ConflictError: another transaction changed the same first; this one is aborted.
            TransactionError: aborted meanwhile.
            CommitOutcomeUnknownError: the reply was lost and the outcome cannot be looked up.
            MetastoreError: the metastore failed; the transaction is aborted or will time out.
        """
        self.require_open()
        try:
            if overlap is None:
                self._commit_or_look_up(ConflictUnit.PARTITION, ())
            else:
                commit_rows(
                    self._id,
                    commit=partial(self._commit_or_look_up, ConflictUnit.ROW),
                    sees=self.valid_txns.is_valid,
                    overlap=overlap,
                )
        except ConflictError as error:
            self._abort_quietly(AbortReason.WRITE_CONFLICT, because=error)
            raise ConflictError(
                f"Transaction manager has aborted the transaction txnid:{self._id}. "
                f"Reason: {error.message}",
                **error.context,  # type: ignore[arg-type]
            ) from error
        except TransactionError as error:
            self._end(TxnState.ABORTED, error.message)
            raise
        except MetastoreError as error:
            self._abort_quietly(AbortReason.ROLLBACK, because=error)
            raise
        self._end(TxnState.COMMITTED, "committed")

    def abort(self, reason: str) -> None:
        """Give everything up; nothing written becomes visible. An ended transaction stays ended.

        Raises:
            MetastoreError: the metastore could not be told; it will be told later.
        """
        if not self.is_open:
            return
        self._end(TxnState.ABORTED, reason)
        _LOG.info("Transaction aborted: %s", reason, extra={"txn": self._id})
        self._tell_aborted(AbortReason.ROLLBACK)

    def forget_table(self, name: TableName) -> None:
        """The name stands for another table now, of which nothing was written: its write id and
        what was recorded under it were the old one's.
        """
        self._write_ids.pop(name, None)
        self._next_statement.pop(name, None)
        self._records.forget(name)

    def close(self, *, because: BaseException | None = None) -> None:
        """End a read-only transaction (a lease); nothing happens where it has ended. While another
        error is on its way (``because``), a failure is left to the time-out.

        Raises:
            TransactionError, MetastoreError: as ``commit``.
        """
        if not self.is_read_only:
            raise InvalidInputError(f"Transaction {self._id} writes: commit or abort it")
        if not self.is_open:
            return
        try:
            self.commit()
        except AcidError as error:
            if because is None:
                raise
            _LOG.info("A read could not be ended: %s", error, extra={"txn": self._id})

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.is_open:
            return
        if exc is not None:
            self._abort_quietly(AbortReason.ROLLBACK, because=exc)
        elif self.is_read_only:
            self.close()
        else:
            self.abort("left without a commit")
            raise TransactionError(
                f"Transaction {self._id} was left without a commit and is aborted", txn=self._id
            )

    def __repr__(self) -> str:
        kind = " read-only" if self.is_read_only else ""
        return f"<Transaction {self._id}{kind} {self._phase.name.lower()}>"

    def lost(self) -> None:
        """Told by the heartbeat: the metastore has ended this transaction."""
        if self.is_open:
            self._end(TxnState.ABORTED, "its heartbeat was lost, or somebody aborted it")

    def look_up(self) -> TxnState | None:
        """What the metastore says of the transaction; an end that was not known here is noted."""
        info = self._store.txn_info(self._id)
        state = None if info is None else info.state
        if state is TxnState.COMMITTED and self.is_open:
            self._end(TxnState.COMMITTED, "committed")
        elif state is not TxnState.OPEN:
            self.lost()
        return state

    def _take_locks(
        self, footprint: Footprint, components: Sequence[LockComponent]
    ) -> TxnId | None:
        """Wait for the locks; whoever committed meanwhile what makes the snapshot outdated."""
        sees = self.valid_txns
        for table in (tables := footprint.written_tables):
            # what is to be written is recorded by the last: one wait for the disk less
            self._allocate(table, writes=components if table == tables[-1] else ())
        self._records.asked = True
        granted = wait_for_lock(self.manager, components, txn=self._id)
        if granted.newer_overwrite is None:
            for table in tables:  # before, the name may have been another table's, or nobody's
                del self._write_ids[table]
                mine = [one for one in components if f"{one.database}.{one.table}" == str(table)]
                self._allocate(table, writes=mine)
        self._records.note_locks(components)
        by_row = self.manager.settings.conflict_unit == ConflictUnit.ROW.value
        by_row, manager = by_row and not self._reads.is_serializable, self.manager
        return outdated_by(manager, self._id, footprint, granted=granted, sees=sees, by_row=by_row)

    def _allocate(self, table: TableName, *, writes: Sequence[LockComponent] = ()) -> WriteId:
        if (found := self._write_ids.get(table)) is None:
            if self.is_read_only:
                raise TransactionError(
                    f"Transaction {self._id} is read-only", txn=self._id, table=str(table)
                )
            _ = self.valid_txns
            found = self._store.allocate_write_ids((self._id,), table, writes=writes)[self._id]
            self._write_ids[table] = found
        return found

    def _commit_or_look_up(
        self, unit: ConflictUnit, checked: Collection[TxnId]
    ) -> Sequence[CommittedWrite]:
        pending = self.pending
        commit = partial(
            own(self._store).commit_txn,
            self._id,
            conflict_unit=unit,
            checked=checked,
            reads=self._reads.as_of(self.valid_txns) if self._reads.is_serializable else None,
            statistics=tuple(pending.statistics),
            columns=tuple(pending.columns),
            partitions=pending.new_partitions(),
            batches=tuple(pending.batches),
            moves=pending.moves(),
            note=pending.note(self._write_ids, application=self.manager.application),
        )
        return commit_or_look_up(self.manager, self._id, commit, writes=not self.is_read_only)

    def _abort_quietly(self, reason: AbortReason, *, because: BaseException) -> None:
        """Abort while another error is on its way; a failure to do so is left for later."""
        self._end(TxnState.ABORTED, f"{type(because).__name__}: {because}")
        with tolerated(_LOG, "Abort failed, it comes later: %s", txn=self._id):
            self._tell_aborted(reason)

    def _tell_aborted(self, reason: AbortReason) -> None:
        self.manager.tell(partial(self._store.abort_txns, [self._id], reason=reason))

    def _end(self, phase: TxnState, reason: str) -> None:
        # A heartbeat that comes between the commit and here misses the transaction.
        with self._ending:
            if self._phase is not TxnState.COMMITTED:
                self._phase = phase
                self._end_reason = reason
        self.manager.forget(self._id, written=self._write_ids if self.is_committed else ())

    def require_open(self) -> None:
        """Raise where the transaction has ended.

        Raises:
            TransactionError: it has; the context has the ``state``.
        """
        if not self.is_open:
            raise TransactionError(
                f"Transaction {self._id} is not open any more: {self._end_reason}",
                txn=self._id,
                state=self._phase.name.lower(),
            )
