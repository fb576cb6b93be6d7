"""The bucket file that is read while it grows: format.md 9, streaming ingest.

    bucket_00000               |ORC| stripes of W1 | tail |  stripes of W2 | tail of all | ...
                                                   ^ first length          ^ second length
    bucket_00000_flush_length  | 0 | first length | second length |

A flush ends the stripes, writes a tail for all stripes so far, then appends the file's length to
the side file: up to there the file is a complete ORC file. The tail before becomes dead bytes, as
do the rows of a transaction that was given up.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import numpy as np
import pyarrow as pa

from hiveacid.clock import held_back
from hiveacid.errors import MissingFileError
from hiveacid.layout.directories import FLUSH_LENGTH_SUFFIX
from hiveacid.layout.events import AcidStats, file_metadata, format_key_index
from hiveacid.model.tables import Column
from hiveacid.model.types import HiveType
from hiveacid.storage.failures import mapped
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.joined_tail import JoinedTail
from hiveacid.storage.orc.output import quick_codec
from hiveacid.storage.orc.tail import MAGIC, rewrite_tail
from hiveacid.storage.target import FileKind

_LENGTH_BYTES: Final = 8
_KEPT_BYTES: Final = 31 << 20
_FEW_ROWS: Final = 1_000
"""Of a transaction: a stripe of these is no smaller by a better codec, whose contexts take longer
to make than the rows to write. Compaction, which decodes small stripes, brings the table's codec.
"""


class FlushedFile:
    """One bucket file of a transaction batch: ``begin``, ``write_rows`` and ``flush`` or ``drop``
    for each transaction, then ``close``.

    After an error of ``write_rows`` or ``flush`` what was flushed before stays readable, and only
    ``close`` is left to do.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        columns: Sequence[Column],
        bucket_property: int,
        properties: Mapping[str, str],
    ) -> None:
        """Create the side file, then the file; their directory must exist.

        Raises:
            StorageError: the file system failed.
        """
        _keep_freed_memory()
        self._fs = fs
        self._path = path
        self._columns = tuple(columns)
        self._bucket_property = bucket_property
        self._properties = self._codec = properties
        self._write_id: int | None = None
        self._writer: BucketFileWriter | None = None
        self._part: _Part | None = None
        self._joined: JoinedTail | None = None
        self._key_index = ""
        self._hive_types: Mapping[int, HiveType] = {}
        self._flushed_bytes = 0
        self._size_bytes = 0
        self._has_failed = False
        self._lengths = fs.open_output(self._side_path)
        self._append_length()
        self._out = fs.open_output(path)
        with mapped(path):
            self.append(MAGIC)

    def begin(self, write_id: int) -> None:
        """The rows that come belong to this write id; their row ids begin at 0."""
        assert self._write_id is None
        self._write_id = write_id

    @property
    def is_begun(self) -> bool:
        """Whether a transaction writes to it."""
        return self._write_id is not None

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows, as ``BucketFileWriter.write_rows``; at most a stripe of them is in memory.

        Raises:
            ConversionError: a value does not fit its column.
            StorageError: writing failed.
        """
        assert self._write_id is not None
        if self._writer is None:
            self._writer = self._opened(self._write_id, batch.num_rows)
        self._writer.write_rows(batch)

    def _opened(self, write_id: int, rows: int) -> BucketFileWriter:
        """The writer of a transaction; the first one that is flushed decides the file's codec."""
        if self._joined is None:
            few = rows <= _FEW_ROWS
            self._codec = quick_codec(self._properties) if few else self._properties
        self._part = _Part(self)
        return BucketFileWriter(
            self._part,
            self._path,
            columns=self._columns,
            kind=FileKind.INSERT,
            write_id=write_id,
            bucket_property=self._bucket_property,
            properties=self._codec,
        )

    def flush(self) -> None:
        """Make the rows since ``begin`` readable; nothing is written where there are none.

        Raises:
            StorageError: writing failed; what was flushed before counts.
        """
        with held_back():
            writer, part, self._writer, self._write_id = self._writer, self._part, None, None
            stripes = None if writer is None else writer.end_stripes()
            if stripes is None or part is None:
                return
            if self._joined is None:
                self._joined = JoinedTail(stripes.tail)
            self._joined.add(
                stripes.tail,
                statistics=stripes.tail.stripe_statistics(),
                offsets=[part.begins_at + one.offset - len(MAGIC) for one in stripes.tail.stripes],
            )
            self._key_index += format_key_index(stripes.last_rows)
            self._hive_types = stripes.hive_types
            self._append_tail()
            self._append_length()

    def drop(self) -> None:
        """Give the rows since ``begin`` up: what of them is in the file is dead bytes.

        Raises:
            StorageError: writing failed.
        """
        writer, self._writer, self._write_id = self._writer, None, None
        if writer is not None:
            writer.abort()

    def close(self) -> None:
        """Finish the file after the last flush; it goes where nothing was flushed. Where a write
        has failed before, the file stays as its last flush left it.

        Raises:
            StorageError: the file system failed; what was flushed counts.
        """
        try:
            self.drop()
            if self._has_failed:
                return
            if self._joined is not None and self._size_bytes > self._flushed_bytes:
                self._append_tail()
                self._append_length()
        finally:
            with mapped(self._path):
                self._out.close()
            with mapped(self._side_path):
                self._lengths.close()
        with suppress(MissingFileError):  # its partition was dropped, or renamed, meanwhile
            if self._joined is None:
                self._fs.delete_file(self._path)
            self._fs.delete_file(self._side_path)

    def append(self, data: bytes | memoryview) -> None:
        """Send bytes to the file system.

        Raises:
            OSError: it failed.
        """
        with self._failing():
            self._send(data)
        self._size_bytes += len(data)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Nobody knows how much of a step was done that did not come to its end."""
        self._has_failed = True
        yield
        self._has_failed = False

    def _send(self, data: bytes | memoryview) -> None:
        self._out.write(data)

    @property
    def size_bytes(self) -> int:
        """How much has been sent."""
        return self._size_bytes

    @property
    def _side_path(self) -> str:
        directory, _, name = self._path.rpartition("/")
        return f"{directory}/{name}{FLUSH_LENGTH_SUFFIX}"

    def _append_tail(self) -> None:
        assert self._joined is not None
        tail = self._joined.tail(end=self._size_bytes)
        facts = file_metadata(self._key_index, AcidStats(inserts=tail.rows))
        end = rewrite_tail(tail, user_metadata=facts, hive_types=self._hive_types, proleptic=True)
        with mapped(self._path):
            self.append(end)
            with self._failing():
                self._out.flush()
        self._flushed_bytes = self._size_bytes

    def _append_length(self) -> None:
        with mapped(self._side_path), self._failing():
            self._lengths.write(self._flushed_bytes.to_bytes(_LENGTH_BYTES, "big", signed=True))
            self._lengths.flush()


class _Part:
    """The stripes of one transaction, sent to the end of a file that goes on: the writer's own
    magic is left out.
    """

    def __init__(self, file: FlushedFile) -> None:
        self._file = file
        self._skip_bytes = len(MAGIC)
        self.begins_at = 0
        """Where the stripes begin in the file, in bytes."""

    def open_output(self, path: str) -> _Part:
        """Begin where the file ends now."""
        del path
        self.begins_at = self._file.size_bytes
        return self

    def exists(self, path: str) -> bool:
        """Nothing can be removed from a file that goes on."""
        del path
        return False

    def delete_file(self, path: str) -> None:
        """There is nothing to remove."""

    def write(self, data: bytes | memoryview) -> None:
        """Append all but the first bytes, which are the magic."""
        skipped = min(self._skip_bytes, len(data))
        self._skip_bytes -= skipped
        if skipped < len(data):
            self._file.append(memoryview(data)[skipped:])

    def close(self) -> None:
        """The file goes on."""


@functools.cache
def _keep_freed_memory() -> None:
    """Each transaction's ORC writer allocates what the one before has freed; to fetch those pages
    from the kernel anew may take as long as all the rest. glibc learns from the biggest block that
    was freed (up to 32 MiB) how much to keep, twice as much; this one is never touched.
    """
    np.empty(_KEPT_BYTES, np.uint8)
