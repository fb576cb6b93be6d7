"""CREATE and DROP of databases and tables.

Locks (real-hive.md 5): CREATE TABLE the database shared; DROP TABLE the table exclusive and the
database shared; DROP DATABASE everything in it exclusive; CREATE DATABASE none. The catalog's row
comes first at creation and goes first at dropping, so that a crash leaves files without a table,
never a table without files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StorageError
from hiveacid.model.ids import TxnId
from hiveacid.model.statistics import initial_statistics
from hiveacid.model.tables import Column, Database, FileFormat, Table, TableKind, TableName
from hiveacid.settings import Settings
from hiveacid.statements import alter, lock
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.attach import Attached, examine, mark_dead, take_lists
from hiveacid.statements.constraints import check_constraint_texts, constraint_properties
from hiveacid.statements.ddl_context import (
    DdlContext,
    delete_location,
    owns_files,
    table_location,
)
from hiveacid.statements.definitions import checked
from hiveacid.statements.locations import check_place
from hiveacid.statements.values_locks import LockStatement
from hiveacid.statements.values_views import AlterView, DropView
from hiveacid.statements.views import alter_view, drop_view
from hiveacid.storage.filesystem import file_system_for
from hiveacid.txn import footprint

DefinitionStatement = (
    ddl.CreateDatabase
    | ddl.DropDatabase
    | ddl.CreateTable
    | ddl.DropTable
    | DropView
    | AlterView
    | LockStatement
    | alter.AlterStatement
)


def execute(context: DdlContext, statement: DefinitionStatement) -> None:
    """Carries the statement out (a CREATE TABLE without its query: see ``create_table``).

    Raises:
        NotFoundError, AlreadyExistsError: as the names say.
        InvalidInputError: the definition is refused.
        LockError: a lock could not be had in time.
        StorageError: the file system failed.
    """
    if isinstance(statement, ddl.CreateDatabase):
        create_database(context, statement)
    elif isinstance(statement, ddl.DropDatabase):
        drop_database(context, statement)
    elif isinstance(statement, ddl.CreateTable):
        create_table(context, statement)
    elif isinstance(statement, ddl.DropTable):
        drop_table(context, statement)
    elif isinstance(statement, DropView):
        drop_view(context, statement)
    elif isinstance(statement, AlterView):
        alter_view(context, statement)
    elif isinstance(statement, LockStatement):
        lock.execute(context.client.transactions, statement)
    else:
        alter.execute(context, statement)


# -------------------------------------------------------------------- databases


def create_database(context: DdlContext, statement: ddl.CreateDatabase) -> None:
    """CREATE DATABASE."""
    location = statement.location or context.client.database_location(statement.name)
    database = Database(
        statement.name, location, statement.comment, properties=dict(statement.properties)
    )
    if context.metastore.create_database(database, if_not_exists=statement.if_not_exists):
        files, path = file_system_for(location)
        files.create_directory(path)


def drop_database(context: DdlContext, statement: ddl.DropDatabase) -> None:
    """DROP DATABASE [CASCADE]."""
    name = statement.name.lower()
    if name == "default":
        raise InvalidInputError("Can not drop default database", database=name)
    try:
        database = context.metastore.get_database(name)
    except NotFoundError:
        if statement.if_exists:
            return
        raise
    tables = _tables_of(context, name)
    with context.locked(footprint.drop_database(name)):
        context.metastore.drop_database(name, cascade=statement.cascade)
        for table in tables:
            if owns_files(table):
                delete_location(table.location)
        if database.location.rstrip("/") != context.client.warehouse:
            delete_location(database.location)


def _tables_of(context: DdlContext, database: str) -> list[Table]:
    metastore = context.metastore
    return [
        metastore.get_table(TableName(database, name)) for name in metastore.list_tables(database)
    ]


# -------------------------------------------------------------------- tables


def create_table(
    context: DdlContext, statement: ddl.CreateTable, *, columns: tuple[Column, ...] | None = None
) -> Table | None:
    """CREATE TABLE; ``columns`` are those of a CTAS' query. None where it exists (IF NOT EXISTS).

    Raises:
        AlreadyExistsError: there is a table of that name and no IF NOT EXISTS.
        NotFoundError: no such database, or no such table after LIKE.
        InvalidInputError: the definition is refused (see ``definitions.checked``).
    """
    if columns is not None:
        statement = _with_query_columns(statement, columns)
    table, lists = take_lists(definition_of(context, statement))
    attached: Attached | None = None
    if statement.location is not None and not statement.external:
        if statement.name.table in context.metastore.list_tables(statement.name.database):
            if statement.if_not_exists:
                return None
            raise AlreadyExistsError(
                f"Table {statement.name} already exists", table=str(statement.name)
            )
        check_place(context.metastore, table)
        attached = examine(table, lists, format=statement.format)
        table = attached.table
        if attached.takeover is not None:  # the locks' own transaction has a higher id, too
            context.metastore.assume_committed(TxnId(attached.takeover.highest_txn))
    table = checked(table)
    files, path = file_system_for(table.location)
    if owns_files(table) and not table.partition_columns and not files.exists(path):
        known = initial_statistics(column.name for column in table.columns)
        table = replace(table, properties={**table.properties, **known})
    with context.locked(footprint.create_table(table.name.database)):
        if attached is not None:
            return _attach(context, attached, table, if_not_exists=statement.if_not_exists)
        check_place(context.metastore, table)
        if not context.metastore.create_table(table, if_not_exists=statement.if_not_exists):
            return None
        try:
            files.create_directory(path)
        except StorageError:
            context.metastore.drop_table(table.name)
            raise
    return table


def _attach(
    context: DdlContext, attached: Attached, table: Table, *, if_not_exists: bool
) -> Table | None:
    files, path = file_system_for(table.location)
    files.create_directory(path)
    mark_dead(attached)
    created = context.metastore.attach_table(
        table, attached.partitions, attached.takeover, if_not_exists=if_not_exists
    )
    try:
        check_place(context.metastore, table)  # somebody may have taken it just now
    except InvalidInputError:
        if created:
            context.metastore.drop_table(table.name)
        raise
    return table if created else None


def _with_query_columns(statement: ddl.CreateTable, columns: tuple[Column, ...]) -> ddl.CreateTable:
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


def definition_of(context: DdlContext, statement: ddl.CreateTable) -> Table:
    """The table that the statement would make, not looked at any further.

    Raises:
        NotFoundError: no such database, or no such table after LIKE.
        InvalidInputError: a constraint is refused.
    """
    database = context.metastore.get_database(statement.name.database)
    like = None if statement.like is None else context.metastore.get_table(statement.like)
    properties: dict[str, str] = dict(statement.properties)
    if like is not None:
        properties = {**_kept(like), **properties}
    elif not statement.external:
        properties = {**_defaults(context.settings, properties), **properties}
    if statement.external and (statement.not_null or statement.defaults or statement.checks):
        raise InvalidInputError(
            "Invalid Constraint syntax Constraints are disallowed with External tables. Only RELY "
            "is allowed.",
            code=10326,
            table=str(statement.name),
        )
    check_constraint_texts(statement.columns, defaults=statement.defaults, checks=statement.checks)
    properties |= constraint_properties(
        not_null=statement.not_null,
        defaults=statement.defaults,
        checks=statement.checks,
        keys=statement.keys,
        names=statement.constraint_names,
    )
    bucket = statement.bucket
    if bucket is not None and properties.get("bucketing_version", "").isdigit():
        bucket = replace(bucket, version=int(properties["bucketing_version"]))
    table = Table(
        name=statement.name,
        columns=statement.columns,
        location=statement.location or table_location(database, statement.name.table),
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


def _kept(like: Table) -> dict[str, str]:
    """The properties that a table made LIKE another has of it (real Hive keeps these three)."""
    kept = ("transactional", "transactional_properties", "bucketing_version")
    return {key: value for key, value in like.properties.items() if key in kept}


def _defaults(settings: Settings, properties: Mapping[str, str]) -> dict[str, str]:
    """What ``hive.create.as.acid`` and ``hive.create.as.insert.only`` add."""
    if any(key.lower() == "transactional" for key in properties):
        return {}
    if settings.create_as_acid:
        return {"transactional": "true"}
    if settings.create_as_insert_only:
        return {"transactional": "true", "transactional_properties": "insert_only"}
    return {}


def drop_table(context: DdlContext, statement: ddl.DropTable) -> None:
    """DROP TABLE; Hive does not mind one that does not exist (real-hive.md 9)."""
    try:
        table = context.metastore.get_table(statement.name)
    except NotFoundError:
        return
    if table.kind is TableKind.VIEW:
        raise InvalidInputError("Cannot drop a view with DROP TABLE", view=str(table.name))
    with context.locked(footprint.drop_table(table.name)):
        context.metastore.drop_table(table.name, if_exists=True)
        if owns_files(table):
            delete_location(table.location)
