"""What a statement runs with, its value together with the look it was bound to.

And its way from the first look to the locks, and to the look under them that everything else comes
from. Between the two looks somebody else may have renamed, dropped, altered or converted a table,
or changed its partitions. Then the statement is bound anew, to the definitions as they are, and
takes the locks that it needs now: a table of the same name that still fits is the one it goes to, a
name that is gone ends in NotFoundError.

So a definition is changed (``define``): planned, locked, planned again under the locks, done,
committed. Only the locks of the first plan count.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from hiveacid.client import Client
from hiveacid.errors import ConflictError, InvalidInputError, MetastoreError, spark_needed
from hiveacid.layout.directories import may_be_partition, partition_name
from hiveacid.model.history import AsOf
from hiveacid.model.predicates import Constant, Predicate, columns_of
from hiveacid.model.tables import AcidMode, Isolation, Table, TableKind, TableName
from hiveacid.model.transactions import LockComponent
from hiveacid.settings import Settings
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.session import quoted
from hiveacid.statements.history import DescribeHistory, RestoreTable
from hiveacid.statements.locations import undo_killed
from hiveacid.statements.values import Aggregate, Listing, Purge
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import numbered_directories
from hiveacid.txn.footprint import PARTITIONS_MAX, Footprint, lock_components
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork
from hiveacid.txn.view import Look, View, is_another

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OpenSession(Protocol):
    """``Session``, as what lies below it knows it."""

    @property
    def client(self) -> Client:
        """Metastore, transactions, files, clock, settings."""

    @property
    def compacting(self) -> Any:
        """Runs the compactions that the session asks for, or begins by itself."""

    def look(self) -> Look:
        """The catalog as it is now."""

    def table_name(self, name: str) -> TableName:
        """A name with its database."""

    def table_definition(self, name: TableName) -> Table:
        """The table as the catalog has it now."""

    def table(self, name: str) -> Any:
        """The handle of a table."""

    def sql(self, text: str, args: Any = None) -> Any:
        """Carry out one statement of SQL."""

    def run(self, statement: Any, *, moment: AsOf | None = None) -> Any:
        """Carry out a statement that was read, a query as of a moment."""

    def execute(self, statement: Any) -> Any:
        """Carry out a statement that was built, or what a function makes of the catalog."""

    def reading_context(self) -> ExecutionContext:
        """What a read outside of statements needs."""

    def definition_context(self, kind: type) -> ExecutionContext:
        """What a change of definitions needs that is no statement."""

    def use_database(self, name: str) -> None:
        """It is the current one from now on."""

    def control(self, statement: Any) -> Listing | None:
        """Begin, end or go back in the session's transaction."""

    def restored(self, statement: RestoreTable) -> Any:
        """Carry out RESTORE."""

    def rows_explained(self, statement: DescribeHistory) -> Listing:
        """Carry out DESCRIBE HISTORY ... WHERE."""

    def purged(self, statement: Purge, *, spark: SparkSession | None) -> Any:
        """Carry out PURGE."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a statement runs with; ``spark`` is None in a session for metadata only."""

    client: Client
    owner: OpenSession
    spark: SparkSession | None
    settings: Settings
    database: str
    unit: UnitOfWork | None = None
    """The transaction that the statement is one of several of; None: it has one of its own."""
    isolation: Isolation | None = None
    """That of the statement's own transaction; None: as the settings say."""
    text: str | None = None
    """The statement's, without literals; None for what was built in Python."""
    describe_jobs: Callable[[], None] = field(default=lambda: None, repr=False)
    """Lets Spark call jobs after the statement, from here on."""

    def session(self) -> SparkSession:
        """The Spark session, whose jobs are called after the statement from now on.

        Raises:
            SparkNeededError: there is none.
        """
        if self.spark is None:
            raise spark_needed("This statement")
        self.describe_jobs()
        return self.spark

    @property
    def files(self) -> Files:
        """The files of tables."""
        return self.client.files

    def look(self) -> Look:
        """The catalog as it is from now on, without locks."""
        return Look(
            self.client.metastore,
            database=self.database,
            is_temporary=partial(_is_temporary_view, self.spark),
            pending=lambda: None if self.unit is None else self.unit.pending,
            now_ms=self.client.clock.now_ms(),
            hidden=self.client.temporary,
        )


AnswerOf = Callable[[Table, Aggregate], "Constant | None"]
"""The value of an aggregate over all of a table, where it is known without reading rows; else None.
"""
Answered = Callable[[Look, AnswerOf], Any]
"""Binds a statement's text anew where there is an answer to a query in it; else returns None."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement's value, the look that it was bound to, and how to bind it to another."""

    value: Any
    look: Look
    bind: Callable[[Look], Any] = field(repr=False)
    answered: Answered | None = field(default=None, repr=False)
    """Binds it with answers in the place of queries in its conditions; None for what has none."""

    @staticmethod
    def to(look: Look, bind: Callable[[Look], Any], answered: Answered | None = None) -> Bound:
        """The statement as these definitions make it.

        Raises:
            AcidError: it does not fit them.
        """
        return Bound(bind(look), look, bind, answered)

    def part(self, of: Callable[[Any], Any]) -> Bound:
        """What ``of`` takes out of the statement, as a statement of its own."""
        whole = self.answered

        def answered(look: Look, answer_of: AnswerOf) -> Any:
            value = whole and whole(look, answer_of)
            return None if value is None else of(value)

        return Bound(of(self.value), self.look, lambda look: of(self.bind(look)), answered)

    def again(self, look: Look) -> Bound:
        """The same text, or what was built in Python, bound to other definitions."""
        return Bound.to(look, self.bind, self.answered)


def fixed(value: object) -> Callable[[Look], Any]:
    """A binder for a value that does not depend on definitions: it is the same at each look."""
    return lambda _: value


def _is_temporary_view(spark: SparkSession | None, name: str) -> bool:
    """Whether Spark has a temporary view of this name."""
    if spark is None:
        return False
    from pyspark.errors import PySparkException

    try:
        with own_calls():
            if not spark.catalog.tableExists(quoted(name)):  # quicker than an error that says so
                return False
            return bool(spark.catalog.getTable(quoted(name)).isTemporary)
    except PySparkException:  # there is nothing of that name
        return False


_LOG = logging.getLogger(__name__)
_LOOKS_MAX: Final = 20
"""So often a definition may change between the look and the locks before the statement gives up."""

Needs = Callable[[ExecutionContext, Any, Look], Footprint]
"""What a statement reads, writes and defines, for its locks. Raises for what can be refused without
them.
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """A statement's value with its locks taken, and the definitions under them."""

    txn: Transaction
    value: Any
    view: View


def locked(
    context: ExecutionContext,
    bound: Bound,
    needs: Needs,
    *,
    within: Transaction | None = None,
    read_only: bool = False,
) -> Locked:
    """Take the locks of a statement, in a transaction of its own, which whoever calls this ends,
    or ``within`` one of several statements, which keeps them whatever comes.

    Where a definition was changed before they were had, a transaction of its own is given up with
    all its locks and another begun.

    Raises:
        NotFoundError: a table is gone.
        LockError: the locks were not granted before the deadline.
        ConflictError: the definitions changed again and again.
        AcidError: the statement does not fit the table that there is now.
    """
    transactions = context.client.transactions
    for _ in range(_LOOKS_MAX):
        txn = within or transactions.begin(read_only=read_only, isolation=context.isolation)
        try:
            found = _lock_and_look(context, txn, bound, needs)
            if isinstance(found, Locked):
                return found
            bound = found
        except BaseException as error:
            if within is None:
                _give_up(txn, error)
            raise
        if within is None:
            _give_up(txn, ConflictError("a definition changed before the locks were had"))
    names = ", ".join(map(str, sorted(bound.look.names)))
    raise ConflictError(
        f"The definitions of {names} changed {_LOOKS_MAX} times while the statement waited for its "
        "locks",
        tables=names,
    )


def _give_up(txn: Transaction, error: BaseException) -> None:
    """End a transaction that has done nothing yet; what fails in that is left to the time-out."""
    if txn.is_read_only:
        txn.close(because=error)
    else:
        txn.__exit__(type(error), error, error.__traceback__)


def _lock_and_look(
    context: ExecutionContext, txn: Transaction, bound: Bound, needs: Needs
) -> Locked | Bound:
    """The statement with its locks, or bound anew because of what was changed before them."""
    footprint = needs(context, bound.value, bound.look)
    txn.lock(footprint)
    view = bound.look.under_locks(lambda: txn.pending)
    held = {(lock.database, lock.table) for lock in lock_components(footprint)}
    mine = [view.table(name) for name in view.names if (name.database, name.table) in held]
    catalog, files = context.client.metastore, context.files
    if [table for table in mine if table and undo_killed(catalog, table, files)]:
        view = view.under_locks(lambda: txn.pending)
    changed = view.changed_since(bound.look)
    if changed:
        names = ", ".join(map(str, sorted(changed)))
        _LOG.info("Definitions changed before the locks were had: %s", names, extra={"txn": txn.id})
        for name in changed:
            if is_another(bound.look.table(name), view.table(name)):
                txn.forget_table(name)
        return bound.again(view)
    wanted = lock_components(needs(context, bound.value, view))
    if not set(wanted).issubset(lock_components(footprint)):
        _LOG.info("Partitions changed before the locks were had", extra={"txn": txn.id})
        return replace(bound, look=view)
    return Locked(txn, bound.value, view)


# -------------------------------------------------------------------- partitions


def locked_partitions(
    look: Look, table: Table, predicates: Iterable[Predicate]
) -> tuple[str, ...] | None:
    """Names of the partitions that may meet one of ``predicates``; None (the whole table) where
    those say nothing of partitions, and where all partitions, none or very many are left.
    """
    from hiveacid.storage.plan.planning import partitions_that_match

    wanted = tuple(predicates)
    keys = table.partition_keys
    if not keys or any(columns_of(one).isdisjoint(keys) for one in wanted):
        return None
    known = look.partitions(table)
    found = {part.values for one in wanted for part in partitions_that_match(table, known, one)}
    if len(found) in (0, len(known)) or len(found) > PARTITIONS_MAX:
        return None
    return tuple(partition_name(keys, part.values) for part in known if part.values in found)


Locks = tuple[LockComponent, ...]


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """The plan of a statement: ``locks``, and what ``run`` does in a transaction that holds them.

    ``run`` may answer anything; of SQL a ``Listing`` is shown.

    ``guards`` are locked, too, and not told by EXPLAIN LOCKS: names that are to be taken, which
    nobody else may take, or be about to leave, at the same time.
    """

    locks: Locks
    run: Callable[[Transaction], Any]
    guards: Locks = ()


DdlPlanner = Callable[[ExecutionContext, Any, Look], DdlPlan | None]
"""What a statement changes, given the definitions of a look or of a view; None where all is as it
wants it (IF EXISTS, IF NOT EXISTS).
"""


def define(context: ExecutionContext, bound: Bound, plan: DdlPlanner) -> Any:
    """Carries out what ``plan`` says under its locks; its answer, None where there was nothing to
    do.

    Raises:
        LockError: a lock could not be had in time.
        ConflictError: the definitions changed again and again.
        AcidError: as ``plan`` and what it runs.
    """
    change, planned_from = plan(context, bound.value, bound.look), bound.look
    if change is None:
        return None

    def needs(_: ExecutionContext, value: Any, look: Look) -> Footprint:
        nonlocal change, planned_from
        if look is not planned_from:
            change, planned_from = plan(context, value, look), look
        return Footprint(definitions=() if change is None else change.locks + change.guards)

    held = locked(context, bound, needs)  # the plan is now that of its view
    with held.txn as txn:
        if change is None:
            txn.abort("somebody else has done it")
            return None
        txn.pending.kind = kind_of(bound.value)
        txn.pending.note_statement(context.text)
        answer = change.run(txn)
        txn.commit()
    return answer


def words_of(kind: type) -> str:
    """The words that the name of a class is made of: ``DROP PARTITIONS``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).upper()


def kind_of(value: object) -> str:
    """What kind of statement or work a value is: ``DROP PARTITIONS``."""
    statement = getattr(value, "statement", value)
    for sign, word in (("purges", "PURGE"), ("restores", "RESTORE")):
        if getattr(statement, sign, False):
            return word
    words = words_of(type(value)).removesuffix(" WORK")
    if words == "UNDO":
        return f"UNDO {getattr(statement, 'txn', '')}"
    is_overwrite = words == "INSERT" and getattr(statement, "overwrite", False)
    return "INSERT OVERWRITE" if is_overwrite else words


def table_to_alter(look: Look, name: TableName) -> Table:
    """The table of this name, for ALTER TABLE.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: 10131 it is a view.
    """
    table = look.definition(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "To alter a view you need to use the ALTER VIEW command.", code=10131, view=str(name)
        )
    return table


def use_write_id(transaction: Transaction, table: Table) -> None:
    """Lets a change of the definition use up a write id, as Hive does (real-hive.md 9)."""
    if table.acid_mode is not AcidMode.NONE:
        transaction.write_id(table.name)
        check_given_out(transaction, table)


_LOOKED_INTO_MAX: Final = 64
"""So many partitions are looked into, the last by name: those of the latest days; in an object
store, where to look into one is a request, the last alone.
"""


def check_given_out(txn: Transaction, table: Table) -> None:
    """Nothing is there of write ids that only this transaction has, or nobody yet.

    A metastore that was restored from a backup is older than the files, and gives write ids out
    again: what lies there of their first owners would become visible with the next commit, a base
    in the place of all rows. So a process looks for such files before its first write to a table.

    Raises:
        MetastoreError: something is.
        StorageError: listing failed.
    """
    manager = txn.manager
    if table.acid_mode is AcidMode.NONE or table.location in manager.looked_at:
        return
    write_id = txn.write_id(table.name)
    places = sorted({partition.location for partition in txn.partitions(table)})
    if table.partition_columns:
        fs, root = manager.files.at(table.location)
        places = sorted({*places, *_without_a_row(fs, root, table.location)})
        places = places[-1 if fs.is_object_store else -_LOOKED_INTO_MAX :]
    unknown = [
        (path, last)
        for path, last, _ in numbered_directories(manager.files, places)
        if last >= write_id
    ]
    if unknown:  # asked afterwards: others write, too
        known = manager.metastore.last_write_id(table.name)
        for path, last in unknown:
            if last == write_id or last > known:
                raise MetastoreError(
                    f"{path} is of write id {last}, which the metastore has not given out: it is "
                    f"older than the files of {table.name}, as where a backup was restored",
                    table=str(table.name),
                    path=path,
                    write_id=last,
                    note="Nothing was written: the next commits would have shown such files. "
                    "hiveacid doctor names all of them. Restore the metastore that made them, or "
                    "move them away.",
                )
    manager.looked_at.add(table.location)


def _without_a_row(fs: FileSystem, root: str, location: str) -> Iterator[str]:
    """Locations that are partitions by their names, whether or not the catalog has them."""
    for info in fs.list_directory(root):
        if info.is_directory and may_be_partition(info.name):
            yield f"{location.rstrip('/')}/{info.name}"
