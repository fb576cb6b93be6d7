"""How a definition is changed: planned, locked, planned again under the locks, done.

    look    the statement is planned from the catalog as it is: only the locks of this plan count
    lock    they are waited for; whoever was first may have altered, renamed or dropped the table
    plan    again, from the catalog under the locks: this plan is carried out

Where the second plan is of another table, or needs other locks, they are given back and the
second becomes the look. So nothing that was decided before the locks were held is ever done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import AcidMode, Database, Table, TableKind, TableName
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.killed_rename import undo_killed_rename
from hiveacid.storage.filesystem import file_system_for
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import is_another

Locks = tuple[LockComponent, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """The plan of a statement: ``locks``, and what ``run`` does in a transaction that holds them.

    ``table`` is the definition it was made from; None where the statement makes one. ``guards``
    are locked, too, and not told by EXPLAIN LOCKS: names that are to be taken, which nobody else
    may take, or be about to leave, at the same time.
    """

    locks: Locks
    run: Callable[[Transaction], Any]
    table: Table | None = None
    guards: Locks = ()

    def fits(self, seen: Change) -> bool:
        """Whether it can be carried out under the locks of ``seen``, which was planned before."""
        if self.locks != seen.locks or self.guards != seen.guards:
            return False
        return not is_another(seen.table, self.table)


def nothing(_: Transaction) -> None:
    """What is left to do where all is as the statement wants it (IF EXISTS, IF NOT EXISTS)."""


NO_CHANGE = Change((), nothing)


def carry_out(context: ExecutionContext, plan: Callable[[], Change]) -> Any:
    """Carries out what ``plan`` says under its locks.

    Raises:
        LockError: a lock could not be had in time.
        AcidError: as ``plan`` and what it runs.
    """
    change = plan()
    while change is not NO_CHANGE:
        with context.client.transactions.begin() as transaction:
            transaction.lock(Footprint(definitions=change.locks + change.guards))
            seen, change = change, plan()
            if change.table is not None and undo_killed_rename(
                context.client.metastore, change.table
            ):
                change = plan()
            if change.fits(seen):
                answer = change.run(transaction)
                transaction.commit()
                return answer
            transaction.abort("what it is to change was changed while it waited for its locks")
    return None


def table_or_none(context: ExecutionContext, name: TableName) -> Table | None:
    """The table or view of this name."""
    try:
        return context.client.metastore.get_table(name)
    except NotFoundError:
        return None


def table_to_alter(context: ExecutionContext, name: TableName) -> Table:
    """The table of this name, for ALTER TABLE.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: 10131 it is a view.
    """
    table = context.client.metastore.get_table(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "To alter a view you need to use the ALTER VIEW command.", code=10131, view=str(name)
        )
    return table


def table_location(database: Database, table: str) -> str:
    """Where a table lies that says nothing of it."""
    return f"{database.location.rstrip('/')}/{table}"


def owns_files(table: Table) -> bool:
    """Dropping the table drops its files."""
    if table.kind is TableKind.EXTERNAL:
        return table.properties.get("external.table.purge", "").lower() == "true"
    return table.kind is TableKind.MANAGED


def delete_location(location: str) -> None:
    """Deletes a directory with all in it; nothing happens where there is none.

    Raises:
        StorageError: the file system failed.
    """
    files, path = file_system_for(location)
    if path.strip("/"):
        files.delete_directory(path)


def check_free(location: str) -> None:
    """Nothing is there yet.

    Raises:
        AlreadyExistsError: something is.
        StorageError: the file system failed.
    """
    files, path = file_system_for(location)
    if files.exists(path):
        raise AlreadyExistsError(f"New location already exists: {location}", path=location)


def move_location(source: str, target: str) -> None:
    """Moves a directory, where it is there, to a place where nothing is.

    Raises:
        AlreadyExistsError: something is at the target.
        StorageError: the file system failed.
    """
    if source == target:
        return
    check_free(target)
    files, path = file_system_for(source)
    _, target_path = file_system_for(target)
    files.create_directory(target_path.rpartition("/")[0])
    if files.exists(path):
        files.rename(path, target=target_path)


def use_write_id(transaction: Transaction, table: Table) -> None:
    """Lets a change of the definition use up a write id, as Hive does (real-hive.md 9)."""
    if table.acid_mode is not AcidMode.NONE:
        transaction.write_id(table.name)
