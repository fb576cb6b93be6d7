"""ALTER TABLE SET TBLPROPERTIES that makes a table transactional, or another kind of transactional.

    plain -> full ACID          files stay where they are: originals with row ids of write id 0
    plain -> insert-only        files move into ``delta_0000001_0000001_0000``
    insert-only -> full ACID    files stay in their deltas and bases, and get row ids

All as Hive 4.1 does it; what it refuses is refused in ``definitions``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import (
    DeltaName,
    format_delta,
    is_hidden,
    is_marker,
    parse_original_file,
    partition_name,
)
from hiveacid.model.ids import FIRST_WRITE_ID_AFTER_CONVERSION, StatementId
from hiveacid.model.tables import AcidMode, Partition, Table
from hiveacid.model.transactions import OperationType
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.storage.filesystem import FileSystem, file_system_for
from hiveacid.txn import footprint

_Move = tuple[FileSystem, str, str]


def convert(context: DdlContext, table: Table, changed: Table) -> None:
    """Make ``table`` the table ``changed``, which is of another kind.

    Raises:
        InvalidInputError: a file whose name gives its rows no ids.
        LockError: not granted before the deadline.
        StorageError: a file could not be moved; those moved before are where they were.
    """
    if changed.acid_mode is AcidMode.INSERT_ONLY:
        _to_insert_only(context, table, changed)
        return
    with context.locked(footprint.alter_table(table.name)):
        _check_names(context, table)
        if table.acid_mode is AcidMode.NONE:
            context.metastore.seed_write_id(table.name, FIRST_WRITE_ID_AFTER_CONVERSION - 1)
        context.metastore.alter_table(table.name, changed)


def _to_insert_only(context: DdlContext, table: Table, changed: Table) -> None:
    done: list[_Move] = []
    keys = [column.name for column in table.partition_columns]
    with context.locked(footprint.alter_table(table.name)) as transaction:
        write_id = transaction.write_id(table.name)
        delta = format_delta(DeltaName(write_id, write_id, StatementId(0)))
        try:
            written: list[str | None] = []
            for part in _partitions(context, table):
                fs, root = file_system_for(part.location)
                moves = [(fs, path, f"{root}/{delta}/{rest}") for path, rest in _files(fs, root)]
                for move in moves:
                    _move(*move)
                    done.append(move)
                if moves:
                    written.append(partition_name(keys, part.values) if keys else None)
            context.metastore.alter_table(table.name, changed)
            transaction.record_write(changed, written, OperationType.INSERT)
        except BaseException:
            for fs, path, target in reversed(done):
                fs.rename(target, target=path)
            raise


def _move(fs: FileSystem, path: str, target: str) -> None:
    fs.create_directory(target.rpartition("/")[0])
    fs.rename(path, target=target)


def _partitions(context: DdlContext, table: Table) -> tuple[Partition, ...]:
    if not table.partition_columns:
        return (Partition((), table.location),)
    return tuple(context.metastore.list_partitions(table.name))


def _files(fs: FileSystem, root: str) -> Iterator[tuple[str, str]]:
    """Path and path below ``root`` of each data file."""
    for info in fs.list_recursive(root):
        below = info.path[len(root.rstrip("/")) + 1 :]
        if not info.is_directory and not any(map(_is_no_data, below.split("/"))):
            yield info.path, below


def _is_no_data(name: str) -> bool:
    return is_hidden(name) or is_marker(name)


def _check_names(context: DdlContext, table: Table) -> None:
    """Every file must be named as Hive names its files: the number in it is part of row ids."""
    for part in _partitions(context, table):
        fs, root = file_system_for(part.location)
        for path, _ in _files(fs, root):
            if parse_original_file(path.rpartition("/")[2]) is None:
                raise InvalidInputError(
                    f"Unexpected data file name format.  Cannot convert {table.name} to "
                    f"transactional table.  File: {path}",
                    table=str(table.name),
                    path=path,
                )
