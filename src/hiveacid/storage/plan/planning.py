"""Which partitions, files and stripes of a snapshot can hold rows that meet a predicate.

Three steps, each cheaper than what it saves: partition values (no file is touched), the bucketing
hash of values that the predicate fixes (file names), then the statistics of each stripe (the tails
of the files left). Spark's own push-down prunes nothing on these files (docs/measured.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

from hiveacid.layout import events
from hiveacid.layout.directories import AcidDirectory, DataFile, Snapshot, SnapshotPart
from hiveacid.model.ids import BucketCodec
from hiveacid.model.predicates import (
    ANYTHING,
    NOTHING,
    TIMESTAMP_SLACK,
    ColumnRange,
    Constant,
    Predicate,
    columns_of,
    equal_values,
    exactly,
    may_match,
    partition_constant,
    residual,
)
from hiveacid.model.tables import (
    HASHED_OTHERWISE,
    AcidMode,
    FileFormat,
    Partition,
    Table,
    is_true,
)
from hiveacid.model.types import (
    INTEGER_BITS,
    DecimalType,
    HiveType,
    PrimitiveType,
    VarcharType,
    is_text,
)
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.merge.column_hashing import bucket_ids
from hiveacid.storage.orc.statistics import integer_range, later, only_inserts, stripe_ranges
from hiveacid.storage.orc.tail import OrcTail
from hiveacid.storage.orc.tails import event_tail, tail_of
from hiveacid.storage.plan.scan_plan import Amount, PartPlan, ScanPlan, Selection

_HASHED_VALUES_MAX: Final = 256
"""More combinations of bucketing values than this choose nearly every bucket anyway."""
_SMALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Spark broadcasts what it takes for 10 MB, by the columns read of the bytes of all files."""
_FILES_ASKED: Final = 32
_ROW_BYTES: Final = 48
"""Of a row in a hash table without its columns: length, pointer, identity."""
_COLUMN_BYTES: Final = 8
"""At least, of a column in a row of Spark."""
_Place = tuple[FileSystem, str]
"""A partition's directory."""
_Map = Callable[..., Iterable[Any]]
"""What ``map`` does, here or by threads."""
_JAVA: Final = 0
_ORIGINAL_TRANSACTION, _BUCKET, _ROW_ID = 2, 3, 4
"""ORC column numbers (format.md 4.1)."""


def plan_scan(
    snapshot: Snapshot,
    *,
    files: Files,
    predicate: Predicate = ANYTHING,
    columns: Iterable[str] | None = None,
    partitions_of: int | None = None,
) -> ScanPlan:
    """What to read of a snapshot for rows that meet ``predicate`` (typed, on the table's columns).

    ``columns`` are those wanted (None: all); ``partitions_of`` is how many partitions the table
    has where the snapshot holds fewer.

    Raises:
        MissingFileError: a file whose tail is needed is not there.
        FormatError: such a file is damaged.
    """
    table = snapshot.table
    wanted = None if columns is None else set(columns)
    parts = _plan_parts(files, snapshot, predicate)
    return ScanPlan(
        files=files,
        snapshot=snapshot,
        columns=tuple(c.name for c in table.all_columns if wanted is None or c.name in wanted),
        predicate=predicate,
        parts=parts,
        partitions_of=len(snapshot.parts) if partitions_of is None else partitions_of,
    )


def _plan_parts(files: Files, snapshot: Snapshot, predicate: Predicate) -> tuple[PartPlan, ...]:
    """Of each partition with something to read. Tails that are far away are read together: by a
    thread for each partition, and where these are few by others, too, for which they wait.
    """

    def planned(part: SnapshotPart, each: _Map = map) -> PartPlan | None:
        return _plan_part(files, snapshot.table, part, predicate, each=each)

    at_once, parts = files.at(snapshot.table.location)[0].requests_at_once, snapshot.parts
    if at_once == 1 or not parts:
        plans = list(map(planned, parts))
    else:
        own = ThreadPoolExecutor(at_once, thread_name_prefix="hiveacid-plan")
        with own, ThreadPoolExecutor(at_once, thread_name_prefix="hiveacid-tail") as threads:
            each = threads.map if len(parts) < at_once else map
            plans = list(own.map(planned, parts, repeat(each)))
    return tuple(plan for plan in plans if plan is not None)


def compression(plan: ScanPlan) -> float:
    """How many bytes in memory, as Spark holds rows, a byte of the files to read stands for; 1 at
    least, and where the files are too large to be taken for a small table. Of many files it is what
    some tell, evenly chosen.

    Raises:
        MissingFileError: a file is not there.
        FormatError: such a file is damaged.
    """
    files = [(part.part.partition.location, file) for part in plan.parts for file in part.files]
    files = [(location, file) for location, file in files if file.length_bytes]
    if not files or sum(file.length_bytes for _, file in files) > _SMALL_BYTES_MAX:
        return 1.0
    asked = files[:: math.ceil(len(files) / _FILES_ASKED)]
    rows = sum(tail_of(*plan.files.at(location), file).rows for location, file in asked)
    row_bytes = _ROW_BYTES + _COLUMN_BYTES * len(plan.columns)
    return max(1.0, rows * row_bytes / sum(file.length_bytes for _, file in asked))


def partitions_that_match(
    table: Table, partitions: Sequence[Partition], predicate: Predicate
) -> tuple[Partition, ...]:
    """The partitions that may hold a row which meets the predicate."""
    if columns_of(predicate).isdisjoint(table.partition_keys):
        return tuple(partitions)
    return tuple(
        one for one in partitions if may_match(predicate, partition_ranges(table, one.values))
    )


def partition_ranges(table: Table, values: Sequence[str | None]) -> Mapping[str, ColumnRange]:
    """What is known of a partition's columns.

    Of the default partition of a text column nothing: SQL reads its name there, readers by path
    NULL.
    """
    found: dict[str, ColumnRange] = {}
    for column, text in zip(table.partition_columns, values, strict=True):
        if text is None:
            if not is_text(column.type):
                found[column.name] = exactly(None)
            continue
        value = partition_constant(text, column.type)
        if isinstance(value, datetime):
            # Spark moves a wall clock that the session's time zone skips
            low, high = later(value, -TIMESTAMP_SLACK), later(value, TIMESTAMP_SLACK)
            found[column.name] = ColumnRange(low, high, may_be_null=False)
        elif value is not None:
            found[column.name] = exactly(value)
    return found


def _plan_part(
    all_files: Files, table: Table, part: SnapshotPart, predicate: Predicate, *, each: _Map
) -> PartPlan | None:
    files = part.directory.row_files
    total = Amount(files_of=len(files), bytes_of=sum(file.length_bytes for file in files))
    remaining = residual(predicate, partition_ranges(table, part.partition.values))
    if remaining == NOTHING or not files:
        return None
    location = all_files.at(part.partition.location)
    chosen = _files_by_bucket(table, location, files, remaining)
    tails = _tails(table, location, chosen, remaining, each)
    if table.acid_mode is AcidMode.FULL and not all(map(only_inserts, tails.values())):
        # an event of Hive before 3 may update a row of another stripe (format.md 4.7)
        tails, remaining = {}, ANYTHING
    stripes_by_path, amount = _stripes(table, chosen, tails, remaining)
    if not stripes_by_path:
        return None
    read_files = tuple(file for file in chosen if file.path in stripes_by_path)
    # what a damaged tail tells may lose deletes: nothing is left out where all rows are read
    is_all = len(read_files) == len(files) and all(
        stripes is None for stripes in stripes_by_path.values()
    )
    row_ids = {
        path: _row_ids(tails.get(path), stripes) for path, stripes in stripes_by_path.items()
    }
    deletes = _delete_files(table, location, part.directory, read_files, row_ids, each)
    selection = Selection(
        files=stripes_by_path,
        predicate=remaining,
        delete_files=None if is_all else frozenset(file.path for file in deletes),
    )
    return PartPlan(part, selection, deletes, total + amount)


# -------------------------------------------------------------------- buckets


def _files_by_bucket(
    table: Table, place: _Place, files: Sequence[DataFile], predicate: Predicate
) -> tuple[DataFile, ...]:
    """The files whose bucket a row that meets the predicate may be in.

    Hive 3.1 buckets ACID tables by version 1 whatever the table says (golden v3_13): files of
    other writers than Hive 4 and us stay if either version's bucket is theirs.
    """
    values = _bucketing_values(table, predicate)
    if values is None or table.bucket is None:
        return tuple(files)
    ours = _buckets(table, values, version=table.bucket.version)
    others = _buckets(table, values, version=3 - table.bucket.version)
    return tuple(
        file
        for file in files
        if file.bucket < 0
        or file.bucket in ours
        or (
            file.bucket in others
            and (
                table.format is not FileFormat.ORC
                or not file.size_bytes
                or is_of_old_hive(tail_of(*place, file))
            )
        )
    )


def is_of_old_hive(tail: OrcTail) -> bool:
    """Whether a Hive before 4 wrote the file, whose rows need not be in the bucket of its name."""
    return bool(tail.footer.writer == _JAVA and not tail.footer.calendar)


def _bucketing_values(
    table: Table, predicate: Predicate
) -> tuple[tuple[HiveType, ...], list[tuple[pa.Scalar, ...]]] | None:
    if table.bucket is None or not table.bucket.columns:
        return None
    if is_true(table.properties, HASHED_OTHERWISE):
        return None
    types = table.types
    kinds = tuple(types[name] for name in table.bucket.columns)
    choices: list[list[pa.Scalar]] = []
    for name, kind in zip(table.bucket.columns, kinds, strict=True):
        values = equal_values(predicate, name)
        if values is None or not hashes_alike(kind):
            return None
        choices.append([v for v in (_as_stored(value, kind) for value in values) if v is not None])
    count = 1
    for choice in choices:
        count *= len(choice)
    return (kinds, list(itertools.product(*choices))) if count <= _HASHED_VALUES_MAX else None


def hashes_alike(kind: HiveType) -> bool:
    """Whether equal values hash alike: -0.0 equals 0.0, and Spark cuts timestamps."""
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    return isinstance(kind, DecimalType | VarcharType) or name in (
        *INTEGER_BITS,
        "string",
        "date",
        "boolean",
    )


def _as_stored(value: Constant, kind: HiveType) -> pa.Scalar | None:
    """The value as the column can hold it; None where it cannot."""
    if isinstance(kind, PrimitiveType) and kind.name in INTEGER_BITS:
        if value != int(value):  # type: ignore[arg-type]  # the predicate's constants are typed
            return None
        value = int(value)  # type: ignore[arg-type]
    try:
        return pa.scalar(value, arrow_type(kind))
    except (pa.ArrowInvalid, OverflowError):
        return None


def _buckets(
    table: Table, values: tuple[tuple[HiveType, ...], list[tuple[pa.Scalar, ...]]], *, version: int
) -> frozenset[int]:
    assert table.bucket is not None
    kinds, rows = values
    if not rows:
        return frozenset()
    keys = [
        pa.array([one.as_py() for one in column], arrow_type(kind))
        for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    return frozenset(bucket_ids(keys, kinds, table.bucket.count, version=version).to_pylist())


# -------------------------------------------------------------------- stripes


def _tails(
    table: Table, place: _Place, files: Sequence[DataFile], predicate: Predicate, each: _Map
) -> dict[str, OrcTail]:
    """The tails of the files whose stripes the predicate may decide, by path."""
    data = {column.name for column in table.columns}
    if table.format is not FileFormat.ORC or not columns_of(predicate) & data:
        return {}
    full = table.acid_mode is AcidMode.FULL

    def read(file: DataFile) -> OrcTail:
        return (event_tail if full and file.is_bucket_file else tail_of)(*place, file)

    asked = [file for file in files if file.length_bytes]
    return {file.path: tail for file, tail in zip(asked, each(read, asked), strict=True)}


def _stripes(
    table: Table, files: Sequence[DataFile], tails: Mapping[str, OrcTail], predicate: Predicate
) -> tuple[dict[str, tuple[int, ...] | None], Amount]:
    """The stripes of each file that may hold a row (None: all of them), and what they amount to."""
    places: dict[str, tuple[int, ...] | None] = {}
    amount = Amount()
    for file in files:
        tail = tails.get(file.path)
        if tail is None:
            if not tails:
                places[file.path] = None
                amount += Amount(files=1, bytes=file.length_bytes)
            continue
        ranges = stripe_ranges(tail, table.columns, columns_of(predicate))
        chosen = tuple(
            number
            for number in range(len(tail.stripes))
            if ranges is None or may_match(predicate, ranges[number])
        )
        amount += Amount(stripes_of=len(tail.stripes))
        if not chosen:
            continue
        stripes = [tail.stripes[number] for number in chosen]
        amount += Amount(
            files=1,
            stripes=len(stripes),
            bytes=sum(stripe.size_bytes for stripe in stripes),
            rows=sum(stripe.rows for stripe in stripes),
        )
        places[file.path] = chosen if len(chosen) < len(tail.stripes) else None
    return places, amount


# -------------------------------------------------------------------- delete files


_Range = tuple[int, int]
"""Least and greatest."""
_ANY: Final[_Range] = (-(2**63), 2**63 - 1)
_REACHES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class _Reach:
    """What the chosen rows of a file can be: original write ids, row ids."""

    write_ids: _Range
    row_ids: _Range


def _row_ids(tail: OrcTail | None, stripes: Sequence[int] | None) -> Callable[[], _Range]:
    """What tells the row ids of a file with events, whose tail was read; ``stripes`` are those
    chosen, None for all.
    """

    def found() -> _Range:
        if tail is None or not events.is_event_schema([name for name, _ in tail.root.fields]):
            return _ANY
        return integer_range(tail, _ROW_ID, stripes=stripes) or _ANY

    return found


def _delete_files(
    table: Table,
    place: _Place,
    directory: AcidDirectory,
    chosen: Sequence[DataFile],
    row_ids: Mapping[str, Callable[[], _Range]],
    each: _Map,
) -> tuple[DataFile, ...]:
    """The delete files that may hold an event for a row of the chosen files.

    Told by bucket number and by the ranges of original write ids and row ids. A table without
    buckets written by Hive 3.0 has events in files of other numbers (format.md 7.2): their
    statistics tell.
    """
    files = directory.delete_files
    if not files:
        return ()
    reach = _reach(directory, chosen, row_ids)
    whole = _few([one for of_bucket in reach.values() for one in of_bucket])
    reach = {bucket: _few(of_bucket) for bucket, of_bucket in reach.items()}

    def may_delete(file: DataFile) -> bool:
        if -1 in reach or file.bucket < 0:
            near = whole
        elif table.bucket is not None or file.bucket in reach:
            near = reach.get(file.bucket, [])
        else:
            near = whole if _may_be_of(place, file, reach) else []
        return bool(near) and _meets(place, file, near)

    kept = each(may_delete, files)
    return tuple(file for file, is_kept in zip(files, kept, strict=True) if is_kept)


def _may_be_of(place: _Place, file: DataFile, buckets: Iterable[int]) -> bool:
    """Whether a delete file holds events of other numbers than its name's, one of ``buckets``."""
    known = integer_range(tail_of(*place, file), _BUCKET)
    if known is None:
        return True
    first, last = map(BucketCodec.decode, known)
    if first.codec is not last.codec:
        return True
    return any(first.bucket_id <= bucket <= last.bucket_id for bucket in buckets)


def _reach(
    directory: AcidDirectory,
    chosen: Sequence[DataFile],
    row_ids: Mapping[str, Callable[[], _Range]],
) -> Mapping[int, list[_Reach]]:
    """The reach of each chosen file (``_Reach``), by bucket number."""
    paths = {file.path for file in chosen}
    found: dict[int, list[_Reach]] = {}

    def add(files: Sequence[DataFile], low: int, high: int) -> None:
        for file in files:
            if file.path in paths:
                one = _Reach((low, high), row_ids[file.path]())
                found.setdefault(file.bucket, []).append(one)

    add(directory.originals, 0, 0)
    if directory.base is not None:
        # that of originals alone is base_-9223372036854775808; their rows have write id 0
        add(directory.base.files, 0, max(0, directory.base.name.write_id))
    for delta in directory.insert_deltas:
        add(delta.files, delta.name.min_write_id, delta.name.max_write_id)
    return found


def _few(found: list[_Reach]) -> list[_Reach]:
    """The reaches, or, where they are many, one that covers all."""
    if len(found) <= _REACHES_MAX:
        return found
    write_ids, row_ids = [one.write_ids for one in found], [one.row_ids for one in found]
    return [_Reach(_widest(write_ids), _widest(row_ids))]


def _widest(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _meets(place: _Place, file: DataFile, near: Sequence[_Reach]) -> bool:
    """Whether the events of a delete file can be about the rows, by what its tail tells."""
    tail = tail_of(*place, file)
    write_ids = integer_range(tail, _ORIGINAL_TRANSACTION) or _ANY
    row_ids = integer_range(tail, _ROW_ID) or _ANY
    if row_ids != integer_range(tail, _ROW_ID, stripes=range(len(tail.stripes))):
        row_ids = _ANY  # footer and stripes disagree: who reads the file tells the damage
    return any(
        _overlap(write_ids, one.write_ids) and _overlap(row_ids, one.row_ids) for one in near
    )


def _overlap(one: _Range, other: _Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
