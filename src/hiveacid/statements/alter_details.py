"""ALTER TABLE ADD and DROP CONSTRAINT, SET LOCATION."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import Table
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.constraints import (
    check_constraint_texts,
    constraint_properties,
    with_constraints,
    without_constraint,
)
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.statements.locations import check_partitions, check_place
from hiveacid.statements.partition_values import full_values
from hiveacid.txn import footprint

DetailStatement = ddl.AddConstraints | ddl.DropConstraint | ddl.SetLocation


def execute(context: DdlContext, table: Table, statement: DetailStatement) -> None:
    """Carries the statement out.

    Raises:
        NotFoundError: 10006 no such partition.
        InvalidInputError: a name that is taken or not there; 10244 a relative location.
    """
    if isinstance(statement, ddl.SetLocation):
        _set_location(context, table, statement)
        return
    if isinstance(statement, ddl.AddConstraints):
        found = statement.constraints
        check_constraint_texts(table.columns, defaults=found.defaults, checks=found.checks)
        added = constraint_properties(
            not_null=found.not_null,
            defaults=found.defaults,
            checks=found.checks,
            keys=found.keys,
            names=found.names,
        )
        _keep(context, table, with_constraints(table, added))
    else:
        _keep(context, table, without_constraint(table, statement.constraint))


def _keep(context: DdlContext, table: Table, properties: Mapping[str, str]) -> None:
    with context.locked(footprint.alter_table(table.name)):
        context.metastore.alter_table(table.name, replace(table, properties=properties))


def _set_location(context: DdlContext, table: Table, statement: ddl.SetLocation) -> None:
    """The files of the new place are the table's, or the partition's; nothing is moved."""
    location = statement.location
    if "://" not in location and not location.removeprefix("file:").startswith("/"):
        raise InvalidInputError(
            f"{location} is not absolute.  Please specify a complete absolute uri.",
            code=10244,
            table=str(table.name),
        )
    metastore = context.metastore
    with context.locked(footprint.alter_table(table.name)):
        if statement.partition:
            old = metastore.get_partition(table.name, full_values(table, statement.partition))
            changed = replace(old, location=location)
            check_partitions(metastore, table, [changed])
            metastore.alter_partition(table.name, changed)
            return
        check_place(metastore, replace(table, location=location))
        partitions = metastore.list_partitions(table.name)
        metastore.alter_table(table.name, replace(table, location=location))
        for partition in partitions:  # they stay where they are
            metastore.alter_partition(table.name, partition)
