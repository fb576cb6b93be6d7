"""A metastore that is older than the files: one that was restored from a backup gives write ids out
again, and what lies there of their first owners would become visible with the next commit, a base
in the place of all rows. So a process looks for such files before its first write to a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hiveacid.errors import MetastoreError
from hiveacid.layout.directories import may_be_partition
from hiveacid.model.tables import AcidMode, Table
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import numbered_directories
from hiveacid.txn.transaction import Transaction

_PARTITIONS_MAX: Final = 64
"""So many partitions are looked into, the last by name: those of the latest days; in an object
store, where to look into one is a request, the last alone.
"""


def check_given_out(txn: Transaction, table: Table) -> None:
    """Nothing is there of write ids that only this transaction has, or nobody yet.

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
        places = places[-1 if fs.is_object_store else -_PARTITIONS_MAX :]
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
        name = info.path.rpartition("/")[2]
        if info.is_directory and may_be_partition(name):
            yield f"{location.rstrip('/')}/{name}"
