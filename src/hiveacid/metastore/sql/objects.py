"""What the transaction tables do when a database, table or partition is dropped or renamed
(metastore.md 2.14), and the sequence of catalog ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import and_, bindparam, delete, insert, select, update
from sqlalchemy.schema import Table
from sqlalchemy.sql import ColumnElement

from hiveacid.metastore.sql.catalog_schema import SEQUENCE_TABLE
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.schema import (
    COMPACTION_METRICS_CACHE,
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    MIN_HISTORY_WRITE_ID,
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    WRITE_SET,
)
from hiveacid.model.tables import TableName

_PER_PARTITION: Final[Mapping[Table, str]] = {
    TXN_COMPONENTS: "TC",
    COMPLETED_TXN_COMPONENTS: "CTC",
    COMPACTION_QUEUE: "CQ",
    COMPLETED_COMPACTIONS: "CC",
    COMPACTION_METRICS_CACHE: "CMC",
}
_PER_TABLE: Final[Mapping[Table, str]] = {TXN_TO_WRITE_ID: "T2W", NEXT_WRITE_ID: "NWI"}
_RENAMED_ONLY: Final[Mapping[Table, str]] = {WRITE_SET: "WS", MIN_HISTORY_WRITE_ID: "MH"}

_S = SEQUENCE_TABLE.c
_NEXT: Final = select(_S.NEXT_VAL).where(_S.SEQUENCE_NAME == bindparam("name")).with_for_update()
_SET_NEXT: Final = (
    update(SEQUENCE_TABLE)
    .where(_S.SEQUENCE_NAME == bindparam("name"))
    .values(NEXT_VAL=bindparam("next"))
)
_FIRST: Final = insert(SEQUENCE_TABLE).values(
    SEQUENCE_NAME=bindparam("name"), NEXT_VAL=bindparam("next")
)


def take_ids(unit: Unit, kind: str, count: int) -> range:
    """``count`` new ids of Hive's catalog class ``kind`` (``MTable``, ``MPartition``, ...)."""
    name = f"org.apache.hadoop.hive.metastore.model.{kind}"
    found = unit.scalar(_NEXT, name=name)
    first = 1 if found is None else int(found)
    unit.run(_FIRST if found is None else _SET_NEXT, name=name, next=first + count)
    return range(first, first + count)


def forget_table(unit: Unit, name: TableName) -> None:
    """Drop all records of the table; a table created again starts at write id 1."""
    for table, prefix in (*_PER_PARTITION.items(), *_PER_TABLE.items()):
        unit.change(delete(table).where(_of_table(table, prefix, name)))


def forget_partition(unit: Unit, name: TableName, partition: str) -> None:
    """Drop the records of one partition, by its name."""
    for table, prefix in _PER_PARTITION.items():
        unit.change(
            delete(table).where(
                _of_table(table, prefix, name), table.c[f"{prefix}_PARTITION"] == partition
            )
        )


def rename_partition(unit: Unit, name: TableName, old: str, new: str) -> None:
    """Carry all records of a partition over to its new name: those of writes that were aborted
    keep their transactions from being forgotten, and so taken for committed.
    """
    for table, prefix in {**_PER_PARTITION, WRITE_SET: "WS"}.items():
        unit.change(
            update(table)
            .where(_of_table(table, prefix, name), table.c[f"{prefix}_PARTITION"] == old)
            .values({f"{prefix}_PARTITION": new})
        )


def rename_table(unit: Unit, old: TableName, new: TableName) -> None:
    """Carry all records over to the new name."""
    everywhere = {**_PER_PARTITION, **_PER_TABLE, **_RENAMED_ONLY}
    for table, prefix in everywhere.items():
        unit.change(
            update(table)
            .where(_of_table(table, prefix, old))
            .values({f"{prefix}_DATABASE": new.database, f"{prefix}_TABLE": new.table})
        )
    unit.change(
        update(HIVE_LOCKS)
        .where(HIVE_LOCKS.c.HL_DB == old.database, HIVE_LOCKS.c.HL_TABLE == old.table)
        .values(HL_DB=new.database, HL_TABLE=new.table)
    )


def _of_table(table: Table, prefix: str, name: TableName) -> ColumnElement[bool]:
    return and_(
        table.c[f"{prefix}_DATABASE"] == name.database, table.c[f"{prefix}_TABLE"] == name.table
    )
