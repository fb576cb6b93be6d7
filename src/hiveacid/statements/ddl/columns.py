"""ALTER TABLE: columns, constraints, properties. A change of columns or constraints holds the table
exclusively; one of columns uses up a write id of a transactional table.

By its properties a table becomes transactional, or transactional in another way (``conversion``).
SET shares the table where it stays of its kind (real-hive.md 5), so a change is made to what the
catalog has at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import (
    HASHED_OTHERWISE,
    Column,
    FileFormat,
    Table,
    TableName,
)
from hiveacid.model.types import HiveType
from hiveacid.statements.constraints import (
    Constraints,
    check_are_conditions,
    check_constraint_texts,
    check_constraints,
    constraint_properties,
    with_constraints,
    with_renamed_columns,
    without_constraint,
)
from hiveacid.statements.context import DdlPlan, ExecutionContext, table_to_alter, use_write_id
from hiveacid.statements.ddl.conversion import converted
from hiveacid.statements.ddl.definitions import altered, check_columns, checked, without
from hiveacid.statements.values import Command
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class AddConstraints(Command):
    """ALTER TABLE name ADD [CONSTRAINT name] ..."""

    name: TableName
    constraints: Constraints


@dataclass(frozen=True, slots=True)
class DropConstraint(Command):
    """ALTER TABLE name DROP CONSTRAINT constraint."""

    name: TableName
    constraint: str


@dataclass(frozen=True, slots=True)
class AddColumns(Command):
    """ALTER TABLE name ADD COLUMNS (...); ``replace`` is REPLACE COLUMNS."""

    name: TableName
    columns: tuple[Column, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn(Command):
    """ALTER TABLE name CHANGE [COLUMN] old new type [COMMENT ...] [FIRST | AFTER column]; also
    Spark's RENAME COLUMN old TO new and ALTER COLUMN name TYPE | COMMENT | FIRST | AFTER ....

    ``type`` and ``comment`` None leave them. ``after`` is the column that it follows, '' for the
    first place, None where it stays.
    """

    name: TableName
    old_name: str
    new_name: str
    type: HiveType | None = None
    comment: str | None = None
    after: str | None = None
    constraints: Constraints | None = None


def add_columns(context: ExecutionContext, statement: AddColumns, look: Look) -> DdlPlan:
    """ALTER TABLE ADD | REPLACE COLUMNS.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: 10036, 10035 a column that is there; 10313 fewer columns of ORC files;
            a change of types that Hive refuses.
    """

    any_type = not context.settings.alter_checks_types

    def added(table: Table) -> Table:
        columns, properties = table.columns + statement.columns, table.properties
        if statement.replace:
            columns = statement.columns
            if len(columns) < len(table.columns) and table.format is FileFormat.ORC:
                raise InvalidInputError(
                    f"Replacing columns cannot drop columns for table {table.name}. SerDe may be "
                    "incompatible",
                    code=10313,
                    table=str(table.name),
                )
            pairs = list(zip(table.columns, columns, strict=False))
            for old, new in pairs:
                check_type_change(old, new, any_type=any_type)
            gone = {one.name: "" for one in table.columns[len(columns) :]}
            names = gone | {old.name: new.name for old, new in pairs}
            properties = with_renamed_columns(table, names)
        check_columns(columns, table.partition_columns)
        return checked(replace(table, columns=columns, properties=properties))

    return _change(context, table_to_alter(look, statement.name), added)


def change_column(context: ExecutionContext, statement: ChangeColumn, look: Look) -> DdlPlan:
    """ALTER TABLE CHANGE COLUMN, with the constraints that it adds.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: 10002 no such column; a change that Hive refuses.
    """

    def changed(table: Table) -> Table:
        table = _with_column(table, statement, any_type=not context.settings.alter_checks_types)
        if statement.constraints is None:
            return table
        return _with_constraints(table, statement.constraints)

    return _change(context, table_to_alter(look, statement.name), changed)


def add_constraints(context: ExecutionContext, statement: AddConstraints, look: Look) -> DdlPlan:
    """ALTER TABLE ADD CONSTRAINT.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a name that is taken; 10326 a text that cannot be a constraint.
    """
    table = table_to_alter(look, statement.name)
    added = statement.constraints
    return _change(context, table, lambda now: _with_constraints(now, added), write_id=False)


def drop_constraint(context: ExecutionContext, statement: DropConstraint, look: Look) -> DdlPlan:
    """ALTER TABLE DROP CONSTRAINT.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: no such constraint.
    """
    return _change(
        context,
        table_to_alter(look, statement.name),
        lambda now: replace(now, properties=without_constraint(now, statement.constraint)),
        write_id=False,
    )


def _change(
    context: ExecutionContext,
    table: Table,
    change: Callable[[Table], Table],
    *,
    write_id: bool = True,
) -> DdlPlan:
    """The table becomes what ``change`` makes of it, which is refused before it is locked, too. New
    conditions are looked at here: Spark is not waited for while the catalog is written.
    """
    after = change(table)
    if check_constraints(after) != check_constraints(table):
        check_are_conditions(after, context.spark)

    def run(transaction: Transaction) -> None:
        if write_id:
            use_write_id(transaction, table)
        context.client.metastore.alter_table(table.name, noting_buckets)

    def noting_buckets(before: Table) -> Table:
        """It says so where rows that it has may lie in other buckets than its columns now tell:
        each type has a hash of its own, and no rewrite moves a row to another bucket.
        """
        after = change(before)
        if _bucketing(before) == _bucketing(after):
            return after
        return replace(after, properties={**after.properties, HASHED_OTHERWISE: "true"})

    return DdlPlan(footprint.alter_table(table.name), run)


def _bucketing(table: Table) -> list[tuple[int, HiveType]]:
    """Places and types of the columns that tell the bucket of a row."""
    places = {column.name: place for place, column in enumerate(table.columns)}
    return [(places[name], table.types[name]) for name in table.bucket_columns]


def _with_constraints(table: Table, added: Constraints) -> Table:
    check_constraint_texts(table.columns, added)
    properties = constraint_properties(added)
    return replace(table, properties=with_constraints(table, properties))


def _with_column(table: Table, statement: ChangeColumn, *, any_type: bool) -> Table:
    old = next((c for c in table.columns if c.name == statement.old_name), None)
    if old is None:
        raise InvalidInputError(
            f"Invalid column reference {statement.old_name}",
            code=10002,
            table=str(table.name),
            column=statement.old_name,
        )
    comment = old.comment if statement.comment is None else statement.comment
    new = Column(statement.new_name, statement.type or old.type, comment)
    check_type_change(old, new, any_type=any_type)
    columns = _placed(table, tuple(new if c is old else c for c in table.columns), new, statement)
    for one, moved in zip(table.columns, columns, strict=True):  # others' files, if it moves
        check_type_change(one, moved, any_type=any_type)
    check_columns(columns, table.partition_columns)
    bucket = table.bucket and replace(
        table.bucket, columns=_renamed(table.bucket.columns, old.name, new.name)
    )
    return replace(
        table,
        columns=columns,
        bucket=bucket,
        sort_columns=tuple(
            replace(column, name=new.name) if column.name == old.name else column
            for column in table.sort_columns
        ),
        properties=with_renamed_columns(table, {old.name: new.name}),
    )


def _placed(
    table: Table, columns: tuple[Column, ...], column: Column, statement: ChangeColumn
) -> tuple[Column, ...]:
    """``columns`` with ``column`` where the statement wants it.

    Raises:
        InvalidInputError: files that are read by position would give other columns' values; 10002
            no such column to follow.
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
    return (*rest[:place], column, *rest[place:])


def _renamed(names: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if name == old else name for name in names)


_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_TEXTS: Final = ("string", "varchar", "char")


def check_type_change(old: Column, new: Column, *, any_type: bool = False) -> None:
    """The column may change its type, as Hive 4.1 was seen to allow: to a longer number, to text,
    from one text or decimal to any other, a nested type to any of its kind; ``any_type``
    where the settings allow all.

    Raises:
        InvalidInputError: they cannot.
    """
    # without lengths, digits and what is nested, which Hive does not compare
    before, after = (re.split("[(<]", str(one.type), maxsplit=1)[0] for one in (old, new))
    longer = before in _NUMBERS and after in _NUMBERS[_NUMBERS.index(before) :]
    to_text = after in _TEXTS and before in (*_NUMBERS, *_TEXTS, "date", "timestamp")
    if before == after or longer or to_text or any_type:
        return
    raise InvalidInputError(
        "Unable to alter table. The following columns have types incompatible with the existing"
        f" columns in their respective positions : {new.name}",
        column=new.name,
        old=str(old.type),
        new=str(new.type),
        note="SET hive.metastore.disallow.incompatible.col.type.changes=false allows it.",
    )


@dataclass(frozen=True, slots=True)
class SetTableProperties(Command):
    """ALTER TABLE name SET TBLPROPERTIES (...); ``format``, where it is named, must be the table's
    own.
    """

    name: TableName
    properties: Mapping[str, str]
    format: FileFormat | None = None


@dataclass(frozen=True, slots=True)
class UnsetTableProperties(Command):
    """ALTER TABLE name UNSET TBLPROPERTIES [IF EXISTS] (...)."""

    name: TableName
    keys: tuple[str, ...]
    if_exists: bool = False


def set_properties(context: ExecutionContext, statement: SetTableProperties, look: Look) -> DdlPlan:
    """ALTER TABLE SET TBLPROPERTIES.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a change that Hive refuses, or as ``converted``.
        UnsupportedError: another file format.
        StorageError: as ``converted``.
    """
    table = table_to_alter(look, statement.name)
    if statement.format not in (None, table.format):
        raise UnsupportedError(
            f"the files of {table.name} are {table.format.value}, and would not be rewritten",
            table=str(table.name),
            note="CREATE TABLE ... STORED AS ... AS SELECT makes a table of another format.",
        )
    mode = altered(table, statement.properties).acid_mode

    def run(_: Transaction) -> None:
        if mode is table.acid_mode:
            alter()
            return
        with converted(context, table, look, to=mode):
            alter()

    def alter() -> None:
        context.client.metastore.alter_table(
            table.name, lambda now: altered(now, statement.properties)
        )

    locks = footprint.use_table if mode is table.acid_mode else footprint.alter_table
    return DdlPlan(locks(table.name), run)


def unset_properties(
    context: ExecutionContext, statement: UnsetTableProperties, look: Look
) -> DdlPlan:
    """ALTER TABLE UNSET TBLPROPERTIES.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: ``transactional`` is among them; 10215 one is not there.
    """
    return _change(
        context,
        table_to_alter(look, statement.name),
        lambda now: without(now, statement.keys, if_exists=statement.if_exists),
        write_id=False,
    )
