"""Up to which id it is settled which transactions there are.

Housekeeping removes rows of old transactions, and leaves holes. A hole below a young row may be an
id whose row is yet to come, so it counts as open: where the clock was set back, rows of long ago
are young again, and what was removed would be open, and its rows unseen. So it is written down
below which id a hole is none of those.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, func, insert, select, update

from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.schema import AUX_TABLE

_A = AUX_TABLE.c
_KEY: Final = "HiveacidDecided"
_ASKED: Final = select(_A.MT_KEY2).where(_A.MT_KEY1 == _KEY)
_FIRST: Final = insert(AUX_TABLE).values(MT_KEY1=_KEY, MT_KEY2=bindparam("txn"))
_HIGHER: Final = (
    update(AUX_TABLE)
    .where(_A.MT_KEY1 == _KEY, _A.MT_KEY2 < bindparam("txn"))
    .values(MT_KEY2=bindparam("txn"))
)
DECIDED: Final = func.coalesce(_ASKED.scalar_subquery(), 0)
"""The highest id up to which no other row will come."""


def note_decided(unit: Unit, txn: int) -> None:
    """Write down that no row will come up to an id, before one of those is removed."""
    if unit.scalar(_ASKED) is None:
        unit.ask(_FIRST, txn=txn)
    else:
        unit.ask(_HIGHER, txn=txn)
