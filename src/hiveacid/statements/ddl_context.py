"""What DDL needs of the session, and the rules for where things lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from hiveacid.metastore.api import Metastore
from hiveacid.model.ids import WriteId
from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import AcidMode, Database, Table, TableKind, TableName
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import file_system_for


class LockedTransaction(Protocol):
    """A transaction that holds its locks; it commits at the end of its block."""

    def write_id(self, table: TableName) -> WriteId:
        """The write id of this transaction for the table, handed out at the first call."""


Locked = Callable[[Sequence[LockComponent]], AbstractContextManager[LockedTransaction]]


@dataclass(frozen=True, slots=True)
class DdlContext:
    """``locked`` runs a block in a transaction that holds the locks and commits at its end.

    ``warehouse`` is the location below which databases lie; the session's ``settings`` decide defaults.
    """

    metastore: Metastore
    warehouse: str
    locked: Locked
    now_ms: int
    owner: str
    settings: Settings


def database_location(context: DdlContext, name: str) -> str:
    """Where a database lies that says nothing of it."""
    return f"{context.warehouse.rstrip('/')}/{name}.db"


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


def use_write_id(transaction: LockedTransaction, table: Table) -> None:
    """Lets a change of the definition use up a write id, as Hive does (real-hive.md 9)."""
    if table.acid_mode is not AcidMode.NONE:
        transaction.write_id(table.name)
