"""Writers of Parquet and text files, with the methods of ``BucketFileWriter`` for rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.errors import ConversionError, InvalidInputError
from hiveacid.model.tables import Column, FileFormat, RowFormat, row_format
from hiveacid.model.types import CharType, HiveType
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.evolution import to_julian_times
from hiveacid.storage.failures import mapped, remove_failed
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.bucket_writer import BucketFile, BucketFileWriter, write_empty_file
from hiveacid.storage.plain.text_format import conformed, format_rows
from hiveacid.storage.s3_uploads import OpenUpload, Uploads
from hiveacid.storage.target import FileKind

_PARQUET_FACTS: Final = {
    "writer.time.zone": "UTC",
    "writer.date.proleptic": "true",
    "writer.zone.conversion.legacy": "false",
}
"""How Hive is to take times and dates in a file."""
_COMPRESSIONS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "ZSTD", "BROTLI")


class RowFileWriter(Protocol):
    """Writes one file of rows; nothing is created before the first row."""

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows: the table's columns in order."""

    def close(self) -> BucketFile | None:
        """Finish the file; None (and no file) where nothing was written."""

    def abort(self) -> None:
        """Give up and remove the file."""


def open_row_writer(
    fs: FileSystem | Uploads,
    path: str,
    *,
    format: FileFormat,
    columns: Sequence[Column],
    kind: FileKind,
    properties: Mapping[str, str],
    write_id: int = 0,
    bucket_property: int = 0,
) -> RowFileWriter:
    """The writer of one file of new rows in a table of this format; opens no file.

    Raises:
        InvalidInputError: a property of the table is not valid.
        UnsupportedError: a compression or type that cannot be written.
    """
    if format is FileFormat.ORC:
        return BucketFileWriter(
            fs,
            path,
            columns=columns,
            kind=kind,
            write_id=write_id,
            bucket_property=bucket_property,
            properties=properties,
        )
    if format is FileFormat.PARQUET:
        return ParquetFileWriter(fs, path, columns=columns, properties=properties)
    return TextFileWriter(fs, path, columns=columns, row_format=row_format(properties))


def write_no_rows(
    fs: FileSystem,
    path: str,
    *,
    format: FileFormat,
    columns: Sequence[Column],
    properties: Mapping[str, str],
    events: bool,
) -> BucketFile:
    """The file that an overwrite without rows leaves: empty of rows in Parquet and where the table
    has ``events``, of 0 bytes otherwise.

    Raises:
        StorageError: writing failed.
    """
    if events:
        return write_empty_file(fs, path, columns=columns, properties=properties)
    if format is not FileFormat.PARQUET:
        fs.write_bytes(path, data=b"")
        return BucketFile(path, rows=0, size_bytes=0)
    writer = ParquetFileWriter(fs, path, columns=columns, properties=properties)
    names = [column.name for column in columns]
    arrays = [pa.array([], arrow_type(column.type)) for column in columns]
    writer.write_rows(pa.RecordBatch.from_arrays(arrays, names=names))
    file = writer.close()
    assert file is not None
    return file


class _OutputFile:
    """A file of one writer, created when something is written to it."""

    def __init__(self, fs: FileSystem | Uploads, path: str, columns: Sequence[Column]) -> None:
        self._fs = fs
        self._path = path
        self._columns = tuple(columns)
        self._rows = 0
        self._out: pa.NativeFile | OpenUpload | None = None

    def _stream(self) -> pa.NativeFile | OpenUpload:
        if self._out is None:
            self._out = self._fs.open_output(self._path)
        return self._out

    def close(self) -> BucketFile | None:
        """See ``RowFileWriter``."""
        if self._out is None:
            return None
        size = self._out.tell()
        with mapped(self._path):
            self._out.close()
        self._out = None
        return BucketFile(self._path, rows=self._rows, size_bytes=size)

    def abort(self) -> None:
        """See ``RowFileWriter``."""
        if self._out is None:
            return
        with suppress(OSError, pa.ArrowException):  # what failed before is told
            self._out.close()
        self._out = None
        remove_failed(self._fs, self._path)


class TextFileWriter(_OutputFile):
    """Writes lines."""

    def __init__(
        self,
        fs: FileSystem | Uploads,
        path: str,
        *,
        columns: Sequence[Column],
        row_format: RowFormat,
    ) -> None:
        super().__init__(fs, path, columns)
        self._format = row_format

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            ConversionError: a value does not fit its column.
            StorageError: writing failed.
            UnsupportedError: a type that text files cannot hold.
        """
        if not batch.num_rows:
            return
        lines = format_rows(batch.columns, self._columns, self._format)
        with mapped(self._path):
            self._stream().write(lines)
        self._rows += batch.num_rows


class ParquetFileWriter(_OutputFile):
    """Writes Parquet as Hive does: INT96 timestamps, decimals of fixed length, no dictionary of
    Arrow's types.
    """

    def __init__(
        self,
        fs: FileSystem | Uploads,
        path: str,
        *,
        columns: Sequence[Column],
        properties: Mapping[str, str],
    ) -> None:
        super().__init__(fs, path, columns)
        self._compression = _parquet_compression(properties)
        self._schema = pa.schema(
            [pa.field(column.name, arrow_type(column.type)) for column in columns],
            metadata=_PARQUET_FACTS,
        )
        self._writer: parquet.ParquetWriter | None = None

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            ConversionError: a value does not fit its column.
            StorageError: writing failed.
        """
        arrays = [
            # Hive takes INT96 for Julian days
            to_julian_times(_unpadded(conformed(array, column.type), column.type))
            for array, column in zip(batch.columns, self._columns, strict=True)
        ]
        try:
            table = pa.Table.from_arrays(
                [array.cast(field.type) for array, field in zip(arrays, self._schema, strict=True)],
                schema=self._schema,
            )
        except pa.ArrowInvalid as error:
            raise ConversionError(f"a value does not fit its column: {error}") from error
        with mapped(self._path):
            self._opened().write_table(table)
        self._rows += batch.num_rows

    def _opened(self) -> parquet.ParquetWriter:
        if self._writer is None:
            adds_facts = hasattr(parquet.ParquetWriter, "add_key_value_metadata")
            self._writer = parquet.ParquetWriter(
                self._stream(),
                self._schema,
                compression=self._compression,
                use_deprecated_int96_timestamps=True,
                store_schema=not adds_facts,  # Arrow before 16 writes the facts with its schema
                write_page_checksum=True,
            )
            if adds_facts:
                self._writer.add_key_value_metadata(_PARQUET_FACTS)
        return self._writer

    def close(self) -> BucketFile | None:
        """See ``RowFileWriter``."""
        if self._writer is not None:
            with mapped(self._path):
                self._writer.close()
            self._writer = None
        return super().close()

    def abort(self) -> None:
        """See ``RowFileWriter``."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._writer = None
        super().abort()


def _parquet_compression(properties: Mapping[str, str]) -> str:
    lower = {key.lower(): value for key, value in properties.items()}
    name = lower.get("parquet.compression", "UNCOMPRESSED").upper()
    if name not in _COMPRESSIONS:
        raise InvalidInputError(
            f"unknown parquet.compression {name!r}", property="parquet.compression"
        )
    return "NONE" if name == "UNCOMPRESSED" else name


def _unpadded(array: pa.Array, kind: HiveType) -> pa.Array:
    return pc.utf8_rtrim(array, " ") if isinstance(kind, CharType) else array
