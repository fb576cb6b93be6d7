"""ALTER TABLE: properties, conversion to ACID, partitions, names and columns.

Locks (real-hive.md 5): SET TBLPROPERTIES and ADD PARTITION share the table; everything else holds
it exclusively. DROP PARTITION, RENAME and changes of columns use up a write id of a transactional
table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from hiveacid.layout.names import partition_name
from hiveacid.model.statistics import initial_statistics
from hiveacid.model.tables import (
    BucketSpec,
    Column,
    FileFormat,
    Partition,
    Table,
    TableKind,
)
from hiveacid.model.types import HiveType
from hiveacid.statements import alter_details
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.conversion import convert
from hiveacid.statements.ddl_context import (
    DdlContext,
    delete_location,
    owns_files,
    table_location,
    use_write_id,
)
from hiveacid.statements.definitions import altered, check_columns, checked, without
from hiveacid.statements.locations import check_partitions, check_place
from hiveacid.statements.partition_conditions import meets
from hiveacid.statements.partition_values import (
    full_values,
    normal_text,
    partition_column,
)
from hiveacid.storage.filesystem import file_system_for
from hiveacid.txn import footprint

AlterStatement = (
    ddl.SetTableProperties
    | ddl.UnsetTableProperties
    | ddl.AddPartitions
    | ddl.DropPartitions
    | ddl.RenameTable
    | ddl.RenamePartition
    | ddl.AddColumns
    | ddl.ChangeColumn
    | alter_details.DetailStatement
)


def execute(context: DdlContext, statement: AlterStatement) -> None:
    """Carries an ALTER TABLE out.

    Raises:
        NotFoundError: 10001 no such table, 10006 no such partition.
        AlreadyExistsError: the new name or partition exists.
        InvalidInputError: a change that Hive refuses.
        UnsupportedError: a change that is not built.
    """
    table = context.metastore.get_table(statement.name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "To alter a view you need to use the ALTER VIEW command.",
            code=10131,
            view=str(table.name),
        )
    if isinstance(statement, ddl.SetTableProperties):
        _set_properties(context, table, statement.properties)
    elif isinstance(statement, ddl.UnsetTableProperties):
        changed = without(table, statement.keys, if_exists=statement.if_exists)
        with context.locked(footprint.alter_table(table.name)):
            context.metastore.alter_table(table.name, changed)
    elif isinstance(statement, ddl.AddPartitions):
        _add_partitions(context, table, statement)
    elif isinstance(statement, ddl.DropPartitions):
        _drop_partitions(context, table, statement)
    elif isinstance(statement, ddl.RenameTable):
        _rename_table(context, table, statement)
    elif isinstance(statement, ddl.RenamePartition):
        _rename_partition(context, table, statement)
    elif isinstance(statement, alter_details.DetailStatement):
        alter_details.execute(context, table, statement)
    elif isinstance(statement, ddl.AddColumns):
        _add_columns(context, table, statement)
    else:
        _change_column(context, table, statement)
        if statement.constraints is not None:
            changed = context.metastore.get_table(table.name)
            added = ddl.AddConstraints(table.name, statement.constraints)
            alter_details.execute(context, changed, added)


# -------------------------------------------------------------------- properties, conversion


def _set_properties(context: DdlContext, table: Table, properties: Mapping[str, str]) -> None:
    changed = altered(table, properties)
    converted = changed.acid_mode is not table.acid_mode
    if not converted:
        with context.locked(footprint.use_table(table.name)):
            context.metastore.alter_table(table.name, changed)
        return
    convert(context, table, changed)


# -------------------------------------------------------------------- partitions


def _directory(table: Table, values: tuple[str | None, ...]) -> str:
    names = [column.name for column in table.partition_columns]
    return f"{table.location.rstrip('/')}/{partition_name(names, values)}"


def _add_partitions(context: DdlContext, table: Table, statement: ddl.AddPartitions) -> None:
    found = []
    for one in statement.partitions:
        values = full_values(table, one.spec)
        location = one.location or _directory(table, values)
        files, path = file_system_for(location)
        known: dict[str, str] = {}
        if owns_files(table) and not files.exists(path):
            known = initial_statistics(column.name for column in table.columns)
        found.append(Partition(values, location, known))
    with context.locked(footprint.use_table(table.name)):
        existing = {part.values for part in context.metastore.list_partitions(table.name)}
        for partition in found:
            if partition.values in existing and not statement.if_not_exists:
                names = [column.name for column in table.partition_columns]
                raise AlreadyExistsError(
                    f"Partition already exists: {partition_name(names, partition.values)}",
                    table=str(table.name),
                )
        check_partitions(context.metastore, table, found)
        added = context.metastore.add_partitions(table.name, found)
        for partition in added:
            files, path = file_system_for(partition.location)
            files.create_directory(path)


def _drop_partitions(context: DdlContext, table: Table, statement: ddl.DropPartitions) -> None:
    columns = [column.name for column in table.partition_columns]
    for conditions in statement.conditions:
        for condition in conditions:
            normal_text(condition.text, partition_column(table, condition.column))
    doomed = []
    for partition in context.metastore.list_partitions(table.name):
        values = dict(zip(columns, partition.values, strict=True))
        if any(meets(table, values, conditions) for conditions in statement.conditions):
            doomed.append(partition.values)
    names = [partition_name(columns, values) for values in doomed]
    with context.locked(footprint.drop_partitions(table.name, names)) as transaction:
        use_write_id(transaction, table)
        for partition in context.metastore.drop_partitions(table.name, doomed):
            if owns_files(table):
                delete_location(partition.location)


def _rename_partition(context: DdlContext, table: Table, statement: ddl.RenamePartition) -> None:
    old = context.metastore.get_partition(table.name, full_values(table, statement.spec))
    values = full_values(table, statement.new_spec)
    with context.locked(footprint.alter_table(table.name)) as transaction:
        use_write_id(transaction, table)
        location = old.location
        if old.location.rstrip("/") == _directory(table, old.values):
            location = _directory(table, values)
        new = Partition(values, location, old.properties)
        if not context.metastore.add_partitions(table.name, [new]):
            raise AlreadyExistsError(
                f"Partition already exists: {statement.new_spec}", table=str(table.name)
            )
        if location != old.location:
            _move(old.location, location)
        context.metastore.drop_partitions(table.name, [old.values])


def _move(source: str, target: str) -> None:
    files, path = file_system_for(source)
    _, target_path = file_system_for(target)
    files.create_directory(target_path.rpartition("/")[0])
    if files.exists(path):
        files.rename(path, target=target_path)


# -------------------------------------------------------------------- names


def _rename_table(context: DdlContext, table: Table, statement: ddl.RenameTable) -> None:
    metastore = context.metastore
    new_name = statement.new_name
    old_database = metastore.get_database(table.name.database)
    new_database = metastore.get_database(new_name.database)
    try:
        metastore.get_table(new_name)
    except NotFoundError:
        pass
    else:
        raise AlreadyExistsError(f"Table {new_name} already exists", table=str(new_name))
    location = table.location
    if location.rstrip("/") == table_location(old_database, table.name.table) and owns_files(table):
        location = table_location(new_database, new_name.table)
    with context.locked(footprint.rename_table(table.name, new_name)) as transaction:
        use_write_id(transaction, table)
        if location != table.location:
            moved = replace(table, name=new_name, location=location)
            check_place(metastore, moved, but=(str(table.name),))
            _move(table.location, location)
        try:
            metastore.rename_table(table.name, new_name, location=location)
        except AlreadyExistsError:
            if location != table.location:
                _move(location, table.location)
            raise


# -------------------------------------------------------------------- columns


def _add_columns(context: DdlContext, table: Table, statement: ddl.AddColumns) -> None:
    columns = table.columns + statement.columns
    if statement.replace:
        columns = statement.columns
        if len(columns) < len(table.columns):
            raise InvalidInputError(
                f"Replacing columns cannot drop columns for table {table.name}. SerDe may be "
                "incompatible",
                code=10313,
                table=str(table.name),
            )
        for old, new in zip(table.columns, columns, strict=False):
            check_type_change(old, new)
    check_columns(columns, table.partition_columns)
    with context.locked(footprint.alter_table(table.name)) as transaction:
        use_write_id(transaction, table)
        context.metastore.alter_table(table.name, checked(replace(table, columns=columns)))


def _change_column(context: DdlContext, table: Table, statement: ddl.ChangeColumn) -> None:
    old = next((c for c in table.columns if c.name == statement.old_name), None)
    if old is None:
        raise InvalidInputError(
            f"Invalid column reference {statement.old_name}",
            code=10002,
            table=str(table.name),
            column=statement.old_name,
        )
    check_type_change(old, statement.column)
    comment = statement.column.comment
    new = replace(statement.column, comment=old.comment if comment is None else comment)
    columns = _placed(table, tuple(new if c is old else c for c in table.columns), new, statement)
    check_columns(columns, table.partition_columns)
    changed = replace(table, columns=columns, bucket=_renamed(table.bucket, old.name, new.name))
    with context.locked(footprint.alter_table(table.name)) as transaction:
        use_write_id(transaction, table)
        context.metastore.alter_table(table.name, changed)


def _placed(
    table: Table, columns: tuple[Column, ...], column: Column, statement: ddl.ChangeColumn
) -> tuple[Column, ...]:
    """``columns`` with ``column`` where the statement wants it.

    Raises:
        InvalidInputError: files that are read by position would give other columns' values.
    """
    if statement.after is None:
        return columns
    if table.format is FileFormat.ORC:
        raise InvalidInputError(
            f"Reordering columns is not supported for table {table.name}. SerDe may be"
            " incompatible",
            code=10311,
            table=str(table.name),
        )
    rest = [one for one in columns if one is not column]
    names = ["", *(one.name for one in rest)]
    if statement.after not in names:
        raise InvalidInputError(
            f"Invalid column reference {statement.after}",
            code=10002,
            table=str(table.name),
            column=statement.after,
        )
    place = names.index(statement.after)
    moved = (*rest[:place], column, *rest[place:])
    for old, new in zip(table.columns, moved, strict=True):
        check_type_change(old, new)
    return moved


def _renamed(bucket: BucketSpec | None, old: str, new: str) -> BucketSpec | None:
    if bucket is None:
        return None
    return replace(bucket, columns=tuple(new if name == old else name for name in bucket.columns))


_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_TEXTS: Final = ("string", "varchar", "char")


def check_type_change(old: Column, new: Column) -> None:
    """The column may change its type, as Hive 4.1 was seen to allow: to a longer number, to text,
    from one text or decimal to any other, a nested type to any of its kind.

    Raises:
        InvalidInputError: they cannot.
    """
    if old.type == new.type or _widens(_family(old.type), _family(new.type)):
        return
    raise InvalidInputError(
        "Unable to alter table. The following columns have types incompatible with the existing"
        f" columns in their respective positions : {new.name}",
        column=new.name,
        old=str(old.type),
        new=str(new.type),
    )


def _family(kind: HiveType) -> str:
    """The type without lengths, digits and what is nested, which Hive does not compare."""
    return re.split("[(<]", str(kind), maxsplit=1)[0]


def _widens(old: str, new: str) -> bool:
    if old == new:
        return True
    if old in _NUMBERS and new in _NUMBERS:
        return _NUMBERS.index(old) < _NUMBERS.index(new)
    return new in _TEXTS and old in (*_NUMBERS, *_TEXTS, "date", "timestamp")
