"""What a metastore does, as protocols: catalog, transactions, locks (compactions have a file).

Names are stored in lower case, partition names as Hive renders them (``k=v/l=w``, escaped). All
times are epoch milliseconds of the clock that the metastore was connected with. Messages are Hive's
where Hive has one. A ``TransactionError`` carries ``state`` in its context: ``aborted``,
``committed``, ``open`` or ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from hiveacid.errors import UnsupportedError
from hiveacid.layout.takeover import Takeover
from hiveacid.metastore.upkeep import CompactionQueue, CompactionUpkeep, Past
from hiveacid.model.commits import (
    ColumnStatistics,
    CommittedWrite,
    ConflictUnit,
    ReadSet,
    StatisticsChange,
    UnseenWrite,
    Written,
)
from hiveacid.model.history import CommitNote, ConsumerMove, StreamBatch
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import (
    Column,
    Database,
    LockId,
    Partition,
    Table,
    TableKind,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.model.transactions import (
    AbortReason,
    HeartbeatResult,
    LockComponent,
    LockInfo,
    LockState,
    OperationType,
    TxnInfo,
    TxnType,
)


@dataclass(frozen=True, slots=True)
class OpenTxns:
    """The transactions that are not committed, as of now; ids are sorted.

    ``open`` includes ids that were handed out but whose rows are not visible yet. ``min_open`` is
    the lowest open transaction of any type, also of types left out of ``open``; None where none is
    open.
    """

    hwm: TxnId
    open: tuple[TxnId, ...]
    aborted: tuple[TxnId, ...]
    min_open: TxnId | None


@dataclass(frozen=True, slots=True)
class LockResponse:
    """State of a lock request; ``blocked_by`` is the first component in its way where it waits.
    ``newer_overwrite`` is what that of ``OwnDatabase`` tells, where it was asked with the locks.
    """

    lock_id: LockId
    state: LockState
    message: str | None = None
    blocked_by: LockInfo | None = None
    newer_overwrite: tuple[TxnId, ...] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is, or one ``partition`` of it; whether the table is transactional."""

    table: TableName
    partition: str | None
    location: str
    transactional: bool


Claim = Callable[[Sequence[Place]], None]
"""Raises where a place is taken."""


class Catalog(Protocol):
    """Databases, tables and partitions."""

    def create_database(self, database: Database, *, if_not_exists: bool = False) -> bool:
        """Create; False where it existed and ``if_not_exists``. Raises: AlreadyExistsError."""

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop; with all tables under ``cascade``.

        Raises: NotFoundError; InvalidInputError where it has tables and not ``cascade``.
        """

    def alter_database(self, name: str, change: Callable[[Database], Database]) -> Database:
        """Replace comment, location and properties, as ``alter_table``. Raises: NotFoundError."""

    def list_databases(self) -> tuple[str, ...]:
        """Names, sorted."""

    def get_database(self, name: str) -> Database:
        """Raises: NotFoundError."""

    def create_table(
        self, table: Table, *, if_not_exists: bool = False, claim: Claim | None = None
    ) -> bool:
        """Create; False where it existed and ``if_not_exists``. ``claim`` is called with all places
        as they would be, the table's own included, while nobody else claims one; where it raises,
        nothing is done.

        Raises: AlreadyExistsError; NotFoundError where the database does not exist.
        """

    def drop_table(self, name: TableName) -> None:
        """Forget the table, its partitions and its write ids. Raises: NotFoundError."""

    def list_tables(
        self, database: str, *, kind: TableKind | None = None, without: str | None = None
    ) -> tuple[str, ...]:
        """Sorted names, of one kind, ``without`` a property. Raises: NotFoundError: no database."""

    def get_table(self, name: TableName) -> Table:
        """Raises: NotFoundError (Hive's 10001)."""

    def get_tables(self, names: Collection[TableName]) -> Mapping[TableName, Table]:
        """The tables of these names as one moment has them; others are left out."""

    def alter_table(
        self,
        name: TableName,
        change: Callable[[Table], Table],
        *,
        claim: Claim | None = None,
    ) -> Table:
        """Replace the definition by what ``change`` makes of it, in one step: what somebody else
        changes at the same time is not lost. Renames where ``Table.name`` differs, in the
        transaction tables too; partition locations below the old location then move with it.
        ``change`` may run again and must touch nothing else; what it raises leaves all as it was.
        ``claim`` as ``create_table``.

        Raises: NotFoundError; AlreadyExistsError: the new name is taken.
        """

    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        if_not_exists: bool = True,
        have_rows: bool = False,
        claim: Claim | None = None,
    ) -> tuple[Partition, ...]:
        """Add those that do not exist, in one step; returns them. ``have_rows``: over files that
        older versions of the table do not have. ``claim`` as ``create_table``. Raises:
        NotFoundError; AlreadyExistsError: one exists and not ``if_not_exists``.
        """

    def alter_partition(
        self,
        name: TableName,
        values: tuple[str | None, ...],
        change: Callable[[Partition], Partition],
        *,
        claim: Claim | None = None,
    ) -> Partition:
        """Replace location and properties, as ``alter_table``; renames where ``values`` differ.
        Raises: NotFoundError (Hive's 10006); AlreadyExistsError: the new name is taken.
        """

    def drop_partitions(
        self, name: TableName, values: Collection[tuple[str | None, ...]]
    ) -> tuple[Partition, ...]:
        """Forget those that exist; returns them. Raises: NotFoundError: no such table."""

    def list_partitions(
        self, name: TableName, *, statistics: bool = False
    ) -> tuple[Partition, ...]:
        """Sorted by name; their properties without what ``STATISTICS_KEYS`` name, which are most
        of them, unless with ``statistics``. Raises: NotFoundError where the table is absent.
        """

    def get_partition(self, name: TableName, values: tuple[str | None, ...]) -> Partition:
        """Raises: NotFoundError (Hive's 10006)."""

    def column_statistics(
        self, name: TableName, column: str, *, partition: tuple[str | None, ...] | None = None
    ) -> ColumnStatistics | None:
        """What ANALYZE found last, None where nothing. Raises: NotFoundError."""


class TxnStore(Protocol):
    """Transactions, write ids and what they wrote."""

    def open_txns(
        self, n: int, *, user: str, host: str, txn_type: TxnType = TxnType.DEFAULT, agent: str = ""
    ) -> tuple[TxnId, ...]:
        """Open ``n`` transactions (at most the configured batch); ``agent`` is kept with them.

        Raises: InvalidInputError; MetastoreError with ``retryable=True`` where it took so long that
        a reader may have taken the ids for holes (metastore.md 2.1): the ids are lost, call again.
        """

    def get_open_txns(self, *, exclude_types: Collection[TxnType] = ()) -> OpenTxns:
        """The transactions that are not committed (metastore.md 2.3)."""

    def valid_txns(
        self,
        current: TxnId | None = None,
        *,
        exclude_types: Collection[TxnType] = (TxnType.READ_ONLY,),
    ) -> ValidTxnList:
        """What a reader sees now, inside transaction ``current`` or outside any."""

    def txn_info(self, txn: TxnId) -> TxnInfo | None:
        """The stored transaction; None where unknown or, when committed or aborted, cleaned."""

    def show_txns(self) -> tuple[TxnInfo, ...]:
        """Open and aborted transactions by id."""

    def heartbeat(self, *, txn: TxnId | None = None, lock: LockId | None = None) -> None:
        """Say that the transaction, or the lock without one, is alive.

        Raises: TransactionError where it is not open; NotFoundError: no such lock.
        """

    def heartbeat_range(self, first: TxnId, last: TxnId) -> HeartbeatResult:
        """Heartbeat of all of ``first..last``, both inclusive."""

    def commit_txn(self, txn: TxnId) -> object:
        """Commit; a repeated commit of a committed transaction succeeds (metastore.md 2.9).

        Raises: ConflictError: another transaction committed first, this one is then aborted;
        TransactionError: aborted or unknown.
        """

    def abort_txn(self, txn: TxnId, *, reason: AbortReason = AbortReason.NONE) -> None:
        """Abort; an aborted one stays aborted. Raises: TransactionError: committed or unknown."""

    def abort_txns(
        self, txns: Iterable[TxnId], *, reason: AbortReason = AbortReason.NONE
    ) -> tuple[TxnId, ...]:
        """Abort those that are open; returns them."""

    def allocate_write_ids(
        self, txns: Sequence[TxnId], table: TableName, *, writes: Sequence[LockComponent] = ()
    ) -> Mapping[TxnId, WriteId]:
        """One write id of the table per transaction, increasing in the transactions' order; the
        same again on a repeated call (metastore.md 2.5). ``writes`` of each are recorded with them.

        Raises: TransactionError where one is not open or is read-only.
        """

    def valid_write_ids(
        self, tables: Sequence[TableName], valid_txns: ValidTxnList | None = None
    ) -> tuple[ValidWriteIdList, ...]:
        """The write ids a reader with these transactions sees, one list per table, in order."""

    def last_write_id(self, table: TableName) -> WriteId:
        """The highest write id given out for the table, to whomever; 0 where none was."""

    def seed_write_id(self, table: TableName, seed: int) -> None:
        """Let the table's write ids start after ``seed``. Raises: AlreadyExistsError."""

    def add_dynamic_partitions(
        self,
        txn: TxnId,
        write_id: WriteId,
        table: TableName,
        partitions: Sequence[str | None],
        operation: OperationType | None,
    ) -> None:
        """Record what was written, in place of the placeholder a lock left (metastore.md 2.7).

        ``partitions`` are partition names; None stands for the whole of an unpartitioned table.

        Raises: TransactionError where the transaction is not open.
        """

    def latest_txn_in_conflict(
        self, txn: TxnId, *, conflict_unit: ConflictUnit = ConflictUnit.PARTITION
    ) -> TxnId | None:
        """The latest transaction that committed, since ``txn`` opened, an update or delete to what
        ``txn`` recorded as its update and delete targets (metastore.md 3.7).

        With ``ConflictUnit.ROW``, where changes are compared at the commit, one that overwrote.
        """


class LockManager(Protocol):
    """Locks on databases, tables and partitions."""

    def lock(
        self,
        components: Sequence[LockComponent],
        *,
        txn: TxnId | None,
        user: str,
        host: str,
        agent_info: str | None = None,
        zero_wait_read: bool = False,
        held: Collection[LockId] = (),
    ) -> LockResponse:
        """Enqueue a request, record the intended writes and check it once (metastore.md 3.2).

        The locks ``held`` are the caller's own, without a transaction: neither they nor requests
        that wait for them stand in its way. Hive has no such thing.

        Raises: TransactionError where the transaction is not open; LockError: one of ``held`` is
        lost.
        """

    def check_lock(self, lock: LockId, *, held: Collection[LockId] = ()) -> LockResponse:
        """Check a waiting request again, which is also a heartbeat; ``held`` as for ``lock``.

        Raises: NotFoundError: no such lock; TransactionError: its transaction is not open;
        LockError: one of ``held`` is lost.
        """

    def unlock(self, lock: LockId) -> None:
        """Drop a request that waits or has no transaction; nothing where it does not exist.

        Raises: TransactionError: it is acquired and belongs to a transaction.
        """

    def show_locks(
        self, *, database: str | None = None, table: str | None = None, txn: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        """All rows, acquired first, then by strength and id."""


class Metastore(
    Catalog,
    TxnStore,
    LockManager,
    CompactionQueue,
    AbstractContextManager["Metastore"],
    Protocol,
):
    """All that a service of Hive can do, over one connection; a context manager that closes."""

    @property
    def own(self) -> OwnDatabase | None:
        """What only a database of ours can do; None where this is none."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""

    def close(self) -> None:
        """Give connections back; the object is of no use afterwards."""


class OwnDatabase(Metastore, CompactionUpkeep, Past, Protocol):
    """What only a database that hiveacid works on itself can do besides, and no service of Hive:
    conflicts of rows, leases, statistics with a commit, deadlocks, tables of other metastores,
    upkeep.
    """

    def commit_txn(
        self,
        txn: TxnId,
        *,
        conflict_unit: ConflictUnit = ConflictUnit.PARTITION,
        checked: Collection[TxnId] = (),
        reads: ReadSet | None = None,
        statistics: Sequence[StatisticsChange] = (),
        columns: Sequence[tuple[TableName, Column]] = (),
        partitions: Sequence[tuple[TableName, Sequence[Partition]]] = (),
        batches: Sequence[StreamBatch] = (),
        moves: Sequence[ConsumerMove] = (),
        note: CommitNote | None = None,
    ) -> tuple[CommittedWrite, ...]:
        """Commit; a repeated commit of a committed transaction succeeds (metastore.md 2.9).

        With ``ConflictUnit.ROW`` the caller compares rows: where another transaction than those
        ``checked`` committed, since ``txn`` opened, a change to partitions where ``txn`` recorded
        one, nothing is done and its changes are returned. Else the answer is empty, and it is
        committed.

        ``statistics`` change with it; those of what was written without are given up. ``columns``
        are appended to tables that it holds exclusively, ``partitions`` made where they are not
        there. ``batches`` are kept as the last ones of their streams, ``moves`` as where consumers
        go on: ConflictError, and nothing is done, where one was overtaken by somebody else, or a
        partition is in another place. ``note`` is kept of it. With ``reads``, what a
        serializable transaction read, it is aborted where it wrote anything and another committed a
        write to what it read that it does not see; such commits take place one after the other.

        Raises: ConflictError: another transaction committed first (this one is then aborted; with
        ``ROW`` only because of ``reads``); TransactionError: aborted or unknown; UnsupportedError:
        the unit, or ``reads``, is not available here.
        """

    def attach_table(
        self,
        table: Table,
        partitions: Sequence[Partition],
        takeover: Takeover | None,
        *,
        claim: Claim | None = None,
    ) -> None:
        """Create the table with partitions and, where it is transactional, the history that its
        files have from another metastore: all in one step. ``claim`` as ``create_table``.

        Raises: AlreadyExistsError; NotFoundError; InvalidInputError: a compaction of that history
        has the number of a transaction that is not committed here.
        """

    def detach_table(
        self, name: TableName, *, but: TxnId, told: ValidWriteIdList | None = None
    ) -> tuple[ValidWriteIdList, ValidTxnList]:
        """What of the table's files counts; forget the table where that is what was ``told``.
        ``but`` is the caller's transaction, which has written nothing. Raises: NotFoundError.
        """

    def places(self) -> tuple[Place, ...]:
        """Where the tables are, where a RENAME moves one to, and those partitions that are not
        where their names say.
        """

    def row_count(self, name: TableName, valid: ValidWriteIdList) -> int | None:
        """The table's rows by its statistics, None where they are not those of this snapshot.

        Raises: NotFoundError.
        """

    def assume_committed(self, txn: TxnId) -> None:
        """Count all transactions up to ``txn`` that are not known here as committed; new ones get
        higher ids. For a table of another metastore, whose directories name its transactions.
        """

    def replace_writes(self, txn: TxnId, writes: Collection[Written]) -> None:
        """Let ``writes`` be all that is recorded as written: a statement was taken back. Locks that
        the transaction still waits for, as it was interrupted, are given up.

        Raises: TransactionError where the transaction is not open.
        """

    def forget_writes(self, txns: Collection[TxnId]) -> None:
        """Nothing was written by these transactions, which never took their locks."""

    def unseen_write(self, txn: TxnId, reads: ReadSet) -> UnseenWrite | None:
        """A write, inserts too, that another transaction committed to ``reads`` and that ``txn``
        does not see."""

    def newer_overwrite(self, txn: TxnId) -> TxnId | None:
        """A committed transaction that replaced, under a higher write id, what ``txn`` wrote to."""

    def perform_timeouts(self) -> tuple[TxnId, ...]:
        """Abort transactions and drop locks whose heartbeat is too old; returns the aborted."""

    def replace_table(self, name: TableName, *, by: TableName) -> None:
        """Drop a table, and let the other one have its name, in one step; no file is touched."""

    def is_served_by_hive(self) -> bool:
        """Whether a service of Hive has worked here, too: its cleaner knows no retention."""

    def run_housekeeping(self, *, interval_s: float) -> bool:
        """Time out, and forget what no transaction needs any more, unless some process did so
        within the interval; whether it ran."""

    def break_deadlock(self, *, waiting: LockId | None = None) -> tuple[LockInfo, ...]:
        """Of requests that wait for each other, abort the youngest transaction; where none has one,
        drop the latest if that is the caller's own, ``waiting``.

        A lock without a transaction is held up by any request with the same agent info that waits,
        if that begins with ``SESSION_PREFIX``. Returns the request that is gone, then that which it
        waited for, and so on round; empty where nothing was done.
        """

    def release_locks(self, txn: TxnId) -> None:
        """Drop the locks of a transaction that goes on as a lease of its snapshot; in Hive a query
        holds its locks until its rows are read.
        """


def own(metastore: Metastore) -> OwnDatabase:
    """What only a database of ours can do.

    Raises: UnsupportedError: the metastore is a service of Hive.
    """
    if metastore.own is None:
        raise UnsupportedError(
            f"The metastore {metastore.url} is a service of Hive, which cannot do this: it takes a "
            "database that hiveacid works on itself",
            url=metastore.url,
        )
    return metastore.own
