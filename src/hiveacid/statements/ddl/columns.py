"""ALTER TABLE: columns, constraints, properties. A change of columns or constraints holds the table
exclusively; one of columns uses up a write id of a transactional table.

By its properties a table becomes transactional, or transactional in another way, as Hive 4.1 does
it; what Hive refuses is refused in ``definitions``:

    plain -> full ACID          files stay where they are: originals with row ids of write id 0
    plain -> insert-only        files move into ``delta_0000001_0000001_0000``
    insert-only -> full ACID    files stay in their deltas and bases, and get row ids

SET shares the table where it stays of its kind (real-hive.md 5), so a change is made to what the
catalog has at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import FormatError, InvalidInputError, UnsupportedError
from hiveacid.layout.directories import (
    DeltaName,
    bucket_of_file,
    format_delta,
    is_hidden,
    is_marker,
    looks_acid,
    parse_original_file,
)
from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import (
    FIRST_WRITE_ID_AFTER_CONVERSION,
    HASHED_OTHERWISE,
    AcidMode,
    Column,
    FileFormat,
    Partition,
    StatementId,
    Table,
    TableName,
    WriteId,
)
from hiveacid.model.types import HiveType
from hiveacid.statements.constraints import (
    Constraints,
    check_are_conditions,
    check_constraint_texts,
    constraint_properties,
    with_constraints,
    with_renamed_columns,
    without_constraint,
)
from hiveacid.statements.context import DdlPlan, ExecutionContext, table_to_alter, use_write_id
from hiveacid.statements.ddl.definitions import altered, check_columns, checked, without
from hiveacid.statements.values import Command
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.plan.planning import is_of_old_hive
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
        return _with_constraints(table, statement.constraints, context)

    return _change(context, table_to_alter(look, statement.name), changed)


def add_constraints(context: ExecutionContext, statement: AddConstraints, look: Look) -> DdlPlan:
    """ALTER TABLE ADD CONSTRAINT.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a name that is taken; 10326 a text that cannot be a constraint.
    """
    table = table_to_alter(look, statement.name)
    added = statement.constraints
    return _change(
        context, table, lambda now: _with_constraints(now, added, context), write_id=False
    )


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
    """The table becomes what ``change`` makes of it, which is refused before it is locked, too."""
    change(table)

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
    chosen = [places[name] for name in table.bucket.columns] if table.bucket else []
    return [(place, table.columns[place].type) for place in chosen]


def _with_constraints(table: Table, added: Constraints, context: ExecutionContext) -> Table:
    check_constraint_texts(table.columns, added)
    properties = constraint_properties(added)
    table = replace(table, properties=with_constraints(table, properties))
    check_are_conditions(table, context.spark)
    return table


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


_FIRST: Final = WriteId(1)
_DELTA: Final = format_delta(DeltaName(_FIRST, _FIRST, StatementId(0)))


def set_properties(context: ExecutionContext, statement: SetTableProperties, look: Look) -> DdlPlan:
    """ALTER TABLE SET TBLPROPERTIES.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a change that Hive refuses; a conversion of files whose names give
            their rows no ids.
        UnsupportedError: another file format.
        StorageError: a file could not be moved; those moved before are where they were.
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
        if mode is not table.acid_mode:
            note_hashes(
                context.client.metastore, table, look.partitions(table), files=context.files
            )
        if mode is AcidMode.INSERT_ONLY and table.acid_mode is AcidMode.NONE:
            with _moved(context, table, look):
                alter()
            return
        if mode is not table.acid_mode:
            _check_names(context, table, look)
            if table.acid_mode is AcidMode.NONE:
                _seed(context, table, FIRST_WRITE_ID_AFTER_CONVERSION - 1)
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


# -------------------------------------------------------------------- conversion


def _seed(context: ExecutionContext, table: Table, write_id: int) -> None:
    """Let write ids up to this one count as committed; a conversion that died may have done so."""
    if context.client.metastore.last_write_id(table.name) == 0:
        context.client.metastore.seed_write_id(table.name, write_id)


@contextmanager
def _moved(context: ExecutionContext, table: Table, look: Look) -> Iterator[None]:
    """The files of a plain table are those of write id 1, which counts as committed, while the
    block runs and after it; they are where they were where it fails.

    A conversion that died half way left some of them there: the next one moves the rest.
    """
    done: list[tuple[FileSystem, str, str]] = []
    try:
        for part in look.partitions(table):
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


def _files(fs: FileSystem, root: str) -> Iterator[tuple[str, str]]:
    """Path and path below ``root`` of each data file."""
    for info in fs.list_recursive(root):
        below = info.path[len(root.rstrip("/")) + 1 :]
        names = below.split("/")
        if not info.is_directory and not any(is_hidden(one) or is_marker(one) for one in names):
            yield info.path, below


def _check_names(context: ExecutionContext, table: Table, look: Look) -> None:
    """Every file must be named as Hive names its files: the number in it is part of row ids."""
    for part in look.partitions(table):
        fs, root = context.files.at(part.location)
        for path, _ in _files(fs, root):
            if parse_original_file(path.rpartition("/")[2]) is None:
                raise InvalidInputError(
                    f"Unexpected data file name format.  Cannot convert {table.name} to "
                    f"transactional table.  File: {path}",
                    table=str(table.name),
                    path=path,
                )


def note_hashes(
    catalog: Catalog, table: Table, parts: Iterable[Partition], *, files: Files
) -> None:
    """Let a table's definition say so where a Hive before 4 wrote what lies in these partitions: it
    hashed rows by version 1 whatever the table says, a compaction leaves them in their buckets, in
    files that do not tell who wrote the rows.

    Raises:
        StorageError: the file system failed.
    """
    if table.bucket is None or table.bucket.version == 1 or table.format is not FileFormat.ORC:
        return
    if any(_is_of_old_hive(*files.at(part.location)) for part in parts):
        note = {HASHED_OTHERWISE: "true"}
        catalog.alter_table(
            table.name, lambda now: replace(now, properties={**now.properties, **note})
        )


def _is_of_old_hive(fs: FileSystem, root: str) -> bool:
    asked = set()
    for info in fs.list_recursive(root):
        directory, _, name = info.path.rpartition("/")
        if bucket_of_file(name) < 0 or not info.size_bytes or directory in asked:
            continue
        if looks_acid(directory.rpartition("/")[2]):
            asked.add(directory)  # a delta, or a base, has one writer
        try:
            if is_of_old_hive(read_tail(fs, info.path)):
                return True
        except FormatError:  # it is still open, or damaged, and may be
            return True
    return False
