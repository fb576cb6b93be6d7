"""The delete filter of Spark's reader: rows whose identity is in a delete delta go.

    up to ``EVENTS_HERE_MAX`` events    read here, made into bits, broadcast: no job, one bit a row
    more, or bits of too many bytes     anti-join with the delete files: hashed, or merged

Both join on one packed long, which costs half of three columns, wherever the ranges of write ids,
bucket properties and row ids fit 63 bits. A row outside the ranges packs to NULL, which matches
nothing. Row ids are unique per partition only (format.md trap 22): in a partitioned table the
number of the partition takes part.

What the driver needs: 8 bytes an event, and of the events of one bucket of one partition at a time
70; then the bits, ``BITMAP_BYTES_MAX`` at most, which each executor gets.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout import events
from hiveacid.layout.directories import DataFile, SnapshotPart
from hiveacid.spark.session import local_frame
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.delete_set import RUN_BITS, DeleteBitmap, DeleteSet
from hiveacid.storage.merge.sources import read_delete_keys
from hiveacid.storage.orc.statistics import integer_range
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.orc.tails import check_acid, event_tail
from hiveacid.storage.plan.scan_plan import ScanPlan

KEY: Final = "__hiveacid_key"
PART: Final = "__hiveacid_part"
_RIGHT: Final = "__hiveacid_deleted_"
_RUN: Final = "__hiveacid_run"
_WORDS: Final = "__hiveacid_words"
EVENTS_HERE_MAX: Final = 5_000_000
"""More delete events than these are left to Spark."""
FILES_HERE_MAX: Final = 1_000
"""And files: to open one takes a millisecond or two."""
BITMAP_BYTES_MAX: Final = 32 << 20
BROADCAST_EVENTS_MAX: Final = 4_000_000
"""Up to this they are a hash table (a packed key of 8 bytes each, about 64 MiB), above it sorted
and merged: Spark takes the bytes of the files, which are compressed well, for those of the rows.
"""

_PACKED_BITS: Final = 63
IDENTITY: Final = (events.ORIGINAL_TRANSACTION, events.BUCKET, events.ROW_ID)
_FIRST_IDENTITY_COLUMN: Final = 2
"""ORC column number of originalTransaction (format.md 4.1)."""
Ranges = tuple[tuple[int, int], ...]
"""The inclusive (minimum, maximum) of write id, bucket property and row id, and in a partitioned
table of the partition's number before them."""


# -------------------------------------------------------------------- bits, made here


@dataclass(frozen=True, slots=True)
class DeleteMarks:
    """The deleted rows of some partitions, by the partition's number, all in runs of as many row
    ids.
    """

    bitmaps: tuple[tuple[int, DeleteBitmap], ...]

    @property
    def bits(self) -> int:
        """Of a row id, those that say which row of its run it is."""
        return self.bitmaps[0][1].bits

    @property
    def ranges(self) -> Ranges:
        """Of the partition's number, write id, bucket property and number of the run."""
        columns = zip(
            *((np.array(n), one.write_id, one.bucket, one.run) for n, one in self.bitmaps),
            strict=True,
        )
        return tuple(
            (min(int(c.min()) for c in column), max(int(c.max()) for c in column))
            for column in columns
        )


def read_marks(plan: ScanPlan, parts: Mapping[int, SnapshotPart]) -> DeleteMarks | None:
    """What the delete files of parts delete, which are numbered; None where it is more than the
    driver takes on itself.

    Raises:
        MissingFileError: a delete file is not there: its rows would come back.
        FormatError: one is damaged, or no delete file.
    """
    groups: dict[tuple[int, int], list[tuple[FileSystem, str, DataFile]]] = {}
    count = files = 0
    for number, part in parts.items():
        place = plan.files.at(part.partition.location)
        for file in part.directory.delete_files:
            files += 1
            count += event_tail(*place, file).rows if files <= FILES_HERE_MAX else 0
            groups.setdefault((number, file.bucket), []).append((*place, file))
    if count > EVENTS_HERE_MAX or files > FILES_HERE_MAX:
        return None
    sets = [(number, DeleteSet(_keys(plan, group))) for (number, _), group in groups.items()]
    sets = [(number, found) for number, found in sets if len(found)]
    sizes = [found.bitmap_bytes() for _, found in sets]
    bytes_by_bits = {bits: sum(size.get(bits, math.inf) for size in sizes) for bits in RUN_BITS}
    bits = min(RUN_BITS, key=bytes_by_bits.__getitem__)
    if bytes_by_bits[bits] > BITMAP_BYTES_MAX:
        return None
    return DeleteMarks(tuple((number, found.bitmap(bits)) for number, found in sets))


def _keys(
    plan: ScanPlan, group: Iterable[tuple[FileSystem, str, DataFile]]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for fs, root, file in group:
        path = f"{root.rstrip('/')}/{file.path}"
        tail = event_tail(fs, root, file)
        yield read_delete_keys(fs, path, valid=plan.snapshot.valid, tail=tail)


def without_marked(spark: SparkSession, rows: DataFrame, marks: DeleteMarks) -> DataFrame:
    """``rows`` (columns as for ``without_deleted``) without those that are marked."""
    if not marks.bitmaps:
        return rows
    run = f"shiftright({events.ROW_ID}, {marks.bits})"
    word = f"{_WORDS}[cast(shiftright({events.ROW_ID}, 6) & {(1 << marks.bits - 6) - 1} as int)]"
    return _anti_joined(
        rows,
        _marked(spark, marks).hint("broadcast"),
        keys=((*IDENTITY[:2], run), (*IDENTITY[:2], _RUN)),
        ranges=marks.ranges if PART in rows.columns else marks.ranges[1:],
        kept=(_WORDS,),
        condition=f"shiftrightunsigned({word}, cast({events.ROW_ID} & 63 as int)) & 1 = 1",
    )


def _marked(spark: SparkSession, marks: DeleteMarks) -> DataFrame:
    """One row a run."""
    schema = t.StructType(
        [
            t.StructField(events.ORIGINAL_TRANSACTION, t.LongType(), False),
            t.StructField(events.BUCKET, t.IntegerType(), False),
            t.StructField(_RUN, t.LongType(), False),
            t.StructField(PART, t.LongType(), False),
            t.StructField(_WORDS, t.ArrayType(t.LongType(), False), False),
        ]
    )
    found = [one for _, one in marks.bitmaps]
    words = np.concatenate([one.words for one in found])
    starts = np.arange(len(words) + 1, dtype=np.int32) * words.shape[1]
    part = np.repeat([number for number, _ in marks.bitmaps], [len(one.run) for one in found])
    columns = [
        pa.array(np.concatenate([one.write_id for one in found])),
        pa.array(np.concatenate([one.bucket for one in found])),
        pa.array(np.concatenate([one.run for one in found])),
        pa.array(part, pa.int64()),
        pa.ListArray.from_arrays(pa.array(starts), pa.array(words.reshape(-1))),
    ]
    return local_frame(spark, pa.Table.from_arrays(columns, names=schema.names), schema)


# -------------------------------------------------------------------- the join with delete files


@dataclass(frozen=True, slots=True)
class DeleteEvents:
    """What the footers of all applying delete files say; ``ranges`` None where some footer has no
    statistics (row index stride 0, format.md 5.3).
    """

    rows: int
    ranges: Ranges | None


def read_delete_events(files: Iterable[tuple[FileSystem, str]]) -> DeleteEvents:
    """Counts and ranges from the footers of delete files, which are opened: one that is not there
    would let its rows come back.

    Raises:
        MissingFileError: a listed file does not exist.
        FormatError: a file is not ORC, or not an ACID file.
    """
    rows = 0
    found: list[list[tuple[int, int] | None]] = []
    first = _FIRST_IDENTITY_COLUMN
    for fs, path in files:
        tail = read_tail(fs, path)
        check_acid(tail, path)
        rows += tail.rows
        if tail.rows:
            numbers = range(first, first + len(IDENTITY))
            found.append([integer_range(tail, number) for number in numbers])
    known = [[one for one in column if one is not None] for column in zip(*found, strict=True)]
    if not found or any(len(column) < len(found) for column in known):
        return DeleteEvents(rows, None)
    lows = [min(low for low, _ in column) for column in known]
    highs = [max(high for _, high in column) for column in known]
    return DeleteEvents(rows, tuple(zip(lows, highs, strict=True)))


def without_deleted(
    rows: DataFrame, deletes: DataFrame, *, known: DeleteEvents, parts: Collection[int]
) -> DataFrame:
    """``rows`` without those whose identity is in ``deletes``, which are of ``parts``.

    Both have the columns originalTransaction, bucket and rowId, and in a partitioned table
    ``PART``, the partition's number. The result keeps the columns of ``rows``.
    """
    hint = "broadcast" if known.rows <= BROADCAST_EVENTS_MAX else "merge"
    ranges = known.ranges
    if ranges is not None and PART in rows.columns:
        ranges = ((min(parts), max(parts)), *ranges)
    return _anti_joined(rows, deletes.hint(hint), keys=(IDENTITY,) * 2, ranges=ranges)


# -------------------------------------------------------------------- the join of both


def not_pushed(column: str) -> str:
    """The values of a system column, none of which is NULL, in a form of which Spark pushes nothing
    down to ORC: that would ask the statistics of a column of the table's of that name (``bucket``,
    ``rowid``), and leave out stripes with rows, or with deletes.
    """
    return f"coalesce({column}, 0)"


def _anti_joined(
    rows: DataFrame,
    gone: DataFrame,
    *,
    keys: tuple[Sequence[str], Sequence[str]],
    ranges: Ranges | None,
    kept: Sequence[str] = (),
    condition: str = "true",
) -> DataFrame:
    """``rows`` without those for which ``gone`` has a row of the same ``keys`` (write id, bucket
    property and a number, as each side calls them) and partition that meets ``condition``, for
    which it needs the columns ``kept``.
    """
    sides = []
    for identity in keys:
        columns = (PART, *identity) if PART in rows.columns else tuple(identity)
        packed = _packed(columns, ranges)
        sides.append(tuple(map(not_pushed, columns)) if packed is None else (packed,))
    left, right = sides
    numbers = range(len(left))
    rows = rows.selectExpr("*", *[f"{left[n]} as {KEY}{n}" for n in numbers])
    gone = gone.selectExpr(*[f"{right[n]} as {_RIGHT}{n}" for n in numbers], *kept)
    same = [f"{KEY}{n} = {_RIGHT}{n}" for n in numbers]
    met = F.expr(" and ".join([*same, condition]))
    return rows.join(gone, met, "left_anti").drop(*[f"{KEY}{n}" for n in numbers])


def _packed(columns: Sequence[str], ranges: Ranges | None) -> str | None:
    """The columns as one long, or None where their ranges are unknown or too wide."""
    if ranges is None:
        return None
    widths = [(high - low).bit_length() for low, high in ranges]
    if sum(widths) > _PACKED_BITS:
        return None
    # not BETWEEN, of which Spark makes a projection that keeps it from leaving out fields of `row`
    inside = " and ".join(
        f"{name} >= {low}L and {name} <= {high}L"
        for name, (low, high) in zip(columns, ranges, strict=True)
    )
    shift = 0
    terms: list[str] = []
    for name, (low, _), width in reversed(list(zip(columns, ranges, widths, strict=True))):
        terms.append(f"shiftleft(cast({name} as bigint) - {low}L, {shift})")
        shift += width
    return f"case when {inside} then {' | '.join(terms)} end"
