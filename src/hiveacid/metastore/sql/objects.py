"""Databases and tables by name: their ids, or Hive's error; the sequence of catalog ids; what the
transaction tables do when one of them, or a partition, is dropped or renamed (metastore.md 2.14).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, delete, insert, select, update
from sqlalchemy.schema import Table
from sqlalchemy.sql import ColumnElement

from hiveacid.errors import NotFoundError
from hiveacid.metastore.sql.catalog_schema import DBS, SDS, SEQUENCE_TABLE, TBLS
from hiveacid.metastore.sql.dialect import Answer
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.schema import (
    COMPACTION_METRICS_CACHE,
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    HIVEACID_STREAM_BATCHES,
    MIN_HISTORY_WRITE_ID,
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    WRITE_SET,
)
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


def ask_table(unit: Unit, name: TableName) -> Answer:
    """Ask for what ``found_table`` tells."""
    return unit.ask(_TABLE, database=name.database, table=name.table)


def found_table(asked: Answer, name: TableName) -> TableIds:
    """Raises: NotFoundError (Hive's 10001)."""
    row = asked.row()
    if row is None:
        raise no_such_table(name)
    return TableIds(*row)


def table_ids(unit: Unit, name: TableName) -> TableIds:
    """Raises: NotFoundError (Hive's 10001)."""
    return found_table(ask_table(unit, name), name)


def locked_table_ids(unit: Unit, name: TableName) -> TableIds:
    """The table's ids; until the end of the unit nobody else alters, renames or drops it.

    Raises: NotFoundError (Hive's 10001).
    """
    return found_table(unit.ask(_LOCKED_TABLE, database=name.database, table=name.table), name)


def no_such_table(name: TableName) -> NotFoundError:
    """Hive's error 10001."""
    return NotFoundError(f"Table not found {name}", code=10001, table=str(name))


_PER_PARTITION: Final[Mapping[Table, str]] = {
    TXN_COMPONENTS: "TC",
    COMPLETED_TXN_COMPONENTS: "CTC",
    COMPACTION_QUEUE: "CQ",
    COMPLETED_COMPACTIONS: "CC",
    COMPACTION_METRICS_CACHE: "CMC",
}
_PER_TABLE: Final[Mapping[Table, str]] = {
    TXN_TO_WRITE_ID: "T2W",
    NEXT_WRITE_ID: "NWI",
    HIVEACID_STREAM_BATCHES: "SB",
}
_RENAMED_ONLY: Final[Mapping[Table, str]] = {WRITE_SET: "WS", MIN_HISTORY_WRITE_ID: "MH"}

_S = SEQUENCE_TABLE.c
_TAKE: Final = (
    update(SEQUENCE_TABLE)
    .where(_S.SEQUENCE_NAME == bindparam("name"))
    .values(NEXT_VAL=_S.NEXT_VAL + bindparam("count"))
    .returning(_S.NEXT_VAL)
)
_FIRST: Final = insert(SEQUENCE_TABLE).values(
    SEQUENCE_NAME=bindparam("name"), NEXT_VAL=bindparam("next")
)


def take_ids(unit: Unit, kind: str, count: int) -> range:
    """``count`` new ids of Hive's catalog class ``kind`` (``MTable``, ``MPartition``, ...)."""
    name = f"org.apache.hadoop.hive.metastore.model.{kind}"
    following = unit.scalar(_TAKE, name=name, count=count)
    if following is None:
        following = 1 + count
        unit.ask(_FIRST, name=name, next=following)
    return range(following - count, following)


def forget_table(unit: Unit, name: TableName) -> None:
    """Drop all records of the table; a table created again starts at write id 1."""
    for table, prefix in (*_PER_PARTITION.items(), *_PER_TABLE.items()):
        unit.ask(delete(table).where(_of_table(table, prefix, name)))


def forget_partition(unit: Unit, name: TableName, partition: str) -> None:
    """Drop the records of one partition, by its name."""
    for table, prefix in _PER_PARTITION.items():
        unit.ask(
            delete(table).where(
                _of_table(table, prefix, name), table.c[f"{prefix}_PARTITION"] == partition
            )
        )


def rename_partition(unit: Unit, name: TableName, old: str, new: str) -> None:
    """Carry all records of a partition over to its new name: those of writes that were aborted
    keep their transactions from being forgotten, and so taken for committed.
    """
    for table, prefix in {**_PER_PARTITION, WRITE_SET: "WS"}.items():
        unit.ask(
            update(table)
            .where(_of_table(table, prefix, name), table.c[f"{prefix}_PARTITION"] == old)
            .values({f"{prefix}_PARTITION": new})
        )


def rename_table(unit: Unit, old: TableName, new: TableName) -> None:
    """Carry all records over to the new name."""
    everywhere = {**_PER_PARTITION, **_PER_TABLE, **_RENAMED_ONLY}
    for table, prefix in everywhere.items():
        unit.ask(
            update(table)
            .where(_of_table(table, prefix, old))
            .values({f"{prefix}_DATABASE": new.database, f"{prefix}_TABLE": new.table})
        )
    unit.ask(
        update(HIVE_LOCKS)
        .where(HIVE_LOCKS.c.HL_DB == old.database, HIVE_LOCKS.c.HL_TABLE == old.table)
        .values(HL_DB=new.database, HL_TABLE=new.table)
    )


def _of_table(table: Table, prefix: str, name: TableName) -> ColumnElement[bool]:
    return and_(
        table.c[f"{prefix}_DATABASE"] == name.database, table.c[f"{prefix}_TABLE"] == name.table
    )
