"""A RENAME that was killed between the move of the files and the catalog is undone by whoever
locks the table next.

RENAME notes the new place in the table's property ``RENAMING_TO`` before it moves anything, and
takes the note away in the same step of the catalog that gives the table its new name. So a table
that has the note under somebody else's lock was left by a process that is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import Table
from hiveacid.statements.locations import check_place
from hiveacid.storage.filesystem import file_system_for

RENAMING_TO: Final = "hiveacid.renaming_to"
"""A table property of ours: where RENAME moves the files; there while it does so only."""


def noted(table: Table, location: str) -> Table:
    """The table with the note that its files are moved to ``location``."""
    return replace(table, properties={**table.properties, RENAMING_TO: location})


def without_note(table: Table) -> Table:
    """The table without the note."""
    kept = {key: value for key, value in table.properties.items() if key != RENAMING_TO}
    return replace(table, properties=kept)


def undo_killed_rename(catalog: Catalog, table: Table) -> bool:
    """Whether the table had the note; its files are at its own place again. To be called under a
    lock of the table.

    Raises:
        InvalidInputError: another table lies where the files were moved to.
        StorageError: the file system failed.
    """
    target = table.properties.get(RENAMING_TO)
    if target is None:
        return False
    check_place(catalog, replace(table, location=target), but=(str(table.name),))
    files, path = file_system_for(table.location)
    _, moved = file_system_for(target)
    if not files.exists(path) and files.exists(moved):
        files.rename(moved, target=path)
    catalog.alter_table(table.name, without_note)
    return True
