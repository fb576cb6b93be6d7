"""Directories of tables and partitions: whose they are, made free, moved, deleted.

No two tables lie on one place where one of them is transactional: each would remove, compact or
hide what it takes for its own files. Hive lets it happen; here it is refused, also where one lies
below the other, and however the place is written.

A RENAME that was killed between the move of the files and the catalog is undone by whoever locks
the table next. RENAME of a table, and of a partition, notes in the table's properties what it
moves, and where to, before it moves anything; the note goes when the catalog has the new name. Both
hold the table exclusively. So a table that has the note under somebody else's lock was left by a
process that is gone. A DROP PARTITION that was killed before the catalog forgot the partitions is
undone in the same way; it shares the table, so its note has the number of its transaction. A table
that is made of rows has a note until they are in it, the number of the lock under which that
happens: whoever finds it without that lock drops the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MissingFileError,
    NotFoundError,
    StorageError,
    tolerated,
)
from hiveacid.layout.directories import partition_name
from hiveacid.metastore.api import Catalog, Claim, Metastore, Place, own
from hiveacid.model.tables import (
    CREATING,
    DROPPING,
    RENAMING_FROM,
    RENAMING_TO,
    AcidMode,
    Database,
    Partition,
    Table,
    TableKind,
    TxnId,
)
from hiveacid.model.transactions import TxnState
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.locations import one_name

_LOG = logging.getLogger(__name__)


def table_location(database: Database, table: str, *, external: bool = False) -> str:
    """Where a table lies that says nothing of it."""
    location = (not external and database.managed_location) or database.location
    return f"{location.rstrip('/')}/{table}"


def owns_files(table: Table) -> bool:
    """Dropping the table drops its files."""
    if table.kind is TableKind.EXTERNAL:
        return table.properties.get("external.table.purge", "").lower() == "true"
    return table.kind is TableKind.MANAGED


_PROBE: Final = ".hiveacid_may_delete"


def check_deletable(files: Files, locations: Iterable[str]) -> None:
    """Says before the catalog forgets what lies at the locations that their directories can be
    deleted, as Hive does: a hidden file is made and deleted in them, and where there are
    directories beside them. Those that are not there do not matter.

    Raises:
        StorageError: one cannot be written to.
    """
    places: dict[tuple[FileSystem, str], str] = {}
    for location in locations:
        fs, path = files.at(location)
        if path.strip("/") and fs.exists(path):
            places[fs, path] = location
            if not fs.is_object_store:
                places.setdefault((fs, path.rpartition("/")[0]), location)
    for (fs, directory), location in places.items():
        probe = f"{directory}/{_PROBE}"
        try:
            fs.write_bytes(probe, data=b"")
            with suppress(MissingFileError):  # somebody else who tried has deleted it
                fs.delete_file(probe)
        except StorageError as error:
            error.message = f"Nothing is dropped: {location} cannot be deleted: {error.message}"
            error.add_note(
                f"Make {fs.location_of(directory)} writable and say it again. Where the files are "
                "to stay: acid.detach forgets a transactional table alone; another one is EXTERNAL "
                "after ALTER TABLE ... SET TBLPROPERTIES ('EXTERNAL'='TRUE')."
            )
            raise


def delete_location(files: Files, location: str, *, to_trash: bool = False) -> None:
    """Deletes the directory of what was dropped, with all in it, or moves it ``to_trash`` where the
    file system has such a place; nothing happens where there is none.

    Raises:
        StorageError: the file system failed.
    """
    try:
        fs, path = files.at(location)
        if path.strip("/") and not (to_trash and fs.move_to_trash(path)):
            fs.delete_directory(path)
    except StorageError as error:
        error.message = f"It is dropped, but its files stay: {error.message}"
        error.add_note(f"Remove {location} where that is possible.")
        raise


def goes_to_trash(table: Table, *, purge: bool) -> bool:
    """Whether what is dropped of a table can be got back, where its file system has a trash."""
    return not purge and table.properties.get("auto.purge", "").lower() != "true"


def check_free(files: Files, location: str) -> None:
    """Nothing is there yet.

    Raises:
        AlreadyExistsError: something is.
        StorageError: the file system failed.
    """
    fs, path = files.at(location)
    if fs.exists(path):
        raise AlreadyExistsError(f"New location already exists: {location}", path=location)


def move_location(files: Files, source: str, target: str) -> None:
    """Moves a directory, where it is there, to a place where nothing is.

    Raises:
        AlreadyExistsError: something is at the target.
        StorageError: the file system failed.
    """
    if source == target:
        return
    check_free(files, target)
    fs, path = files.at(source)
    _, target_path = files.at(target)
    fs.create_directory(target_path.rpartition("/")[0])
    if fs.exists(path):
        fs.rename(path, target=target_path)


# -------------------------------------------------------------------- whose place it is


def place_claim(table: Table, *, but: Sequence[str] = ()) -> Claim:
    """Says that the table's directory is its own; places of tables called as in ``but`` do not
    matter. It raises InvalidInputError where a transactional table has the place, or the table
    would be one on the place of another.
    """
    names = {str(table.name), *but}

    def claim(places: Sequence[Place]) -> None:
        _check(table, table.location, [place for place in places if str(place.table) not in names])

    return claim


def check_place(metastore: Metastore, table: Table, *, but: Sequence[str] = ()) -> None:
    """The place is free at this moment.

    Raises:
        InvalidInputError: as ``place_claim``.
    """
    place_claim(table, but=but)(own(metastore).places())


def partitions_claim(table: Table, known: Sequence[Partition], added: Sequence[Partition]) -> Claim:
    """Says that partitions that are not below their table have a directory of their own, too. It
    raises InvalidInputError as ``place_claim``, or where another partition of the table has the
    place; ``known`` are those that there are.
    """
    root = one_name(table.location)
    values = {partition.values for partition in added}
    names = {partition_name(table.partition_keys, texts) for texts in values}
    known = [partition for partition in known if partition.values not in values]

    def claim(places: Sequence[Place]) -> None:
        taken = [p for p in places if p.table != table.name or p.partition not in names]
        for partition in added:
            mine = one_name(partition.location)
            if mine == f"{root}/{partition_name(table.partition_keys, partition.values)}":
                continue
            others = [
                Place(table.name, None, other.location, False)
                for other in (*known, *added)
                if other is not partition
            ]
            if mine.startswith(f"{root}/"):
                others += [p for p in taken if p.table != table.name or p.partition is not None]
            else:
                others += taken
            _check(table, partition.location, others)

    return claim


def _check(table: Table, location: str, places: Sequence[Place]) -> None:
    mine = one_name(location)
    for place in places:
        if not (place.transactional or table.acid_mode is not AcidMode.NONE):
            continue
        other = one_name(place.location)
        if other == mine or other.startswith(f"{mine}/") or mine.startswith(f"{other}/"):
            where = "" if place.partition is None else f", partition {place.partition}"
            raise InvalidInputError(
                f"{location}, for {table.name}, is not free: {place.location} belongs to "
                f"{place.table}{where}",
                table=str(table.name),
                other=str(place.table),
                location=place.location,
                note="Directories are shared, one with or within the other, only where none is "
                "that of a transactional table.",
            )


# -------------------------------------------------------------------- what was killed


def noted(table: Table, source: str, target: str) -> Table:
    """The table with the note that the files at ``source`` are moved to ``target``."""
    note = {RENAMING_FROM: source, RENAMING_TO: target}
    return replace(table, properties={**table.properties, **note})


def without_note(table: Table) -> Table:
    """The table without the note."""
    return table.without_properties((RENAMING_FROM, RENAMING_TO))


def drop_note(metastore: Metastore, table: Table, without: Callable[[Table], Table]) -> None:
    """Take a note off that all is done; one that stays is seen through by whoever comes next."""
    with tolerated(_LOG, "A note of what is done stays on %s: %s", table.name):
        metastore.alter_table(table.name, without)


def undo_killed_rename(metastore: Metastore, table: Table, files: Files) -> bool:
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
        check_place(metastore, replace(table, location=target), but=(str(table.name),))
        is_done = False
    else:
        is_done = any(one.location == target for one in metastore.list_partitions(table.name))
    fs, path = files.at(source)
    _, moved = files.at(target)
    if not is_done and fs.exists(moved) and (fs.is_object_store or not fs.exists(path)):
        fs.rename(moved, target=path)
    metastore.alter_table(table.name, without_note)
    return True


def undo_killed(metastore: Metastore, table: Table, files: Files) -> bool:
    """Whether the table had notes of a RENAME or of DROP PARTITIONs that are gone; its files are
    where the catalog says again. One that was to be made of rows goes. To be called under a lock of
    the table.

    Raises:
        InvalidInputError, StorageError: as ``undo_killed_rename``.
    """
    if CREATING in table.properties:
        return _undo_creation(metastore, table, files)
    undone = undo_killed_rename(metastore, table, files)
    for key, hidden in table.properties.items():
        if not key.startswith(DROPPING):
            continue
        info = metastore.txn_info(TxnId(int(key.removeprefix(DROPPING))))
        if info is None or info.state is not TxnState.OPEN:
            put_back(metastore, table, hidden, files)
            metastore.alter_table(table.name, partial(Table.without_properties, keys=(key,)))
            undone = True
    return undone


def _undo_creation(metastore: Metastore, table: Table, files: Files) -> bool:
    name = table.name
    locks = metastore.show_locks(database=name.database, table=name.table)
    if any(str(one.lock_id) == table.properties[CREATING] for one in locks):
        return False
    if owns_files(table):
        delete_location(files, table.location)
    with suppress(NotFoundError):  # somebody else has found it, too
        metastore.drop_table(name)
    return True


def hide(table: Table, partitions: Sequence[Partition], hidden: str, files: Files) -> None:
    """Move the partitions' directories into a hidden one, each under its partition's name.

    Raises:
        StorageError: the file system failed.
    """
    for partition in partitions:
        move_location(
            files,
            partition.location,
            f"{hidden}/{partition_name(table.partition_keys, partition.values)}",
        )


def put_back(catalog: Catalog, table: Table, hidden: str, files: Files) -> None:
    """Move what ``hide`` has hidden of the table's partitions back, and delete the rest of it: what
    was of partitions that the catalog has forgotten.

    Raises:
        StorageError: the file system failed.
    """
    fs, path = files.at(hidden)
    for partition in catalog.list_partitions(table.name) if fs.exists(path) else ():
        name = partition_name(table.partition_keys, partition.values)
        _, target = files.at(partition.location)
        if fs.exists(f"{path}/{name}") and (fs.is_object_store or not fs.exists(target)):
            fs.make_room(target.rpartition("/")[0])
            fs.rename(f"{path}/{name}", target=target)
    delete_location(files, hidden)
