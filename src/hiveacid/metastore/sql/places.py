"""Where tables and partitions lie, and how one place is claimed by one of them only."""

from __future__ import annotations

from typing import Final

from sqlalchemy import literal, select

from hiveacid.metastore.api import Claim, Place
from hiveacid.metastore.sql.catalog_schema import DBS, PARTITIONS, SDS, TABLE_PARAMS, TBLS
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.objects import take_ids
from hiveacid.model.tables import RENAMING_TO, TableKind, TableName

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
