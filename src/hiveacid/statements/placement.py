"""Where a statement's files go: below the table, into a partition with a LOCATION of its own, into
one whose name spells the same values differently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.layout.names import partition_name
from hiveacid.model.tables import Partition, Table
from hiveacid.statements.partition_values import normal_text
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.target import (
    FileKind,
    WriteResult,
    WrittenFile,
    publish,
    retract,
    with_free_names,
)

_Values = tuple[str | None, ...]
_COPY_BYTES: Final = 16 * 1024 * 1024


def default_location(table: Table, values: _Values) -> str:
    """Where a partition lies that says nothing of it; the table's root where it has none."""
    keys = [column.name for column in table.partition_columns]
    root = table.location.rstrip("/")
    return f"{root}/{partition_name(keys, values)}" if keys else root


def under_known_names(
    written: WriteResult, table: Table, known: Collection[_Values]
) -> WriteResult:
    """The files, each in the partition there is: ``x=1.50`` or ``n=007`` where older writers made
    it, though values are written as ``x=1.5`` and ``n=7``.

    Raises:
        UnsupportedError: rows to delete may be in either of two partitions with the same values.
    """
    spelled = spellings(table, known)
    files = []
    for file in written.files:
        found = spelled.get(file.partition, [file.partition])
        if len(found) > 1 and file.kind is FileKind.DELETE:
            keys = [column.name for column in table.partition_columns]
            names = " and ".join(sorted(partition_name(keys, values) for values in found))
            raise UnsupportedError(
                f"the partitions {names} of {table.name} have the same values",
                table=str(table.name),
                note="Insert the rows of one of them into the table again, and drop it.",
            )
        place = file.partition if file.partition in found else found[0]
        files.append(file if place == file.partition else replace(file, partition=place))
    return replace(written, files=tuple(files))


def spellings(table: Table, known: Iterable[_Values]) -> dict[_Values, list[_Values]]:
    """The partitions there are by their values in normal form."""
    found: dict[_Values, list[_Values]] = {}
    for values in known:
        found.setdefault(_normal(values, table), []).append(values)
    return found


def _normal(values: _Values, table: Table) -> _Values:
    try:
        return tuple(
            normal_text(text, column)
            for text, column in zip(values, table.partition_columns, strict=True)
        )
    except InvalidInputError:  # no value of the column's type: NULL to readers
        return values


@dataclass(frozen=True, slots=True)
class Placement:
    """The partitions of a table that lie elsewhere, by their values."""

    files: Files
    table: Table
    elsewhere: Mapping[_Values, str]

    @staticmethod
    def of(
        table: Table,
        partitions: Collection[_Values],
        *,
        known: Iterable[Partition],
        files: Files,
    ) -> Placement:
        """The placement of some of the partitions that are known, by their values."""
        found = {}
        for part in known:
            if part.values in partitions:
                place = part.location.rstrip("/")
                if place != default_location(table, part.values):
                    found[part.values] = place
        return Placement(files, table, found)

    def location(self, values: _Values) -> str:
        """Where a partition lies."""
        return self.elsewhere.get(values) or default_location(self.table, values)

    def with_free_names(self, written: WriteResult) -> WriteResult:
        """The files of a plain table under names that are not taken."""
        files: list[WrittenFile] = []
        for fs, root, keys, values, group in self._groups(written.files):
            free = with_free_names(fs, root, group, partition_columns=keys)
            files += free if values is None else [replace(f, partition=values) for f in free]
        return replace(written, files=tuple(files))

    def publish(self, written: WriteResult, *, staging: str) -> None:
        """Move all staged files to their places; the staging directory goes.

        Raises:
            MissingFileError, StorageError: as ``storage.target.publish``.
        """
        staging_fs, staging_path = self.files.at(staging)
        for fs, root, keys, _, group in self._groups(written.files):
            if fs is not staging_fs:
                group = _brought_over(group, staging_fs, fs, root)
            publish(fs, root, group, partition_columns=keys)
        staging_fs.delete_directory(staging_path)

    def retract(self, written: WriteResult) -> None:
        """Take back what ``publish`` moved.

        Raises:
            StorageError: the file system failed.
        """
        for fs, root, keys, _, group in self._groups(written.files):
            retract(fs, root, group, partition_columns=keys)

    def _groups(
        self, files: Sequence[WrittenFile]
    ) -> Iterator[tuple[FileSystem, str, Sequence[str], _Values | None, Sequence[WrittenFile]]]:
        """Files by root: those below the table, then for each partition elsewhere its own, as
        files of a table that lies there.
        """
        below = [file for file in files if file.partition not in self.elsewhere]
        keys = [column.name for column in self.table.partition_columns]
        yield (*self.files.at(self.table.location), keys, None, below)
        for values, place in self.elsewhere.items():
            group = [replace(f, partition=()) for f in files if f.partition == values]
            yield (*self.files.at(place), (), values, group)


def _brought_over(
    files: Sequence[WrittenFile], source: FileSystem, target: FileSystem, root: str
) -> list[WrittenFile]:
    """Copies of staged files on the partition's own file system, hidden until they are moved."""
    moved = []
    for file in files:
        name = file.staged_path.rpartition("/")[2]
        copy = f"{root}/_hiveacid_staging_{file.directory}_{name}"
        target.make_room(root)
        with source.open_input(file.staged_path) as given, target.open_output(copy) as out:
            while block := given.read(_COPY_BYTES):
                out.write(block)
        moved.append(replace(file, staged_path=copy))
    return moved
