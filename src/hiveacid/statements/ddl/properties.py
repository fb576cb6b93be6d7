"""ALTER TABLE SET and UNSET TBLPROPERTIES; a table becomes transactional, or transactional in
another way.

    plain -> full ACID          files stay where they are: originals with row ids of write id 0
    plain -> insert-only        files move into ``delta_0000001_0000001_0000``
    insert-only -> full ACID    files stay in their deltas and bases, and get row ids

All as Hive 4.1 does it; what it refuses is refused in ``definitions``. SET shares the table where
it stays of its kind (real-hive.md 5), so a change is made to what the catalog has at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import (
    DeltaName,
    format_delta,
    is_hidden,
    is_marker,
    parse_original_file,
)
from hiveacid.model.ids import FIRST_WRITE_ID_AFTER_CONVERSION, StatementId, WriteId
from hiveacid.model.tables import AcidMode, Partition, Table, TableName
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.ddl.change import Change, table_to_alter
from hiveacid.statements.ddl.definitions import altered, without
from hiveacid.statements.values import Command
from hiveacid.storage.filesystem import FileSystem
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class SetTableProperties(Command):
    """ALTER TABLE name SET TBLPROPERTIES (...)."""

    name: TableName
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetTableProperties(Command):
    """ALTER TABLE name UNSET TBLPROPERTIES [IF EXISTS] (...)."""

    name: TableName
    keys: tuple[str, ...]
    if_exists: bool = False


_FIRST: Final = WriteId(1)
_DELTA: Final = format_delta(DeltaName(_FIRST, _FIRST, StatementId(0)))


def set_properties(context: ExecutionContext, statement: SetTableProperties, look: Look) -> Change:
    """ALTER TABLE SET TBLPROPERTIES.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a change that Hive refuses; a conversion of files whose names give
            their rows no ids.
        StorageError: a file could not be moved; those moved before are where they were.
    """
    table = table_to_alter(look, statement.name)
    mode = altered(table, statement.properties).acid_mode

    def run(_: Transaction) -> None:
        if mode is AcidMode.INSERT_ONLY and table.acid_mode is AcidMode.NONE:
            with _moved(context, table):
                alter()
            return
        if mode is not table.acid_mode:
            _check_names(context, table)
            if table.acid_mode is AcidMode.NONE:
                _seed(context, table, FIRST_WRITE_ID_AFTER_CONVERSION - 1)
        alter()

    def alter() -> None:
        context.client.metastore.alter_table(
            table.name, lambda now: altered(now, statement.properties)
        )

    locks = footprint.use_table if mode is table.acid_mode else footprint.alter_table
    return Change(locks(table.name), run)


def unset_properties(
    context: ExecutionContext, statement: UnsetTableProperties, look: Look
) -> Change:
    """ALTER TABLE UNSET TBLPROPERTIES.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: ``transactional`` is among them; 10215 one is not there.
    """
    table = table_to_alter(look, statement.name)

    def unset(now: Table) -> Table:
        return without(now, statement.keys, if_exists=statement.if_exists)

    unset(table)

    def run(_: Transaction) -> None:
        context.client.metastore.alter_table(table.name, unset)

    return Change(footprint.alter_table(table.name), run)


# -------------------------------------------------------------------- conversion


def _seed(context: ExecutionContext, table: Table, write_id: int) -> None:
    """Let write ids up to this one count as committed; a conversion that died may have done so."""
    if context.client.metastore.last_write_id(table.name) == 0:
        context.client.metastore.seed_write_id(table.name, write_id)


@contextmanager
def _moved(context: ExecutionContext, table: Table) -> Iterator[None]:
    """The files of a plain table are those of write id 1, which counts as committed, while the
    block runs and after it; they are where they were where it fails.

    A conversion that died half way left some of them there: the next one moves the rest.
    """
    done: list[tuple[FileSystem, str, str]] = []
    try:
        for part in _partitions(context, table):
            fs, root = context.files.at(part.location)
            for path, rest in _files(fs, root):
                if rest.startswith(f"{_DELTA}/"):
                    continue
                target = f"{root}/{_DELTA}/{rest}"
                fs.create_directory(target.rpartition("/")[0])
                fs.rename(path, target=target)
                done.append((fs, path, target))
        _seed(context, table, _FIRST)
        yield
    except BaseException:
        for fs, path, target in reversed(done):
            fs.rename(target, target=path)
        raise


def _partitions(context: ExecutionContext, table: Table) -> tuple[Partition, ...]:
    if not table.partition_columns:
        return (Partition((), table.location),)
    return tuple(context.client.metastore.list_partitions(table.name))


def _files(fs: FileSystem, root: str) -> Iterator[tuple[str, str]]:
    """Path and path below ``root`` of each data file."""
    for info in fs.list_recursive(root):
        below = info.path[len(root.rstrip("/")) + 1 :]
        if not info.is_directory and not any(map(_is_no_data, below.split("/"))):
            yield info.path, below


def _is_no_data(name: str) -> bool:
    return is_hidden(name) or is_marker(name)


def _check_names(context: ExecutionContext, table: Table) -> None:
    """Every file must be named as Hive names its files: the number in it is part of row ids."""
    for part in _partitions(context, table):
        fs, root = context.files.at(part.location)
        for path, _ in _files(fs, root):
            if parse_original_file(path.rpartition("/")[2]) is None:
                raise InvalidInputError(
                    f"Unexpected data file name format.  Cannot convert {table.name} to "
                    f"transactional table.  File: {path}",
                    table=str(table.name),
                    path=path,
                )
