"""What is told by the tails of a table's files: the damaged one, and the unit of timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache, partial
from typing import Final

from hiveacid.errors import FormatError
from hiveacid.layout import events
from hiveacid.layout.compaction import RewritePlan
from hiveacid.layout.directories import DataFile, Snapshot
from hiveacid.model.tables import AcidMode, FileFormat
from hiveacid.model.types import HiveType
from hiveacid.storage.arrow_types import MICROSECONDS, NANOSECONDS
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.streams import TIMESTAMP_KINDS
from hiveacid.storage.orc.tail import OrcTail, read_tail
from hiveacid.storage.ranged import in_order


def check_tails(snapshot: Snapshot, *, files: Files) -> None:
    """Reads the tail of every file of a snapshot, for an error that does not say which file it is.

    Raises:
        MissingFileError: a listed file does not exist.
        FormatError: a file is not ORC, or one named like an ACID bucket file does not hold row
        events; the context has ``path``.
    """
    if snapshot.table.format is not FileFormat.ORC:
        return
    for part in snapshot.parts:
        fs, root = files.at(part.partition.location)
        base = part.directory.base.files if part.directory.base else ()
        in_deltas = (file for delta in part.directory.deltas for file in delta.files)
        for file in (*base, *part.directory.originals, *in_deltas):
            if file.size_bytes == 0 or file.logical_bytes == 0:
                continue
            path = f"{root.rstrip('/')}/{file.path}"
            tail = read_tail(fs, path, length=file.logical_bytes)
            if (
                snapshot.table.acid_mode is AcidMode.FULL
                and file not in part.directory.originals
                and file.is_bucket_file
            ):
                check_acid(tail, path)


def event_tail(fs: FileSystem, root: str, file: DataFile) -> OrcTail:
    """The tail of a bucket file below the path ``root``, which is whole and holds row events.

    A reader that filters by a user's condition first would not notice: a foreign file has no such
    columns, so none of its rows meets it.

    Raises:
        MissingFileError: the file does not exist.
        FormatError: not ORC, truncated, or without row events; the context has ``path``.
    """
    tail = tail_of(fs, root, file)
    check_acid(tail, f"{root.rstrip('/')}/{file.path}")
    return tail


def check_acid(tail: OrcTail, path: str) -> None:
    """Raises FormatError where a file is ORC but does not hold row events; one without rows may."""
    if tail.rows == 0:
        return
    names = tuple(name for name, _ in tail.root.fields)
    if not events.is_event_schema(names):
        raise FormatError(
            f"{path} is not an ACID file: expected the columns {', '.join(events.EVENT_FIELDS)},"
            f" found {', '.join(names)}",
            path=path,
        )


# -------------------------------------------------------------------- tails that are kept
# The tails of files, read once a process: opening is what a small file costs.
#
# ACID files never change under their name; path, length and modification time together tell a file
# that took another's place.


CACHED_TAILS = 4096
"""A tail of a table of 20 columns takes some 20 KiB."""


def tail_of(fs: FileSystem, root: str, file: DataFile) -> OrcTail:
    """The tail of an ORC file below the path ``root`` (of its logical length, format.md 9).

    Raises:
        FormatError: not an ORC file, or a truncated one.
        MissingFileError: no such file, or it was gone when first read.
        StorageError: reading failed.
    """
    path = f"{root.rstrip('/')}/{file.path}"
    return _tail(fs, path, file.logical_bytes, (file.size_bytes, file.modified_ns))


@lru_cache(maxsize=CACHED_TAILS)
def _tail(
    fs: FileSystem, path: str, logical_bytes: int | None, _version: tuple[int, int]
) -> OrcTail:
    return read_tail(fs, path, length=logical_bytes)


# -------------------------------------------------------------------- units of timestamps
# Which unit the timestamps of a scan have: nanoseconds where every value fits, else microseconds.
#
# Hive has nanoseconds in the years 1 to 9999, Arrow's nanoseconds end in 1677 and 2262. Which
# values there are, the statistics in the files' tails tell.


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
    return unit_to_write(files, (column.type for column in plan.table.columns))


def unit_to_write(
    files: Iterable[tuple[tuple[FileSystem, str], DataFile]], types: Iterable[HiveType]
) -> str:
    """As ``unit_of_rewrite``, for rows of these files."""
    return _unit(files, types, least_ms=0)


def _unit(
    files: Iterable[tuple[tuple[FileSystem, str], DataFile]],
    types: Iterable[HiveType],
    *,
    least_ms: int,
) -> str:
    if not any("timestamp" in str(kind) for kind in types):
        return NANOSECONDS
    asked = ((*place, file) for place, file in files if file.size_bytes)
    first = next(asked, None)
    if first is None or not _fits(tail_of(*first), least_ms):
        return NANOSECONDS if first is None else MICROSECONDS
    tails = in_order((partial(tail_of, *one) for one in asked), threads=first[0].requests_at_once)
    with closing(tails):
        return NANOSECONDS if all(_fits(tail, least_ms) for tail in tails) else MICROSECONDS


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
