"""Databases and tables by name: their ids, or Hive's error; the sequence of catalog ids; where
tables and partitions lie, and how one of them only claims a place; what the transaction tables do
when one of them is dropped or renamed (metastore.md 2.14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Delete,
    and_,
    bindparam,
    delete,
    literal,
    select,
    update,
)
from sqlalchemy.schema import Column as SqlColumn
from sqlalchemy.schema import Table as SqlTable
from sqlalchemy.sql import ColumnElement

from hiveacid.errors import NotFoundError, no_such_table
from hiveacid.metastore.api import Claim, Place
from hiveacid.metastore.sql.catalog_schema import (
    DBS,
    PARTITIONS,
    SDS,
    SEQUENCE_TABLE,
    TABLE_PARAMS,
    TBLS,
)
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
from hiveacid.model.tables import (
    RENAMING_TO,
    TableKind,
    TableName,
)

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
    select(TBLS.c.TBL_ID, TBLS.c.SD_ID, SDS.c.CD_ID, SDS.c.SERDE_ID)
    .join_from(TBLS, SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .where(*NAMED_TABLE)
)
_LOCKED_TABLE: Final = _TABLE.with_for_update(of=TBLS)


@dataclass(frozen=True, slots=True)
class TableIds:
    """The keys under which a table's definition is stored."""

    table: int
    storage: int
    columns: int
    serde: int


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


_PER_PARTITION: Final[Mapping[SqlTable, str]] = {
    TXN_COMPONENTS: "TC",
    COMPLETED_TXN_COMPONENTS: "CTC",
    COMPACTION_QUEUE: "CQ",
    COMPLETED_COMPACTIONS: "CC",
    COMPACTION_METRICS_CACHE: "CMC",
}
_PER_TABLE: Final[Mapping[SqlTable, str]] = {
    TXN_TO_WRITE_ID: "T2W",
    NEXT_WRITE_ID: "NWI",
}
_RENAMED_ONLY: Final[Mapping[SqlTable, str]] = {
    WRITE_SET: "WS",
    MIN_HISTORY_WRITE_ID: "MH",
    HIVEACID_STREAM_BATCHES: "SB",
}

_S = SEQUENCE_TABLE.c
_TAKE: Final = (
    update(SEQUENCE_TABLE)
    .where(_S.SEQUENCE_NAME == bindparam("name"))
    .values(NEXT_VAL=_S.NEXT_VAL + bindparam("count"))
    .returning(_S.NEXT_VAL)
)


def take_ids(unit: Unit, kind: str, count: int) -> range:
    """``count`` new ids of Hive's catalog class ``kind`` (``MTable``, ``MPartition``, ...)."""
    name = f"org.apache.hadoop.hive.metastore.model.{kind}"
    following = unit.scalar(_TAKE, name=name, count=count)
    if following is None:
        following = 1 + count
        unit.insert(SEQUENCE_TABLE, [{"SEQUENCE_NAME": name, "NEXT_VAL": following}])
    return range(following - count, following)


@cache
def delete_where(column: SqlColumn[Any]) -> Delete:
    """The statement that deletes the rows that have ``value`` there, compiled once."""
    return delete(column.table).where(column == bindparam("value"))


def forget_table(unit: Unit, name: TableName, *, but: SqlTable | None = None) -> None:
    """Drop all records of the table; a table created again starts at write id 1.

    A name that no table has, or one without transactions, may have some: write ids are given out
    before the locks, also for what is gone by then. Whoever comes to the name is not to get them.
    """
    for table, statement in _FORGET.items():
        if table is not but:
            unit.ask(statement, database=name.database, table=name.table)


def forget_partitions(unit: Unit, name: TableName, partitions: Sequence[str]) -> None:
    """Drop the records of partitions, by their names."""
    for table, prefix in _PER_PARTITION.items():
        unit.ask(
            delete(table).where(
                _of_table(table, prefix, name), table.c[f"{prefix}_PARTITION"].in_(partitions)
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
    forget_table(unit, new)
    everywhere = {**_PER_PARTITION, **_PER_TABLE, **_RENAMED_ONLY}
    dropped = _of_table(HIVEACID_STREAM_BATCHES, "SB", new)
    unit.ask(delete(HIVEACID_STREAM_BATCHES).where(dropped))
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


def _of_table(table: SqlTable, prefix: str, name: TableName) -> ColumnElement[bool]:
    return and_(
        table.c[f"{prefix}_DATABASE"] == name.database, table.c[f"{prefix}_TABLE"] == name.table
    )


_FORGET: Final = {
    table: delete(table).where(
        table.c[f"{prefix}_DATABASE"] == bindparam("database"),
        table.c[f"{prefix}_TABLE"] == bindparam("table"),
    )
    for table, prefix in (*_PER_PARTITION.items(), *_PER_TABLE.items())
}


_NAMED: Final = (DBS.c.NAME, TBLS.c.TBL_NAME)
_TABLES: Final = (
    select(*_NAMED, SDS.c.LOCATION, TABLE_PARAMS.c.PARAM_VALUE)
    .join_from(TBLS, DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .join(
        TABLE_PARAMS,
        (TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID) & (TABLE_PARAMS.c.PARAM_KEY == "transactional"),
        isouter=True,
    )
    .where(TBLS.c.TBL_TYPE != TableKind.VIEW.value)
)
_OF_PARTITION = SDS.alias("of_partition")
_ELSEWHERE: Final = (
    select(*_NAMED, _OF_PARTITION.c.LOCATION, PARTITIONS.c.PART_NAME)
    .join_from(PARTITIONS, _OF_PARTITION, _OF_PARTITION.c.SD_ID == PARTITIONS.c.SD_ID)
    .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
    .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(_OF_PARTITION.c.LOCATION != SDS.c.LOCATION + literal("/") + PARTITIONS.c.PART_NAME)
)
"""Partitions that are not where their names say."""
_MOVING: Final = (
    select(*_NAMED, TABLE_PARAMS.c.PARAM_VALUE)
    .join_from(TBLS, DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(TABLE_PARAMS, TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID)
    .where(TABLE_PARAMS.c.PARAM_KEY == RENAMING_TO)
)
"""Where a RENAME is about to move files to."""


def read_places(unit: Unit) -> tuple[Place, ...]:
    """As ``OwnDatabase.places``."""
    asked, moving, elsewhere = unit.ask(_TABLES), unit.ask(_MOVING), unit.ask(_ELSEWHERE)
    tables = asked.rows()
    transactional = {
        TableName(database, table): (value or "").lower() == "true"
        for database, table, _, value in tables
    }
    found = [(TableName(*row[:2]), row[2], None) for row in (*tables, *moving.rows())]
    found += [(TableName(*row[:2]), row[2], row[3]) for row in elsewhere.rows()]
    return tuple(
        Place(name, partition, location, transactional.get(name, False))
        for name, location, partition in found
        if location
    )


def claim_place(unit: Unit, claim: Claim | None) -> None:
    """Let ``claim`` refuse the place that was written in this unit, as ``Catalog.create_table``.

    Who claims holds the sequence of tables, which every new table holds too, until the commit: so
    of two who claim one place at the same time the second sees the first.
    """
    if claim is not None:
        take_ids(unit, "MTable", 0)
        claim(read_places(unit))
