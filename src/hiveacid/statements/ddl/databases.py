"""CREATE, ALTER and DROP of databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.model.tables import Database, TableName
from hiveacid.statements.context import DdlPlan, ExecutionContext
from hiveacid.statements.locations import (
    check_deletable,
    delete_location,
    goes_to_trash,
    owns_files,
)
from hiveacid.statements.values import Command
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class CreateDatabase(Command):
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT ...] [LOCATION ...] [WITH DBPROPERTIES
    (...)].
    """

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetDatabaseProperties(Command):
    """ALTER DATABASE name SET DBPROPERTIES (...)."""

    name: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropDatabase(Command):
    """DROP DATABASE [IF EXISTS] name [CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False


def create_database(
    context: ExecutionContext, statement: CreateDatabase, _: Look
) -> DdlPlan | None:
    """CREATE DATABASE."""
    # the look knows databases that are there
    if statement.name.lower() in context.client.metastore.list_databases():
        if statement.if_not_exists:
            return None
        name = statement.name.lower()
        raise AlreadyExistsError(f"Database {name} already exists", database=name)
    location = statement.location or context.client.database_location(statement.name)
    database = Database(
        statement.name, location, statement.comment, properties=dict(statement.properties)
    )

    def run(_: Transaction) -> None:
        fs, path = context.files.at(location)
        fs.create_directory(path)
        context.client.metastore.create_database(database)

    return DdlPlan((), run, guards=footprint.drop_database(statement.name))


def set_database_properties(
    context: ExecutionContext, statement: SetDatabaseProperties, look: Look
) -> DdlPlan:
    """ALTER DATABASE SET DBPROPERTIES: the other properties stay.

    Raises:
        NotFoundError: no such database.
    """
    name = look.database(statement.name).name

    return DdlPlan(
        (),
        lambda _: context.client.metastore.alter_database(
            name, lambda now: replace(now, properties={**now.properties, **statement.properties})
        ),
        guards=footprint.create_table(name),
    )


def drop_database(context: ExecutionContext, statement: DropDatabase, look: Look) -> DdlPlan | None:
    """DROP DATABASE [CASCADE]: the catalog forgets it with its tables, then the files go."""
    name, metastore = statement.name.lower(), context.client.metastore
    if name == "default":
        raise InvalidInputError("Can not drop default database", database=name)
    try:
        database = look.database(name)
    except NotFoundError:
        if statement.if_exists:
            return None
        raise

    def run(_: Transaction) -> None:
        tables = [metastore.get_table(TableName(name, one)) for one in metastore.list_tables(name)]
        owned = [table for table in tables if owns_files(table)]
        own = [one for one in database.locations if one.rstrip("/") != context.client.warehouse]
        doomed = [table.location for table in owned if statement.cascade]
        check_deletable(context.files, [*doomed, *own])
        metastore.drop_database(name, cascade=statement.cascade)
        for table in owned:
            to_trash = goes_to_trash(table, purge=False)
            delete_location(context.files, table.location, to_trash=to_trash)
        for location in own:
            delete_location(context.files, location)

    return DdlPlan(footprint.drop_database(name), run)
