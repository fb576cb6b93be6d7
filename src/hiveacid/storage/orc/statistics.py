"""What a tail's types and statistics tell: whether Spark reads the file as Hive does, and ranges of
values.

First whether Spark's own ORC reader returns a file's rows as Hive would.

It finds columns by name where Hive goes by position, and reads an event file as inserts only; the
ORC library below it converts a few types otherwise than Hive, takes wall clocks for times of the
JVM's zone, and takes old dates for Julian ones where nobody says so. Files for which that matters
are read through Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from hiveacid.errors import FormatError
from hiveacid.layout.events import (
    OPERATION,
    ROW,
    STATS_KEY,
    Operation,
    is_event_schema,
    parse_stats,
)
from hiveacid.model.predicates import TIMESTAMP_SLACK, ColumnRange, Constant
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.orc.tail import OrcTail

_GREGORIAN_DAY: Final = -141_427
"""1582-10-15. Before it calendars differ, and Java's has no day for ten of the Gregorian dates."""
_DAY_MS: Final = 86_400_000


def is_native(
    tail: OrcTail,
    columns: Sequence[Column],
    *,
    has_events: bool,
    utc: bool,
    wanted: Collection[str],
) -> bool:
    """Whether Spark reads this file, of row events where it ``has_events``, rightly as a table with
    ``columns``.

    ``utc`` says that the session's and the JVM's time zones are UTC. Of times, only those of the
    ``wanted`` columns matter.
    """
    if tail.rows == 0:
        return True
    fields: Sequence[tuple[str, HiveType]] = tail.root.fields
    if has_events:
        if not only_inserts(tail):
            return False
        row = {name.lower(): kind for name, kind in fields}.get(ROW)
        fields = row.fields if isinstance(row, StructType) else ()
    if len(fields) > len(columns):
        return False
    if any("`" in column.name or "`" in str(column.type) for column in columns):
        return False  # Spark does not escape it in the schema that it gives to ORC
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
    """Whether metadata proves that every event is an insert, as in a file of rows without events;
    False where nothing is proved.
    """
    text = tail.user_metadata.get(STATS_KEY)
    if text is not None:
        stats = parse_stats(text.decode("ascii", "replace"))
        return stats.updates == 0 and stats.deletes == 0
    names = [name.lower() for name, _ in tail.root.fields]
    if not is_event_schema(names):
        return True
    found = integer_range(tail, tail.types[0].children[names.index(OPERATION)])
    return found == (Operation.INSERT, Operation.INSERT)


def integer_range(
    tail: OrcTail, number: int, *, stripes: Sequence[int] | None = None
) -> tuple[int, int] | None:
    """Least and greatest value of the column ``number``, which holds whole numbers, in the file, or
    in ``stripes``; None where the file does not say.
    """
    told: Sequence[Sequence[Any]] = [tail.footer.statistics]
    if stripes is not None:
        try:
            of_stripes = tail.stripe_statistics()
        except FormatError:  # who reads the file tells the damage, with its path
            return None
        told = [of_stripes[one] for one in stripes] if len(of_stripes) == len(tail.stripes) else []
    if tail.row_index_stride == 0 or not told or any(number >= len(one) for one in told):
        return None
    found = [one[number].intStatistics for one in told]
    if not all(one.HasField("minimum") and one.HasField("maximum") for one in found):
        return None
    return min(int(one.minimum) for one in found), max(int(one.maximum) for one in found)


@dataclass(frozen=True, slots=True)
class RowRun:
    """The ids of a stripe's rows, all inserted by one write id: row ``i`` is ``(write_id, bucket,
    first_row_id + i)``.
    """

    write_id: int
    bucket: int
    first_row_id: int


def run_of(statistics: Sequence[Any], rows: int) -> RowRun | None:
    """What the statistics (parsed messages) of the system columns, in their order, tell of the ids
    of a stripe's ``rows`` events; None where they are not of one write id and bucket, with row ids
    that follow one another as they do in the order of a file (format.md 4.5).
    """
    ends = [_ends(known, rows) for known in statistics]
    operation, write_id, bucket, row_id, current = ends
    if None in ends or operation != (Operation.INSERT, Operation.INSERT):
        return None
    assert write_id is not None and bucket is not None and row_id is not None
    is_one = write_id[0] == write_id[1] and write_id == current and bucket[0] == bucket[1]
    if not is_one or row_id[1] - row_id[0] != rows - 1:
        return None
    return RowRun(write_id[0], bucket[0], row_id[0])


def _ends(known: Any, rows: int) -> tuple[int, int] | None:
    """The least and the greatest of ``rows`` whole numbers; None where it is not said."""
    found = known.intStatistics
    has_ends = found.HasField("minimum") and found.HasField("maximum")
    if known.numberOfValues != rows or not has_ends:
        return None
    return int(found.minimum), int(found.maximum)


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
    return not isinstance(kind, UnionType) and all(map(_plain, kind.children))


def _times_agree(tail: OrcTail, number: int, *, utc: bool) -> bool:
    """Whether no date or timestamp in a column, or below it, is one that Spark reads otherwise."""
    node = tail.types[number]
    if not isinstance(node.type, PrimitiveType):
        return all(_times_agree(tail, child, utc=utc) for child in node.children)
    if node.type.name == "timestamp" and not utc:
        return False
    if node.type.name in _TIMES and not (tail.has_julian_dates and tail.java_has_julian_dates):
        least = _least_day(tail, number)
        # times before 1970 with a fraction are as C++ leaves them (``early_times``), which Java
        # refuses; files of ours, where they are not, name a calendar
        broken = tail.footer.writer == _CPP and not tail.footer.HasField("calendar")
        floor = 0 if broken and node.type.name != "date" else _GREGORIAN_DAY
        return least is None or least >= floor
    return True


_CPP: Final = 1
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


# -------------------------------------------------------------------- column ranges
# ORC column statistics -> what predicates know: a ``ColumnRange`` for each column.
#
# Nothing is taken for known that some writer is known to get wrong: timestamps are widened by a day
# (writers before Hive 3.1 keep local time), floats may hide NaN, long texts may be cut.


_TEXT_BYTES_MAX: Final = 1000
"""Java cuts statistics of texts above 1,024 bytes."""
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)


def stripe_ranges(
    tail: OrcTail, table_columns: tuple[Column, ...], wanted: Iterable[str]
) -> tuple[Mapping[str, ColumnRange], ...] | None:
    """For each stripe what is known of the wanted columns; None where the file has no statistics.

    The file's columns are the table's by position (format.md 5.5).

    Raises:
        FormatError: the statistics are damaged.
    """
    numbers = column_numbers(tail)
    places = [
        (column, numbers[place])
        for place, column in enumerate(table_columns)
        if column.name in wanted and place < len(numbers)
    ]
    if tail.row_index_stride == 0:
        return None  # written without statistics (format.md 5.3)
    stripes = tail.stripe_statistics()
    if len(stripes) != len(tail.stripes):
        return None
    return tuple(
        {
            column.name: column_range(statistics[number], tail, number, column.type)
            for column, number in places
            if number < len(statistics)
        }
        for statistics in stripes
    )


def column_numbers(tail: OrcTail) -> tuple[int, ...]:
    """The numbers of the user columns in a file with or without events."""
    root = tail.types[0]
    names = [name.lower() for name, _ in tail.root.fields]
    if ROW in names and len(names) == 6:
        return tail.types[root.children[names.index(ROW)]].children
    return root.children


def column_range(statistics: Any, tail: OrcTail, number: int, wanted: HiveType) -> ColumnRange:
    """The range of one column, as values of the table's type ``wanted``."""
    may_be_null = bool(statistics.hasNull) if statistics.HasField("hasNull") else True
    has_count = statistics.HasField("numberOfValues")
    if has_count and statistics.numberOfValues == 0:
        return ColumnRange(may_be_null=True, may_have_value=False)
    found = tail.types[number].type
    if not keeps_values(found, wanted):  # what does not fit is read as NULL
        return ColumnRange()
    low, high = _bounds(statistics, wanted, tail)
    return ColumnRange(low, high, may_be_null)


def keeps_values(found: HiveType, wanted: HiveType) -> bool:
    """Whether every value of a file is one of the table's type, too."""
    bits = [INTEGER_BITS.get(str(kind)) for kind in (found, wanted)]
    return found == wanted or (None not in bits and bits[0] <= bits[1])  # type: ignore[operator]


def _bounds(
    statistics: Any, wanted: HiveType, tail: OrcTail
) -> tuple[Constant | None, Constant | None]:
    name = wanted.name if isinstance(wanted, PrimitiveType) else ""
    if name in INTEGER_BITS and statistics.HasField("intStatistics"):
        return _both(statistics.intStatistics)
    if name in ("float", "double") and statistics.HasField("doubleStatistics"):
        low, high = _both(statistics.doubleStatistics)
        return (low, high) if low == low and high == high else (None, None)
    if isinstance(wanted, DecimalType) and statistics.HasField("decimalStatistics"):
        return _decimals(statistics.decimalStatistics)
    if (name == "string" or isinstance(wanted, VarcharType)) and statistics.HasField(
        "stringStatistics"
    ):
        return tuple(_text(value) for value in _both(statistics.stringStatistics))  # type: ignore[return-value]
    if name == "date" and statistics.HasField("dateStatistics") and not tail.has_julian_dates:
        return tuple(_day(value) for value in _both(statistics.dateStatistics))  # type: ignore[return-value]
    if name == "timestamp" and statistics.HasField("timestampStatistics"):
        return _timestamps(statistics.timestampStatistics)
    return None, None


def _both(message: Any) -> tuple[Any, Any]:
    return (
        message.minimum if message.HasField("minimum") else None,
        message.maximum if message.HasField("maximum") else None,
    )


def _text(value: bytes | None) -> str | None:
    if value is None or len(value) > _TEXT_BYTES_MAX:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _decimals(message: Any) -> tuple[Decimal | None, Decimal | None]:
    try:
        low, high = (None if text is None else Decimal(text) for text in _both(message))
    except InvalidOperation:
        return None, None
    return low, high


def _day(value: int | None) -> date | None:
    if value is None or not 1 <= value + _EPOCH_DAY <= date.max.toordinal():
        return None
    return date.fromordinal(value + _EPOCH_DAY)


def _timestamps(message: Any) -> tuple[datetime | None, datetime | None]:
    """Bounds in UTC where they are given, else of the writer's zone; both are widened."""
    low = message.minimumUtc if message.HasField("minimumUtc") else None
    high = message.maximumUtc if message.HasField("maximumUtc") else None
    if low is None or high is None:
        low, high = _both(message)
    return _moment(low, -TIMESTAMP_SLACK), _moment(high, TIMESTAMP_SLACK)


def _moment(milliseconds: int | None, slack: timedelta) -> datetime | None:
    if milliseconds is None:
        return None
    moment = later(_EPOCH, timedelta(milliseconds=milliseconds))
    return None if moment is None else later(moment, slack)


def later(moment: datetime, span: timedelta) -> datetime | None:
    """The moment so much later; None outside the years 1 to 9999."""
    try:
        return moment + span
    except OverflowError:
        return None
