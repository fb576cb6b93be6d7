"""Writers of Parquet and text files, with the methods of ``BucketFileWriter`` for rows; a text
file has lines as Hive's LazySimpleSerDe writes them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column, FileFormat, RowFormat, row_format
from hiveacid.model.types import (
    TIMESTAMP,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    is_text,
)
from hiveacid.storage.arrow_plain import list_offsets
from hiveacid.storage.arrow_types import (
    LOCAL_ZONED,
    arrow_type,
    conform,
    java_numbers,
)
from hiveacid.storage.evolution import to_julian_times, without_blanks
from hiveacid.storage.failures import mapped, remove_failed
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.bucket_writer import BucketFile, BucketFileWriter, write_empty_file
from hiveacid.storage.s3_uploads import OpenUpload, Uploads
from hiveacid.storage.target import FileKind

_PARQUET_FACTS: Final = {
    "writer.time.zone": "UTC",
    "writer.date.proleptic": "true",
    "writer.zone.conversion.legacy": "false",
}
"""How Hive is to take times and dates in a file."""
_COMPRESSIONS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "ZSTD", "BROTLI")


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
        """Finish the file; None (and no file) where nothing was written."""
        if self._out is None:
            return None
        size = self._out.tell()
        with mapped(self._path):
            self._out.close()
        self._out = None
        return BucketFile(self._path, rows=self._rows, size_bytes=size)

    def abort(self) -> None:
        """Give up and remove the file."""
        if self._out is None:
            return
        with suppress(OSError, pa.ArrowException):  # the first error is the one told
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
            if not self._rows:
                self._stream().write(self._header())
            self._stream().write(lines)
        self._rows += batch.num_rows

    def _header(self) -> bytes:
        """The lines that readers skip: Hive writes none, and so loses the first rows."""
        count, between = self._format.header_lines, bytes([self._format.separator(0)])
        names = between.join(b" ".join(c.name.encode().split()) for c in self._columns)
        return names + b"\n" * count if count else b""


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
            to_julian_times(without_blanks(conformed(array, column.type), column.type))
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
        """Finish the file; None (and no file) where nothing was written."""
        if self._writer is not None:
            with mapped(self._path):
                self._writer.close()
            self._writer = None
        return super().close()

    def abort(self) -> None:
        """Give up and remove the file."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._writer = None
        super().abort()


RowFileWriter = BucketFileWriter | TextFileWriter | ParquetFileWriter
"""Writes one file of rows; nothing is created before the first row."""


def _parquet_compression(properties: Mapping[str, str]) -> str:
    lower = {key.lower(): value for key, value in properties.items()}
    name = lower.get("parquet.compression", "UNCOMPRESSED").upper()
    if name not in _COMPRESSIONS:
        raise InvalidInputError(
            f"unknown parquet.compression {name!r}", property="parquet.compression"
        )
    return "NONE" if name == "UNCOMPRESSED" else name


def format_rows(
    arrays: Sequence[pa.Array], columns: Sequence[Column], row_format: RowFormat
) -> pa.Buffer:
    """The lines of the rows, each with its newline.

    Raises:
        ConversionError: a value does not fit its column.
        UnsupportedError: a uniontype, or a type nested deeper than text files can hold.
    """
    texts = [
        _formatted(conformed(array, column.type), column.type, row_format, level=1)
        for array, column in zip(arrays, columns, strict=True)
    ]
    fields = [_filled(text, row_format) for text in texts]
    lines = _joined(fields, row_format.separator(0)) if len(fields) > 1 else fields[0]
    lines = pc.binary_join_element_wise(lines, b"\n", b"")
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)[lines.offset :]
    data: pa.Buffer = lines.buffers()[2] or pa.py_buffer(b"")
    first, last = int(offsets[0]), int(offsets[len(lines)])
    return data.slice(first, last - first)


def conformed(array: pa.Array, kind: HiveType) -> pa.Array:
    """As ``conform``, but for times before 1970, of which only ORC files cannot hold all.

    Raises:
        ConversionError, UnsupportedError: as ``conform``.
    """
    if kind == TIMESTAMP and pa.types.is_timestamp(array.type):
        return array if array.type.tz is None else pc.local_timestamp(array)
    return conform(array, kind)


def _filled(text: pa.Array, row_format: RowFormat) -> pa.Array:
    return text.fill_null(row_format.null) if text.null_count else text


def _joined(parts: Sequence[pa.Array], separator: int) -> pa.Array:
    return pc.binary_join_element_wise(*parts, bytes([separator]))


def _formatted(array: pa.Array, kind: HiveType, row_format: RowFormat, *, level: int) -> pa.Array:
    """The texts of a column as binary; NULL stays."""
    if isinstance(kind, ListType):
        items = _formatted(array.flatten(), kind.element, row_format, level=level + 1)
        return _lists(array, items, row_format, level=level)
    if isinstance(kind, MapType):
        entries = array.cast(
            pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)]))
        )
        flat = entries.flatten()
        keys, values = (
            _filled(_formatted(flat.field(i), child, row_format, level=level + 2), row_format)
            for i, child in enumerate((kind.key, kind.value))
        )
        pairs = _joined((keys, values), row_format.separator(level + 1))
        return _lists(entries, pairs, row_format, level=level)
    if isinstance(kind, StructType):
        fields = [
            _filled(_formatted(child, field, row_format, level=level + 1), row_format)
            for child, (_, field) in zip(array.flatten(), kind.fields, strict=True)
        ]
        text = _joined(fields, row_format.separator(level)) if len(fields) > 1 else fields[0]
        return pc.if_else(array.is_valid(), text, None) if array.null_count else text
    return _leaf(array, kind, row_format)


def _lists(array: pa.Array, items: pa.Array, row_format: RowFormat, *, level: int) -> pa.Array:
    """The items of each list joined; NULL stays."""
    lists = pa.ListArray.from_arrays(list_offsets(array), _filled(items, row_format))
    return pc.binary_join(lists, bytes([row_format.separator(level)]))


def _leaf(array: pa.Array, kind: HiveType, row_format: RowFormat) -> pa.Array:
    if isinstance(kind, UnionType):
        raise UnsupportedError("a uniontype cannot be written", type=str(kind))
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if is_text(kind):
        return _escaped(array.cast(pa.binary()), row_format)
    if name == "binary":
        text = encode(array)
    elif name in ("float", "double"):
        text = java_numbers(array)
    elif name in ("timestamp", LOCAL_ZONED):
        text = _timestamp(array)
    else:
        text = array.cast(pa.string())
    return text.cast(pa.binary())


def _escaped(data: pa.Array, row_format: RowFormat) -> pa.Array:
    if row_format.escape is None:
        return data
    escape = bytes([row_format.escape])
    special = {row_format.escape, *row_format.separators}
    letters = b"".join(b"\\x%02x" % byte for byte in sorted(special))
    data = pc.replace_substring_regex(
        data, b"([" + letters + b"])", (escape * 2 if escape == b"\\" else escape) + rb"\1"
    )
    if row_format.escapes_lines:
        for end, letter in ((b"\n", b"n"), (b"\r", b"r")):
            data = pc.replace_substring(data, end, escape + letter)
    return data


def _timestamp(array: pa.Array) -> pa.Array:
    zone = array.type.tz
    text = (array if zone is None else pc.local_timestamp(array)).cast(pa.string())
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.$", "" if zone is None else ".0")
    return text if zone is None else pc.binary_join_element_wise(text, zone, " ")


def encode(array: pa.Array) -> pa.Array:
    """The Base64 of each binary value, without padding as in Hive's text files; NULL stays."""
    values = array.to_pylist()
    texts = [None if one is None else base64.b64encode(one).rstrip(b"=") for one in values]
    return pa.array(texts, pa.binary()).cast(pa.string())


def decode(array: pa.Array) -> pa.Array:
    """The value of each text of Base64; NULL where it is none."""
    return pa.array(map(_decoded, array.cast(pa.binary()).to_pylist()), pa.binary())


def _decoded(text: bytes | None) -> bytes | None:
    if text is None:
        return None
    letters = text.replace(b"=", b"")
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4), validate=True)
    except binascii.Error:
        return None
