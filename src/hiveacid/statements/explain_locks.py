"""EXPLAIN LOCKS: the locks that a statement would take, in Hive 4.1's layout; none is taken.

What is told is what would be requested. Hive lists locks more than once, and read locks on what DML
writes, that it does not request.
"""

from __future__ import annotations

from hiveacid.model.locks import LockComponent
from hiveacid.statements.listing import Listing
from hiveacid.txn.footprint import Footprint, lock_components


def locks_listing(footprint: Footprint) -> Listing:
    """The locks, a line each, below Hive's title."""
    lines = [_line(one) for one in lock_components(footprint)]
    return Listing(("Explain",), (("LOCK INFORMATION:",), *((line,) for line in lines)))


def _line(one: LockComponent) -> str:
    place = one.database if one.table is None else f"{one.database}.{one.table}"
    if one.partition is not None:
        place += "." + one.partition.replace("/", ".")
    return f"{place} -> {one.type.name}"
