"""What DDL needs of the session, and the rules for where things lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hiveacid.client import Client
from hiveacid.metastore.api import Metastore
from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import AcidMode, Database, Table, TableKind
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import file_system_for
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DdlContext:
    """The session's components; ``settings`` are the session's own, which SET changes."""

    client: Client
    settings: Settings

    @property
    def metastore(self) -> Metastore:
        """The catalog."""
        return self.client.metastore

    @contextmanager
    def locked(self, components: Sequence[LockComponent]) -> Iterator[Transaction]:
        """Runs a block in a transaction that holds the locks; it commits at the end of the block.

        Raises:
            LockError: not granted before the deadline.
        """
        with self.client.transactions.begin() as transaction:
            transaction.lock(Footprint(definitions=tuple(components)))
            yield transaction
            transaction.commit()


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


def use_write_id(transaction: Transaction, table: Table) -> None:
    """Lets a change of the definition use up a write id, as Hive does (real-hive.md 9)."""
    if table.acid_mode is not AcidMode.NONE:
        transaction.write_id(table.name)
