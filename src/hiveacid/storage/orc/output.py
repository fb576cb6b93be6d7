"""One ORC file written in one sequential pass, whose tail is changed before it reaches the file
system.

    ORCWriter --> buffer --> _Sink --> file system
                              |  while the ORC writer closes, the sink keeps what it is given (the
                              |  last stripe and the tail); then the tail is rewritten in memory
                              +- and all of it goes out

The ORC writer hands over each stream of a column by itself; the buffer saves most calls of Python.

Nothing is read back or written twice, so it works on object stores. Memory: what the ORC writer
buffers for one stripe, and that stripe once more, compressed, while closing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import orc

from hiveacid.clock import held_back
from hiveacid.errors import InvalidInputError, StorageError, UnsupportedError
from hiveacid.model.types import HiveType
from hiveacid.storage.failures import Removing, remove_failed, storage_error
from hiveacid.storage.orc.early_times import set_back
from hiveacid.storage.orc.joined_tail import JoinedTail
from hiveacid.storage.orc.streams import Int16s
from hiveacid.storage.orc.tail import (
    MAGIC,
    OrcTail,
    parse_tail,
    rewrite_tail,
    tail_bytes_needed,
)
from hiveacid.storage.target import FileKind

_BATCH_ROWS = 1024
_DICTIONARY_THRESHOLD = 0.8
"""Hive's own (``hive.exec.orc.dictionary.key.size.threshold``)."""
_BUFFER_BYTES = 64 * 1024


class Stream(Protocol):
    """A file that is being written."""

    def write(self, data: bytes | memoryview) -> object:
        """Append."""

    def close(self) -> None:
        """Nothing more comes."""


class Destination(Removing, Protocol):
    """Where a file is written: a file system, or another file that goes on."""

    def open_output(self, path: str) -> Stream:
        """Begin the file."""


class OrcOutput:
    """An ORC file being written; it exists from the first ``write`` on.

    ``batch_rows`` is how often the ORC writer looks whether its stripe is full.
    """

    def __init__(
        self, fs: Destination, path: str, *, settings: WriterSettings, batch_rows: int = _BATCH_ROWS
    ) -> None:
        self._fs = fs
        self._path = path
        self._settings = settings
        self._batch_rows = batch_rows
        self._sink: _Sink | None = None
        self._buffer: pa.BufferedOutputStream | None = None
        self._writer: orc.ORCWriter | None = None
        self._held_from: int | None = None
        self._joined: JoinedTail | None = None
        self._part_from = 0

    @property
    def is_open(self) -> bool:
        """Whether something was written and the file is not closed."""
        return self._sink is not None

    def write(self, table: pa.Table, *, postponed: bool = False) -> None:
        """Append rows.

        ``postponed`` says that some timestamps are to be set back (``early_times``): from then on
        the file stays in memory until it is closed.

        Raises:
            StorageError: writing failed.
        """
        if self._sink is None:
            self._sink = _Sink(self._fs, self._path)
        if postponed and self._held_from is None:
            self._send_buffered()
            self._held_from = self._sink.size_bytes - self._part_from
            self._sink.hold()
        self._guarded(lambda: self._begun().write(table))

    def begin_again(self, *, fractions: Mapping[int, Int16s] | None = None) -> None:
        """End the stripes; tables of another schema follow in the same file. ``fractions`` as in
        ``close``, of the rows until now.

        Raises:
            StorageError: writing failed; the file is removed.
        """
        assert self._sink is not None
        try:
            self._add(self._last_stripes(fractions))
        except BaseException:
            self.abort()
            raise
        self._part_from = self._sink.size_bytes - len(MAGIC)
        self._sink.skip(len(MAGIC))
        self._writer = self._buffer = self._held_from = None

    def end_stripes(self, *, fractions: Mapping[int, Int16s] | None = None) -> OrcTail:
        """Send out all stripes and end without a tail: the tail as Arrow would have written it.

        ``fractions`` as in ``close``. The file stays open; ``close`` or ``abort`` must not follow.

        Raises:
            StorageError: writing failed; the file is removed.
        """
        try:
            tail = self._whole(self._last_stripes(fractions))
        except BaseException:
            self.abort()
            raise
        self._sink = self._writer = self._buffer = None
        return tail

    def close(
        self,
        *,
        user_metadata: Callable[[OrcTail], Mapping[str, bytes]],
        hive_types: Mapping[int, HiveType],
        fractions: Mapping[int, Int16s] | None = None,
    ) -> tuple[OrcTail, int]:
        """Finish the file: the tail as Arrow wrote it, and the file's size.

        ``user_metadata`` is asked once the stripes are known; ``hive_types`` as in
        ``rewrite_tail``. ``fractions`` are the nanoseconds that microseconds leave over, of the
        timestamps in a column (by number) that are not null; they need ``postponed`` from the
        first on that is not 0.

        Raises:
            StorageError: writing failed; the file is removed.
        """
        assert self._sink is not None
        sink = self._sink
        try:
            tail = self._whole(self._last_stripes(fractions))
            end = rewrite_tail(
                tail,
                user_metadata=user_metadata(tail),
                hive_types=hive_types,
                proleptic=True,
            )
            self._guarded(lambda: sink.put(end))
            self._guarded(sink.finish)
        except BaseException:
            self.abort()
            raise
        self._sink = self._writer = self._buffer = None
        return tail, sink.size_bytes

    def _last_stripes(self, fractions: Mapping[int, Int16s] | None) -> OrcTail:
        """Close the ORC writer and send out what it held back, but the tail."""
        assert self._sink is not None and self._writer is not None
        sink, writer = self._sink, self._writer
        if self._held_from is None:
            sink.hold()
        self._guarded(writer.close)
        self._send_buffered()
        held = sink.take_held()
        tail = parse_tail(held[-tail_bytes_needed(held[-_POSTSCRIPT_MAX:]) :], own=True)
        body = memoryview(held)[: len(held) - tail.tail_bytes]
        if self._held_from is not None:
            changed, tail = set_back(bytes(body), self._held_from, tail, fractions=fractions or {})
            body = memoryview(changed)
        self._guarded(lambda: sink.put(body))
        return tail

    def _add(self, tail: OrcTail) -> JoinedTail:
        """Join the tail of one writer's stripes to those before."""
        if self._joined is None:
            self._joined = JoinedTail(tail)
        self._joined.add(
            tail,
            statistics=tail.stripe_statistics(),
            offsets=[self._part_from + stripe.offset for stripe in tail.stripes],
        )
        return self._joined

    def _whole(self, tail: OrcTail) -> OrcTail:
        """The tail of all stripes, where ``tail`` is that of the last writer."""
        if self._joined is None or self._sink is None:
            return tail
        return self._add(tail).tail(end=self._sink.size_bytes)

    def abort(self) -> None:
        """Give up: remove what there is; nothing happens where the file is not open."""
        sink, writer = self._sink, self._writer
        self._sink = self._writer = self._buffer = None
        if sink is None:
            return
        sink.discard()
        if writer is not None:
            with held_back():
                writer.close()
        sink.finish_discarded()
        remove_failed(self._fs, self._path)

    def _begun(self) -> orc.ORCWriter:
        if self._writer is None:
            raw = pa.PythonFile(self._sink, mode="w")
            compression = self._settings.compression
            self._buffer = pa.BufferedOutputStream(raw, _BUFFER_BYTES)
            self._writer = orc.ORCWriter(
                self._buffer,
                batch_size=self._batch_rows,
                stripe_size=self._settings.stripe_bytes,
                compression=compression,
                compression_block_size=self._settings.buffer_bytes,
                # Arrow's LZ4 leaves out all compression for speed (docs/measured.md)
                compression_strategy="compression" if compression == "lz4" else "speed",
                row_index_stride=self._settings.row_index_stride,
                dictionary_key_size_threshold=_DICTIONARY_THRESHOLD,
            )
        return self._writer

    def _send_buffered(self) -> None:
        if self._buffer is not None:
            self._guarded(self._buffer.flush)

    def _guarded(self, step: Callable[[], object]) -> None:
        """Run one step; the sink remembers the file system's error, which the ORC writer
        swallows.
        """
        try:
            with held_back():
                step()
        except (pa.ArrowException, OSError) as error:
            cause = self._sink.error if self._sink is not None else None
            if cause is not None:
                raise storage_error(cause, path=self._path) from cause
            if isinstance(error, OSError):
                raise storage_error(error, path=self._path) from error
            raise StorageError(
                f"writing {self._path} failed: {error}", path=self._path, detail="io"
            ) from error


_POSTSCRIPT_MAX = 256


class _Sink:
    """The file object behind the ORC writer's buffer."""

    def __init__(self, fs: Destination, path: str) -> None:
        self._out = fs.open_output(path)
        self._held: bytearray | None = None
        self._skip_bytes = 0
        self._discarding = False
        self.size_bytes = 0
        self.error: OSError | None = None
        self.closed = False

    def write(self, data: bytes) -> int:
        """Called by the buffer."""
        size = len(data)
        skipped = min(self._skip_bytes, size)
        self._skip_bytes -= skipped
        data = data[skipped:]
        if self._held is not None:
            self._held += data
        elif not self._discarding:
            self.put(data)
        return size

    def skip(self, size_bytes: int) -> None:
        """Leave out the first bytes of what comes from now on."""
        self._skip_bytes = size_bytes

    def put(self, data: bytes | memoryview) -> None:
        """Send to the file system."""
        try:
            self._out.write(data)
        except OSError as error:
            self.error = error
            raise
        self.size_bytes += len(data)

    def hold(self) -> None:
        """Keep what comes from now on."""
        self._held = bytearray()

    def take_held(self) -> bytes:
        """What was kept; the sink passes data on again."""
        held, self._held = bytes(self._held or b""), None
        return held

    def discard(self) -> None:
        """Drop what comes from now on."""
        self._held, self._discarding = None, True

    def finish(self) -> None:
        """Complete the file."""
        self._out.close()

    def finish_discarded(self) -> None:
        """Close a file that will be deleted; a full disk has been reported already."""
        try:
            self._out.close()
        except OSError as error:
            self.error = self.error or error

    def tell(self) -> int:
        """Called by the buffer."""
        return self.size_bytes + len(self._held or b"")

    def flush(self) -> None:
        """Called by the buffer; the file system is not flushed before the end."""

    def close(self) -> None:
        """Called by the buffer when it is done; ``finish`` closes the file."""


# -------------------------------------------------------------------- settings
# How Hive 4.1 sets its ORC writer, by kind of file and table properties (format.md 5.3,
# real-hive.md 4).


_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_DELTA_RATIO: Final = 8
_BUFFER_STEP: Final = 64 * _KIB
"""Arrow's ORC writer takes compression blocks in multiples of 64 KiB only."""
_BUFFER_MAX: Final = 8 * _MIB - _BUFFER_STEP
"""It ends the process where they are larger."""
_NUMBER_MAX: Final = 2**31 - 1
_COMPRESSIONS: Final = {
    "NONE": "uncompressed",
    "ZLIB": "zlib",
    "SNAPPY": "snappy",
    "LZ4": "lz4",
    "ZSTD": "zstd",
}


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of one ORC file; ``compression`` is Arrow's word."""

    compression: str
    stripe_bytes: int
    buffer_bytes: int
    row_index_stride: int


def writer_settings(kind: FileKind, *, properties: Mapping[str, str]) -> WriterSettings:
    """Settings for a kind of file under a table's properties (``orc.*``, case ignored).

    Insert deltas get an eighth of stripe and buffer; delete deltas, bases and plain files the
    whole.

    Raises:
        InvalidInputError: a property is not a number, or the compression is unknown.
        UnsupportedError: a compression that Hive knows and cannot be written here (LZO, BROTLI).
    """
    lower = {key.lower(): value for key, value in properties.items()}
    ratio = _DELTA_RATIO if kind is FileKind.INSERT else 1
    buffer = _number(lower, "orc.compress.size", 256 * _KIB) // ratio
    stride = _number(lower, "orc.row.index.stride", 10_000)
    return WriterSettings(
        compression=_compression(lower.get("orc.compress", "ZLIB").upper()),
        stripe_bytes=max(_number(lower, "orc.stripe.size", 64 * _MIB) // ratio, 1),
        buffer_bytes=min(max(-(-buffer // _BUFFER_STEP) * _BUFFER_STEP, _BUFFER_STEP), _BUFFER_MAX),
        row_index_stride=stride or 10_000,
    )


def quick_codec(properties: Mapping[str, str]) -> dict[str, str]:
    """A table's properties with the codec for stripes of a few rows, where it takes ZSTD."""
    return {
        key: "SNAPPY" if key.lower() == "orc.compress" and text.upper() == "ZSTD" else text
        for key, text in properties.items()
    }


def _compression(name: str) -> str:
    if name in ("LZO", "BROTLI"):
        raise UnsupportedError(f"orc.compress={name} cannot be written", property="orc.compress")
    if name not in _COMPRESSIONS:
        raise InvalidInputError(f"unknown orc.compress {name!r}", property="orc.compress")
    return _COMPRESSIONS[name]


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default))
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidInputError(f"{key}={text!r} is not a number", property=key) from error
    if value < 0:
        raise InvalidInputError(f"{key}={text!r} is negative", property=key)
    return min(value, _NUMBER_MAX)
