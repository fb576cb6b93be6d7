"""Looks for the damaged file of a table, by the tails of its files."""

from __future__ import annotations

from hiveacid.errors import FormatError
from hiveacid.layout import events
from hiveacid.layout.snapshot import AcidDirectory, DataFile, Snapshot
from hiveacid.model.tables import AcidMode, FileFormat
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.footers import tail_of
from hiveacid.storage.orc.tail import OrcTail, read_tail


def check_tails(snapshot: Snapshot, *, files: Files) -> None:
    """Reads the tail of every file of a snapshot, for an error that does not say which file it is.

    Raises:
        MissingFileError: a listed file does not exist.
        FormatError: a file is not ORC, or one named like an ACID bucket file does not hold row
        events; the context has ``path``.
    """
    if snapshot.table.format is not FileFormat.ORC:
        return
    for part in snapshot.parts:
        fs, root = files.at(part.partition.location)
        for file in _files(part.directory):
            if file.size_bytes == 0 or file.logical_bytes == 0:
                continue
            path = f"{root.rstrip('/')}/{file.path}"
            tail = read_tail(fs, path, length=file.logical_bytes)
            if (
                snapshot.table.acid_mode is AcidMode.FULL
                and file not in part.directory.originals
                and file.is_bucket_file
            ):
                check_acid(tail, path)


def event_tail(fs: FileSystem, root: str, file: DataFile) -> OrcTail:
    """The tail of a bucket file below the path ``root``, which is whole and holds row events.

    A reader that filters by a user's condition first would not notice: a foreign file has no such
    columns, so none of its rows meets it.

    Raises:
        MissingFileError: the file does not exist.
        FormatError: not ORC, truncated, or without row events; the context has ``path``.
    """
    tail = tail_of(fs, root, file)
    check_acid(tail, f"{root.rstrip('/')}/{file.path}")
    return tail


def check_acid(tail: OrcTail, path: str) -> None:
    """Raises FormatError where a file is ORC but does not hold row events; one without rows may."""
    if tail.rows == 0:
        return
    names = tuple(name for name, _ in tail.root.fields)
    if not events.is_event_schema(names):
        raise FormatError(
            f"{path} is not an ACID file: expected the columns {', '.join(events.EVENT_FIELDS)},"
            f" found {', '.join(names)}",
            path=path,
        )


def _files(directory: AcidDirectory) -> tuple[DataFile, ...]:
    base = directory.base.files if directory.base else ()
    return (*base, *directory.originals, *(f for d in directory.deltas for f in d.files))
