"""From names to the ids of databases and tables, or Hive's error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select

from hiveacid.errors import NotFoundError
from hiveacid.metastore.sql.catalog_schema import DBS, SDS, TBLS
from hiveacid.metastore.sql.engine import Unit
from hiveacid.model.tables import TableName

CATALOG: Final = "hive"
_DATABASE: Final = select(DBS.c.DB_ID).where(
    DBS.c.NAME == bindparam("name"), DBS.c.CTLG_NAME == CATALOG
)
NAMED_TABLE: Final = (
    TBLS.c.DB_ID == DBS.c.DB_ID,
    DBS.c.NAME == bindparam("database"),
    DBS.c.CTLG_NAME == CATALOG,
    TBLS.c.TBL_NAME == bindparam("table"),
)
"""Conditions on TBLS and DBS that one table meets, ``database`` and ``table``."""
_TABLE: Final = (
    select(TBLS.c.TBL_ID, TBLS.c.DB_ID, TBLS.c.SD_ID, SDS.c.CD_ID, SDS.c.SERDE_ID, SDS.c.LOCATION)
    .join_from(TBLS, SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .where(*NAMED_TABLE)
)
_LOCKED_TABLE: Final = _TABLE.with_for_update(of=TBLS)


@dataclass(frozen=True, slots=True)
class TableIds:
    """The keys under which a table's definition is stored."""

    table: int
    database: int
    storage: int
    columns: int
    serde: int
    location: str


def find_database(unit: Unit, name: str) -> int | None:
    """The database's id, None where absent."""
    found = unit.scalar(_DATABASE, name=name.lower())
    return None if found is None else int(found)


def database_id(unit: Unit, name: str) -> int:
    """Raises: NotFoundError (Hive's 10072)."""
    found = find_database(unit, name)
    if found is None:
        raise NotFoundError(
            f"Database does not exist: {name.lower()}", code=10072, database=name.lower()
        )
    return found


def find_table(unit: Unit, name: TableName) -> TableIds | None:
    """The table's ids, None where absent."""
    row = unit.row(_TABLE, database=name.database, table=name.table)
    return None if row is None else TableIds(*row)


def table_ids(unit: Unit, name: TableName) -> TableIds:
    """Raises: NotFoundError (Hive's 10001)."""
    found = find_table(unit, name)
    if found is None:
        raise no_such_table(name)
    return found


def locked_table_ids(unit: Unit, name: TableName) -> TableIds:
    """The table's ids; until the end of the unit nobody else alters, renames or drops it.

    Raises: NotFoundError (Hive's 10001).
    """
    row = unit.row(_LOCKED_TABLE, database=name.database, table=name.table)
    if row is None:
        raise no_such_table(name)
    return TableIds(*row)


def no_such_table(name: TableName) -> NotFoundError:
    """Hive's error 10001."""
    return NotFoundError(f"Table not found {name}", code=10001, table=str(name))
