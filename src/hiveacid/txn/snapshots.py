"""From valid ids to a ``Snapshot``: which partitions, and which of their directories count."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.layout.resolve import resolve
from hiveacid.layout.snapshot import Snapshot, SnapshotPart
from hiveacid.model.tables import Partition, Table
from hiveacid.model.valid import ValidTxnList, ValidWriteIdList
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition, with_logical_lengths


def read_snapshot(
    table: Table,
    partitions: Sequence[Partition],
    *,
    files: Files,
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
) -> Snapshot:
    """List each partition's directory and choose what a reader with these ids reads.

    Raises:
        StorageError: a listing failed.
        FormatError: a file that decides what counts is not what it should be.
    """
    parts = []
    for partition in partitions:
        file_system, path = files.at(partition.location)
        entries = list_partition(file_system, path)
        directory = resolve(entries, valid, valid_txns, mode=table.acid_mode)
        directory = with_logical_lengths(file_system, path, directory, entries=entries)
        parts.append(SnapshotPart(partition, directory))
    return Snapshot(table, valid, tuple(parts))
