"""Tables and views made of a query: CREATE TABLE AS, CREATE VIEW; a table made of a DataFrame."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hiveacid.errors import InvalidInputError, no_such_table, tolerated
from hiveacid.layout.directories import is_hidden
from hiveacid.model.tables import (
    CREATING,
    AcidMode,
    Column,
    LockId,
    Table,
    TableKind,
    TableName,
)
from hiveacid.model.types import PrimitiveType
from hiveacid.statements import insert, run, select
from hiveacid.statements.context import (
    Bound,
    DdlPlan,
    ExecutionContext,
    define,
    fixed,
    use_write_id,
)
from hiveacid.statements.ddl import tables, views
from hiveacid.statements.ddl.tables import (
    CreateTable,
    DropTable,
    RenameTable,
)
from hiveacid.statements.ddl.views import CreateView
from hiveacid.statements.evolve import columns_of, columns_of_rows, has_no_type, renamed
from hiveacid.statements.insert import Truncate
from hiveacid.statements.job import Work
from hiveacid.statements.locations import (
    check_deletable,
    delete_location,
    goes_to_trash,
    owns_files,
)
from hiveacid.statements.values import Insert, Query
from hiveacid.storage.locations import one_name
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame

_LOG: Final = logging.getLogger(__name__)
ASIDE: Final = re.compile(r".+__hiveacid_\d+")
"""By what name there is a table that is to take the place of another one."""
_SOME_COLUMN: Final = Column("c", PrimitiveType("int"))


def create_table(context: ExecutionContext, bound: Bound) -> None:
    """CREATE [OR REPLACE] TABLE, with the rows of its query where it has one: all or nothing."""
    statement: CreateTable = bound.value
    if statement.query is None:
        create(context, statement)
        return
    rows = select.open_query(context, bound.part(lambda whole: whole.query))
    columns = _query_columns(context, statement.query, bound.look, rows)
    create(context, statement, columns=columns, rows=renamed(rows, columns))


def _query_columns(
    context: ExecutionContext, query: Query, look: Look, rows: DataFrame
) -> tuple[Column, ...]:
    """The columns of a query: char and varchar are told only by the tables' definitions."""
    tables_read = [look.definition(ref.name) for ref in query.tables.values()]
    has_chars = any("char(" in str(c.type) for table in tables_read for c in table.all_columns)
    schema = select.query_schema(context, query, look) if has_chars else rows.schema
    return columns_of(schema, query)


def create(
    context: ExecutionContext,
    statement: CreateTable,
    *,
    columns: tuple[Column, ...] | None = None,
    rows: DataFrame | ArrowTable | None = None,
) -> None:
    """Make the table, of ``columns`` where it does not say its own, and of rows, which it then has;
    with ``or_replace`` in the place of one that is there.
    """
    if statement.or_replace and context.look().table(statement.name) is not None:
        aside = replace(statement.name, table=f"{statement.name.table}__hiveacid")
        with _alone(context, aside):  # one REPLACE at a time: what it makes is its own
            old = context.look().table(statement.name)
            if old is not None:
                if old.kind is TableKind.VIEW:
                    raise InvalidInputError(f"{old.name} is a view: no table takes its place")
                _replace(context, statement, old, columns=columns, rows=rows)
                return
    if statement.must_exist:
        raise no_such_table(statement.name)
    if rows is None:
        tables.make_table(context, statement, columns=columns)
    else:
        _create_from(context, statement, rows, columns=columns or columns_of_rows(rows))


def _create_from(
    context: ExecutionContext,
    statement: CreateTable,
    rows: DataFrame | ArrowTable,
    *,
    columns: tuple[Column, ...],
) -> None:
    """Make the table with the columns of the rows and put them in; all or nothing. Until the end
    nobody else reads the table, or changes its definition; killed before, nobody ever does.
    """
    _check_query_columns(statement, columns)
    plain = replace(statement, query=None)
    if tables.is_there(context.look(), plain):
        return
    with _alone(context, plain.name) as lock:
        _check_nothing_there(context, plain)
        noted = replace(plain, properties={**plain.properties, CREATING: str(lock)})
        if tables.make_table(context, noted, columns=columns):
            with _dropped_where_it_fails(context, plain.name):
                _write(context, Insert(plain.name, renamed(rows, columns), by_name=True))
                context.client.metastore.alter_table(
                    plain.name, partial(Table.without_properties, keys=(CREATING,))
                )


def _check_nothing_there(context: ExecutionContext, statement: CreateTable) -> None:
    """What lies at its LOCATION would be among its rows, and go with it where it fails.

    Raises:
        InvalidInputError: 10304 something does.
    """
    if statement.location is None:
        return
    fs, path = context.files.at(statement.location)
    if any(not is_hidden(one.name) for one in fs.list_directory(path)):
        raise InvalidInputError(
            "CREATE-TABLE-AS-SELECT cannot create table with location to a non-empty directory. "
            f"Path: {statement.location}",
            code=10304,
            table=str(statement.name),
        )


@contextmanager
def _alone(context: ExecutionContext, name: TableName) -> Iterator[LockId]:
    """Lets nobody else have the name for a block, whether or not there is such a table.

    Raises:
        LockError: somebody else has it for too long.
    """
    transactions = context.client.transactions
    lock = transactions.lock(footprint.alter_table(name))
    try:
        yield lock
    finally:
        with tolerated(_LOG, "A lock stays until it times out: %s"):
            transactions.unlock(lock)


@contextmanager
def _dropped_where_it_fails(context: ExecutionContext, name: TableName) -> Iterator[None]:
    """Drops the table, where there is one by then, if the block ends in an error."""
    try:
        yield
    except BaseException:
        dropped = fixed(DropTable(name, purge=True))
        define(context, Bound.to(context.look(), dropped), tables.drop_table)
        raise


def _write(context: ExecutionContext, statement: Insert | Truncate) -> None:
    def plan(_: ExecutionContext, value: Insert | Truncate, look: Look) -> list[Work]:
        if isinstance(value, Truncate):
            return [insert.plan_truncate(value, look)]
        return [insert.plan(value, look)]

    bound = Bound.to(context.look(), fixed(statement))
    run.change(context, bound, plan, run.needs_of(plan))


def _replace(
    context: ExecutionContext,
    statement: CreateTable,
    old: Table,
    *,
    columns: tuple[Column, ...] | None,
    rows: DataFrame | ArrowTable | None,
) -> None:
    """A table of the same definition gets the rows, in one commit. Another one is made under a name
    of its own, and in a place of its own, and takes the old one's name when all is in it: who reads
    finds the old one, then the new one.
    """
    plain = replace(statement, query=None, or_replace=False, must_exist=False)
    if rows is not None:
        columns = columns or columns_of_rows(rows)
        _check_query_columns(statement, columns)
    whole = plain if columns is None else tables.with_query_columns(plain, columns)
    if _is_defined_so(old, tables.definition_of(context, whole, context.look()), whole):
        if rows is None or columns is None:
            _write(context, Truncate(old.name))
        else:
            given = renamed(rows, columns)
            _write(context, Insert(old.name, given, by_name=True, overwrite=True, whole=True))
        return
    if _lies_there(old, statement.location):
        raise InvalidInputError(
            f"{old.name} lies at {old.location}, and is read there until another table has taken"
            " its place, which lies elsewhere",
            note="Leave its location out, or name another one.",
            table=str(old.name),
            location=old.location,
        )
    name = TableName(old.name.database, f"{old.name.table}__hiveacid_{old.id}")
    look = context.look()
    left = DropTable(name, purge=True)  # by one that was killed
    define(context, Bound.to(look, fixed(left)), tables.drop_table)
    with _dropped_where_it_fails(context, name):
        create(context, replace(plain, name=name), columns=columns, rows=rows)
        look = context.look()
        define(context, Bound.to(look, fixed(RenameTable(name, old.name))), _take_name)


def _take_name(context: ExecutionContext, statement: RenameTable, look: Look) -> DdlPlan:
    """A table takes the name of another one, which is dropped by the same step."""
    new, old = look.definition(statement.name), look.definition(statement.new_name)

    def run(transaction: Transaction) -> None:
        use_write_id(transaction, new)
        if owns_files(old):
            check_deletable(context.files, [old.location])
        context.client.own.replace_table(old.name, by=new.name)
        if owns_files(old):
            to_trash = goes_to_trash(old, purge=False)
            delete_location(context.files, old.location, to_trash=to_trash)

    locks = footprint.rename_table(new.name, old.name) + footprint.drop_table(old.name)
    return DdlPlan(tuple(dict.fromkeys(locks)), run)


def _is_defined_so(old: Table, wanted: Table, statement: CreateTable) -> bool:
    """Whether a table has all that the statement says of it."""
    return (
        (old.columns, old.partition_columns, old.bucket, old.format, old.kind)
        == (wanted.columns, wanted.partition_columns, wanted.bucket, wanted.format, wanted.kind)
        and (statement.location is None or _lies_there(old, statement.location))
        and wanted.comment == old.comment
        and wanted.acid_mode is old.acid_mode is not AcidMode.NONE
        and all(old.properties.get(key) == text for key, text in wanted.properties.items())
    )


def _lies_there(table: Table, location: str | None) -> bool:
    return location is not None and one_name(location) == one_name(table.location)


def needs(context: ExecutionContext, statement: CreateTable, look: Look) -> Footprint:
    """The query's locks, that of the definition, and that of the INSERT that follows."""
    created = footprint.create_table(statement.name.database)
    if statement.query is None:
        return Footprint(definitions=created)
    plain = replace(statement, query=None, partition_names=(), columns=(_SOME_COLUMN,))
    table = tables.definition_of(context, plain, look)
    return Footprint(
        reads=select.needs(context, statement.query, look).reads,
        writes=(TableWrite(table, WriteKind.INSERT),),
        definitions=created,
    )


def create_view(context: ExecutionContext, bound: Bound) -> None:
    """CREATE VIEW, ALTER VIEW AS: the query's columns come from the tables' definitions."""

    def with_columns(look: Look) -> CreateView:
        statement: CreateView = bound.value if look is bound.look else bound.bind(look)
        assert statement.query is not None
        schema = select.query_schema(context, statement.query, look)
        return replace(statement, query_columns=columns_of(schema, statement.query))

    define(context, Bound.to(bound.look, with_columns), views.create_view)


def _check_query_columns(statement: CreateTable, columns: tuple[Column, ...]) -> None:
    """A table can be made of a query with these columns.

    Raises:
        InvalidInputError: 10305 a column without a type; 10065 columns, 10068 partition columns of
            types, where the query's own are meant.
    """
    if statement.columns:
        raise InvalidInputError(
            "CREATE TABLE AS SELECT command cannot specify the list of columns for the target"
            " table",
            code=10065,
            table=str(statement.name),
        )
    if statement.partition_columns:
        raise InvalidInputError(
            "CREATE-TABLE-AS-SELECT does not support partitioning in the target table",
            code=10068,
            table=str(statement.name),
        )
    for column in columns:
        if has_no_type(column.type):
            raise InvalidInputError(
                "CREATE-TABLE-AS-SELECT creates a VOID type, please use CAST to specify the type, "
                f"near field: {column.name}",
                code=10305,
                table=str(statement.name),
            )
