"""What a statement changes of its session: SET, RESET, USE, the statements that begin and end
transactions, LOCK and UNLOCK; ABORT LOCKS and ABORT TRANSACTIONS: what clients that are gone have
left.

Locks of LOCK are held across the session's statements and transactions. They are Hive's: SHARED is
SHARED_READ (definitions wait), EXCLUSIVE is EXCLUSIVE (everybody else waits). Why the session's own
statements pass them: docs/decisions/0005-lock-table.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.layout.directories import partition_name
from hiveacid.metastore.api import LockManager, Metastore
from hiveacid.model.tables import AcidMode, Isolation, LockId, Table, TableName, TxnId
from hiveacid.model.transactions import AbortReason, LockComponent, LockType, OperationType
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.partition_values import PartitionText, full_values
from hiveacid.statements.values import Command, Listing
from hiveacid.txn.manager import TransactionManager


@dataclass(frozen=True, slots=True)
class UseDatabase(Command):
    """USE name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetProperty(Command):
    """SET key = value; without ``value`` it shows the key, without ``key`` all settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetProperties(Command):
    """RESET [key ...]: settings go back to their defaults."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Begin(Command):
    """START TRANSACTION [ISOLATION LEVEL level], BEGIN [TRANSACTION | WORK]; ``isolation`` None:
    what SET TRANSACTION or the settings say.
    """

    isolation: Isolation | None = None


@dataclass(frozen=True, slots=True)
class SetTransaction(Command):
    """SET TRANSACTION ISOLATION LEVEL level: of the open transaction, or of the next."""

    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """COMMIT [TRANSACTION | WORK]."""


@dataclass(frozen=True, slots=True)
class Rollback(Command):
    """ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]; ``savepoint`` None: all of it."""

    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Savepoint(Command):
    """SAVEPOINT name."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint(Command):
    """RELEASE [SAVEPOINT] name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetAutocommit(Command):
    """SET autocommit = true | false; ``on`` None asks for it."""

    on: bool | None = None


TransactionStatement = (
    Begin | SetTransaction | Commit | Rollback | Savepoint | ReleaseSavepoint | SetAutocommit
)


def set_property(context: ExecutionContext, statement: SetProperty) -> Listing | None:
    """SET name=value; SET name and SET tell what is set.

    Raises:
        InvalidInputError: no value of that setting.
    """
    settings = context.settings
    if statement.key is None:
        return Listing(("set",), tuple((f"{name}={text}",) for name, text in settings.items()))
    if statement.value is None:
        text = settings.get(statement.key)
        shown = f"{statement.key} is undefined" if text is None else f"{statement.key}={text}"
        return Listing(("set",), ((shown,),))
    context.client.use_settings(settings.with_(statement.key, statement.value))
    if statement.key.startswith("spark.") and context.spark is not None:
        context.spark.conf.set(statement.key, statement.value)
    return None


def reset(context: ExecutionContext, statement: ResetProperties) -> None:
    """RESET [name ...]: the settings that the session was connected with."""
    settings = context.client.initial_settings
    if statement.keys:
        settings = context.settings
        for key in statement.keys:
            settings = settings.without(key)
    context.client.use_settings(settings)


def use_database(context: ExecutionContext, statement: UseDatabase) -> None:
    """USE name.

    Raises:
        NotFoundError: no such database.
    """
    context.owner.use_database(context.client.metastore.get_database(statement.name).name)


@dataclass(frozen=True, slots=True)
class AbortTransactions(Command):
    """ABORT TRANSACTIONS id ..."""

    transactions: tuple[TxnId, ...]


@dataclass(frozen=True, slots=True)
class AbortLocks(Command):
    """ABORT LOCKS id ...: give back what clients that are gone took by LOCK. Not Hive's."""

    locks: tuple[LockId, ...]


@dataclass(frozen=True, slots=True)
class LockTable(Command):
    """LOCK TABLE name [PARTITION (...)] SHARED | EXCLUSIVE."""

    name: TableName
    partition: PartitionText = ()
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class UnlockTable(Command):
    """UNLOCK TABLE name [PARTITION (...)]."""

    name: TableName
    partition: PartitionText = ()


@dataclass(frozen=True, slots=True)
class LockDatabase(Command):
    """LOCK DATABASE schema SHARED | EXCLUSIVE."""

    schema: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class UnlockDatabase(Command):
    """UNLOCK DATABASE schema."""

    schema: str


LockStatement = LockTable | UnlockTable | LockDatabase | UnlockDatabase


def execute(transactions: TransactionManager, statement: LockStatement) -> None:
    """Carries the statement out.

    Raises:
        NotFoundError: no such database, table or partition; to unlock, no lock of this session.
        InvalidInputError: a table whose readers and writers take no locks.
        LockError: not granted before the deadline.
    """
    metastore = transactions.metastore
    if isinstance(statement, (LockTable, LockDatabase)):
        transactions.lock((component(metastore, statement),))
        return
    place: tuple[str, str | None, str | None]
    if isinstance(statement, UnlockDatabase):
        what, place = f"Database {statement.schema}", (statement.schema, None, None)
    else:
        table, partition = statement.name, _partition(metastore, statement)
        what = f"Table {table}" if partition is None else f"Partition {partition} of {table}"
        place = (table.database, table.table, partition)
    held = [
        lock
        for lock, components in transactions.held_locks.items()
        if [(one.database, one.table, one.partition) for one in components] == [place]
    ]
    if not held:
        raise NotFoundError(f"{what} is not locked by this session")
    for lock in held:
        transactions.unlock(lock)


def abort_locks(locks: LockManager, wanted: Collection[LockId]) -> None:
    """ABORT LOCKS: give back locks without a transaction, whoever took them; all of them or none.

    Raises:
        NotFoundError: there is no such lock.
        InvalidInputError: it belongs to a transaction, which is aborted instead.
    """
    known = {one.lock_id: one for one in locks.show_locks()}
    for lock in wanted:
        if lock not in known:
            raise NotFoundError(f"There is no lock {lock}", note="SHOW LOCKS", lock=lock)
        if txn := known[lock].txn_id:
            raise InvalidInputError(
                f"Lock {lock} belongs to transaction {txn}",
                note=f"ABORT TRANSACTIONS {txn}",
                lock=lock,
                txn=txn,
            )
    for lock in wanted:
        locks.unlock(lock)


def component(metastore: Metastore, statement: LockTable | LockDatabase) -> LockComponent:
    """What the statement locks.

    Raises:
        NotFoundError, InvalidInputError: as ``execute``.
    """
    made = partial(
        LockComponent,
        LockType.EXCLUSIVE if statement.exclusive else LockType.SHARED_READ,
        operation=OperationType.NO_TXN,
        transactional=False,
    )
    if isinstance(statement, LockDatabase):
        return made(metastore.get_database(statement.schema).name)
    table = metastore.get_table(statement.name)
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: it is written without locks, so locking it would "
            "keep nobody from it",
            table=str(table.name),
        )
    partition = _partition(metastore, statement)
    if partition is not None:
        metastore.get_partition(table.name, full_values(table, statement.partition))
    return made(table.name.database, table.name.table, partition)


def _partition(metastore: Metastore, statement: LockTable | UnlockTable) -> str | None:
    if not statement.partition:
        return None
    table: Table = metastore.get_table(statement.name)
    return partition_name(table.partition_keys, full_values(table, statement.partition))


def abort_transactions(metastore: Metastore, statement: AbortTransactions) -> None:
    """ABORT TRANSACTIONS: ids that have ended are passed over; Hive passes over unknown ones, too.

    Raises:
        NotFoundError: an id that was never given out; nothing is aborted.
    """
    highest = metastore.get_open_txns().hwm
    unknown = [str(txn) for txn in statement.transactions if not 0 < txn <= highest]
    if unknown:
        raise NotFoundError(
            f"No such transaction: {', '.join(unknown)}; the highest id given out is {highest}",
            txns=unknown,
        )
    metastore.abort_txns(statement.transactions, reason=AbortReason.ABORT_QUERY)
