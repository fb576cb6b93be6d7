"""Emptying a table: a new base that holds nothing (format.md 1.5); readers of older snapshots are
not disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hiveacid.errors import InvalidInputError
from hiveacid.layout.events import DataFormat, format_marker
from hiveacid.layout.names import METADATA_FILE, BaseName, format_base, partition_name
from hiveacid.model.ids import WriteId
from hiveacid.model.tables import AcidMode, Partition, Table, TableKind, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.statements.checks import check
from hiveacid.statements.job import Job
from hiveacid.statements.partition_values import PartitionText, named_partitions
from hiveacid.statements.values import Command, Delete, DeleteResult
from hiveacid.storage.target import FileKind, WriteResult, WrittenFile, empty_plain
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class Truncate(Command):
    """TRUNCATE TABLE name [PARTITION (...)]."""

    name: TableName
    partition: PartitionText = ()


def plan(statement: Truncate, look: Look) -> TruncateWork:
    """How to carry TRUNCATE TABLE out; a partition specification may name some of the columns.

    Raises:
        InvalidInputError: 10146 for an external table or a view, 10098 for an unknown column.
        NotFoundError: 10006, no such partition.
    """
    table = look.definition(statement.name)
    if table.kind is not TableKind.MANAGED:
        raise InvalidInputError(
            f"Cannot truncate non-managed table {table.name.table}.",
            code=10146,
            table=str(table.name),
        )
    if not statement.partition:
        return TruncateWork(table)
    chosen = named_partitions(table, look.partitions(table), statement.partition)
    names = tuple(partition_name(table.partition_keys, part.values) for part in chosen)
    return TruncateWork(table, chosen, partitions=names)


def plan_delete(statement: Delete, look: Look) -> TruncateWork:
    """How to carry DELETE without a condition out.

    Raises:
        InvalidInputError: 10402 for a view.
    """
    table = look.definition(statement.table)
    check(statement, table)
    return TruncateWork(table)


@dataclass(frozen=True, slots=True)
class TruncateWork:
    """TRUNCATE, or DELETE without a condition; ``chosen`` narrows it to some partitions."""

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    chosen: tuple[Partition, ...] | None = None
    kind: WriteKind = WriteKind.OVERWRITE
    partitions: tuple[str, ...] | None = None
    statements: int = 1
    reads: tuple[TableName, ...] = ()
    operations: tuple[OperationType, ...] = (OperationType.UPDATE,)

    def write(self, job: Job) -> WriteResult:
        """One empty base for each partition; the files of a table without transactions go."""
        table = self.table
        parts = job.view.partitions(table) if self.chosen is None else self.chosen
        if table.acid_mode is AcidMode.NONE:
            for part in parts:
                empty_plain(*job.files.at(part.location))
            return WriteResult((), 0, 0, 0)
        directory = format_base(BaseName(job.write_id))
        text = format_marker(DataFormat.TRUNCATED).encode()
        fs, staging = job.files.at(job.staging)
        fs.make_room(staging)
        files = []
        for number, part in enumerate(parts):
            path = f"{staging}/truncated-{number:06d}"
            fs.write_bytes(path, data=text)
            files.append(
                WrittenFile(
                    part.values, directory, METADATA_FILE, path, FileKind.PLAIN, 0, len(text)
                )
            )
        return WriteResult(tuple(files), 0, 0, 0)

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Nothing is counted."""
        del written
        return DeleteResult(None, write_id)
