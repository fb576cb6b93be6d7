"""Directory listings: entries for ``layout.resolve``, lengths of streaming files, partitions found
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import (
    FormatError,
    InvalidInputError,
    MissingFileError,
    SnapshotExpiredError,
    StorageError,
)
from hiveacid.layout.compaction import is_replaced
from hiveacid.layout.directories import (
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    AcidDirectory,
    BaseName,
    DataFile,
    DeltaDirectory,
    Snapshot,
    SnapshotPart,
    is_hidden,
    looks_acid,
    may_be_partition,
    parse_directory,
    parse_partition_name,
)
from hiveacid.layout.events import DataFormat, parse_marker
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import Partition, Table, check_mode
from hiveacid.storage.filesystem import FileInfo, Files, FileSystem

_LONG_BYTES: Final = 8
_MARKER: Final = f"/{METADATA_FILE}"
_TOGETHER_MAX: Final = 1_000
"""So many partitions' listings are in memory at once where each is looked at by itself."""
OfThen = Callable[[FileSystem, str, tuple[Entry, ...]], tuple[Entry, ...]]
"""Of a partition's listing the entries from which a state of the past is read."""


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition found by its directory's name: ``values`` as in ``Partition.values``, ``path``
    absolute.
    """

    names: tuple[str, ...]
    values: tuple[str | None, ...]
    path: str


def numbered_directories(files: Files, locations: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """The bases and deltas in these directories: path, last write id, and the transaction of the
    compaction that made it, 0 where the name says none.

    Raises:
        StorageError: listing failed.
    """
    for location in locations:
        fs, path = files.at(location)
        try:
            entries = tuple(fs.list_directory(path))
        except MissingFileError:
            continue
        for info in entries:
            name = parse_directory(info.name) if info.is_directory else None
            if name is not None:
                last = name.write_id if isinstance(name, BaseName) else name.max_write_id
                yield info.path, last, name.visibility_txn


def list_partition(fs: FileSystem, path: str) -> tuple[Entry, ...]:
    """All that lies below one partition directory, with the text of each ``_metadata_acid``.

    Raises:
        StorageError: listing or reading failed.
    """
    return _entries(fs, path, fs.list_recursive(path))


def _entries(fs: FileSystem, path: str, infos: Iterable[FileInfo]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    first = len(path.rstrip("/")) + 1
    for full, is_directory, size_bytes, modified_ns in infos:
        marker = None
        if not is_directory and full.endswith(_MARKER):
            marker = fs.read_bytes(full).decode("utf-8", "replace")
        entries.append(
            Entry(
                path=full[first:],
                size_bytes=size_bytes,
                is_directory=is_directory,
                marker=marker,
                modified_ns=modified_ns,
            )
        )
    return tuple(entries)


def is_marked_compacted(fs: FileSystem, path: str) -> bool:
    """Whether the base at ``path`` says that a compaction wrote it: those of Hive 3 have names like
    those of an overwrite.

    Raises:
        StorageError, FormatError: what it says cannot be read.
    """
    marker = f"{path}/{METADATA_FILE}"
    if not fs.exists(marker):
        return False
    text = fs.read_bytes(marker).decode("utf-8", "replace")
    return parse_marker(text, path=marker) is DataFormat.COMPACTED


def with_logical_lengths(
    fs: FileSystem, path: str, directory: AcidDirectory, *, entries: Sequence[Entry]
) -> AcidDirectory:
    """``directory`` with ``logical_bytes`` of streaming files filled in (format.md 9).

    A streaming delta is an insert delta of several write ids without a visibility suffix.
    ``entries`` is the listing that ``directory`` was resolved from: only side files named in it
    are read.

    Raises:
        FormatError: a side file without a complete length.
        StorageError: reading failed.
    """
    side_files = {entry.path for entry in entries if entry.path.endswith(FLUSH_LENGTH_SUFFIX)}
    if not side_files:
        return directory
    deltas = tuple(
        replace(
            delta, files=tuple(_with_length(fs, path, file, side_files) for file in delta.files)
        )
        if _is_streaming(delta)
        else delta
        for delta in directory.deltas
    )
    return replace(directory, deltas=deltas)


def discover_partitions(
    fs: FileSystem, path: str, *, columns: Sequence[str] = (), passes_over: bool = False
) -> tuple[FoundPartition, ...]:
    """Partition directories below a table's root by their names (``p=x/q=1``); the root itself
    where there are none. What a dropped partition of several columns leaves, an empty ``p=x``
    beside others that go deeper, is none.

    Raises:
        FormatError: the directories do not agree on the partition columns, or are not partitions by
            ``columns`` and it does not pass over such, or are tables.
        InvalidInputError: the path of a file.
        MissingFileError: no such directory.
        StorageError: listing failed.
    """
    if not fs.is_directory(path):
        _refuse_file(fs, path)
        fs.list_directory(path)  # tells of a bucket that is not there
        raise MissingFileError(f"table directory {path} does not exist", path=path)
    leaves: list[tuple[FoundPartition, bool]] = []
    _walk(fs, path, "", leaves)
    depth = len(columns) or max((len(one.names) for one, _ in leaves), default=0)
    found = [one for one, is_empty in leaves if not is_empty or len(one.names) >= depth]
    names = tuple(columns) or (found[0].names if found else ())
    written = str.lower if columns else str
    others = [one for one in found if tuple(map(written, one.names)) != names]
    if others and not passes_over:
        raise FormatError(
            f"partition directories of {path} do not agree on their columns: {others[0].path}",
            path=others[0].path,
            expected="/".join(names),
            found="/".join(others[0].names),
            note="SET hive.msck.path.validation=skip passes over it." if columns else None,
        )
    if len(others) < len(found):
        return tuple(one for one in found if one not in others)
    if not found:
        _refuse_tables_within(fs, path)
    return (FoundPartition(names=(), values=(), path=path),)


def _refuse_file(fs: FileSystem, path: str) -> None:
    with suppress(MissingFileError):
        fs.size_bytes(path)
        raise InvalidInputError(
            f"{path} is a file: a table is read by its directory",
            path=path,
            note="`hiveacid dump FILE` shows the row events of one file.",
        )


def _refuse_tables_within(fs: FileSystem, path: str) -> None:
    """A directory of tables, such as a warehouse, is no table: their rows would be mixed."""
    for info in fs.list_directory(path):
        if not info.is_directory or is_hidden(info.name) or looks_acid(info.name):
            continue
        for inner in fs.list_directory(info.path):
            if inner.is_directory and (looks_acid(inner.name) or "=" in inner.name):
                raise FormatError(
                    f"{path} is no table, but holds the directory of one: {info.path}",
                    path=info.path,
                )


def _walk(
    fs: FileSystem, root: str, relative: str, leaves: list[tuple[FoundPartition, bool]]
) -> None:
    children = fs.list_directory(f"{root}/{relative}" if relative else root)
    nested = [
        name
        for name in (info.name for info in children if info.is_directory)
        if may_be_partition(name)
    ]
    for name in nested:
        _walk(fs, root, f"{relative}/{name}" if relative else name, leaves)
    if relative and not nested:
        parsed = parse_partition_name(relative)
        if parsed is not None:
            partition = FoundPartition(
                names=tuple(name for name, _ in parsed),
                values=tuple(value for _, value in parsed),
                path=f"{root}/{relative}",
            )
            leaves.append((partition, not children))


def _is_streaming(delta: DeltaDirectory) -> bool:
    name = delta.name
    return not name.is_delete and name.min_write_id != name.max_write_id and not name.visibility_txn


def _with_length(fs: FileSystem, root: str, file: DataFile, side_files: set[str]) -> DataFile:
    side = file.path + FLUSH_LENGTH_SUFFIX
    if side not in side_files:
        return file
    try:
        data = fs.read_bytes(f"{root}/{side}")
    except MissingFileError:  # its writer has closed the file since the listing
        return replace(file, logical_bytes=fs.size_bytes(f"{root}/{file.path}"))
    complete = len(data) // _LONG_BYTES * _LONG_BYTES
    length = int.from_bytes(data[complete - _LONG_BYTES : complete], "big", signed=True)
    if complete == 0 or length < 0:
        raise FormatError(
            f"side file {side} holds no complete length",
            path=f"{root}/{side}",
            expected="8-byte lengths",
            found=f"{len(data)} bytes",
        )
    return replace(file, logical_bytes=length)


def read_snapshot(
    table: Table,
    partitions: Sequence[Partition],
    *,
    files: Files,
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
    of_then: OfThen | None = None,
) -> Snapshot:
    """List each partition's directory and choose what a reader with these ids reads;
    ``of_then`` leaves entries out that a state of the past is not read from, where the caller knows
    whether what a base above these ids replaced is there.

    Raises:
        StorageError: a listing failed.
        FormatError: a file that decides what counts is not what it should be.
        InvalidInputError: as ``check_mode``.
    """
    check_mode(table)
    parts = []
    for partition, (file_system, path, infos) in zip(
        partitions, _listings(files, partitions), strict=True
    ):
        entries = _entries(file_system, path, infos)
        if of_then is not None:
            entries = of_then(file_system, path, entries)
        directory = resolve(
            entries, valid, valid_txns, mode=table.acid_mode, is_kept=of_then is not None
        )
        directory = with_logical_lengths(file_system, path, directory, entries=entries)
        parts.append(SnapshotPart(partition, directory))
    return Snapshot(table, valid, tuple(parts))


def list_partitions(files: Files, partitions: Sequence[Partition]) -> Iterator[tuple[Entry, ...]]:
    """What lies below each partition, by as few requests as the place allows.

    Raises:
        StorageError: listing or reading failed.
    """
    for first in range(0, len(partitions), _TOGETHER_MAX):
        some = partitions[first : first + _TOGETHER_MAX]
        for file_system, path, infos in _listings(files, some):
            yield _entries(file_system, path, infos)


def _listings(
    files: Files, partitions: Sequence[Partition]
) -> Iterator[tuple[FileSystem, str, Iterable[FileInfo]]]:
    """What lies below each partition; those of one file system are listed together."""
    places = [files.at(partition.location) for partition in partitions]
    paths: dict[FileSystem, list[str]] = {}
    for file_system, path in places:
        paths.setdefault(file_system, []).append(path)
    found = {
        fs: map(fs.list_recursive, some) if fs.requests_at_once == 1 else iter(fs.list_each(some))
        for fs, some in paths.items()
    }
    for file_system, path in places:
        yield file_system, path, next(found[file_system])


# -------------------------------------------------------------------- what was cleaned
# Reading without a lease: what compactions and cleanings in the middle of it do.
#
# A reader who lists a directory may find that a cleaner was quicker. That is told from a file that
# is missing from a directory that still counts, and neither is ever passed over.


_LISTINGS_MAX: Final = 5


def list_settled(fs: FileSystem, path: str) -> tuple[Entry, ...]:
    """A partition's listing that no compaction or cleaning came in between, for a reader without a
    lease: one that began before a compaction was published and ended after its inputs were cleaned
    would hold neither.

    Raises:
        SnapshotExpiredError: it was compacted or cleaned again and again meanwhile.
        StorageError: listing or reading failed.
    """
    for _ in range(_LISTINGS_MAX):
        with suppress(MissingFileError):
            entries = list_partition(fs, path)
            outermost = {entry.path.partition("/")[0] for entry in entries}
            listed = {name for name in outermost if looks_acid(name)}
            there = {info.name for info in fs.list_directory(path)}
            if listed <= there and not any(map(_is_compacted, there - listed)):
                return entries
    raise SnapshotExpiredError(
        f"{path} was compacted or cleaned each of the {_LISTINGS_MAX} times it was listed",
        path=path,
        note="A table of a session is read with its files kept for hiveacid.reads.lease_s.",
    )


def _is_compacted(name: str) -> bool:
    found = parse_directory(name)
    return isinstance(found, BaseName) or (found is not None and bool(found.visibility_txn))


@contextmanager
def noticing_cleaning(fs: FileSystem) -> Iterator[None]:
    """Reads listed files in its block.

    Raises:
        SnapshotExpiredError: one of them was cleaned.
        MissingFileError: one of them is missing for another reason.
    """
    try:
        yield
    except MissingFileError as error:
        raise missing_or_expired(fs, error) from error


def missing_or_expired(fs: FileSystem, error: MissingFileError) -> StorageError:
    """``error``, or what it stands for where the file was cleaned; looks at its directory."""
    path = str(error.context.get("path", ""))
    parts = path.split("/")
    at = max((i for i, part in enumerate(parts[:-1]) if parse_directory(part)), default=None)
    root = "/".join(parts[:-1] if at is None else parts[:at])
    try:
        there = {info.name for info in fs.list_directory(root)}
    except StorageError:
        return error
    if not there or not is_replaced(None if at is None else parts[at], there):
        return error
    return SnapshotExpiredError(
        f"{path} was cleaned while it was being read: what it held has been compacted or replaced",
        path=path,
        note="Read again. A session keeps what it reads for hiveacid.reads.lease_s.",
    )
