"""What a compaction of an insert-only table replaced: directories that tell which write id a row
came by, as long as the retention keeps them.

Rows of insert-only tables have no write ids, their directories have. So a stream that a compaction
overtook reads what was replaced, if all of it is there: it has as many rows as what replaced it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.layout.changes import write_ids_of
from hiveacid.layout.names import (
    BaseName,
    DeltaName,
    bucket_of_file,
    is_hidden,
    parse_directory,
)
from hiveacid.layout.snapshot import BaseDirectory, DataFile, DeltaDirectory, SnapshotPart
from hiveacid.model.tables import FileFormat, Table
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.tails import tail_of


def uncompacted(
    fs: FileSystem,
    root: str,
    table: Table,
    part: SnapshotPart,
    compacted: BaseDirectory | DeltaDirectory,
    *,
    valid: ValidWriteIdList,
) -> list[DeltaDirectory] | None:
    """The directories that ``compacted`` took the place of; None where some are gone, or that
    cannot be told.
    """
    if table.format is not FileFormat.ORC:
        return None
    first, last = write_ids_of(compacted.name)
    inputs = []
    for path in part.directory.obsolete:
        name = parse_directory(path)
        if name is None or (isinstance(name, DeltaName) and name.is_delete):
            continue
        low, high = write_ids_of(name)
        if first <= low and high <= last and not (low == high and not valid.is_valid(low)):
            inputs.append((path, name))
    smallest = [
        (path, name) for path, name in inputs if not any(_is_within(one, name) for _, one in inputs)
    ]
    found = []
    for path, name in smallest:
        low, high = write_ids_of(name)
        as_delta = DeltaName(min_write_id=low, max_write_id=high)  # type: ignore[arg-type]
        found.append(DeltaDirectory(path, as_delta, _files(fs, root, path), all_valid=True))
    if _rows(fs, root, found) != _rows(fs, root, [compacted]):
        return None
    return found


def _is_within(inner: BaseName | DeltaName, outer: BaseName | DeltaName) -> bool:
    """Whether one directory has a part of the other's write ids."""
    (low, high), (first, last) = write_ids_of(inner), write_ids_of(outer)
    return (first, last) != (low, high) and first <= low and high <= last


def _files(fs: FileSystem, root: str, path: str) -> tuple[DataFile, ...]:
    entries = fs.list_directory(f"{root.rstrip('/')}/{path}")
    named = [(entry, entry.path.rpartition("/")[2]) for entry in entries if not entry.is_directory]
    return tuple(
        DataFile(
            f"{path}/{name}",
            entry.size_bytes,
            bucket_of_file(name),
            modified_ns=entry.modified_ns,
        )
        for entry, name in named
        if not is_hidden(name)
    )


def _rows(fs: FileSystem, root: str, directories: Sequence[BaseDirectory | DeltaDirectory]) -> int:
    files = [file for one in directories for file in one.files]
    return sum(tail_of(fs, root, file).rows for file in files if file.size_bytes)
