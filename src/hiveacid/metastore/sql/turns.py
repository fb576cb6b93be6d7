"""What all processes together do once in a while: whose turn it is, in Hive's AUX_TABLE."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, insert, select, update

from hiveacid.metastore.sql.engine import Database
from hiveacid.metastore.sql.schema import AUX_TABLE

_A = AUX_TABLE.c
_LAST: Final = select(_A.MT_KEY2).where(_A.MT_KEY1 == bindparam("key"))
_LAST_HELD: Final = _LAST.with_for_update()
_FIRST: Final = insert(AUX_TABLE).values(MT_KEY1=bindparam("key"), MT_KEY2=0)
_SET_LAST: Final = (
    update(AUX_TABLE).where(_A.MT_KEY1 == bindparam("key")).values(MT_KEY2=bindparam("now"))
)


def take_turn(database: Database, key: str, *, interval_s: float) -> int | None:
    """How long ago (ms) the turn before was, None where it is not due.

    A turn is taken, not held: who takes longer than the interval may meet the next one.
    """
    due_ms = interval_s * 1000
    with database.read() as unit:
        last = unit.scalar(_LAST, key=key)
        if last is not None and abs(unit.now_ms - last) < due_ms:
            return None
    with database.write() as unit:
        last = unit.scalar(_LAST_HELD, key=key)
        # Who took it while this one waited for the row has a later time than this unit's.
        if last is not None and abs(unit.now_ms - last) < due_ms:
            return None
        if last is None:  # the same row for all who are the first at once: one of them wins
            unit.run(_FIRST, key=key)
        unit.run(_SET_LAST, key=key, now=unit.now_ms)
        return int(unit.now_ms - (last or 0))
