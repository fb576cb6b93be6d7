"""A RENAME that was killed between the move of the files and the catalog is undone by whoever
locks the table next.

RENAME of a table, and of a partition, notes in the table's properties what it moves, and where to,
before it moves anything; the note goes when the catalog has the new name. Both hold the table
exclusively. So a table that has the note under somebody else's lock was left by a process that is
gone.
"""

from __future__ import annotations

from dataclasses import replace

from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import RENAMING_FROM, RENAMING_TO, Table
from hiveacid.statements.locations import check_place
from hiveacid.storage.filesystem import file_system_for


def noted(table: Table, source: str, target: str) -> Table:
    """The table with the note that the files at ``source`` are moved to ``target``."""
    note = {RENAMING_FROM: source, RENAMING_TO: target}
    return replace(table, properties={**table.properties, **note})


def without_note(table: Table) -> Table:
    """The table without the note."""
    note = (RENAMING_FROM, RENAMING_TO)
    kept = {key: value for key, value in table.properties.items() if key not in note}
    return replace(table, properties=kept)


def undo_killed_rename(catalog: Catalog, table: Table) -> bool:
    """Whether the table had the note; its files are where the catalog says again. To be called
    under a lock of the table.

    Raises:
        InvalidInputError: another table lies where the files were moved to.
        StorageError: the file system failed.
    """
    target = table.properties.get(RENAMING_TO)
    if target is None:
        return False
    source = table.properties.get(RENAMING_FROM, table.location)
    if source == table.location:
        check_place(catalog, replace(table, location=target), but=(str(table.name),))
        is_done = False
    else:
        is_done = any(one.location == target for one in catalog.list_partitions(table.name))
    files, path = file_system_for(source)
    _, moved = file_system_for(target)
    if not is_done and not files.exists(path) and files.exists(moved):
        files.rename(moved, target=path)
    catalog.alter_table(table.name, without_note)
    return True
