"""What the past needs: pins, by which tags and consumers of changes keep files from cleaners, and
partitions that came with their rows, added over files that were there, or renamed. No commit tells
of those rows, so the past must know since when the partition was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import and_, bindparam, case, delete, insert, or_, select, update
from sqlalchemy.sql import Select
from sqlalchemy.types import BigInteger, String

from hiveacid.errors import AlreadyExistsError, ConflictError
from hiveacid.metastore.sql.catalog_schema import (
    DBS,
    HIVEACID_COMMIT_CLOCK,
    HIVEACID_DEFINITIONS,
    HIVEACID_DROPPED_PARTITIONS,
    HIVEACID_FLOORS,
    HIVEACID_PARTITIONS_SINCE,
    HIVEACID_PINS,
    TBLS,
)
from hiveacid.metastore.sql.dialect import Answer, Row
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.objects import NAMED_TABLE, find_table, locked_table_ids
from hiveacid.metastore.upkeep import Past
from hiveacid.model.history import WHOLE_TABLE, ConsumerMove, PartitionSince, Pin, PinKind
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import TableName, WriteId

_P = HIVEACID_PINS.c
_IN_FORCE: Final = or_(_P.HP_EXPIRES.is_(None), _P.HP_EXPIRES > bindparam("now"))


def _pins(*where: object) -> Select[Row]:
    return (
        select(
            _P.HP_KIND,
            _P.HP_NAME,
            DBS.c.NAME,
            TBLS.c.TBL_NAME,
            _P.HP_WRITEID,
            _P.HP_VALID,
            _P.HP_MADE,
            _P.HP_EXPIRES,
        )
        .join_from(HIVEACID_PINS, TBLS, TBLS.c.TBL_ID == _P.HP_TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(*where)  # type: ignore[arg-type]
        .order_by(_P.HP_KIND, _P.HP_NAME, DBS.c.NAME, TBLS.c.TBL_NAME)
    )


_ALL: Final = _pins()
_OF_TABLE: Final = _pins(*NAMED_TABLE[1:])
_THAT_COUNT: Final = _pins(*NAMED_TABLE[1:], _IN_FORCE)
_ONE: Final = and_(
    _P.HP_KIND == bindparam("kind"),
    _P.HP_NAME == bindparam("name"),
    _P.HP_TBL_ID == bindparam("id"),
)
_THERE: Final = select(_P.HP_EXPIRES).where(_ONE, _IN_FORCE)
_DROP: Final = delete(HIVEACID_PINS).where(_ONE)
_CONFIRM: Final = update(HIVEACID_PINS).where(_ONE).values(HP_MADE=bindparam("made"))
_MOVE: Final = (
    update(HIVEACID_PINS)
    .where(_ONE, _P.HP_WRITEID == bindparam("old_id"), _P.HP_VALID == bindparam("old_valid"))
    .values(
        HP_WRITEID=bindparam("write_id"),
        HP_VALID=bindparam("valid"),
        HP_MADE=case((and_(_P.HP_MADE > 0, _IN_FORCE), bindparam("now")), else_=0),
        HP_EXPIRES=bindparam("expires"),
    )
)


class SqlPins(Part, Past):
    """The part of the past about pins."""

    def pins(self, table: TableName | None = None, *, in_force: bool = False) -> tuple[Pin, ...]:
        with self._db.read() as unit:
            if table is None:
                return tuple(map(_pin, unit.rows(_ALL)))
            where = {"database": table.database, "table": table.table}
            if in_force:
                return tuple(map(_pin, unit.rows(_THAT_COUNT, **where, now=unit.now_ms)))
            return tuple(map(_pin, unit.rows(_OF_TABLE, **where)))

    def add_pins(self, pins: Sequence[Pin], *, keep_ms: int | None = None) -> tuple[Pin, ...]:
        with self._db.write() as unit:
            expires = None if keep_ms is None else unit.now_ms + keep_ms
            made = [replace(one, expires_ms=expires) for one in pins]
            for one in sorted(made, key=_table_of):
                _add(unit, one)
        return tuple(made)

    def confirm_pins(self, pins: Sequence[Pin]) -> tuple[Pin, ...]:
        with self._db.write() as unit:
            made = tuple(replace(one, made_ms=unit.now_ms) for one in pins)
            for one in sorted(made, key=_table_of):
                unit.ask(_CONFIRM, **_key(unit, one), made=one.made_ms)
        return made

    def move_consumers(self, moves: Sequence[ConsumerMove]) -> None:
        with self._db.write() as unit:
            conflict = note_moves(unit, moves)
            if conflict is not None:
                raise conflict

    def drop_pins(self, pins: Sequence[Pin]) -> int:
        with self._db.write() as unit:
            count = 0
            for one in sorted(pins, key=_table_of):
                count += unit.count(_DROP, **_key(unit, one))
            return count


def _table_of(pin: Pin) -> str:
    """Locks are taken in this order."""
    return str(pin.table)


def _key(unit: Unit, pin: Pin) -> dict[str, object]:
    number = locked_table_ids(unit, pin.table).table
    return {"kind": pin.kind.value, "name": pin.name, "id": number}


def _add(unit: Unit, pin: Pin) -> None:
    where = _key(unit, pin)
    if unit.row(_THERE, **where, now=unit.now_ms) is not None:
        raise AlreadyExistsError(
            f"{pin.table} has a {pin.kind.value} {pin.name} already",
            table=str(pin.table),
            tag=pin.name,
            note=f"DROP {pin.kind.name} {pin.name} ON {pin.table}",
        )
    unit.ask(_DROP, **where)
    row = {
        "HP_KIND": where["kind"],
        "HP_NAME": where["name"],
        "HP_TBL_ID": where["id"],
        "HP_WRITEID": pin.write_id,
        "HP_VALID": str(pin.valid),
        "HP_MADE": pin.made_ms,
        "HP_EXPIRES": pin.expires_ms,
    }
    unit.insert(HIVEACID_PINS, [row])


def note_moves(unit: Unit, moves: Sequence[ConsumerMove]) -> ConflictError | None:
    """Let consumers go on; the error of one that somebody else has moved."""
    for move in sorted(moves, key=lambda one: _table_of(one.after)):
        before, after = move.before, move.after
        ids = find_table(unit, after.table)
        moved = ids is not None and unit.count(
            _MOVE,
            kind=after.kind.value,
            name=after.name,
            id=ids.table,
            old_id=before.write_id,
            old_valid=str(before.valid),
            write_id=after.write_id,
            valid=str(after.valid),
            now=unit.now_ms,
            expires=unit.now_ms + move.keep_ms,
        )
        if not moved:
            return ConflictError(
                f"The consumer {after.name} of {after.table} is not at version {before.write_id}"
                " any more: somebody else has read under its name, or dropped it",
                table=str(after.table),
                consumer=after.name,
                version=int(before.write_id),
            )
    return None


def _pin(row: Row) -> Pin:
    kind, name, database, table, write_id, valid, made, expires = row
    return Pin(
        PinKind(kind),
        name,
        TableName(database, table),
        WriteId(write_id),
        ValidWriteIdList.parse(valid),
        made,
        expires,
    )


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
_BEFORE: Final = tuple(
    delete(table).where(table.c[f"{prefix}_TBL_ID"] == bindparam("id"))
    for table, prefix in (
        (HIVEACID_DEFINITIONS, "HD"),
        (HIVEACID_DROPPED_PARTITIONS, "HX"),
        (HIVEACID_PARTITIONS_SINCE, "HA"),
    )
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


def note_converted(unit: Unit, table: int) -> None:
    """A table is transactional from now on, with the files that it has: version 0 has its columns
    and partitions of now, what they were before is no version.
    """
    for statement in _BEFORE:
        unit.ask(statement, id=table)
    note_added(unit, table, [WHOLE_TABLE])


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
    unit.run_many(_DROP_FLOOR, [{"id": table, "partition": name} for name in partitions])


def rename_floor(unit: Unit, table: int, old: str, new: str) -> None:
    """What was cleaned of a partition is told under its new name."""
    forget_floors(unit, table, (new,))
    unit.ask(_RENAME_FLOOR, id=table, partition=old, name=new)
