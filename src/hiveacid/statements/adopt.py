"""CREATE TABLE over a directory that has a table's files already: Hive's, or those of another
metastore.

Partitions are found by their directories' names. Every write id found in a directory's name counts
as committed, and so does every compaction (``_vT``): the metastore that knows better is not asked.
New write ids and transaction ids start above those found; above 10,000,000 where there are only
files without row events, as after a conversion (real-hive.md 9).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hiveacid.errors import FormatError
from hiveacid.layout.names import (
    BaseName,
    parse_directory,
    parse_original_file,
)
from hiveacid.metastore.api import Metastore
from hiveacid.model.ids import FIRST_WRITE_ID_AFTER_CONVERSION, LONG_MIN, TxnId
from hiveacid.model.tables import AcidMode, Partition, Table
from hiveacid.storage.filesystem import FileSystem, file_system_for
from hiveacid.storage.listing import discover_partitions

_LOG = logging.getLogger(__name__)


def adopt(metastore: Metastore, table: Table) -> None:
    """Take over what lies at the new table's location; an empty directory needs nothing.

    Raises:
        FormatError: the partition directories do not have the table's partition columns.
        StorageError: the directory could not be listed.
    """
    fs, root = file_system_for(table.location)
    names = tuple(column.name for column in table.partition_columns)
    found = [part for part in discover_partitions(fs, root) if part.names or not names]
    for part in found:
        if tuple(name.lower() for name in part.names) != names:
            raise FormatError(
                f"{part.path} is not a partition of {table.name}",
                path=part.path,
                expected="/".join(names),
                found="/".join(part.names),
            )
    if names and found:
        metastore.add_partitions(
            table.name,
            [Partition(part.values, _location(table, root, part.path)) for part in found],
        )
    if table.acid_mode is AcidMode.NONE:
        return
    paths = [part.path for part in found]
    seed(metastore, table, fs, paths)


def _location(table: Table, root: str, path: str) -> str:
    return table.location.rstrip("/") + path[len(root.rstrip("/")) :]


def seed(metastore: Metastore, table: Table, fs: FileSystem, paths: Iterable[str]) -> None:
    """Let every write id and transaction that directories' names tell of count as committed.

    Raises:
        AlreadyExistsError: the table has write ids already.
        StorageError: a directory could not be listed.
    """
    write_id, txn, originals = 0, 0, False
    for path in paths:
        for info in fs.list_directory(path):
            name = info.path.rpartition("/")[2]
            parsed = parse_directory(name) if info.is_directory else None
            if parsed is not None:
                highest = parsed.write_id if isinstance(parsed, BaseName) else parsed.max_write_id
                write_id = max(write_id, highest) if highest != LONG_MIN else write_id
                txn = max(txn, parsed.visibility_txn)
                originals = originals or highest == LONG_MIN
            elif not info.is_directory and parse_original_file(name) is not None:
                originals = True
    if originals:
        write_id = max(write_id, FIRST_WRITE_ID_AFTER_CONVERSION - 1)
    if write_id == 0:
        return
    _LOG.info("Write ids up to %s count as committed", write_id, extra={"table": str(table.name)})
    metastore.seed_write_id(table.name, write_id)
    if txn:
        metastore.assume_committed(TxnId(txn))
