"""MSCK REPAIR TABLE: the catalog's partitions become those whose directories are there.

Only directories below the table's own are looked at; a partition with a location of its own is
dropped only where that is gone. Statistics of what is found are not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import partition_name
from hiveacid.model.tables import Partition, Table, TableKind, TableName
from hiveacid.statements.answers import Listing
from hiveacid.statements.attach import admit
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.ddl.change import Change, use_write_id
from hiveacid.statements.values import Command
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import discover_partitions
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class RepairTable(Command):
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS]; ``repair`` False: only tell."""

    name: TableName
    repair: bool = True
    add: bool = True
    drop: bool = False


def repair(context: ExecutionContext, statement: RepairTable, look: Look) -> Change:
    """MSCK [REPAIR] TABLE; its answer says what differed, as Hive's does.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: a view; directories of write ids that the table has not given out.
    """
    table = look.definition(statement.name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError("MSCK is not supported for views", view=str(table.name))
    locks = footprint.alter_table if statement.repair and statement.drop else footprint.use_table
    return Change(
        locks(table.name),
        lambda transaction: _repaired(context, statement, table, transaction),
    )


def _repaired(
    context: ExecutionContext, statement: RepairTable, table: Table, transaction: Transaction
) -> Listing:
    if not table.partition_columns:
        return Listing(("msck",), ())
    there = _on_disk(table, context.files)
    known = {part.values: part for part in context.client.metastore.list_partitions(table.name)}
    missing = [part for values, part in there.items() if values not in known and statement.add]
    gone = [
        part
        for values, part in known.items()
        if statement.drop and values not in there and not _exists(part.location, context.files)
    ]
    if statement.repair and missing:
        admit(context, table, missing)
        context.client.metastore.add_partitions(table.name, missing)
    if statement.repair and gone:
        use_write_id(transaction, table)
        context.client.metastore.drop_partitions(table.name, [part.values for part in gone])
    titles = ("Partitions not in metastore:", "Partitions missing from filesystem:")
    rows = tuple(
        (title + "".join(f"\t{_shown(table, part)}" for part in parts),)
        for title, parts in zip(titles, (missing, gone), strict=True)
        if parts
    )
    return Listing(("msck",), rows)


def _shown(table: Table, partition: Partition) -> str:
    return f"{table.name.table}:{partition_name(table.partition_keys, partition.values)}"


def _on_disk(table: Table, files: Files) -> dict[tuple[str | None, ...], Partition]:
    """The directories that are partitions of the table by their names; others are passed over."""
    fs, root = files.at(table.location)
    names = tuple(column.name for column in table.partition_columns)
    base = table.location.rstrip("/")
    return {
        part.values: Partition(part.values, base + part.path[len(root.rstrip("/")) :])
        for part in discover_partitions(fs, root)
        if tuple(name.lower() for name in part.names) == names
    }


def _exists(location: str, files: Files) -> bool:
    fs, path = files.at(location)
    return fs.exists(path)
