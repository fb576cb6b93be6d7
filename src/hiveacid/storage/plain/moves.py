"""Files of a table without transactions: the names they come under, what an overwrite removes.

Others may write to the table at the same time. A name that somebody has taken is never taken again,
and what is taken back is one's own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hiveacid.errors import StorageError
from hiveacid.layout.directories import is_hidden
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import WrittenFile, directories_of, final_path


def plain_files(fs: FileSystem, directory: str) -> list[str]:
    """The data files of a directory of a table that is not transactional, hidden ones apart: also
    those in directories below it, such as Hive's UNION ALL writes (HIVE_UNION_SUBDIR_1).

    Raises:
        StorageError: the file system failed.
    """
    first = len(directory.rstrip("/")) + 1
    return [
        entry.path
        for entry in fs.list_recursive(directory)
        if not entry.is_directory and not any(map(is_hidden, entry.path[first:].split("/")))
    ]


@dataclass(slots=True, eq=False)
class _Move:
    fs: FileSystem
    staged: str
    target: str
    is_made: bool = False
    """else it is made where the staged file is gone"""


@dataclass(slots=True)
class PlainMoves:
    """The files that one statement moves into a table without transactions, where others may move
    theirs at the same time: each gets the first of its names that nobody has taken.
    """

    _made: list[_Move] = field(default_factory=list)
    _aside: list[_Move] = field(default_factory=list)
    _hidden: list[tuple[FileSystem, str]] = field(default_factory=list)
    _deleted: list[tuple[FileSystem, str]] = field(default_factory=list)

    def publish(
        self,
        fs: FileSystem,
        table_location: str,
        files: Sequence[WrittenFile],
        *,
        partition_columns: Sequence[str] = (),
    ) -> None:
        """Move the staged files, as ``publish`` does.

        Raises:
            MissingFileError: a staged file is not there.
            StorageError: the file system failed.
        """
        keys = tuple(partition_columns)
        fs.each(fs.make_room, directories_of(table_location, files, keys))
        named = with_free_names(fs, table_location, files, partition_columns=keys)
        if fs.is_object_store:
            moves = [(file.staged_path, final_path(table_location, file, keys)) for file in named]
            self._made += [_Move(fs, *move, is_made=True) for move in moves]
            fs.copy_files(moves)
            return

        def moved(file: WrittenFile) -> None:
            while not self._has_moved(fs, file.staged_path, final_path(table_location, file, keys)):
                (file,) = with_free_names(fs, table_location, [file], partition_columns=keys)

        fs.each(moved, named)

    def _has_moved(self, fs: FileSystem, staged: str, target: str) -> bool:
        move = _Move(fs, staged, target)
        self._made.append(move)
        move.is_made = _is_moved(fs, staged, target)
        if not move.is_made:
            self._made.remove(move)
        return move.is_made

    def replace(self, fs: FileSystem, root: str, files: Sequence[str], *, aside: str) -> None:
        """Take files below ``root`` out of the table: into a hidden directory there, from which
        they come back; for good in an object store, where a move is a copy.

        Raises:
            StorageError: the file system failed.
        """
        if fs.is_object_store:
            self._deleted += [(fs, path) for path in files]
            try:
                fs.each(fs.delete_file, files)
            except StorageError as error:
                error.add_note("Some of the old files may be there yet: say the statement again.")
                raise
            return
        if files:
            self._hidden.append((fs, f"{root}/{aside}"))
        first = len(root.rstrip("/")) + 1
        hidden_of = {path: f"{root}/{aside}/{path[first:]}" for path in files}
        for directory in {hidden.rpartition("/")[0] for hidden in hidden_of.values()}:
            fs.make_room(directory)
        for path, hidden in hidden_of.items():
            self._aside.append(_Move(fs, path, hidden))
            fs.rename(path, target=hidden)

    def forget(self) -> None:
        """Delete what was replaced.

        Raises:
            StorageError: the file system failed.
        """
        for fs, path in self._hidden:
            fs.delete_directory(path)

    def retract(self) -> None:
        """Take back what was moved, and nothing that others moved there; what took the place of
        files that are deleted already stays.

        Raises:
            StorageError: the file system failed, or somebody has taken the name of a file.
        """
        for move in self._aside:
            fs = move.fs
            if fs.exists(move.target) and not _is_moved(fs, move.target, move.staged):
                raise StorageError(f"{move.staged} is somebody else's by now", path=move.target)
        if not all(fs.exists(path) for fs, path in self._deleted):
            return
        for move in self._made:
            fs = move.fs
            if (move.is_made or not fs.exists(move.staged)) and fs.exists(move.target):
                fs.delete_file(move.target)


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
        directory = final_path(table_location, file, partition_columns).rpartition("/")[0]
        if directory not in taken:
            entries = fs.list_directory(directory)
            taken[directory] = {entry.name for entry in entries}
        name, copy = file.name, 0
        while name in taken[directory]:
            copy += 1
            stem, dot, extension = file.name.rpartition(".")
            name = f"{stem or extension}_copy_{copy}{dot}{extension if stem else ''}"
        taken[directory].add(name)
        found.append(replace(file, name=name))
    return tuple(found)


def _is_moved(fs: FileSystem, source: str, target: str) -> bool:
    """Move a file to where nothing is; False where something is, and nothing is moved then.

    Nobody comes between on a disk that has links, nor on HDFS.
    """
    if fs.location_of(source) == source:  # a disk, where a link never replaces a file
        with suppress(OSError):  # the target is there, or the disk has no links
            os.link(source, target)
            with suppress(StorageError):  # it goes with its directory
                fs.delete_file(source)
            return True
    if fs.exists(target):
        return False
    fs.rename(source, target=target)
    return True
