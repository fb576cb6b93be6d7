"""Partitions that came with their rows: added over files that were there, or renamed. No commit
tells of those rows, so the past must know since when the partition was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, case, delete, insert, select, update
from sqlalchemy.types import BigInteger, String

from hiveacid.metastore.sql.catalog_schema import (
    HIVEACID_COMMIT_CLOCK,
    HIVEACID_DROPPED_PARTITIONS,
    HIVEACID_FLOORS,
    HIVEACID_PARTITIONS_SINCE,
)
from hiveacid.metastore.sql.dialect import Answer
from hiveacid.metastore.sql.engine import Unit
from hiveacid.model.history import PartitionSince

_A = HIVEACID_PARTITIONS_SINCE.c
_F = HIVEACID_FLOORS.c
_K = HIVEACID_COMMIT_CLOCK.c
_NOW: Final = bindparam("now", type_=BigInteger)
_TICK: Final = update(HIVEACID_COMMIT_CLOCK).values(
    HK_SEQ=_K.HK_SEQ + 1, HK_TIME=case((_K.HK_TIME < _NOW, _NOW), else_=_K.HK_TIME)
)
_KEEP: Final = insert(HIVEACID_PARTITIONS_SINCE).from_select(
    ["HA_TBL_ID", "HA_SEQ", "HA_PARTITION", "HA_BEFORE", "HA_TIME"],
    select(
        bindparam("id", type_=BigInteger),
        _K.HK_SEQ,
        bindparam("partition", type_=String),
        bindparam("before", type_=String),
        _K.HK_TIME,
    ),
)
_KEEP_DROPPED: Final = insert(HIVEACID_DROPPED_PARTITIONS).from_select(
    ["HX_TBL_ID", "HX_UNTIL", "HX_PARTITION"],
    select(bindparam("id", type_=BigInteger), _K.HK_SEQ, bindparam("partition", type_=String)),
)
_LATER: Final = (
    select(_A.HA_PARTITION, _A.HA_BEFORE)
    .where(
        _A.HA_TBL_ID == bindparam("id"),
        _A.HA_SEQ > bindparam("sequence"),
        _A.HA_TIME > bindparam("time"),
    )
    .order_by(_A.HA_SEQ, _A.HA_PARTITION)
)
_FLOOR_OF: Final = (_F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION == bindparam("partition"))
_DROP_FLOOR: Final = delete(HIVEACID_FLOORS).where(*_FLOOR_OF)
_RENAME_FLOOR: Final = (
    update(HIVEACID_FLOORS).where(*_FLOOR_OF).values(HF_PARTITION=bindparam("name"))
)


def tick(unit: Unit) -> None:
    """Take the next place among the commits, as the last thing that others may wait for."""
    unit.ask(_TICK, now=unit.now_ms)


def keep_partitions(unit: Unit, table: int, names: Mapping[str, str | None]) -> None:
    """Keep that partitions are there from now on with all their rows; each with the name that it
    had before, None where it had none. The unit has taken its place.
    """
    rows = [{"id": table, "partition": name, "before": old} for name, old in names.items()]
    unit.run_many(_KEEP, rows)


def keep_dropped(unit: Unit, table: int, partitions: Sequence[str]) -> None:
    """Keep that partitions of these names were there up to now."""
    tick(unit)
    unit.run_many(_KEEP_DROPPED, [{"id": table, "partition": name} for name in partitions])


def note_dropped(unit: Unit, table: int, names: Sequence[str]) -> None:
    """Partitions are gone, with all that was known of their files."""
    keep_dropped(unit, table, names)
    forget_floors(unit, table, names)


def note_added(unit: Unit, table: int, names: Iterable[str]) -> None:
    """Partitions are there over files that there may have been."""
    tick(unit)
    keep_partitions(unit, table, dict.fromkeys(names))


def note_moved(unit: Unit, table: int, name: str) -> None:
    """A partition has files of another place."""
    note_dropped(unit, table, [name])
    keep_partitions(unit, table, {name: None})


def note_renamed(unit: Unit, table: int, old: str, new: str) -> None:
    """A partition has another name."""
    rename_floor(unit, table, old, new)
    tick(unit)
    keep_partitions(unit, table, {new: old})


def ask_partitions_since(
    unit: Unit, table: int, sequence: int, time_ms: int | None = None
) -> Answer:
    """Those that came after a place among the commits, and after a time, for ``came_since``."""
    return unit.ask(_LATER, id=table, sequence=sequence, time=-1 if time_ms is None else time_ms)


def came_since(asked: Answer) -> tuple[PartitionSince, ...]:
    """The partitions, in order."""
    return tuple(PartitionSince(name, before) for name, before in asked.rows())


def forget_floors(unit: Unit, table: int, partitions: Iterable[str]) -> None:
    """What was cleaned of partitions says nothing of later ones of their names."""
    for name in partitions:
        unit.ask(_DROP_FLOOR, id=table, partition=name)


def rename_floor(unit: Unit, table: int, old: str, new: str) -> None:
    """What was cleaned of a partition is told under its new name."""
    forget_floors(unit, table, (new,))
    unit.ask(_RENAME_FLOOR, id=table, partition=old, name=new)
