"""CREATE, DROP and RENAME of tables, SET LOCATION.

Locks (real-hive.md 5): CREATE TABLE the database shared; DROP TABLE the table exclusive and the
database shared; RENAME the same, with the new name's database. Who makes or renames a table holds
the new name, too, so that its directory is nobody else's until then. The catalog's row comes first
at creation and goes first at dropping: a crash leaves files without a table, never a table without
files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from hiveacid.errors import (
    AcidError,
    AlreadyExistsError,
    InvalidInputError,
    StorageError,
    UnsupportedError,
)
from hiveacid.model.commits import initial_statistics
from hiveacid.model.tables import (
    CREATING,
    AcidMode,
    BucketSpec,
    Column,
    FileFormat,
    Partition,
    SortColumn,
    Table,
    TableKind,
    TableName,
    TxnId,
)
from hiveacid.settings import Settings
from hiveacid.statements.attach import (
    Attached,
    Lists,
    admit,
    examine,
    mark_dead,
    refuse_history,
    take_lists,
)
from hiveacid.statements.constraints import (
    Constraints,
    check_are_conditions,
    check_constraint_texts,
    constraint_properties,
)
from hiveacid.statements.context import (
    Bound,
    DdlPlan,
    ExecutionContext,
    define,
    fixed,
    table_to_alter,
    use_write_id,
)
from hiveacid.statements.ddl.definitions import (
    check_names_of_partitions,
    checked,
    with_file_settings,
)
from hiveacid.statements.locations import (
    check_deletable,
    check_free,
    check_place,
    delete_location,
    goes_to_trash,
    move_location,
    noted,
    owns_files,
    partitions_claim,
    place_claim,
    table_location,
    undo_killed_rename,
    without_note,
)
from hiveacid.statements.partition_values import PartitionText, full_values
from hiveacid.statements.values import Command, Query
from hiveacid.storage.filesystem import Files
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateTable(Command):
    """CREATE [EXTERNAL] [TEMPORARY] TABLE; ``query`` for CTAS, ``like`` for CREATE TABLE ... LIKE.

    ``partition_names`` are the columns of a CTAS' ``PARTITIONED BY (name, ...)``. ``format`` is
    None where the text names none. A ``temporary`` table is an ordinary one, by a name that nobody
    else knows, and is dropped when the session closes.
    """

    name: TableName
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    partition_names: tuple[str, ...] = ()
    bucket: BucketSpec | None = None
    sort_columns: tuple[SortColumn, ...] = ()
    format: FileFormat | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    external: bool = False
    temporary: bool = False
    if_not_exists: bool = False
    like: TableName | None = None
    query: Query | None = None
    constraints: Constraints = field(default_factory=Constraints)
    or_replace: bool = False
    must_exist: bool = False
    """REPLACE TABLE, where it is ``or_replace``."""


@dataclass(frozen=True, slots=True)
class SetLocation(Command):
    """ALTER TABLE name [PARTITION (...)] SET LOCATION 'location'."""

    name: TableName
    location: str
    partition: PartitionText = ()


@dataclass(frozen=True, slots=True)
class DropTable(Command):
    """DROP TABLE [IF EXISTS] name [PURGE]."""

    name: TableName
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable(Command):
    """ALTER TABLE name RENAME TO new_name."""

    name: TableName
    new_name: TableName


def make_table(
    context: ExecutionContext,
    statement: CreateTable,
    *,
    columns: tuple[Column, ...] | None = None,
) -> bool:
    """Carries CREATE TABLE out, and says whether there was something to do (not IF NOT EXISTS);
    ``columns`` are those of a CTAS' query. The files at a LOCATION are looked at before the locks.

    Raises:
        AlreadyExistsError: there is a table of that name and no IF NOT EXISTS.
        NotFoundError: no such database, or no such table after LIKE.
        InvalidInputError: the definition is refused (see ``definitions.checked``), or the place is
            another table's.
        AcidError: as ``attach.examine``.
    """
    look = context.look()
    if is_there(look, statement):
        return False
    if columns is not None:
        statement = with_query_columns(statement, columns)
    attached: Attached | None = None
    table, lists = take_lists(definition_of(context, statement, look))
    _check_own_list(lists, table, look)
    if not statement.external and (statement.location is not None or lists.are_given):
        check_place(context.client.metastore, table)
        attached = examine(table, lists, format=statement.format, files=context.files)
        if attached.takeover is not None:  # the locks' own transaction has a higher id, too
            context.client.own.assume_committed(TxnId(attached.takeover.highest_txn))
    bound = Bound.to(look, fixed(statement))
    return define(context, bound, partial(create_table, attached=attached)) is not None


def _check_own_list(lists: Lists, table: Table, look: Look) -> None:
    """The list of a table may have the name that it had elsewhere, but not that of another one."""
    name = None if lists.write_ids is None else lists.write_ids.table
    database, _, other = (name or "").rpartition(".")
    named = TableName(database or table.name.database, other) if other else table.name
    if named != table.name and look.table(named) is not None:
        raise InvalidInputError(
            f"The list of valid write ids is that of {named}, which is another table than"
            f" {table.name}",
            table=str(table.name),
        )


def create_table(
    context: ExecutionContext,
    statement: CreateTable,
    look: Look,
    *,
    attached: Attached | None = None,
) -> DdlPlan | None:
    """CREATE TABLE; ``attached`` is what lies at LOCATION.

    Raises:
        AlreadyExistsError, NotFoundError, InvalidInputError: as ``make_table``.
    """
    if is_there(look, statement):
        return None
    defined, _ = take_lists(definition_of(context, statement, look))
    table = checked(defined if attached is None else attached.table)
    check_names_of_partitions(table)

    def run(_: Transaction) -> Table:
        fs, path = context.files.at(table.location)
        made = table
        if attached is None and statement.external:
            refuse_history(table, context.files)
        elif attached is None:
            _check_empty(table, context.files)
        if owns_files(table) and not table.partition_columns and not fs.exists(path):
            known = initial_statistics(column.name for column in table.columns)
            made = replace(table, properties={**table.properties, **known})
        if attached is None or not fs.exists(path) or not fs.list_directory(path):
            made = with_file_settings(made)
        if attached is not None:
            check_place(context.client.metastore, made)
            fs.create_directory(path)
            mark_dead(attached, fs)
            context.client.own.attach_table(
                made, attached.partitions, attached.takeover, claim=place_claim(made)
            )
            return made
        context.client.metastore.create_table(made, claim=place_claim(made))
        try:
            fs.create_directory(path)
        except StorageError:
            context.client.metastore.drop_table(made.name)
            raise
        return made

    locks = footprint.create_table(table.name.database)
    return DdlPlan(locks, run, guards=footprint.alter_table(table.name))


def _check_empty(table: Table, files: Files) -> None:
    """What lies where a new table goes would become its rows: a DROP that was killed leaves it."""
    fs, path = files.at(table.location)
    if fs.list_directory(path):
        if table.acid_mode is AcidMode.NONE:
            refuse_history(table, files)
        raise InvalidInputError(
            f"{table.location}, where {table.name} is to be, holds files already",
            table=str(table.name),
            location=table.location,
            note="Remove them where a dropped table left them; name the directory as LOCATION to "
            "take them over (docs/takeover.md).",
        )


def is_there(look: Look, statement: CreateTable) -> bool:
    """Whether there is nothing to do: a table of that name, with IF NOT EXISTS.

    Raises:
        AlreadyExistsError: a table of that name, without.
    """
    found = look.table(statement.name)
    if found is None or CREATING in found.properties:  # being made, or left by who was killed
        return False
    if statement.if_not_exists:
        return True
    name = statement.name
    raise AlreadyExistsError(f"Table {name} already exists", table=str(name))


def with_query_columns(statement: CreateTable, columns: tuple[Column, ...]) -> CreateTable:
    """CREATE TABLE AS with the columns of its query.

    Raises:
        InvalidInputError: 10002 a partition column that the query lacks.
    """
    by_name = {column.name: column for column in columns}
    missing = [name for name in statement.partition_names if name not in by_name]
    if missing:
        raise InvalidInputError(
            f"Invalid column reference '{missing[0]}'", code=10002, column=missing[0]
        )
    return replace(
        statement,
        columns=tuple(c for c in columns if c.name not in statement.partition_names),
        partition_columns=tuple(by_name[name] for name in statement.partition_names),
    )


def definition_of(context: ExecutionContext, statement: CreateTable, look: Look) -> Table:
    """The table that the statement would make, not looked at any further.

    Raises:
        NotFoundError: no such database, or no such table after LIKE.
        InvalidInputError: a constraint is refused.
    """
    database = look.database(statement.name.database)
    like = None if statement.like is None else look.definition(statement.like)
    properties: dict[str, str] = dict(statement.properties)
    if like is not None:
        properties = {**_kept(like, external=statement.external), **properties}
    elif not statement.external:
        properties = {**_defaults(context.settings, properties), **properties}
    wanted = statement.constraints
    if statement.external and (wanted.not_null or wanted.defaults or wanted.checks):
        raise InvalidInputError(
            "Invalid Constraint syntax Constraints are disallowed with External tables. Only RELY "
            "is allowed.",
            code=10326,
            table=str(statement.name),
        )
    check_constraint_texts(statement.columns, wanted)
    properties |= constraint_properties(wanted)
    bucket = statement.bucket
    if bucket is not None and properties.get("bucketing_version", "").isdigit():
        bucket = replace(bucket, version=int(properties["bucketing_version"]))
    table = Table(
        name=statement.name,
        columns=statement.columns,
        location=statement.location
        or table_location(database, statement.name.table, external=statement.external),
        partition_columns=statement.partition_columns,
        bucket=bucket,
        sort_columns=statement.sort_columns,
        format=statement.format or FileFormat.ORC,
        kind=TableKind.EXTERNAL if statement.external else TableKind.MANAGED,
        properties=properties,
        comment=statement.comment,
        owner=context.client.transactions.user,
        created_at_ms=context.client.clock.now_ms(),
    )
    check_are_conditions(table, context.spark)
    if like is None:
        return table
    return replace(
        table,
        columns=like.columns,
        partition_columns=like.partition_columns,
        bucket=like.bucket,
        sort_columns=like.sort_columns,
        format=statement.format or like.format,
        comment=statement.comment or like.comment,
    )


def _kept(like: Table, *, external: bool) -> dict[str, str]:
    """The properties that a table made LIKE another has of it: real Hive keeps these three, and of
    them the last alone for an external table (create_like2.q).
    """
    kept = {"bucketing_version"}
    if not external:
        kept |= {"transactional", "transactional_properties"}
    return {key: value for key, value in like.properties.items() if key in kept}


def _defaults(settings: Settings, properties: Mapping[str, str]) -> dict[str, str]:
    """What ``hive.create.as.acid`` and ``hive.create.as.insert.only`` add."""
    if any(key.lower() == "transactional" for key in properties):
        return {}
    if settings.create_as_acid or not settings.create_as_insert_only:
        return {"transactional": "true"} if settings.create_as_acid else {}
    return {"transactional": "true", "transactional_properties": "insert_only"}


def drop_table(context: ExecutionContext, statement: DropTable, look: Look) -> DdlPlan | None:
    """DROP TABLE; Hive does not mind one that does not exist (real-hive.md 9)."""
    table = look.table(statement.name)
    if table is None:
        return None
    if table.kind is TableKind.VIEW:
        raise InvalidInputError("Cannot drop a view with DROP TABLE", view=str(table.name))

    def run(_: Transaction) -> None:
        if owns_files(table):
            check_deletable(context.files, [table.location])
        context.client.metastore.drop_table(table.name)
        if owns_files(table):
            to_trash = goes_to_trash(table, purge=statement.purge)
            delete_location(context.files, table.location, to_trash=to_trash)

    return DdlPlan(footprint.drop_table(table.name), run)


def drop_temporary_tables(context: ExecutionContext) -> None:
    """Drop the tables that are only for the session, which ends; what stays is logged."""
    for name in context.client.temporary.names.values():
        _drop_temporary(context, name)


def _drop_temporary(context: ExecutionContext, name: TableName) -> None:
    try:
        dropped = fixed(DropTable(name, purge=True))
        define(context, Bound.to(context.look(), dropped), drop_table)
    except AcidError as error:
        _LOG.warning("The temporary table %s is not dropped: %s", name, error)


def rename_table(context: ExecutionContext, statement: RenameTable, look: Look) -> DdlPlan:
    """ALTER TABLE RENAME TO: what lies at the default place of the old name moves to the new one's.

    Raises:
        NotFoundError: no such table, or no such database.
        AlreadyExistsError: the new name, or its directory, exists.
        UnsupportedError: a temporary table.
    """
    metastore, new_name = context.client.metastore, statement.new_name
    table = table_to_alter(look, statement.name)
    if table.name in context.client.temporary.names.values():
        raise UnsupportedError("ALTER TABLE ... RENAME of a temporary table is not supported")
    old_database = look.database(table.name.database)
    new_database = look.database(new_name.database)
    if look.table(new_name) is not None:
        raise AlreadyExistsError(f"Table {new_name} already exists", table=str(new_name))
    location = table.location
    if location.rstrip("/") == table_location(old_database, table.name.table) and owns_files(table):
        location = table_location(new_database, new_name.table)

    def run(transaction: Transaction) -> None:
        use_write_id(transaction, table)
        if location != table.location:
            moved = replace(table, name=new_name, location=location)
            claim = place_claim(moved, but=(str(table.name),))
            claim(context.client.own.places())
            check_free(context.files, location)
            metastore.alter_table(
                table.name, lambda now: noted(now, now.location, location), claim=claim
            )
        try:
            move_location(context.files, table.location, location)
            metastore.alter_table(
                table.name,
                lambda now: replace(without_note(now), name=new_name, location=location),
            )
        except AcidError:
            undo_killed_rename(metastore, noted(table, table.location, location), context.files)
            raise
        transaction.pending.renamed[table.name] = new_name

    locks = footprint.rename_table(table.name, new_name)
    return DdlPlan(locks, run, guards=footprint.alter_table(new_name))


def set_location(context: ExecutionContext, statement: SetLocation, look: Look) -> DdlPlan:
    """ALTER TABLE SET LOCATION: the files of the new place are the table's, or the partition's;
    nothing is moved, and the partitions of a table stay where they are.

    Raises:
        NotFoundError: no such table, or 10006 no such partition.
        InvalidInputError: 10244 a relative location; as ``attach.admit`` and ``place_claim``.
    """
    table, location = table_to_alter(look, statement.name), statement.location
    if "://" not in location and not location.removeprefix("file:").startswith("/"):
        raise InvalidInputError(
            f"{location} is not absolute.  Please specify a complete absolute uri.",
            code=10244,
            table=str(table.name),
        )
    partition = full_values(table, statement.partition) if statement.partition else None
    moved = Partition(partition or (), location)

    def run(_: Transaction) -> None:
        metastore = context.client.metastore
        if partition is None:
            if not table.partition_columns:
                admit(context, table, [moved], instead_of=table.location)
            metastore.alter_table(
                table.name,
                lambda now: replace(now, location=location),
                claim=place_claim(replace(table, location=location)),
            )
            return
        old = metastore.get_partition(table.name, partition)
        admit(context, table, [moved], instead_of=old.location)
        metastore.alter_partition(
            table.name,
            partition,
            lambda now: replace(now, location=location),
            claim=partitions_claim(table, look.partitions(table), [moved]),
        )

    return DdlPlan(footprint.alter_table(table.name), run)
