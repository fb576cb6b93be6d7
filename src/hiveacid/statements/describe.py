"""DESCRIBE of tables, columns and databases, in Hive's layout (columns col_name, data_type,
comment).
"""

from __future__ import annotations

import datetime

from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import Metastore
from hiveacid.model.tables import Column, Table
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.constraints import column_default, not_null_columns, shown_properties
from hiveacid.statements.listing import Listing
from hiveacid.statements.partition_values import full_values

Row = tuple[str | None, ...]
_COLUMNS = ("col_name", "data_type", "comment")


def describe(metastore: Metastore, statement: ddl.DescribeTable | ddl.DescribeDatabase) -> Listing:
    """The answer to DESCRIBE.

    Raises:
        NotFoundError: no such database, table or partition.
        InvalidInputError: 10004 no such column.
    """
    if isinstance(statement, ddl.DescribeDatabase):
        return _database(metastore, statement)
    table = metastore.get_table(statement.name)
    if statement.partition:
        metastore.get_partition(table.name, full_values(table, statement.partition))
    if statement.column is not None:
        return Listing(_COLUMNS, (_one_column(table, statement.column),))
    rows = [_row(column) for column in table.all_columns]
    if table.partition_columns:
        rows += [("", None, None), ("# Partition Information", None, None)]
        rows += [("# col_name", "data_type", "comment")]
        rows += [_row(column) for column in table.partition_columns]
    if statement.formatted or statement.extended:
        rows += _detailed(table)
    return Listing(_COLUMNS, tuple(rows))


def _row(column: Column) -> Row:
    return (column.name, str(column.type), column.comment or "")


def _one_column(table: Table, name: str) -> Row:
    for column in table.all_columns:
        if column.name == name.lower():
            return (column.name, str(column.type), column.comment or "from deserializer")
    raise InvalidInputError(
        f"Invalid table alias or column reference '{name}': (possible column names are: "
        f"{', '.join(column.name for column in table.all_columns)})",
        code=10004,
        table=str(table.name),
        column=name,
    )


def _detailed(table: Table) -> list[Row]:
    created = datetime.datetime.fromtimestamp(table.created_at_ms / 1000, datetime.timezone.utc)
    rows: list[Row] = [
        ("", None, None),
        ("# Detailed Table Information", None, None),
        ("Database:", table.name.database, None),
        ("Owner:", table.owner, None),
        ("CreateTime:", created.strftime("%a %b %d %H:%M:%S UTC %Y"), None),
        ("Location:", table.location, None),
        ("Table Type:", table.kind.value, None),
        ("Table Parameters:", None, None),
    ]
    properties = shown_properties(table.properties)
    if table.comment is not None:
        properties = {"comment": table.comment, **properties}
    rows += [("", key, value) for key, value in properties.items()]
    rows += [("", None, None), ("# Storage Information", None, None)]
    rows += [("Stored As:", table.format.name, None)]
    rows += [("Num Buckets:", str(table.bucket.count if table.bucket else -1), None)]
    rows += [("Bucket Columns:", _names(table.bucket.columns if table.bucket else ()), None)]
    rows += [("Sort Columns:", _names(table.sort_columns), None)]
    rows += _constraints(table)
    return rows


def _constraints(table: Table) -> list[Row]:
    rows: list[Row] = []
    not_null = not_null_columns(table)
    if not_null:
        rows += [("", None, None), ("# Not Null Constraints", None, None)]
        rows += [("Column Name:", name, None) for name in not_null]
    defaults = [(c.name, column_default(table, c.name)) for c in table.columns]
    shown = [(name, text) for name, text in defaults if text is not None]
    if shown:
        rows += [("", None, None), ("# Default Constraints", None, None)]
        rows += [(f"Column Name:{name}", f"Default Value:{text}", None) for name, text in shown]
    return rows


def _names(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(names) + "]"


def _database(metastore: Metastore, statement: ddl.DescribeDatabase) -> Listing:
    database = metastore.get_database(statement.name)
    columns = ["db_name", "comment", "location"]
    row: list[str | None] = [database.name, database.comment or "", database.location]
    if statement.extended:
        columns.append("parameters")
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(database.properties.items()))
        row.append(f"{{{pairs}}}" if pairs else "")
    return Listing(tuple(columns), (tuple(row),))
