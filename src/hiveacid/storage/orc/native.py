"""Whether Spark's own ORC reader returns a file's rows as Hive would.

It finds columns by name where Hive goes by position, and reads an event file as inserts only; the
ORC library below it converts a few types otherwise than Hive, takes wall clocks for times of the
JVM's zone, and takes old dates for Julian ones where nobody says so. Files for which that matters
are read through Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from hiveacid.layout.events import OPERATION, ROW, Operation
from hiveacid.layout.metadata import STATS_KEY, parse_stats
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    CharType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.orc.column_ranges import column_numbers
from hiveacid.storage.orc.tail import OrcTail

_GREGORIAN_DAY: Final = -141_427
"""1582-10-15; before it, calendars differ."""
_DAY_MS: Final = 86_400_000


def is_native(
    tail: OrcTail,
    columns: Sequence[Column],
    *,
    utc: bool,
    wanted: Collection[str],
) -> bool:
    """Whether Spark reads this file of row events rightly as a table with ``columns``.

    ``utc`` says that the session's and the JVM's time zones are UTC. Of times, only those of the
    ``wanted`` columns matter.
    """
    if tail.rows == 0:
        return True
    if not only_inserts(tail):
        return False
    row = {name.lower(): kind for name, kind in tail.root.fields}.get(ROW)
    fields = row.fields if isinstance(row, StructType) else ()
    return _same_rows(tail, fields, columns, utc=utc, wanted=wanted)


def is_native_plain(
    tail: OrcTail, columns: Sequence[Column], *, utc: bool, wanted: Collection[str]
) -> bool:
    """Whether Spark reads this file of rows without events rightly; as ``is_native``."""
    return tail.rows == 0 or _same_rows(tail, tail.root.fields, columns, utc=utc, wanted=wanted)


def _same_rows(
    tail: OrcTail,
    fields: Sequence[tuple[str, HiveType]],
    columns: Sequence[Column],
    *,
    utc: bool,
    wanted: Collection[str],
) -> bool:
    if len(fields) > len(columns):
        return False
    for (name, found), column in zip(fields, columns, strict=False):
        if name.lower() != column.name or not _same(found, column.type):
            return False
    if not all(_plain(column.type) for column in columns):
        return False
    places = zip(column_numbers(tail), columns, strict=False)
    return all(
        _times_agree(tail, number, utc=utc) for number, column in places if column.name in wanted
    )


def only_inserts(tail: OrcTail) -> bool:
    """Whether metadata proves that every event is an insert; False where nothing is proved."""
    text = tail.user_metadata.get(STATS_KEY)
    if text is not None:
        stats = parse_stats(text.decode("ascii", "replace"))
        return stats.updates == 0 and stats.deletes == 0
    names = [name.lower() for name, _ in tail.root.fields]
    number = tail.types[0].children[names.index(OPERATION)]
    statistics = tail.footer.statistics
    if tail.row_index_stride == 0 or number >= len(statistics):
        return False
    found = statistics[number].intStatistics
    return bool(found.HasField("minimum") and found.minimum == found.maximum == Operation.INSERT)


def _same(found: HiveType, wanted: HiveType) -> bool:
    """The type is the table's, or the table's is a longer text."""
    if found == wanted:
        return True
    if isinstance(found, VarcharType):
        longer = isinstance(wanted, VarcharType) and found.length <= wanted.length
        return longer or wanted == PrimitiveType("string")
    return (
        isinstance(found, CharType)
        and isinstance(wanted, CharType)
        and found.length <= wanted.length
    )


def _plain(kind: HiveType) -> bool:
    return not any(isinstance(node, UnionType) for node in _nodes(kind))


def _nodes(kind: HiveType) -> Iterator[HiveType]:
    yield kind
    children: tuple[HiveType, ...] = ()
    if isinstance(kind, ListType):
        children = (kind.element,)
    elif isinstance(kind, MapType):
        children = (kind.key, kind.value)
    elif isinstance(kind, StructType):
        children = tuple(child for _, child in kind.fields)
    elif isinstance(kind, UnionType):
        children = kind.alternatives
    for child in children:
        yield from _nodes(child)


def _times_agree(tail: OrcTail, number: int, *, utc: bool) -> bool:
    """Whether no date or timestamp in a column, or below it, is one that Spark reads otherwise."""
    node = tail.types[number]
    if not isinstance(node.type, PrimitiveType):
        return all(_times_agree(tail, child, utc=utc) for child in node.children)
    if node.type.name == "timestamp" and not utc:
        return False
    if node.type.name in _TIMES and tail.has_julian_dates != tail.java_has_julian_dates:
        least = _least_day(tail, number)
        return least is None or least >= _GREGORIAN_DAY
    return True


_TIMES: Final = ("date", "timestamp", "timestamp with local time zone")


def _least_day(tail: OrcTail, number: int) -> int | None:
    """The first day in a column, in days since 1970; long ago where it is not known, None where
    there is no value.
    """
    unknown = 2 * _GREGORIAN_DAY
    if tail.row_index_stride == 0 or number >= len(tail.footer.statistics):
        return unknown
    statistics = tail.footer.statistics[number]
    if statistics.numberOfValues == 0:
        return None
    if statistics.dateStatistics.HasField("minimum"):
        return int(statistics.dateStatistics.minimum)
    times = statistics.timestampStatistics
    for name in ("minimumUtc", "minimum"):
        if times.HasField(name):
            return int(getattr(times, name)) // _DAY_MS
    return unknown
