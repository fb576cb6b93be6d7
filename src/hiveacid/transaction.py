"""Transactions of several statements: the handle of ``with acid.transaction()``, and which
transaction a session's SQL belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from hiveacid.errors import InvalidInputError, TransactionError
from hiveacid.metastore.api import own
from hiveacid.model.history import StreamBatch
from hiveacid.model.tables import Isolation, LockId, TxnId
from hiveacid.statements.arguments import checked
from hiveacid.statements.context import OpenSession, words_of
from hiveacid.statements.session_state import (
    AbortLocks,
    AbortTransactions,
    Begin,
    Commit,
    LockStatement,
    ReleaseSavepoint,
    Rollback,
    Savepoint,
    SetAutocommit,
    SetTransaction,
    TransactionStatement,
)
from hiveacid.statements.values import Listing
from hiveacid.txn.manager import HandedOn, TransactionManager
from hiveacid.txn.unit import UnitOfWork

if TYPE_CHECKING:
    from hiveacid.table import AcidTable


def isolation_named(name: str | None) -> Isolation | None:
    """The isolation of a name as Python gives it; None for none.

    Raises:
        InvalidInputError: there is no such isolation.
    """
    try:
        return None if name is None else Isolation(name.lower())
    except ValueError as error:
        known = ", ".join(repr(one.value) for one in Isolation)
        raise InvalidInputError(f"isolation is one of {known}, not {name!r}") from error


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name:  # None would roll everything back
        raise InvalidInputError(f"A savepoint's name is a text, not {name!r}")
    return name


@checked
class AcidTransaction(AbstractContextManager["AcidTransaction"]):
    """An open transaction: several statements on several tables, one snapshot, one commit.

    In ``with`` it commits at the end of the block, and rolls back where an exception leaves it.
    A statement that fails takes itself back; the transaction goes on. What it reads is what was
    committed before its first statement, and what it has written.
    """

    def __init__(self, within: OpenSession, unit: UnitOfWork) -> None:
        self._within = within
        self._unit = unit

    @property
    def id(self) -> int | None:
        """The transaction's id, as SHOW TRANSACTIONS has it; None before its first statement."""
        return None if self._unit.id is None else int(self._unit.id)

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor aborted, as far as is known here."""
        return self._unit.is_open

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
        """Runs one statement of Hive SQL in the transaction; ``args`` and results as those of
        ``Session.sql``.

        Raises:
            TransactionError: the transaction is not open.
            InvalidInputError: a definition: those commit at once.
            AcidError: as ``Session.sql``.
        """
        return self._within.sql(text, args)

    def table(self, name: str) -> AcidTable:
        """The handle of a table: its statements and queries belong to the transaction.

        Raises:
            NotFoundError: there is none of that name.
        """
        found: AcidTable = self._within.table(name)
        return found

    def begin_batch(
        self, app_id: str, number: int, *, table: str, checkpoint: bool = False
    ) -> bool:
        """Makes the transaction the micro-batch ``number`` of the stream ``app_id`` into a table;
        False where that batch, or a later one, is there already: then leave it out.

        The number is kept by the commit, with the rows, for each stream and table; a rollback to a
        savepoint set before forgets it with them. Numbers of a
        stream rise. Those of a ``checkpoint`` of Spark belong to one table, from 0 on.

        Raises:
            TransactionError: the transaction is not open.
            NotFoundError: no such table.
            InvalidInputError: the batches before of the checkpoint went to another table, or it
                is older than what the table has of it.
            UnsupportedError: the metastore is a service of Hive.
        """
        self._unit.require_open()
        definition = self._within.table(table).definition
        name = definition.name
        last = own(self._within.client.metastore).last_batches(app_id)
        here = [one.number for one in last if one.is_in(definition)]
        pending = self._unit.txn.pending.batches
        begun = [one.number for one in pending if one.app_id == app_id and one.is_in(definition)]
        if checkpoint and any(one > number for one in here):
            raise InvalidInputError(
                f"Batch {number} of {app_id} is older than the last one in {name}, {max(here)}: the"
                " checkpoint is an older copy, or a new one, and what its next batches bring beside"
                " rows that are there would be left out",
                table=str(name),
                note="A query of a new checkpoint has a name of its own, and so needs its app_id,"
                " if any; rows that are there and that its source has again would be there twice.",
            )
        if any(one >= number for one in (*here, *begun)):
            return False
        if checkpoint and not here and number > 0 and last:
            before = ", ".join(
                f"{one.table} (up to {one.number})"
                if one.table != name
                else f"one of this name (up to {one.number}) that was dropped"
                for one in last
            )
            raise InvalidInputError(
                f"Batch {number} of {app_id} would be the first one in {name}: those before went to"
                f" {before}",
                table=str(name),
                note="A checkpoint belongs to one table: begin with a new one, or, where the rows"
                " before are not wanted, with another app_id.",
            )
        pending.append(StreamBatch(app_id, name, number, definition.id))
        return True

    def savepoint(self, name: str) -> None:
        """Sets a savepoint to go back to.

        Raises:
            TransactionError: the transaction is not open.
            InvalidInputError: that is no name.
        """
        self._within.execute(Savepoint(_checked(name)))

    def rollback_to(self, name: str) -> None:
        """Takes back what was done since the savepoint, which stays.

        Raises:
            NotFoundError: there is none of that name.
            TransactionError: not open, or aborted because something could not be taken back.
        """
        self._within.execute(Rollback(_checked(name)))

    def release(self, name: str) -> None:
        """Forgets the savepoint and later ones; what was done stays.

        Raises:
            NotFoundError: there is none of that name.
            TransactionError: the transaction is not open.
        """
        self._within.execute(ReleaseSavepoint(_checked(name)))

    def commit(self) -> None:
        """Makes everything visible in one step.

        Raises:
            ConflictError: another transaction changed the same first; all of this is taken back.
            TransactionError: it was aborted meanwhile, or has ended before.
            CommitOutcomeUnknownError, MetastoreError: as any statement's commit.
        """
        self._within.execute(Commit())

    def rollback(self) -> None:
        """Gives everything up; nothing happens where it is aborted already.

        Raises:
            TransactionError: it is committed, or may be: its commit got no answer.
            MetastoreError: the metastore could not be told; it will time out.
        """
        self._within.execute(Rollback())

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._unit.is_ended:
            return
        if exc is None:
            self.commit()
        else:
            self._unit.__exit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        state = "open" if self.is_open else "ended"
        return f"<hiveacid.AcidTransaction {self.id} {state}>"


class TransactionControl:
    """Which transaction the statements of a session belong to: none, SQL's, or that of a
    ``with`` (``scoped``).
    """

    def __init__(self, manager: TransactionManager) -> None:
        self._manager = manager
        self._unit: UnitOfWork | None = None
        self._others: list[UnitOfWork] = []
        self._scoped = False
        self._isolation: Isolation | None = None
        self._autocommit = True

    @property
    def unit(self) -> UnitOfWork | None:
        """The transaction; one that was aborted stays until it is ended by COMMIT or ROLLBACK."""
        return self._unit

    @property
    def has_written(self) -> bool:
        """Whether the transaction is open and has written something."""
        unit = self._unit
        if unit is None or unit.id is None or not unit.is_open:
            return False
        return bool(unit.txn.written_tables)

    def end_with_me(self, unit: UnitOfWork) -> None:
        """Roll ``unit``, that of a ``with``, back at the latest when this is closed."""
        self._others = [one for one in self._others if not one.is_ended]
        self._others.append(unit)

    def begin(
        self,
        *,
        scoped: bool = False,
        isolation: Isolation | None = None,
        handed: HandedOn | None = None,
    ) -> UnitOfWork:
        """Begin a transaction of several statements, or take over the one that is ``handed`` on;
        ``isolation`` None is what SET TRANSACTION said, or the settings.

        Raises:
            InvalidInputError: there is one.
        """
        if self._unit is not None:
            self._unit.require_open()
            raise InvalidInputError(
                "A transaction is open: transactions do not nest",
                txn=self._unit.id,
                note="SAVEPOINT marks a place to go back to.",
            )
        self._scoped = scoped
        self._isolation = isolation or self._isolation
        if handed is not None:
            self._unit = UnitOfWork.of(self._manager.take_over(handed))
            return self._unit
        self._unit = UnitOfWork(lambda: self._manager.begin(isolation=self._isolation))
        return self._unit

    def begin_where_it_must(self) -> Isolation | None:
        """Without autocommit a statement begins a transaction where there is none.

        Returns what SET TRANSACTION said of the next transaction where that is the statement.
        """
        if self._unit is None and not self._autocommit:
            self.begin()
        return self.take_isolation()

    def take_isolation(self) -> Isolation | None:
        """What SET TRANSACTION said of the next transaction; said once, taken once."""
        if self._unit is not None:
            return None
        isolation, self._isolation = self._isolation, None
        return isolation

    def refuse_definition(self, value: object) -> None:
        """Definitions commit at once, so they cannot be part of a transaction.

        Raises:
            InvalidInputError: there is a transaction.
            TransactionError: there was one, and it has ended.
        """
        if self._unit is None:
            return
        self._unit.require_open()
        words = words_of(value if isinstance(value, type) else type(value))
        why, note = "it commits at once", "COMMIT or ROLLBACK first."
        if isinstance(value, LockStatement):
            why = "such a lock is the session's, not the transaction's"
            note = "LOCK before START TRANSACTION, UNLOCK after its end."
        raise InvalidInputError(
            f"{words} is not allowed in a transaction: {why}", txn=self._unit.id, note=note
        )

    def apply(
        self, value: TransactionStatement, *, commit: Callable[[UnitOfWork], None]
    ) -> Listing | None:
        """Carry the statement out.

        Raises:
            InvalidInputError: BEGIN in a transaction, SET TRANSACTION after its first statement,
                another statement without one.
            NotFoundError: no such savepoint.
            AcidError: as ``UnitOfWork``.
        """
        if isinstance(value, SetAutocommit):
            return self._set_autocommit(value, commit)
        if isinstance(value, Begin):
            self.begin(isolation=value.isolation)
            return None
        if isinstance(value, SetTransaction):
            if self._unit is not None:
                self._unit.require_open()
            if self._unit is not None and self._unit.id is not None:
                raise InvalidInputError(
                    "SET TRANSACTION comes before the first statement of a transaction",
                    txn=self._unit.id,
                )
            self._isolation = value.isolation
            return None
        if not self._autocommit and self._unit is None:
            if isinstance(value, Commit) or value == Rollback():
                return None
            self.begin()
        unit = self._unit
        if unit is None:
            raise InvalidInputError(
                f"{type(value).__name__.upper()} without a transaction: there is nothing open",
                note="START TRANSACTION begins one.",
            )
        match value:
            case Commit():
                self._end(commit)
            case Rollback(None):
                self._end(None)
            case Rollback(str(name)):
                unit.rollback_to(name)
            case Savepoint(name):
                unit.savepoint(name)
            case ReleaseSavepoint(name):
                unit.release(name)
        return None

    def close(self) -> None:
        """Roll back what is open; a failure to do so is left to the time-out."""
        closed = TransactionError("the session was closed")
        for unit in (self._unit, *self._others):
            if unit is not None and not unit.is_ended:
                unit.__exit__(None, closed, None)
        self._unit = None
        self._others.clear()

    def _end(self, commit: Callable[[UnitOfWork], None] | None) -> None:
        unit = self._unit
        assert unit is not None
        try:
            if commit is None:
                unit.rollback()
            else:
                with unit:
                    commit(unit)
        finally:
            if not self._scoped:
                self._unit = self._isolation = None

    def _set_autocommit(
        self, value: SetAutocommit, commit: Callable[[UnitOfWork], None]
    ) -> Listing | None:
        if value.on is None:
            return Listing(("set",), ((f"autocommit={str(self._autocommit).lower()}",),))
        if self._scoped:
            raise InvalidInputError("autocommit cannot be set in a transaction's own session")
        self._autocommit = value.on
        if value.on and self._unit is not None:
            self._end(commit)
        return None


class AbortMethods:
    """The part of ``Session`` that ends what other clients hold."""

    def abort_transactions(self, *transactions: int) -> None:
        """Aborts transactions of clients that are gone, as ABORT TRANSACTIONS does.

        Raises:
            AcidError: as ABORT TRANSACTIONS.
        """
        cast("Any", self).execute(AbortTransactions(tuple(map(TxnId, transactions))))

    def abort_locks(self, *locks: int) -> None:
        """Gives back locks that clients that are gone took by LOCK, as ABORT LOCKS does.

        Raises:
            NotFoundError: there is no such lock.
            InvalidInputError: it belongs to a transaction.
        """
        cast("Any", self).execute(AbortLocks(tuple(map(LockId, locks))))
