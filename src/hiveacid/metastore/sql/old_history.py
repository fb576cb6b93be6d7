"""Which records of commits go once they are older than the history is kept: those before the first
one that some version needs. What is known of columns and partitions up to there goes with them.

A version is told by the places of the commits up to it, so records go from the first one on, and
only so far that the first that stays has the highest write id up to its place. How far they are
gone stands among the floors: a version below is an error then, never a guess.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select

from hiveacid.metastore.sql.catalog_schema import (
    HIVEACID_COMMITS,
    HIVEACID_DEFINITIONS,
    HIVEACID_DROPPED_PARTITIONS,
    HIVEACID_FLOORS,
    HIVEACID_PARTITIONS_SINCE,
    HIVEACID_PINS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.engine import Database, Unit, one_of
from hiveacid.model.tables import HISTORY_RETENTION, LONG_MAX, RETENTION
from hiveacid.setting import parse_seconds

FORGOTTEN: Final = "/history"
"""Stands for the name of a partition, which has no slash in front, in the floors."""
_C = HIVEACID_COMMITS.c
_F = HIVEACID_FLOORS.c
_P = HIVEACID_PINS.c
_OF_TABLE: Final = _C.HC_TBL_ID == bindparam("id")
_OLD: Final = select(_C.HC_TBL_ID).where(_C.HC_TIME < bindparam("before")).distinct()
_KEPT_BY_TABLES: Final = select(TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.PARAM_KEY == HISTORY_RETENTION
)
_LIMITS: Final = select(TABLE_PARAMS.c.PARAM_KEY, TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"),
    one_of(TABLE_PARAMS.c.PARAM_KEY, (RETENTION, HISTORY_RETENTION)),
)
_IS_THERE: Final = select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == bindparam("id"))
_FIRST_PINNED: Final = (
    select(func.min(_P.HP_WRITEID)).where(_P.HP_TBL_ID == bindparam("id")).scalar_subquery()
)
_PINNED: Final = select(func.min(_C.HC_SEQ)).where(_OF_TABLE, _C.HC_WRITEID >= _FIRST_PINNED)
_LAST: Final = select(func.max(_C.HC_SEQ)).where(_OF_TABLE)
_YOUNG: Final = select(func.min(_C.HC_SEQ)).where(_OF_TABLE, _C.HC_TIME >= bindparam("before"))
_WRITE_ID: Final = select(_C.HC_WRITEID).where(_OF_TABLE, _C.HC_SEQ == bindparam("end"))
_HIGHER: Final = select(func.min(_C.HC_SEQ)).where(
    _OF_TABLE, _C.HC_SEQ < bindparam("end"), _C.HC_WRITEID > bindparam("write_id")
)
_HIGHEST: Final = select(func.max(_C.HC_WRITEID)).where(_OF_TABLE, _C.HC_SEQ < bindparam("end"))
_FORGET: Final = tuple(
    delete(table).where(table.c[f"{prefix}_TBL_ID"] == bindparam("id"), where)
    for table, prefix, where in (
        (HIVEACID_COMMITS, "HC", _C.HC_SEQ < bindparam("end")),
        (HIVEACID_DEFINITIONS, "HD", HIVEACID_DEFINITIONS.c.HD_UNTIL <= bindparam("end")),
        (
            HIVEACID_DROPPED_PARTITIONS,
            "HX",
            HIVEACID_DROPPED_PARTITIONS.c.HX_UNTIL <= bindparam("end"),
        ),
        (HIVEACID_PARTITIONS_SINCE, "HA", HIVEACID_PARTITIONS_SINCE.c.HA_SEQ <= bindparam("end")),
    )
)
_OF_FLOOR: Final = (_F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION == FORGOTTEN)
FORGOTTEN_UP_TO: Final = select(_F.HF_BASE).where(*_OF_FLOOR)
_DROP_FLOOR: Final = delete(HIVEACID_FLOORS).where(*_OF_FLOOR)
_NEW_FLOOR: Final = insert(HIVEACID_FLOORS).values(
    HF_TBL_ID=bindparam("id"), HF_PARTITION=FORGOTTEN, HF_FIRST=0, HF_BASE=bindparam("highest")
)


def forget_commits(database: Database) -> None:
    """Remove what is older than each table's history is kept, and nothing needs."""
    options = database.options
    with database.read() as unit:
        kept = [_kept_ms(text, options.history_ms) for (text,) in unit.rows(_KEPT_BY_TABLES)]
        before = unit.now_ms - min([options.history_ms, *kept])
        tables = [table for (table,) in unit.rows(_OLD, before=before)]
    for table in tables:
        with database.write() as unit:
            limits: dict[str, str] = dict(unit.rows(_LIMITS, id=table))
            history_ms = _kept_ms(limits.get(HISTORY_RETENTION), options.history_ms)
            files_ms = _kept_ms(limits.get(RETENTION), options.retention_ms)
            _forget(unit, table, before=unit.now_ms - max(history_ms, files_ms))


def _kept_ms(text: str | None, default: int) -> int:
    """A table's property; what is no length of time counts as none."""
    try:
        return default if text is None else int(parse_seconds(text) * 1000)
    except ValueError:
        return default


def _forget(unit: Unit, table: int, *, before: int) -> None:
    if unit.row(_IS_THERE, id=table) is None:
        young = unit.scalar(_YOUNG, id=table, before=before)
        end = LONG_MAX if young is None else young
    else:
        end = _first_needed(unit, table, before=before)
    highest = unit.scalar(_HIGHEST, id=table, end=end)
    if highest is None:
        return
    for statement in _FORGET:
        unit.ask(statement, id=table, end=end)
    unit.ask(_DROP_FLOOR, id=table)
    unit.ask(_NEW_FLOOR, id=table, highest=highest)


def _first_needed(unit: Unit, table: int, *, before: int) -> int:
    """The place of the first record that stays: the last one does, young ones do, and those from
    the first on that a tag or a consumer needs.
    """
    asked = [unit.scalar(one, id=table, before=before) for one in (_LAST, _YOUNG)]
    asked.append(unit.scalar(_PINNED, id=table))
    end = min(int(one) for one in asked if one is not None)
    while True:
        write_id = unit.scalar(_WRITE_ID, id=table, end=end)
        higher = unit.scalar(_HIGHER, id=table, end=end, write_id=write_id)
        if higher is None:
            return end
        end = int(higher)
