"""What is read: a table's columns and the directories that count, from a path or from a session.

By path nobody knows which transactions committed: every write id found counts as committed unless
valid lists in Hive's text form are given; the columns come from the newest file, partition columns
from directory names (as strings). A session's table is read as of a transaction of its own, which
is a lease: the cleaner waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from os import PathLike, fspath
from typing import Protocol

from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import (
    BUCKET_PREFIX,
    Snapshot,
    SnapshotPart,
    is_hidden,
    is_marker,
    looks_acid,
)
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.history import AsOf
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import (
    AcidMode,
    Column,
    Partition,
    Table,
    TableKind,
    TableName,
)
from hiveacid.model.types import PrimitiveType
from hiveacid.statements.context import OpenSession
from hiveacid.statements.select import Keep, Lease
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import (
    discover_partitions,
    list_settled,
    noticing_cleaning,
    with_logical_lengths,
)
from hiveacid.storage.plain.readers import open_any_reader

_log = logging.getLogger(__name__)
_FOUND = TableName("path", "path")


class SessionTable(Protocol):
    """A table of a session, of now or of then: ``AcidTable``, ``PastTable``."""

    @property
    def session(self) -> OpenSession:
        """Whose table it is."""

    @property
    def name(self) -> TableName:
        """What it is called."""

    @property
    def definition(self) -> Table:
        """The table as the catalog has it."""

    def lease(self, *, keep: Keep, expected: Table) -> Lease:
        """Begin a read transaction; only partitions that ``keep`` chooses are listed."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A session's table."""

    table: SessionTable
    definition: Table

    def open(self, *, keep: Keep) -> Lease:
        """A snapshot under a lease."""
        return self.table.lease(keep=keep, expected=self.definition)


@dataclass(frozen=True, slots=True)
class PathSource:
    """A directory; what was found when it was made is what is read."""

    snapshot: Snapshot
    files: Files

    @property
    def definition(self) -> Table:
        """As the files have it: columns those of the newest file of the partition that has most of
        them, partition columns as strings.
        """
        return self.snapshot.table

    def open(self, *, keep: Keep) -> Lease:
        """The partitions that are kept; there is nothing to end."""
        parts = {part.partition.values: part for part in self.snapshot.parts}
        kept = keep([part.partition for part in self.snapshot.parts])
        chosen = tuple(parts[partition.values] for partition in kept)
        snapshot = Snapshot(self.snapshot.table, self.snapshot.valid, chosen)
        return Lease(snapshot, lambda: None, self.files)


Source = TableSource | PathSource
"""A table that can be read again and again, each time as of that moment."""


def source_of(
    table: str | PathLike[str] | SessionTable,
    *,
    valid_write_ids: str | ValidWriteIdList | None,
    valid_txns: str | ValidTxnList | None,
    wanted: AsOf | None = None,
) -> Source:
    """The source that a path or a session's table is; ``wanted`` is a version of the latter.

    Raises:
        FormatError, MissingFileError, StorageError: the directory cannot be made out.
        InvalidInputError: lists of valid ids for a session's table, which has its own.
        NotFoundError: the table was dropped.
        SnapshotExpiredError: what these lists need was compacted away.
    """
    if isinstance(table, PathLike):
        table = fspath(table)
    if not isinstance(table, str):
        versioned = table if wanted is None else _as_of(table, wanted)
        return _table_source(versioned, lists=(valid_write_ids, valid_txns))
    if wanted is not None:
        raise InvalidInputError(
            "A path has no versions that are told by as_of_...: who knows the commits is a session",
            path=table,
            note="read_arrow(acid.table(name), as_of_write_id=7).",
        )
    if ":" not in table and not table.startswith("/"):
        raise InvalidInputError(
            f"A path is absolute, or a URL; {table!r} is neither",
            path=table,
            note="A table of a session is read by its handle: read_arrow(acid.table(name)).",
        )
    files = Files()
    fs, root = files.at(table)
    write_ids = _write_ids(valid_write_ids, root)
    txns = ValidTxnList.parse(valid_txns) if isinstance(valid_txns, str) else valid_txns
    with noticing_cleaning(fs):
        return PathSource(_found(fs, root, write_ids, txns), files)


def _found(
    fs: FileSystem, root: str, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> Snapshot:
    found = discover_partitions(fs, root)
    listings = [list_settled(fs, partition.path) for partition in found]
    mode = _mode([entry for entries in listings for entry in entries])
    parts = tuple(
        SnapshotPart(
            Partition(partition.values, fs.location_of(partition.path)),
            with_logical_lengths(
                fs,
                partition.path,
                resolve(entries, write_ids, txns, mode=mode),
                entries=entries,
            ),
        )
        for partition, entries in zip(found, listings, strict=True)
    )
    columns = _file_columns(fs, parts)
    text = PrimitiveType("string")
    keys = tuple(Column(name.lower(), text) for name in found[0].names)
    definition = Table(
        _FOUND,
        columns,
        fs.location_of(root),
        partition_columns=keys,
        properties={"transactional": "true", "transactional_properties": mode.value},
    )
    return Snapshot(definition, write_ids, parts)


def _as_of(table: SessionTable, wanted: AsOf) -> SessionTable:
    versions = getattr(table, "as_of", None)
    if versions is None:
        raise InvalidInputError(f"{type(table).__name__} is as of another moment, or no table")
    found: SessionTable = versions(wanted)
    return found


def _table_source(table: SessionTable, *, lists: tuple[object, object]) -> TableSource:
    if not hasattr(table, "lease"):  # isinstance may look at the definition: in the catalog
        raise InvalidInputError(
            f"a path or a table of a session is read, not {type(table).__name__}"
        )
    if lists != (None, None):
        raise InvalidInputError("lists of valid ids are for paths: a table is read as of now")
    definition = table.definition
    if definition.kind is TableKind.VIEW:
        raise InvalidInputError(f"{definition.name} is a view, not a table")
    return TableSource(table, definition)


def _write_ids(given: str | ValidWriteIdList | None, root: str) -> ValidWriteIdList:
    if given is None:
        _log.info("Every write id counts as committed", extra={"table": root})
        return ValidWriteIdList.everything()
    return ValidWriteIdList.parse(given) if isinstance(given, str) else given


def _mode(entries: Sequence[Entry]) -> AcidMode:
    """Insert-only where no file may hold row events and none lies outside bases and deltas."""
    for entry in entries:
        first, _, rest = entry.path.partition("/")
        if entry.is_directory or is_hidden(entry.name) or is_marker(entry.name):
            continue
        if not rest or not looks_acid(first) or entry.name.startswith(BUCKET_PREFIX):
            return AcidMode.FULL
    return AcidMode.INSERT_ONLY


def _file_columns(fs: FileSystem, parts: Sequence[SnapshotPart]) -> tuple[Column, ...]:
    """The columns of the newest file of the partition that has most of them."""
    best: tuple[bool, int, int] = (False, -1, -1)
    found: tuple[Column, ...] = ()
    for part in parts:
        for write_id, files in sorted(
            part.directory.rows_by_write_id, key=itemgetter(0), reverse=True
        ):
            file = next((file for file in files if file.size_bytes or file.logical_bytes), None)
            if file is None:
                continue
            path = f"{fs.path_of(part.partition.location)}/{file.path}"
            with open_any_reader(fs, path, logical_bytes=file.logical_bytes) as reader:
                if not reader.fields:
                    continue
                rank = (not reader.has_positional_names, len(reader.fields), write_id)
                if rank > best:
                    best = rank
                    found = tuple(Column(name.lower(), kind) for name, kind in reader.fields)
            break
    return found
