"""LOAD DATA: files as they are become a delta or base of a table (real-hive.md 4, format.md 6.4).

Where a file cannot be taken as it is - a bucketed table, a partition that the rows decide, files in
directories - the load is an INSERT of their rows, as in Hive. Files that are moved are copied
first and deleted when the transaction has committed: nothing is lost where it does not, or where
it is killed. A lock on each of them, which outlives the commit, keeps other LOADs away until then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import ClassVar

from hiveacid.errors import AcidError, FormatError, InvalidInputError
from hiveacid.layout.directories import (
    AcidDirectory,
    DataFile,
    Snapshot,
    SnapshotPart,
    bucket_of_file,
    is_hidden,
    partition_name,
    path_order,
)
from hiveacid.layout.events import is_event_schema
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import (
    AcidMode,
    FileFormat,
    Partition,
    StatementId,
    Table,
    TableKind,
    TableName,
    WriteId,
)
from hiveacid.statements import insert
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.job import Job, Work
from hiveacid.statements.partition_values import PartitionText, normal_text, partition_column
from hiveacid.statements.values import Command, Insert, LoadResult
from hiveacid.storage.filesystem import FileInfo, FileSystem
from hiveacid.storage.locations import one_name
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.plain.readers import found_format
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.storage.target import (
    FileKind,
    WriteResult,
    WrittenFile,
    copy_across,
    original_name,
    row_directory,
)
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class Load(Command):
    """LOAD DATA [LOCAL] INPATH path [OVERWRITE] INTO TABLE name [PARTITION (...)].

    ``path`` is a file, a directory of files, or either with ``*`` and ``?``. ``local`` files are of
    this machine and stay where they are; others are moved. ``partition`` holds (column, text).
    """

    name: TableName
    path: str
    local: bool = False
    overwrite: bool = False
    partition: PartitionText = ()


_LOG = logging.getLogger(__name__)


def plan(context: ExecutionContext, statement: Load, look: Look) -> Work:
    """How to carry the statement out.

    Raises:
        InvalidInputError: a view (10090), no such files, files of another format, files of row
        events (10413), or a partition that the table does not have.
        NotFoundError: no such table.
    """
    table = look.definition(statement.name)
    static = _partition(table, statement)
    place = _location(statement)
    fs, path = context.files.at(place)
    source = _Source(fs, _found(statement, place, fs, path))
    files = source.files(deep=False)
    if (
        any(entry.is_directory for entry in source.found)
        or table.bucket is not None
        or len(static) < len(table.partition_keys)
    ):
        source = replace(source, found=source.files(deep=True))
        _check_format(source, source.found, table)
        return _as_insert(context, statement, look, source, static)
    _check_format(source, files, table)
    written = _written(table, statement)
    does = frozenset({written.kind})
    return LoadWork(table, statement, static, source.fs, files, does, written.partitions)


def _partition(table: Table, statement: Load) -> dict[str, str | None]:
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "A view cannot be used as target table for LOAD or INSERT",
            code=10090,
            table=str(table.name),
        )
    keys = set(table.partition_keys)
    names = [name.lower() for name, _ in statement.partition]
    shown = ", ".join(f"{name}={text}" for name, text in statement.partition)
    if names and not keys:
        raise InvalidInputError(
            f"{table.name} table is not partitioned but partition spec exists: {{{shown}}}",
            table=str(table.name),
        )
    if not keys.issuperset(names):
        raise InvalidInputError(
            f"{table.name}: Partition spec {{{shown}}} contains non-partition columns",
            table=str(table.name),
        )
    return {
        name.lower(): normal_text(text, partition_column(table, name))
        for name, text in statement.partition
    }


# -------------------------------------------------------------------- the files


def _location(statement: Load) -> str:
    path = statement.path
    if statement.local and ":" not in path.partition("/")[0]:
        return os.path.abspath(path)
    return path


def _found(statement: Load, place: str, fs: FileSystem, path: str) -> tuple[FileInfo, ...]:
    """What the path names: a file, what is in a directory, or all that a pattern matches."""
    path = path.rstrip("/")
    if any(letter in path for letter in "*?["):
        parent, _, pattern = path.rpartition("/")
        found = [e for e in fs.list_directory(parent) if fnmatchcase(e.name, pattern)]
    elif fs.is_directory(path):
        found = list(fs.list_directory(path))
    else:
        parent = path.rpartition("/")[0]
        found = [entry for entry in fs.list_directory(parent) if entry.path == path]
    if not found:
        raise _nothing_there(statement, place)
    return tuple(entry for entry in found if not is_hidden(entry.name))


def _nothing_there(statement: Load, place: str) -> InvalidInputError:
    return InvalidInputError(
        f"Invalid path ''{statement.path}'': No files matching path {place}", path=statement.path
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """What a path names, hidden files apart."""

    fs: FileSystem
    found: tuple[FileInfo, ...]

    def files(self, *, deep: bool) -> tuple[FileInfo, ...]:
        """The files, in the order in which they are numbered; ``deep``: below directories too."""
        files = [entry for entry in self.found if not entry.is_directory]
        for above in self.found if deep else ():
            if above.is_directory:
                files += [
                    entry
                    for entry in self.fs.list_recursive(above.path)
                    if not entry.is_directory
                    and not any(map(is_hidden, entry.path[len(above.path) :].split("/")))
                ]
        return tuple(sorted(files, key=lambda entry: path_order(entry.path)))


def _check_format(source: _Source, files: Sequence[FileInfo], table: Table) -> None:
    """Files of an ORC or Parquet table are whole files of that format; text can be anything."""
    if table.format is FileFormat.TEXT:
        return
    for file in files:
        try:
            right = file.size_bytes > 0 and found_format(source.fs, file.path) is table.format
            if right and table.format is FileFormat.ORC:
                _refuse_events(source.fs, file.path)
        except FormatError:
            right = False
        if not right:
            raise InvalidInputError(
                "Unable to load data to destination table. Error: The file that you are trying to "
                "load does not match the file format of the destination table.",
                table=str(table.name),
                path=file.path,
                note=f"Files of another format: LOAD them into a table STORED AS that (TEXTFILE, "
                f"PARQUET, ORC), then INSERT INTO {table.name} SELECT * FROM it.",
            )


def _refuse_events(fs: FileSystem, path: str) -> None:
    if is_event_schema(name for name, _ in read_tail(fs, path).root.fields):
        raise InvalidInputError(
            f'"{path}" was created by Acid write - it cannot be loaded into anther Acid table',
            code=10413,
            path=path,
        )


# -------------------------------------------------------------------- as INSERT


def _as_insert(
    context: ExecutionContext,
    statement: Load,
    look: Look,
    source: _Source,
    static: Mapping[str, str | None],
) -> Work:
    """The rows of the files, in which the partition columns left open come last."""
    from hiveacid.spark.read import read

    table = look.definition(statement.name)
    open_columns = tuple(c for c in table.partition_columns if c.name not in static)
    known = {k: v for k, v in table.properties.items() if not k.startswith("transactional")}
    columns = table.columns + open_columns
    raw = replace(table, columns=columns, partition_columns=(), bucket=None, properties=known)
    parts = []
    for file in source.found:
        directory, _, name = file.path.rpartition("/")
        place = source.fs.location_of(directory)
        data = DataFile(name, file.size_bytes, bucket_of_file(name), modified_ns=file.modified_ns)
        directory_of_one = AcidDirectory(None, (data,), (), (), (), ())
        parts.append(SnapshotPart(Partition((), place), directory_of_one))
    snapshot = Snapshot(raw, ValidWriteIdList.everything(), tuple(parts))
    rows = read(context.session(), plan_scan(snapshot, files=context.files)).frame
    insertion = Insert(table.name, rows, partition=dict(static), overwrite=statement.overwrite)
    return insert.plan(insertion, look)


def needs(_: ExecutionContext, statement: Load, look: Look) -> Footprint:
    """The lock of the INSERT that it is or could be; the files are not looked at.

    Raises:
        InvalidInputError, NotFoundError: as ``plan``, but what the files tell.
    """
    return Footprint(writes=(_written(look.definition(statement.name), statement),))


def _written(table: Table, statement: Load) -> TableWrite:
    static, keys = _partition(table, statement), table.partition_keys
    named = None
    if keys and len(static) == len(keys):
        named = (partition_name(keys, [static[key] for key in keys]),)
    return TableWrite(
        table, WriteKind.OVERWRITE if statement.overwrite else WriteKind.INSERT, named
    )


# -------------------------------------------------------------------- as they are


@dataclass(frozen=True, slots=True)
class LoadWork(Work):
    """Files taken as they are."""

    COUNTS_ROWS: ClassVar[bool] = False
    table: Table
    statement: Load
    static: Mapping[str, str | None]
    fs: FileSystem
    files: tuple[FileInfo, ...]
    does: frozenset[WriteKind] = frozenset()
    partitions: tuple[str, ...] | None = None
    """The one partition, of a partitioned table."""

    def write(self, job: Job) -> WriteResult:
        """Copies beside the table; a table with row ids numbers its files."""
        files = self.files if self.statement.local else self._taken(job)
        insert_statement = job.statement_ids[0] if job.statement_ids else StatementId(0)
        target = job.target(insert_statement=insert_statement, overwrite=self.statement.overwrite)
        directory = row_directory(target, statement=insert_statement)
        fs, staging = job.files.at(job.staging)
        fs.make_room(staging)
        values = tuple(self.static[key] for key in self.table.partition_keys)
        written = []
        for number, file in enumerate(files):
            name = file.name
            if self.table.acid_mode is AcidMode.FULL:
                name = original_name(self.table, number)
            staged = f"{staging}/load-{number:06d}"
            copy_across(self.fs, file.path, fs, staged)
            written.append(
                WrittenFile(values, directory, name, staged, FileKind.PLAIN, 0, file.size_bytes)
            )
        if not self.statement.local:
            job.after_commit += [partial(self._remove, file.path) for file in files]
        return WriteResult(tuple(written), 0, 0, 0)

    def _taken(self, job: Job) -> Sequence[FileInfo]:
        """The files that nobody else has taken, kept for this transaction until it has removed
        them: another LOAD of one waits, and finds it gone, or there still.

        Raises:
            InvalidInputError: none is left, or one is of another format by now.
            LockError: another LOAD of one takes too long.
        """
        named = {file.path: one_name(self.fs.location_of(file.path)) for file in self.files}
        job.unit.claim(named.values())
        place, taken = _location(self.statement), job.txn.pending.sources
        _, path = job.files.at(place)
        source = _Source(self.fs, _found(self.statement, place, self.fs, path))
        files = [
            file
            for file in source.files(deep=False)
            if file.path in named and named[file.path] not in taken
        ]
        if not files:
            raise _nothing_there(self.statement, place)
        _check_format(source, [file for file in files if file not in self.files], self.table)
        taken += [named[file.path] for file in files]
        return files

    def result(self, written: WriteResult, write_id: WriteId) -> LoadResult:
        """Files taken; those that were to be moved go with the commit."""
        return LoadResult(len(written.files), write_id)

    def _remove(self, path: str) -> None:
        try:
            self.fs.delete_file(path)
        except AcidError as error:
            _LOG.warning("A loaded file stays where it was: %s", error, extra={"path": path})
