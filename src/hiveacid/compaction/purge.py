"""What an erasure goes by: which partitions still hold what is deleted, their files with digests,
the row ids that must be gone, and whether one of them is left.

A row that was deleted, or its values before an update, is in the files that hold its row id until a
major compaction leaves it out, in what compactions and overwrites replaced, in what aborted
transactions left, and in the staging directories of writers that were killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hiveacid.client import Client
from hiveacid.errors import MissingFileError
from hiveacid.layout.directories import (
    AcidDirectory,
    DeltaName,
    is_hidden,
    is_marker,
    name_of_partition,
    parse_directory,
)
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import RangeValidity, ValidWriteIdList
from hiveacid.model.readable import HtmlFields
from hiveacid.model.tables import AcidMode, Partition, Table, TableName, check_mode
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.delete_set import DeleteSet
from hiveacid.storage.merge.sources import DeleteKeys, read_delete_keys
from hiveacid.storage.orc.bucket_reader import BucketFileReader

_T = TypeVar("_T")
_CHUNK_BYTES = 4 * 1024 * 1024
_LISTINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class PurgedFile:
    """A file as it was, or is."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PurgeReport(HtmlFields):
    """What PURGE did, and the proof: ``rows_found`` of the deleted rows in ``files_after`` is 0.

    ``rows_deleted`` are those that WHERE found; ``rows_sought`` is how many row ids were looked for
    among ``rows_decoded``. ``files_before`` are the files of the partitions that held deleted rows,
    ``removed`` those of them that are gone. ``cleaned`` and ``named`` say what else could tell of
    the rows: what was forgotten, and what stays. Times are epoch milliseconds; ``report`` is where
    this is kept as JSON.
    """

    table: TableName
    where: str | None
    rows_deleted: int
    partitions: tuple[str, ...] = field(repr=False)
    files_before: tuple[PurgedFile, ...] = field(repr=False)
    files_after: tuple[PurgedFile, ...] = field(repr=False)
    removed: tuple[str, ...] = field(repr=False)
    rows_sought: int
    rows_decoded: int
    rows_found: int
    cleaned: tuple[str, ...] = field(repr=False)
    named: tuple[str, ...] = field(repr=False)
    begun_ms: int
    ended_ms: int | None
    report: str


@dataclass(frozen=True, slots=True)
class Holding:
    """A partition that holds what is deleted: ``rewrite`` where files that are read hold it, the
    ``replaced`` and the ``aborted`` directories.
    """

    partition: Partition
    name: str | None
    entries: tuple[Entry, ...]
    directory: AcidDirectory
    rewrite: bool

    @property
    def unread(self) -> tuple[str, ...]:
        """What nobody reads who comes now."""
        return (*self.directory.obsolete, *self.directory.aborted)


@dataclass(frozen=True, slots=True)
class View:
    """A table's partitions as a reader who comes now sees them."""

    client: Client
    table: Table
    valid: ValidWriteIdList

    @classmethod
    def now(cls, client: Client, table: Table) -> View:
        """As of now.

        Raises:
            MetastoreError: the metastore failed.
        """
        (valid,) = client.metastore.valid_write_ids((table.name,))
        return cls(client, table, valid)

    def holdings(self, partitions: Iterable[Partition]) -> tuple[Holding, ...]:
        """Those of the partitions that hold what is deleted.

        Raises:
            StorageError: a directory could not be listed.
        """
        check_mode(self.table)
        txns = self.client.metastore.valid_txns()
        found = []
        for one in partitions:
            entries = list_partition(*self.client.files.at(one.location))
            directory = resolve(entries, self.valid, txns, mode=self.table.acid_mode)
            rewrite = bool(directory.delete_deltas) or any(
                self.valid.range_aborted(delta.name.min_write_id, delta.name.max_write_id)
                is not RangeValidity.NONE
                for delta in directory.deltas
            )
            name = name_of_partition(self.table, one)
            if rewrite or directory.obsolete or directory.aborted:
                found.append(Holding(one, name, entries, directory, rewrite))
        return tuple(found)

    def deleted(self, holding: Holding) -> Iterator[DeleteKeys]:
        """The row ids that are deleted in a partition's files.

        Raises:
            FormatError, StorageError: a delete file could not be read.
        """
        fs, root = self.client.files.at(holding.partition.location)
        for file in holding.directory.delete_files:
            yield read_delete_keys(fs, f"{root}/{file.path}", valid=self.valid)

    def files(self, partition: Partition) -> tuple[PurgedFile, ...]:
        """What lies in a partition's directory and may hold rows, with digests.

        Raises:
            StorageError: a file could not be read.
        """
        fs, root = self.client.files.at(partition.location)
        return tuple(
            digested(fs, f"{root}/{entry.path}", entry.size_bytes)
            for entry in list_partition(fs, root)
            if _may_hold_rows(entry)
        )

    def count(self, partition: Partition, sought: DeleteSet) -> tuple[int, int]:
        """How many rows are decoded of all files in a partition's directory, and how many of them
        are sought.

        Raises:
            FormatError, StorageError: a file could not be read.
        """
        fs, root = self.client.files.at(partition.location)
        decoded = found = 0
        for entry in list_partition(fs, root):
            directory = parse_directory(entry.path.partition("/")[0])
            deletes = isinstance(directory, DeltaName) and directory.is_delete
            if self.table.acid_mode is not AcidMode.FULL or deletes or not _may_hold_rows(entry):
                continue
            with BucketFileReader(fs, f"{root}/{entry.path}") as reader:
                if not reader.is_acid:
                    decoded += reader.rows
                    continue
                for ids in reader.identities():
                    keys = ids.numbers()
                    decoded += len(keys[0])
                    found += len(sought.matches(*keys)[0])
        return decoded, found


def listed_again(step: Callable[[], _T]) -> _T:
    """What ``step`` makes of files that it lists itself: again where one was gone before it was
    read, as a cleaner beside it, of what compactions replaced, may do it at any time.

    Raises:
        AcidError: as ``step``.
    """
    for _ in range(_LISTINGS_MAX - 1):
        with suppress(MissingFileError):
            return step()
    return step()


def digested(fs: FileSystem, path: str, size_bytes: int) -> PurgedFile:
    """A file with the digest of its bytes.

    Raises:
        StorageError: it could not be read.
    """
    digest = hashlib.sha256()
    with fs.open_input(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return PurgedFile(fs.location_of(path), size_bytes, digest.hexdigest())


def still_there(client: Client, places: Sequence[tuple[Partition, tuple[str, ...]]]) -> list[str]:
    """Which of these paths below their partition's directories are there.

    Raises:
        StorageError: the file system failed.
    """
    left = []
    for partition, paths in places:
        fs, root = client.files.at(partition.location)
        left += [f"{root}/{path}" for path in paths if fs.exists(f"{root}/{path}")]
    return left


def _may_hold_rows(entry: Entry) -> bool:
    parts = entry.path.split("/")
    hidden = any(is_hidden(part) or is_marker(part) for part in parts)
    return not (entry.is_directory or hidden or entry.path.endswith("_flush_length"))
