"""Rows of Parquet files that the tasks which write them read, too.

Where an INSERT takes columns of such files as they are, Spark decodes them to rows in the JVM and
hands those to its Python workers as Arrow batches: half of what a load costs (measured.md 51). So
the tasks read the files, each the parts that Spark's own task would. What the two readers may take
for different values is left to Spark: types other than the table's, dates and times that files may
hold by the old calendar. So is what cannot be read: whoever gets an error gets Spark's.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.model.tables import MAX_BUCKET_ID, Column
from hiveacid.model.types import TIMESTAMP, is_decimal_or
from hiveacid.spark.jobs import explained
from hiveacid.spark.session import session_conf, shows_utc, size_bytes
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.locations import split
from hiveacid.storage.plain.readers import PARQUET_MAGIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES: Final = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("string", "binary", "date", "timestamp"),
)
_FILES_MAX: Final = 2_000
_OPEN_BYTES: Final = 4 * 1024 * 1024
"""To open a file takes as long as to read so much, to Spark."""
_PART_BYTES: Final = "spark.sql.files.maxPartitionBytes"
_BY_ID: Final = "spark.sql.parquet.fieldId.read.enabled"
"""Columns whose schema has ids are found by them; Delta Lake turns it on for all of a session."""
_SHOWN: Final = "spark.sql.debug.maxToStringFields"
_IS_HERE: Final = re.compile(r"file:/[^=]*")
"""A local file; a ``=`` may say the value of a partition."""
_COLUMN: Final = re.compile(r"(?P<name>\w+)#\d+L?( AS \w+#\d+L?)?")
_TIME: Final = re.compile(r"cast\((?P<name>\w+)#\d+ as timestamp_ntz\) AS \w+#\d+")
"""A timestamp's wall clock is what the writer takes."""
_PLAN: Final = re.compile(
    r"== Physical Plan ==\n"
    r"(?:\*\(1\) Project \[(?P<taken>[^\[\]\n]*)\]\n\+- )?\*\(1\) ColumnarToRow\n"
    r" *\+- FileScan parquet [\w.]*\[(?P<read>[^\[\]\n]*)\] Batched: true, DataFilters: \[\], "
    r"Format: Parquet, Location: InMemoryFileIndex\(1 paths\)[^\n]*, PartitionFilters: \[\], "
    r"PushedFilters: \[\], ReadSchema: [^\n]*"
)
"""One directory or file, of which all rows are wanted."""
_BATCH_ROWS: Final = 10_000
_FIRST: Final = {
    pa.date32(): pa.scalar(date(1582, 10, 15)),
    pa.timestamp("us"): pa.scalar(datetime(1900, 1, 1), pa.timestamp("us")),
}
"""Since when a value is the same by both calendars, and in the time zones that Spark shifts."""


class _LeftToSpark(Exception):
    """A file that is not as the table wants it, or cannot be read."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The row groups whose middle lies from byte ``start`` on, before ``stop``."""

    path: str
    start: int
    stop: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Columns of Parquet files: name there and type in the table; ``parts`` by task."""

    columns: tuple[tuple[str, pa.DataType], ...]
    parts: tuple[tuple[_Part, ...], ...]

    def read(self, part: _Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some at a time.

        Raises:
            _LeftToSpark: its file has other types, or values that Spark may understand otherwise,
            or cannot be read.
        """
        try:
            with pa.OSFile(part.path) as source:
                yield from self._batches(parquet.ParquetFile(source), source.size(), part)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _LeftToSpark(str(error)) from error

    def _batches(
        self, file: parquet.ParquetFile, size: int, part: _Part
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name, _ in self.columns]
        there = file.schema_arrow.names
        in_any_case = [name.lower() for name in there]
        for name, kind in self.columns:
            if name not in there or in_any_case.count(name.lower()) != 1:
                raise _LeftToSpark(f"{part.path} has no single column {name}")
            if not _is_stored_as(file.schema_arrow.field(name).type, kind):
                raise _LeftToSpark(f"{part.path}: {name} is not of type {kind}")
        middles = [_middle(file.metadata.row_group(n)) for n in range(file.num_row_groups)]
        if size != part.file_bytes or not all(0 <= middle < size for middle in middles):
            raise _LeftToSpark(f"{part.path} is not as the driver found it")
        for batch in file.iter_batches(
            _BATCH_ROWS,
            row_groups=[n for n, at in enumerate(middles) if part.start <= at < part.stop],
            columns=names,
            use_threads=False,
        ):
            arrays = [batch.column(name).cast(kind) for name, kind in self.columns]
            for array in arrays:
                first = _FIRST.get(array.type)
                if first is not None and len(array) and pc.any(pc.less(array, first)).as_py():
                    raise _LeftToSpark(f"{part.path} has values of before {first}")
            yield pa.record_batch(arrays, names=names)


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """What ``write`` does with the rows, as a function of a task that gets numbers of parts; a file
    None says that Spark has to. Pickled by reference to this module.
    """

    rows: ParquetRows
    write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one result batch."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        parts = [part for number in numbers for part in self.rows.parts[number]]
        try:
            yield from self.write(batch for part in parts for batch in self.rows.read(part))
        except _LeftToSpark:
            yield pa.record_batch([pa.array([pickle.dumps(None)], pa.binary())], names=["file"])


def _is_stored_as(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Parquet's values of a type are those that Spark reads as the table's."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):  # by name: Arrow 15 has no views
        return str(given) in (f"{kind}", f"large_{kind}", f"{kind}_view")
    if pa.types.is_timestamp(kind):
        return given in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))
    return bool(given == kind)


def _middle(group: Any) -> int:
    """Where the middle of a row group lies, by which Parquet's readers give it to one part."""
    first = group.column(0)
    begin = first.dictionary_page_offset or first.data_page_offset
    size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
    return int(min(begin, first.data_page_offset)) + int(size) // 2


def parquet_rows(frame: DataFrame, columns: Sequence[Column]) -> ParquetRows | None:
    """What ``frame`` reads where it is columns of local Parquet files and nothing else, one for
    each of ``columns``; None where it is more, or on Spark Connect, whose files lie elsewhere.
    """
    spark = frame.sparkSession
    if getattr(spark, "_sc", None) is None or not all(
        is_decimal_or(_TYPES, column.type) for column in columns
    ):
        return None
    paths = frame.inputFiles()
    if not 0 < len(paths) <= _FILES_MAX or not all(map(_IS_HERE.fullmatch, paths)):
        return None
    has_times = TIMESTAMP in [column.type for column in columns]
    if spark.conf.get(_BY_ID, "false") == "true" and (has_times or _has_ids(frame)):
        return None
    try:
        files = [(path, os.stat(path).st_size) for path in map(_path, paths)]
        with open(files[0][0], "rb") as first:  # EXPLAIN takes longer, and most are our own ORC's
            if first.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
                return None
    except OSError:
        return None
    with session_conf(spark, {_SHOWN: "1000000"}):
        names = _names(explained(spark, frame, ""), columns)
    if names is None or (has_times and not shows_utc(spark)):
        return None
    at_most = size_bytes(spark.conf.get(_PART_BYTES, "128m") or "128m", unit="b")
    even = sum(size for _, size in files) // spark.sparkContext.defaultParallelism + 1
    parts = _parts(files, min(at_most, max(even, _OPEN_BYTES)))
    if len(parts) > MAX_BUCKET_ID:
        return None
    types = [arrow_type(column.type) for column in columns]
    return ParquetRows(tuple(zip(names, types, strict=True)), parts)


def _has_ids(frame: DataFrame) -> bool:
    """Of timestamps nobody knows: the wall clock's column has lost what was told of the other."""
    return any("parquet.field.id" in field.metadata for field in frame.schema.fields)


def _path(uri: str) -> str:
    return split(unquote(uri))[1]


def _names(plan: str, columns: Sequence[Column]) -> tuple[str, ...] | None:
    """The columns of Parquet files that a plan gives, as EXPLAIN shows it."""
    found = _PLAN.fullmatch(plan.strip())
    if found is None:
        return None
    taken = re.split(", ?", found["taken"] or found["read"])
    if len(taken) != len(columns):
        return None
    shown = [
        (_TIME if column.type == TIMESTAMP else _COLUMN).fullmatch(text)
        for column, text in zip(columns, taken, strict=True)
    ]
    return tuple(match["name"] for match in shown if match) if all(shown) else None


def _parts(files: Sequence[tuple[str, int]], size: int) -> tuple[tuple[_Part, ...], ...]:
    """Files, with their bytes, for tasks that take ``size`` bytes each, as Spark divides them."""
    parts = [
        _Part(path, start, min(start + size, whole), whole)
        for path, whole in files
        for start in range(0, whole, size)
    ]
    tasks: list[list[_Part]] = []
    left = 0
    for part in sorted(parts, key=lambda part: part.start - part.stop):
        if not tasks or part.stop - part.start > left:
            tasks.append([])
            left = size
        tasks[-1].append(part)
        left -= part.stop - part.start + _OPEN_BYTES
    return tuple(map(tuple, tasks))
