"""Where to write, and what was written: the second pair of values in which the planes meet; and the
move of what was written to its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from hiveacid.errors import InternalError, InvalidInputError, MissingFileError, StorageError
from hiveacid.layout.directories import (
    METADATA_FILE,
    PUBLISHING_FILE,
    VERSION_FILE,
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    format_base,
    format_bucket_file,
    format_delta,
    format_original_file,
    parse_directory,
    partition_name,
)
from hiveacid.layout.events import VERSION_TEXT
from hiveacid.model.tables import MAX_BUCKET_ID, AcidMode, StatementId, Table, WriteId
from hiveacid.storage.failures import mapped
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.s3_uploads import Upload

_COPY_BYTES: Final = 16 * 1024 * 1024


class FileKind(Enum):
    """What a written file holds, hence its directory's name."""

    INSERT = "insert"
    """row events in ``delta_W_W_S``"""
    DELETE = "delete"
    """delete events in ``delete_delta_W_W_S``"""
    BASE = "base"
    """row events in ``base_W``: INSERT OVERWRITE"""
    PLAIN = "plain"
    """rows without events: in the partition directory itself of a table without transactions, in
    ``delta_W_W_S`` or ``base_W`` of an insert-only one, or in a directory that was loaded
    """


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where one statement writes.

    ``table.location`` is the root. The statement ids are those of the directories (and bucket
    properties) for each kind of event; a statement that makes no such events leaves its id None.
    ``overwrite`` sends inserted rows to ``base_W``. ``staging`` is a hidden directory below the
    table's root, unique to the statement, in which files wait for publication.
    ``static_partition`` gives the texts of partition columns that are constant.
    """

    files: Files
    table: Table
    write_id: WriteId
    staging: str
    delete_statement: StatementId | None = None
    """delete events of rows that go"""
    update_delete_statement: StatementId | None = None
    """delete events of rows that change"""
    update_insert_statement: StatementId | None = None
    """new images of rows that change"""
    insert_statement: StatementId | None = None
    """new rows"""
    overwrite: bool = False
    static_partition: Mapping[str, str | None] = field(default_factory=dict)
    in_place: list[str] | None = None
    """Where the driver may write files where they stay, which tasks that run twice may not: the
    paths of those that it has begun.
    """
    sends: bool = False
    """Whether tasks send files to where they stay, which are there once the driver completes them;
    else they stage them.
    """

    def __post_init__(self) -> None:
        check_bucket_count(self.table)


def check_bucket_count(table: Table) -> None:
    """The identities of the table's rows can say in which bucket they are.

    Raises:
        InvalidInputError: there are more buckets than that (format.md 4.4).
    """
    most = MAX_BUCKET_ID + 1
    if table.acid_mode is AcidMode.FULL and table.bucket and table.bucket.count > most:
        raise InvalidInputError(
            f"Table {table.name} has {table.bucket.count} buckets; a table with row ids has at"
            f" most {most}",
            table=str(table.name),
            buckets=table.bucket.count,
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One staged file.

    ``partition`` as in ``Partition.values``; ``directory`` as ``delta_0000001_0000001_0000``;
    ``staged_path`` is a path within the file system. ``statement`` is one of the target's, None
    where no rows are counted by it.
    """

    partition: tuple[str | None, ...]
    directory: str
    name: str
    staged_path: str
    kind: FileKind
    rows: int
    size_bytes: int
    statement: StatementId | None = None
    upload: Upload | None = None
    """What is to be completed, where the file was sent to its place, which is its path."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The files that one statement wrote, hidden or published, and how many rows of each kind."""

    files: tuple[WrittenFile, ...]
    rows_inserted: int
    rows_updated: int
    rows_deleted: int


def write_result(target: WriteTarget, files: Sequence[WrittenFile]) -> WriteResult:
    """All that was written: rows by the statement that wrote them.

    Raises:
        InternalError: two files of one name.
    """
    places = [(file.partition, file.directory, file.name) for file in files]
    if len(set(places)) != len(places):
        raise InternalError("two tasks wrote one bucket file", files=places)

    def rows(statement: StatementId | None, *, deletes: bool) -> int:
        return sum(
            file.rows
            for file in files
            if statement is not None
            and file.statement == statement
            and (file.kind is FileKind.DELETE) == deletes
        )

    return WriteResult(
        tuple(files),
        rows_inserted=rows(target.insert_statement, deletes=False),
        rows_updated=rows(target.update_insert_statement, deletes=False),
        rows_deleted=rows(target.delete_statement, deletes=True),
    )


def insert_kind(target: WriteTarget) -> FileKind:
    """What new rows of the target's table are written as."""
    if target.table.acid_mode is not AcidMode.FULL:
        return FileKind.PLAIN
    return FileKind.BASE if target.overwrite else FileKind.INSERT


def row_directory(target: WriteTarget, *, statement: StatementId) -> str:
    """The directory, below the partition's, of new rows: ``base_W``, ``delta_W_W_S``, or none in a
    table without transactions.
    """
    if target.table.acid_mode is AcidMode.NONE:
        return ""
    if target.overwrite:
        return format_base(BaseName(target.write_id))
    return format_delta(DeltaName(target.write_id, target.write_id, statement))


def file_place(
    target: WriteTarget, *, kind: FileKind, statement: StatementId, bucket: int
) -> tuple[str, str]:
    """Directory (below the partition's) and name of a file, as Hive 4.1 names them (real-hive.md
    4), with ``Table.attempt``, or without where the table's ``hiveacid.compat`` is ``hive3``.

    Delete files carry no attempt suffix: Hive 3.1 does not find them otherwise. ``statement`` does
    not matter where the directory has none.
    """
    if kind is FileKind.DELETE:
        delta = DeltaName(target.write_id, target.write_id, statement, is_delete=True)
        return format_delta(delta), format_bucket_file(BucketFileName(bucket))
    directory = row_directory(target, statement=statement)
    if kind is FileKind.PLAIN:
        return directory, original_name(target.table, bucket)
    return directory, bucket_name(target.table, bucket)


def bucket_name(table: Table, bucket: int, *, statement: int = 0) -> str:
    """The name of a new file with row ids."""
    attempt = None if table.has_hive_3_names else table.attempt(statement)
    return format_bucket_file(BucketFileName(bucket, attempt))


def original_name(table: Table, bucket: int) -> str:
    """The name of a new file without row ids; that of a plain table, as Hive's, says no attempt."""
    attempt = table.attempt() if table.is_transactional else 0
    return format_original_file(OriginalFileName(bucket, attempt))


def partition_values(
    target: WriteTarget, dynamic: Mapping[str, str | None]
) -> tuple[str | None, ...]:
    """The partition of a row: static texts of the target, the rest from ``dynamic``."""
    return tuple(
        dynamic[c.name] if c.name in dynamic else target.static_partition[c.name]
        for c in target.table.partition_columns
    )


# -------------------------------------------------------------------- publishing
# Move staged files into a table's directories, and take them back.
#
#     <table>/<staging>/...           written by tasks, hidden from every reader; in an object
#                                     store the driver writes files where they stay
#        | rename; in an object store a copy, made there
#     <table>/[p=x/]delta_W_W_S/bucket_N  +  _orc_acid_version
#
# Publishing makes nothing visible: a directory counts only once its write id is committed. Both
# functions may be repeated after a failure half way: what is done already is recognised and left.


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
    fs.each(fs.make_room, directories_of(table_location, files, partition_columns))
    moves = [(file, final_path(table_location, file, partition_columns)) for file in files]
    if fs.is_object_store:
        _copy(fs, moves)
    else:
        fs.each(lambda move: _move(fs, *move), moves)
    events = (file for file in files if file.kind is not FileKind.PLAIN)
    fs.each(partial(publish_version, fs), directories_of(table_location, events, partition_columns))
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
        fs.make_room(mark.rpartition("/")[0])
    for mark in marks:
        fs.write_bytes(mark, data=b"")
    yield
    for mark in marks:
        fs.delete_file(mark, is_alone=False)


def publish_version(fs: FileSystem, directory: str) -> None:
    """Create a directory of row events, or say of one that it is: ``_orc_acid_version``.

    Raises:
        StorageError: the file system failed.
    """
    fs.make_room(directory)
    fs.write_bytes(f"{directory}/{VERSION_FILE}", data=VERSION_TEXT.encode())


def publish_marker(fs: FileSystem, directory: str, *, text: str) -> None:
    """Create a directory that holds ``_metadata_acid`` only: a base that empties (format.md 1.5).

    Raises:
        StorageError: the file system failed.
    """
    fs.make_room(directory)
    fs.write_bytes(f"{directory}/{METADATA_FILE}", data=text.encode())


def retract(
    fs: FileSystem,
    table_location: str,
    files: Sequence[WrittenFile],
    *,
    partition_columns: Sequence[str] = (),
) -> None:
    """Take back what ``publish`` moved, for a statement that failed before its transaction ends.

    Bases and deltas go as a whole: they belong to one statement, but where another metastore gave
    its number out, too, and a file was in the way. Partition directories stay: others may write
    there.

    Raises:
        StorageError: the file system failed.
    """
    not_moved = (
        [] if fs.is_object_store else [file for file in files if fs.exists(file.staged_path)]
    )
    others = {
        _directory(table_location, file, partition_columns)
        for file in not_moved
        if fs.exists(final_path(table_location, file, partition_columns))
    }
    for directory in directories_of(table_location, files, partition_columns):
        if directory not in others:
            fs.delete_directory(directory)


def end_uploads(fs: FileSystem, root: str, write_id: WriteId) -> None:
    """Let the store forget what was sent for a write id and not completed.

    Raises:
        StorageError: the file system failed.
    """

    def is_own(path: str, _: int) -> bool:
        found = parse_directory(path.split("/")[-2])
        first = found.write_id if isinstance(found, BaseName) else found and found.min_write_id
        return first == write_id

    fs.end_uploads(root, if_=is_own)


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


def _copy(fs: FileSystem, moves: Sequence[tuple[WrittenFile, str]]) -> None:
    """Copies take the place of renames in object stores, where files were not sent to their places
    and are completed; staged files go with their directory.

    A directory of a write id is one statement's, so nothing else is in the way.
    """
    todo = []
    for file, target in moves:
        if file.staged_path != target:
            assert file.upload is None, "an upload has one place"
            todo.append((file.staged_path, target))
    sent = [(file.staged_path, file.upload, file.size_bytes) for file, _ in moves if file.upload]
    fs.complete_files(sent)
    try:
        fs.copy_files(todo)
    except MissingFileError:
        sizes = {target: file.size_bytes for file, target in moves}
        if any(not fs.exists(t) or fs.size_bytes(t) != sizes[t] for _, t in todo):
            raise


def directories_of(
    table_location: str, files: Iterable[WrittenFile], partition_columns: Sequence[str]
) -> list[str]:
    """The directories that files belong to, each once."""
    return sorted({_directory(table_location, file, partition_columns) for file in files})


def _directory(table_location: str, file: WrittenFile, partition_columns: Sequence[str]) -> str:
    parts = [table_location.rstrip("/")]
    if file.partition:
        parts.append(partition_name(partition_columns, file.partition))
    if file.directory:
        parts.append(file.directory)
    return "/".join(parts)


def copy_across(source: FileSystem, path: str, target: FileSystem, copy: str) -> None:
    """Copy a file's bytes from one file system to another.

    Raises:
        StorageError: reading or writing failed.
    """

    def copied() -> None:
        with mapped(copy), source.open_input(path) as given, target.open_output(copy) as out:
            while block := given.read(_COPY_BYTES):
                out.write(block)

    target.made_again(copy, copied)
