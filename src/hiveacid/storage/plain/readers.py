"""Readers of Parquet and text files, with the methods of ``BucketFileReader`` for files without
events. Columns of a text file go by position, those of a Parquet file by name, as in Hive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.errors import AcidError, FormatError, UnsupportedError
from hiveacid.layout.directories import BUCKET_PREFIX, DataFile
from hiveacid.layout.events import OriginalRows
from hiveacid.model.tables import Column, FileFormat, RowFormat
from hiveacid.model.types import STRING, HiveType
from hiveacid.storage.arrow_types import arrow_type, hive_type, with_children
from hiveacid.storage.evolution import evolve_column, from_julian
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch
from hiveacid.storage.orc.tail import MAGIC, tail_bytes_needed
from hiveacid.storage.plain.text_parse import TextBuffer, parse_rows
from hiveacid.storage.ranged import FileReader, Opener

PARQUET_MAGIC: Final = b"PAR1"
_MAGIC_BYTES: Final = 4
_TAIL_BYTES: Final = 256
"""An ORC postscript has at most 255 bytes, and one that tells its length."""
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_CODECS: Final = {"gz": "gzip", "deflate": "gzip", "bz2": "bz2", "zst": "zstd"}
"""How Hadoop compresses a text file whose name ends so, in Arrow's words."""
_UNKNOWN_CODECS: Final = ("snappy", "lz4", "lzo")
"""Such files have a form of Hadoop's own."""


class _PlainReader(FileReader, ABC):
    """What both readers have of ``BucketFileReader``."""

    is_acid = False
    has_positional_names = False

    def __init__(self, fs: Opener, path: str) -> None:
        super().__init__(fs, path)
        self.fields: tuple[tuple[str, HiveType], ...] = ()
        self.rows = 0

    def batches(
        self,
        *,
        table_columns: Sequence[Column],
        wanted: Sequence[int],
        identities: bool,
        raw: OriginalRows | None = None,
    ) -> Iterator[EventBatch]:
        """The rows; as ``BucketFileReader.batches``."""
        del raw
        if identities:
            raise FormatError(
                f"{self.path} holds no row events, and its rows have no ids",
                path=self.path,
                expected="the six columns of row events",
                found="rows of a table without row ids",
            )
        first = 0
        for columns, rows in self._columns(table_columns, wanted):
            yield EventBatch(first, rows, columns, identities=None, row_is_null=None)
            first += rows

    @abstractmethod
    def _columns(
        self, table_columns: Sequence[Column], wanted: Sequence[int]
    ) -> Iterator[tuple[tuple[pa.Array, ...], int]]:
        """The wanted columns, some rows at a time, with the number of rows."""


class TextFileReader(_PlainReader):
    """The lines of one file; a name that ends like a compressed file's is one."""

    has_positional_names = True
    holds = "text"

    def __init__(self, fs: Opener, path: str, *, row_format: RowFormat) -> None:
        """Open the file; without a definition its columns are texts called ``_col0, ...``.

        Raises:
            MissingFileError: no such file.
            StorageError: reading failed.
            UnsupportedError: compressed in another way than known here.
        """
        ending = path.rpartition(".")[2]
        if ending in _UNKNOWN_CODECS:
            raise UnsupportedError(f"{path}: text compressed by {ending} is not read", path=path)
        super().__init__(fs, path)
        self._format = row_format
        codec = _CODECS.get(ending)
        if codec is not None:
            self._source = pa.CompressedInputStream(self._source, codec)
        self._head = self._read(_CHUNK_BYTES)
        lines = TextBuffer(self._head, escape=row_format.escape).lines()
        if len(lines):
            first = lines.only(np.arange(len(lines)) == 0)
            offsets, _ = first.items(row_format.separator(0), texts=False)
            count = max(int(offsets[-1]), 1)
            self.fields = tuple((f"_col{i}", STRING) for i in range(count))

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self._source.read(size)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(error) from error
        return data

    def _chunks(self) -> Iterator[bytes]:
        """Whole lines, some at a time."""
        held, more = b"", self._head
        while more:
            held += more
            following = self._read(_CHUNK_BYTES)
            end = max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1
            if not following:
                end = len(held)
            if end:
                yield held[:end]
            held, more = held[end:], following

    def _columns(
        self, table_columns: Sequence[Column], wanted: Sequence[int]
    ) -> Iterator[tuple[tuple[pa.Array, ...], int]]:
        skip = self._format.header_lines
        upto = max(wanted, default=-1) + 1
        for chunk in self._chunks():
            lines = TextBuffer(chunk, escape=self._format.escape).lines()
            if skip:
                dropped = min(skip, len(lines))
                skip -= dropped
                lines = lines.only(np.arange(len(lines)) >= dropped)
            if not len(lines):
                continue
            arrays = parse_rows(lines, table_columns[:upto], self._format) if wanted else []
            yield tuple(arrays[i] for i in wanted), len(lines)


class ParquetFileReader(_PlainReader):
    """One Parquet file: columns by name, case ignored; those it lacks are NULL."""

    holds = "Parquet data"

    def __init__(self, fs: Opener, path: str) -> None:
        """Open the file and read its footer.

        Raises:
            FormatError: not a Parquet file, or a damaged one.
            MissingFileError: no such file.
            StorageError: reading failed.
        """
        super().__init__(fs, path)
        try:
            self._file = parquet.ParquetFile(
                self._source, coerce_int96_timestamp_unit="us", page_checksum_verification=True
            )
            footer = self._file.metadata
            made_by = str(footer.created_by)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            self._source.close()
            raise self._damaged(error) from error
        self.rows = footer.num_rows
        in_groups = sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
        if in_groups != self.rows:
            self._source.close()
            raise self._damaged(ValueError(f"{in_groups} rows in row groups of {self.rows}"))
        self._schema = self._file.schema_arrow
        self.fields = tuple(_known_fields(self._schema))
        leaves = [footer.schema.column(i) for i in range(footer.num_columns)]
        paths = [f"{leaf.path.lower()}." for leaf in leaves if leaf.physical_type == "INT96"]
        self._int96 = {n for n, _ in self.fields if any(p.startswith(f"{n}.") for p in paths)}
        facts = footer.metadata or {}
        hybrid = b"false" if made_by.startswith("parquet-mr") else b"true"
        spark, of_old = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"
        if spark in facts and of_old not in facts:
            hybrid = b"true"
        self._is_hybrid = facts.get(b"writer.date.proleptic", hybrid).lower() == b"false"
        self._zone = facts.get(b"writer.time.zone", b"UTC").decode()

    def _columns(
        self, table_columns: Sequence[Column], wanted: Sequence[int]
    ) -> Iterator[tuple[tuple[pa.Array, ...], int]]:
        places = {field.name.lower(): number for number, field in enumerate(self._schema)}
        fields = {
            i: self._schema[places[table_columns[i].name]]
            for i in wanted
            if table_columns[i].name in places
        }
        names = [field.name for field in fields.values()]
        rows = 0
        try:
            for batch in self._file.iter_batches(columns=names):
                rows += batch.num_rows
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield (
                    tuple(
                        self._column(found[fields[i].name], table_columns[i])
                        if i in fields
                        else pa.nulls(batch.num_rows, arrow_type(table_columns[i].type))
                        for i in wanted
                    ),
                    batch.num_rows,
                )
            if rows != self.rows:  # Arrow ends without a word where a column has no values
                raise ValueError(f"{rows} rows of {self.rows}")
        except AcidError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _column(self, array: pa.Array, column: Column) -> pa.Array:
        array = self._wall_clock(array, is_int96=column.name in self._int96)
        if pa.types.is_binary(array.type) and pa.types.is_string(arrow_type(column.type)):
            array = array.view(pa.string())  # old writers did not say that bytes are text
        try:
            return evolve_column(array, hive_type(array.type), column.type)
        except (FormatError, UnsupportedError) as error:
            error.message = f"{self.path}: column {column.name}: {error.message}"
            error.context["path"] = self.path
            raise

    def _wall_clock(self, array: pa.Array, *, is_int96: bool) -> pa.Array:
        """Times as the clock of the writer's zone showed them; dates of the old calendar as read
        then.
        """
        # INT96 has Julian days, which Hive 4.1 takes so always: times are of the old calendar
        # whatever the file says, and INT64 ones never are (real-hive.md 10)
        if is_int96 and self._zone != "UTC":
            array = self._zoned(array)
        return from_julian(array, dates=self._is_hybrid, times=is_int96)

    def _zoned(self, array: pa.Array) -> pa.Array:
        kind = array.type
        if pa.types.is_nested(kind):
            return with_children(array, self._zoned)
        if not pa.types.is_timestamp(kind):
            return array
        return pc.local_timestamp(array.cast(pa.timestamp(kind.unit, tz=self._zone)))


def _known_fields(schema: pa.Schema) -> Iterator[tuple[str, HiveType]]:
    """The columns whose types Hive has."""
    for field in schema:
        with suppress(UnsupportedError):
            yield field.name.lower(), hive_type(field.type)


@lru_cache(maxsize=100_000)
def parquet_has_types(fs: Opener, root: str, file: DataFile, columns: tuple[Column, ...]) -> bool:
    """Whether the columns that a Parquet file below the path ``root`` has are of the table's types.

    Raises:
        FormatError: not a Parquet file, or a damaged one.
        MissingFileError: no such file.
        StorageError: reading failed.
    """
    with ParquetFileReader(fs, f"{root}/{file.path}") as reader:
        found = dict(reader.fields)
    return all(
        arrow_type(found[column.name]) == arrow_type(column.type)
        for column in columns
        if column.name in found
    )


def open_plain_reader(
    fs: Opener,
    path: str,
    *,
    format: FileFormat | None,
    row_format: RowFormat,
) -> BucketFileReader | TextFileReader | ParquetFileReader:
    """A reader of a file of rows; without a ``format`` its first bytes tell.

    Raises:
        FormatError: a damaged file, or one of another format.
        MissingFileError: no such file.
        StorageError: reading failed.
    """
    if format is None:
        format = found_format(fs, path)
    if format is FileFormat.ORC:
        return BucketFileReader(fs, path)
    if format is FileFormat.PARQUET:
        return ParquetFileReader(fs, path)
    return TextFileReader(fs, path, row_format=row_format)


def open_any_reader(
    fs: Opener, path: str, *, logical_bytes: int | None
) -> BucketFileReader | TextFileReader | ParquetFileReader:
    """A reader of a file of rows of which nothing is known but its name, and the length of one that
    is still written (``DataFile``).

    Raises:
        FormatError, MissingFileError, StorageError: as ``open_plain_reader``.
    """
    if path.rpartition("/")[2].startswith(BUCKET_PREFIX):
        return BucketFileReader(fs, path, logical_bytes=logical_bytes)
    return open_plain_reader(fs, path, format=None, row_format=RowFormat())


def found_format(fs: Opener, path: str) -> FileFormat:
    """What a file's first or last bytes say it is; a text file says nothing.

    Raises:
        MissingFileError: no such file.
        StorageError: reading failed.
    """
    with fs.open_input(path) as source:
        head = source.read(_MAGIC_BYTES)
        source.seek(max(source.size() - _TAIL_BYTES, 0))
        end = source.read(_TAIL_BYTES)
    if head.startswith(MAGIC) or _ends_as_orc(end):
        return FileFormat.ORC
    is_parquet = head.startswith(PARQUET_MAGIC) or end.endswith(PARQUET_MAGIC)
    return FileFormat.PARQUET if is_parquet else FileFormat.TEXT


def _ends_as_orc(end: bytes) -> bool:
    """Whether a file with a damaged beginning ends as ORC does."""
    try:
        return tail_bytes_needed(end) > 0
    except FormatError:
        return False
