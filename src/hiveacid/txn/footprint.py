"""What a statement reads and writes, and the locks that follow from it (pure; real-hive.md 5).

The locks are those of Hive 4.1's defaults: reads take SHARED_READ on the table or on each partition
read, writes SHARED_WRITE, overwrites EXCL_WRITE, definitions EXCLUSIVE. External tables and views
are never locked, and the target of a row-level write takes no read lock. A table that is not
transactional is locked while it is written, shared, so that its definition stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Final

from hiveacid.model.commits import ReadTable
from hiveacid.model.tables import AcidMode, Table, TableKind, TableName
from hiveacid.model.transactions import CLAIMS, LockComponent, LockType, OperationType

PARTITIONS_MAX: Final = 100
"""Of more partitions the table is locked instead, as with ``hive.locks.max.partitions``."""
_SHOWN: Final = 100


class WriteKind(Enum):
    """How a statement writes to a table."""

    INSERT = "insert"
    """also a MERGE that only inserts"""
    UPDATE = "update"
    """deletes and inserts rows; also a MERGE that updates"""
    DELETE = "delete"
    OVERWRITE = "overwrite"
    """also TRUNCATE"""
    CREATE = "create"
    """CREATE TABLE AS SELECT"""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table read: the whole of it, or the partitions named (Hive's ``k=v/l=w``)."""

    table: Table
    partitions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A table written.

    ``partitions`` are the partitions whose rows may change, or the one static partition of an
    INSERT. None: the whole of an unpartitioned table, or partitions that only the rows will
    tell.
    """

    table: Table
    kind: WriteKind
    partitions: tuple[str, ...] | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether it conflicts with another transaction's change: anything but an insert."""
        return self.kind in (WriteKind.UPDATE, WriteKind.DELETE, WriteKind.OVERWRITE)


@dataclass(frozen=True, slots=True)
class Footprint:
    """All that one statement touches; ``definitions`` are locks of DDL, taken as they are."""

    reads: tuple[TableRead, ...] = ()
    writes: tuple[TableWrite, ...] = ()
    definitions: tuple[LockComponent, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables read and written."""
        return (*(one.table for one in self.reads), *(one.table for one in self.writes))

    @property
    def written_tables(self) -> tuple[TableName, ...]:
        """The transactional tables that need a write id, each once."""
        names = (one.table.name for one in self.writes if one.table.acid_mode is not AcidMode.NONE)
        return tuple(dict.fromkeys(names))

    @property
    def overwritten_tables(self) -> tuple[ReadTable, ...]:
        """What loses its rows, seen or not: tables, or the partitions known; all of a table where
        only the rows tell them.
        """
        found = (
            ReadTable(
                one.table.name,
                only=None if one.partitions is None else frozenset(one.partitions),
            )
            for one in self.writes
            if one.kind is WriteKind.OVERWRITE
        )
        return tuple(dict.fromkeys(found))


def lock_components(footprint: Footprint) -> tuple[LockComponent, ...]:
    """The components of the statement's one lock request: reads, definitions, writes; each once."""
    targets = {one.table.name for one in footprint.writes if one.kind is not WriteKind.CREATE}
    components = [
        component
        for read in footprint.reads
        if read.table.name not in targets
        for component in _of_read(read)
    ]
    components.extend(footprint.definitions)
    for write in footprint.writes:
        components.extend(_of_write(write))
    return tuple(dict.fromkeys(components))


def create_table(database: str) -> tuple[LockComponent, ...]:
    """CREATE TABLE: the database may not go away meanwhile."""
    return (_definition(LockType.SHARED_READ, database),)


def drop_table(name: TableName) -> tuple[LockComponent, ...]:
    """DROP TABLE."""
    return (
        _definition(LockType.EXCLUSIVE, name.database, name.table),
        _definition(LockType.SHARED_READ, name.database),
    )


def rename_table(old: TableName, new: TableName) -> tuple[LockComponent, ...]:
    """ALTER TABLE RENAME."""
    return (
        _definition(LockType.EXCLUSIVE, old.database, old.table),
        _definition(LockType.SHARED_READ, new.database),
    )


def alter_table(name: TableName) -> tuple[LockComponent, ...]:
    """ALTER TABLE that changes how the data is read."""
    return (_definition(LockType.EXCLUSIVE, name.database, name.table),)


def use_table(name: TableName, partition: str | None = None) -> tuple[LockComponent, ...]:
    """ADD PARTITION, SET TBLPROPERTIES, ANALYZE, DESCRIBE; a cleaner, also of one partition."""
    return (_definition(LockType.SHARED_READ, name.database, name.table, partition),)


def drop_partitions(name: TableName, partitions: Collection[str]) -> tuple[LockComponent, ...]:
    """ALTER TABLE DROP PARTITION."""
    if len(partitions) > PARTITIONS_MAX:
        return alter_table(name)
    return tuple(
        _definition(LockType.EXCLUSIVE, name.database, name.table, partition)
        for partition in partitions
    )


def drop_database(name: str) -> tuple[LockComponent, ...]:
    """DROP DATABASE."""
    return (_definition(LockType.EXCLUSIVE, name),)


def claims(places: Collection[str]) -> tuple[LockComponent, ...]:
    """Places that are no table's, such as the files of a LOAD: each the one name of a location.
    The columns of the lock table are short: the end of the name, for the eye, and a hash.
    """
    return tuple(
        _definition(
            LockType.EXCLUSIVE,
            CLAIMS,
            f"{place[-_SHOWN:]} {sha256(place.encode()).hexdigest()[:32]}",
        )
        for place in places
    )


def _of_read(read: TableRead) -> list[LockComponent]:
    if read.table.kind is not TableKind.MANAGED:
        return []
    return [
        _component(LockType.SHARED_READ, read.table, partition, OperationType.SELECT)
        for partition in (read.partitions if read.partitions is not None else (None,))
    ]


def _of_write(write: TableWrite) -> list[LockComponent]:
    table = write.table
    if table.kind is not TableKind.MANAGED:
        return []
    if table.acid_mode is AcidMode.NONE:  # differs from Hive, which takes none by default
        return [_definition(LockType.SHARED_READ, table.name.database, table.name.table)]
    partitioned = bool(table.partition_columns)
    match write.kind:
        case WriteKind.CREATE:
            database = _definition(LockType.SHARED_READ, table.name.database)
            return [
                database,
                _component(
                    LockType.EXCL_WRITE, table, None, OperationType.INSERT, dynamic=partitioned
                ),
            ]
        case WriteKind.INSERT:
            return _of_insert(LockType.SHARED_WRITE, write, OperationType.INSERT)
        case WriteKind.OVERWRITE:
            return _of_insert(LockType.EXCL_WRITE, write, OperationType.UPDATE)
        case WriteKind.UPDATE | WriteKind.DELETE:
            return _of_change(write)


def _of_insert(lock: LockType, write: TableWrite, operation: OperationType) -> list[LockComponent]:
    if write.partitions is not None:
        return [_component(lock, write.table, one, operation) for one in write.partitions]
    dynamic = bool(write.table.partition_columns)
    return [_component(lock, write.table, None, operation, dynamic=dynamic)]


def _of_change(write: TableWrite) -> list[LockComponent]:
    table = write.table
    if not table.partition_columns:
        return [_component(LockType.SHARED_WRITE, table, None, OperationType.DELETE)]
    components = [
        _component(LockType.SHARED_WRITE, table, one, OperationType.DELETE, dynamic=True)
        for one in write.partitions or ()
    ]
    if write.partitions is None:
        components.append(
            _component(LockType.SHARED_WRITE, table, None, OperationType.DELETE, dynamic=True)
        )
    elif write.kind is WriteKind.UPDATE:
        components.append(
            _component(LockType.SHARED_WRITE, table, None, OperationType.INSERT, dynamic=True)
        )
    return components


def _component(
    lock: LockType,
    table: Table,
    partition: str | None,
    operation: OperationType,
    *,
    dynamic: bool = False,
) -> LockComponent:
    return LockComponent(
        type=lock,
        database=table.name.database,
        table=table.name.table,
        partition=partition,
        operation=operation,
        dynamic=dynamic,
        transactional=table.acid_mode is not AcidMode.NONE,
    )


def _definition(
    lock: LockType, database: str, table: str | None = None, partition: str | None = None
) -> LockComponent:
    return LockComponent(
        type=lock,
        database=database.lower(),
        table=table,
        partition=partition,
        operation=OperationType.NO_TXN,
        transactional=False,
    )
