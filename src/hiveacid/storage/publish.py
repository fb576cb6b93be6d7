"""Move staged files into a table's directories, and take them back.

    <table>/<staging>/...           written by tasks, hidden from every reader
       | rename
    <table>/[p=x/]delta_W_W_S/bucket_N  +  _orc_acid_version

Publishing makes nothing visible: a directory counts only once its write id is committed. Both
functions may be repeated after a failure half way: what is done already is recognised and left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hiveacid.errors import MissingFileError, StorageError
from hiveacid.layout.metadata import VERSION_TEXT
from hiveacid.layout.names import (
    METADATA_FILE,
    PUBLISHING_FILE,
    VERSION_FILE,
    is_hidden,
    partition_name,
)
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import FileKind, WrittenFile


def publish(
    fs: FileSystem,
    table_location: str,
    files: Sequence[WrittenFile],
    *,
    partition_columns: Sequence[str] = (),
    staging: str | None = None,
) -> None:
    """Move every staged file to its place, write the version files, remove the staging directory.

    ``table_location`` is the table's path within the file system. ``staging`` is the path of the
    statement's staging directory.

    Raises:
        MissingFileError: a staged file is neither in staging nor in its place.
        StorageError: the file system failed, or another file is in the way.
    """
    for directory in _directories(table_location, files, partition_columns):
        fs.create_directory(directory)
    for file in files:
        _move(fs, file, final_path(table_location, file, partition_columns))
    for directory in _directories(
        table_location,
        (file for file in files if file.kind is not FileKind.PLAIN),
        partition_columns,
    ):
        publish_version(fs, directory)
    if staging is not None:
        fs.delete_directory(staging)


@contextmanager
def publishing(fs: FileSystem, directories: Iterable[str]) -> Iterator[None]:
    """Marks a compaction's directories as incomplete, created here, while its block fills them.

    For readers by path, to whom everything counts as committed: some of the files, or one of two
    directories, hide what they replace. Where the block fails, or its process dies, they stay so.

    Raises:
        StorageError: the file system failed.
    """
    marks = [f"{directory}/{PUBLISHING_FILE}" for directory in directories]
    for mark in marks:
        fs.create_directory(mark.rpartition("/")[0])
    for mark in marks:
        fs.write_bytes(mark, data=b"")
    yield
    for mark in marks:
        fs.delete_file(mark)


def publish_version(fs: FileSystem, directory: str) -> None:
    """Create a directory of row events, or say of one that it is: ``_orc_acid_version``.

    Raises:
        StorageError: the file system failed.
    """
    fs.create_directory(directory)
    fs.write_bytes(f"{directory}/{VERSION_FILE}", data=VERSION_TEXT.encode())


def publish_marker(fs: FileSystem, directory: str, *, text: str) -> None:
    """Create a directory that holds ``_metadata_acid`` only: a base that empties (format.md 1.5).

    Raises:
        StorageError: the file system failed.
    """
    fs.create_directory(directory)
    fs.write_bytes(f"{directory}/{METADATA_FILE}", data=text.encode())


def retract(
    fs: FileSystem,
    table_location: str,
    files: Sequence[WrittenFile],
    *,
    partition_columns: Sequence[str] = (),
    staging: str | None = None,
) -> None:
    """Take back what ``publish`` moved, for a statement that failed before its transaction ends.

    Bases and deltas go as a whole (they belong to one statement); of plain tables only the files
    named. Partition directories stay: others may write there.

    Raises:
        StorageError: the file system failed.
    """
    own = [file for file in files if file.directory]
    for directory in _directories(table_location, own, partition_columns):
        fs.delete_directory(directory)
    for file in files:
        path = final_path(table_location, file, partition_columns)
        if not file.directory and fs.exists(path):
            fs.delete_file(path)
    if staging is not None:
        fs.delete_directory(staging)


def final_path(
    table_location: str, file: WrittenFile, partition_columns: Sequence[str] = ()
) -> str:
    """Where a staged file belongs."""
    return f"{_directory(table_location, file, partition_columns)}/{file.name}"


def _move(fs: FileSystem, file: WrittenFile, target: str) -> None:
    staged = fs.exists(file.staged_path)
    if fs.exists(target):
        if not staged and fs.size_bytes(target) == file.size_bytes:
            return
        raise StorageError(f"{target} exists already", path=target, detail="exists")
    if not staged:
        raise MissingFileError(
            f"staged file {file.staged_path} does not exist", path=file.staged_path
        )
    fs.rename(file.staged_path, target=target)


def _directories(
    table_location: str, files: Iterable[WrittenFile], partition_columns: Sequence[str]
) -> list[str]:
    return sorted({_directory(table_location, file, partition_columns) for file in files})


def _directory(table_location: str, file: WrittenFile, partition_columns: Sequence[str]) -> str:
    parts = [table_location.rstrip("/")]
    if file.partition:
        parts.append(partition_name(partition_columns, file.partition))
    if file.directory:
        parts.append(file.directory)
    return "/".join(parts)


def empty_plain(fs: FileSystem, directory: str) -> None:
    """Delete the data files of a directory of a table that is not transactional, hidden ones apart.

    Raises:
        StorageError: the file system failed.
    """
    for entry in fs.list_directory(directory):
        name = entry.path.rpartition("/")[2]
        if not entry.is_directory and not is_hidden(name):
            fs.delete_file(entry.path)


def with_free_names(
    fs: FileSystem,
    table_location: str,
    files: Sequence[WrittenFile],
    *,
    partition_columns: Sequence[str] = (),
) -> tuple[WrittenFile, ...]:
    """The files of a plain table under names that are not taken: ``000000_0``, ``000000_0_copy_1``,
    ``data_copy_1.orc``, ...

    Raises:
        StorageError: the file system failed.
    """
    taken: dict[str, set[str]] = {}
    found = []
    for file in files:
        directory = _directory(table_location, file, partition_columns)
        if directory not in taken:
            entries = fs.list_directory(directory)
            taken[directory] = {entry.path.rpartition("/")[2] for entry in entries}
        name, copy = file.name, 0
        while name in taken[directory]:
            copy += 1
            stem, dot, extension = file.name.rpartition(".")
            name = f"{stem or extension}_copy_{copy}{dot}{extension if stem else ''}"
        taken[directory].add(name)
        found.append(replace(file, name=name))
    return tuple(found)
