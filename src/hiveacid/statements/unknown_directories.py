"""Directories that are newer than the metastore, as after a restore of an older one.

Nobody reads them yet. But their write ids and transactions will be given out again, and from that
commit on they would count as a part of it: they have to go before the first write.
"""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.errors import MissingFileError
from hiveacid.layout.names import BaseName, parse_directory
from hiveacid.metastore.api import Metastore
from hiveacid.model.tables import AcidMode, Table, TableName
from hiveacid.storage.filesystem import Files


def unknown_directories(metastore: Metastore, files: Files) -> Iterator[str]:
    """A line for each directory of a transactional table whose name has a write id, or the id of a
    transaction, that the metastore has not given out.

    Raises:
        StorageError: a directory could not be listed.
    """
    for database in metastore.list_databases():
        for name in metastore.list_tables(database):
            table = metastore.get_table(TableName(database, name))
            if table.acid_mode is AcidMode.NONE:
                continue
            found = tuple(_directories(metastore, table, files))
            # Asked afterwards: an id is given out before its directory is made.
            last, last_txn = metastore.last_write_id(table.name), metastore.valid_txns().hwm
            for path, write_id, txn in found:
                if write_id > last:
                    yield f"{path} is of write id {write_id}, {table.name} has given out {last}"
                elif txn > last_txn:
                    yield f"{path} is of transaction {txn}, the last one is {last_txn}"


def _directories(
    metastore: Metastore, table: Table, files: Files
) -> Iterator[tuple[str, int, int]]:
    locations = [table.location]
    if table.partition_columns:
        locations = [part.location for part in metastore.list_partitions(table.name)]
    for location in locations:
        fs, path = files.at(location)
        try:
            entries = tuple(fs.list_directory(path))
        except MissingFileError:
            continue
        for info in entries:
            name = parse_directory(info.path.rpartition("/")[2]) if info.is_directory else None
            if name is None:
                continue
            highest = name.write_id if isinstance(name, BaseName) else name.max_write_id
            yield info.path, highest, name.visibility_txn
