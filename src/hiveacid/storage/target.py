"""Where to write, and what was written: the second pair of values in which the planes meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from hiveacid.errors import InternalError, InvalidInputError
from hiveacid.layout.names import (
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    format_base,
    format_bucket_file,
    format_delta,
    format_original_file,
)
from hiveacid.model.ids import MAX_BUCKET_ID, StatementId, WriteId
from hiveacid.model.tables import AcidMode, Table
from hiveacid.storage.filesystem import Files


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

    def of_size(self, *, rows: int, size_bytes: int) -> WrittenFile:
        """The same, finished."""
        return replace(self, rows=rows, size_bytes=size_bytes)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """All that one statement wrote."""

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
    4), or without attempt where the table's ``hiveacid.file.names`` is ``hive3``.

    Delete files carry no attempt suffix: Hive 3.1 does not find them otherwise. ``statement`` does
    not matter where the directory has none.
    """
    if kind is FileKind.DELETE:
        delta = DeltaName(target.write_id, target.write_id, statement, is_delete=True)
        return format_delta(delta), format_bucket_file(BucketFileName(bucket))
    directory = row_directory(target, statement=statement)
    if kind is FileKind.PLAIN:
        return directory, format_original_file(OriginalFileName(bucket, 0))
    attempt = None if target.table.has_hive_3_names else 0
    return directory, format_bucket_file(BucketFileName(bucket, attempt))


def partition_values(
    target: WriteTarget, dynamic: Mapping[str, str | None]
) -> tuple[str | None, ...]:
    """The partition of a row: static texts of the target, the rest from ``dynamic``."""
    return tuple(
        dynamic[c.name] if c.name in dynamic else target.static_partition[c.name]
        for c in target.table.partition_columns
    )
