"""EXPLAIN LOCKS: the locks that a statement would take, in Hive 4.1's layout; none is taken.

What is told is what would be requested: the footprint of DML and queries, and of a definition the
first request of the code that carries it out, which then goes no further. Hive lists locks more
than once, and read locks on what DML writes, that it does not request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import Column, TableKind
from hiveacid.model.types import PrimitiveType
from hiveacid.statements import ddl as definitions
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.statements.job import ExecutionContext
from hiveacid.statements.listing import Listing
from hiveacid.statements.lock import component
from hiveacid.statements.repair import repair
from hiveacid.statements.run import footprint_of
from hiveacid.statements.select import footprint_of_query
from hiveacid.statements.values import Delete, Insert, Inserts, Merge, Query, Update
from hiveacid.statements.values_load import Load
from hiveacid.statements.values_locks import LockDatabase, LockStatement, LockTable
from hiveacid.statements.values_upkeep import Analyze, RepairTable
from hiveacid.statements.values_views import CreateView
from hiveacid.txn import footprint
from hiveacid.txn.footprint import (
    Footprint,
    TableRead,
    TableWrite,
    WriteKind,
    lock_components,
)
from hiveacid.txn.transaction import Transaction

_SOME_COLUMN = Column("c", PrimitiveType("int"))
_CHANGES = (Insert, Inserts, Update, Delete, Merge, Load, ddl.Truncate)


def explain_locks(context: ExecutionContext, statement: object) -> Listing:
    """The locks, a line each, below Hive's title.

    Raises:
        AcidError: as the statement itself before it takes its locks.
    """
    lines = [_line(one) for one in _locks(context, statement)]
    return Listing(("Explain",), (("LOCK INFORMATION:",), *((line,) for line in lines)))


def _locks(context: ExecutionContext, statement: object) -> tuple[LockComponent, ...]:
    if isinstance(statement, Query):
        return lock_components(footprint_of_query(context, statement))
    if isinstance(statement, _CHANGES):
        return lock_components(footprint_of(context, statement))
    if isinstance(statement, Analyze):
        return lock_components(Footprint(reads=(TableRead(context.table(statement.name)),)))
    if isinstance(statement, (LockTable, LockDatabase)):
        return (component(context.client.metastore, statement),)
    if isinstance(statement, ddl.CreateTable) and statement.query is not None:
        return _of_create_as(context, statement, statement.query)
    if isinstance(statement, CreateView):
        return _of_view(context, statement)
    if isinstance(statement, (ddl.CreateDatabase, LockStatement)):
        return ()
    if isinstance(statement, (RepairTable, definitions.DefinitionStatement)):
        return _of_definition(context, statement)
    return ()


def _of_create_as(
    context: ExecutionContext, statement: ddl.CreateTable, query: Query
) -> tuple[LockComponent, ...]:
    """The query's, those of the definition, and those of the INSERT that follows."""
    plain = replace(statement, query=None, partition_names=(), columns=(_SOME_COLUMN,))
    table = definitions.definition_of(DdlContext(context.client, context.settings), plain)
    return (
        *lock_components(footprint_of_query(context, query)),
        *footprint.create_table(table.name.database),
        *lock_components(Footprint(writes=(TableWrite(table, WriteKind.INSERT),))),
    )


def _of_view(context: ExecutionContext, statement: CreateView) -> tuple[LockComponent, ...]:
    name = statement.name
    exists = name.table in context.client.metastore.list_tables(name.database, kind=TableKind.VIEW)
    return footprint.alter_table(name) if exists else footprint.create_table(name.database)


def _line(one: LockComponent) -> str:
    place = one.database if one.table is None else f"{one.database}.{one.table}"
    if one.partition is not None:
        place += "." + one.partition.replace("/", ".")
    return f"{place} -> {one.type.name}"


class _Told(Exception):
    """Ends a definition where it asks for its locks."""

    def __init__(self, components: Sequence[LockComponent]) -> None:
        super().__init__()
        self.components = tuple(components)


@dataclass(frozen=True, slots=True)
class _Teller(DdlContext):
    @contextmanager
    def locked(self, components: Sequence[LockComponent]) -> Iterator[Transaction]:
        """Nothing below it runs."""
        raise _Told(components)
        yield


def _of_definition(
    context: ExecutionContext, statement: RepairTable | definitions.DefinitionStatement
) -> tuple[LockComponent, ...]:
    teller = _Teller(context.client, context.settings)
    try:
        if isinstance(statement, RepairTable):
            repair(teller, statement)
        else:
            definitions.execute(teller, statement)
    except _Told as told:
        return told.components
    return ()
