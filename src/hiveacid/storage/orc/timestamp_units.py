"""Which unit the timestamps of a scan have: nanoseconds where every value fits, else microseconds.

Hive has nanoseconds in the years 1 to 9999, Arrow's nanoseconds end in 1677 and 2262. Which values
there are, the statistics in the files' tails tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hiveacid.layout.compaction import RewritePlan
from hiveacid.layout.snapshot import DataFile, Snapshot
from hiveacid.model.types import HiveType
from hiveacid.storage.arrow_types import MICROSECONDS, NANOSECONDS
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.footers import tail_of
from hiveacid.storage.orc.streams import TIMESTAMP_KINDS
from hiveacid.storage.orc.tail import OrcTail

_NARROW_MS: Final = (2**63 // 10**6) - 2 * 86_400_000
"""How far from 1970 nanoseconds reach, with two days to spare: bounds may be of another zone."""

_FIRST_YEAR, _LAST_YEAR = 1678, 2261
"""Years that lie in the reach of nanoseconds as a whole."""


def unit_of(snapshot: Snapshot, types: Iterable[HiveType], *, files: Files) -> str:
    """The unit for a scan of columns with these types, and of the partition columns; reads the
    tails of the files if needed.

    Raises:
        FormatError: a file is not ORC, or truncated.
        MissingFileError: a listed file does not exist.
    """
    for place, column in enumerate(snapshot.table.partition_columns):
        texts = (part.partition.values[place] for part in snapshot.parts)
        if "timestamp" in str(column.type) and not all(map(_is_narrow, texts)):
            return MICROSECONDS
    read = (
        (files.at(part.partition.location), file)
        for part in snapshot.parts
        for file in part.directory.row_files
    )
    return _unit(read, types, least_ms=-_NARROW_MS)


def _is_narrow(text: str | None) -> bool:
    """Whether the text of a timestamp, where it is one, is of a year that nanoseconds reach."""
    year = (text or "").partition("-")[0]
    return not year.isdecimal() or _FIRST_YEAR <= int(year) <= _LAST_YEAR


def unit_of_rewrite(fs: FileSystem, plan: RewritePlan) -> str:
    """The unit for the rows of a rewrite: the writer takes nanoseconds of times before 1970 from
    beside the microseconds only.

    Raises:
        FormatError, MissingFileError: as ``unit_of``.
    """
    place = (fs, fs.path_of(plan.location))
    files = ((place, file) for file in plan.directory.row_files)
    return _unit(files, (column.type for column in plan.table.columns), least_ms=0)


def _unit(
    files: Iterable[tuple[tuple[FileSystem, str], DataFile]],
    types: Iterable[HiveType],
    *,
    least_ms: int,
) -> str:
    if not any("timestamp" in str(kind) for kind in types):
        return NANOSECONDS
    for place, file in files:
        if file.size_bytes and not _fits(tail_of(*place, file), least_ms):
            return MICROSECONDS
    return NANOSECONDS


def _fits(tail: OrcTail, least_ms: int) -> bool:
    """Whether statistics prove that all timestamps of a file lie from ``least_ms`` on and fit in
    nanoseconds.
    """
    statistics = tail.footer.statistics
    for number, node in enumerate(tail.footer.types):
        if node.kind not in TIMESTAMP_KINDS or tail.rows == 0:
            continue
        if tail.row_index_stride == 0 or number >= len(statistics):
            return False
        found = statistics[number]
        if found.numberOfValues == 0:
            continue
        times = found.timestampStatistics
        utc = times.HasField("minimumUtc") and times.HasField("maximumUtc")
        if not utc and not (times.HasField("minimum") and times.HasField("maximum")):
            return False
        low, high = (times.minimumUtc, times.maximumUtc) if utc else (times.minimum, times.maximum)
        if low < least_ms or high > _NARROW_MS:
            return False
    return True
