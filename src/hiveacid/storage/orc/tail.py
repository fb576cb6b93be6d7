"""The tail of an ORC file: read it, and write it again with user metadata and Hive's types.

    ... stripes | metadata (stripe statistics) | footer | postscript | one byte: postscript's length

``parse_tail(bytes)`` works on the end of any prefix of a file that is itself a complete ORC file
(format.md 9). ``rewrite_tail`` changes only what it is asked to change; fields this module does
not know are kept. Sections that it writes are stored as uncompressed chunks of at most one
compression block each.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf.message import DecodeError

from hiveacid.errors import FormatError
from hiveacid.layout.events import STATS_KEY, parse_stats
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.damage import check_footer, check_types, damage

MAGIC: Final = b"ORC"
_FIRST_READ_BYTES: Final = 64 * 1024
_CHUNK_HEADER_BYTES: Final = 3
_VARINT_SHIFT_MAX: Final = 56
_CHUNK_BYTES_MAX: Final = 1 << 22
_UNKNOWN_CALENDAR: Final = 0
_PROLEPTIC_GREGORIAN: Final = 2
_HIVE_3_1_WRITER: Final = 7


class Compression(Enum):
    """CompressionKind of a file."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe: ``offset`` in bytes, ``size_bytes`` with index and footer, ``first_row`` from
    0.
    """

    offset: int
    size_bytes: int
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class OrcType:
    """One node of the type tree; its number is its place in ``OrcTail.types``."""

    type: HiveType
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrcTail:
    """What the tail says. ``types[0]`` is the root; ``footer`` and ``metadata`` are the parsed
    messages.
    """

    compression: Compression
    block_bytes: int
    row_index_stride: int
    rows: int
    stripes: tuple[Stripe, ...]
    types: tuple[OrcType, ...]
    user_metadata: Mapping[str, bytes]
    tail_bytes: int
    postscript: Any
    footer: Any
    metadata_section: bytes

    @property
    def has_julian_dates(self) -> bool:
        """Whether dates before 1582-10-15 are in the Julian calendar.

        Hive 4 says so in the footer. Where nothing is said, Hive before 3.1 means Julian, Hive 3.1
        and writers that are not Java's mean Gregorian.
        """
        if self.footer.HasField("calendar") and self.footer.calendar != _UNKNOWN_CALENDAR:
            return bool(self.footer.calendar != _PROLEPTIC_GREGORIAN)
        is_java = self.footer.writer == 0
        return bool(is_java and self.postscript.writerVersion < _HIVE_3_1_WRITER)

    @property
    def java_has_julian_dates(self) -> bool:
        """What ORC's Java reader takes for granted: Julian dates unless others are named."""
        return bool(self.footer.calendar != _PROLEPTIC_GREGORIAN)

    @property
    def stored_chunk_bytes(self) -> int:
        """The size of each chunk but the last in a section that is stored uncompressed."""
        return min(self.block_bytes, _CHUNK_BYTES_MAX)

    @property
    def root(self) -> StructType:
        """The schema of the file.

        Raises:
            FormatError: the root is not a struct.
        """
        root = self.types[0].type
        if not isinstance(root, StructType):
            raise FormatError(
                "the root of an ORC file is not a struct", expected="struct", found=str(root)
            )
        return root

    def stripe_statistics(self) -> tuple[tuple[Any, ...], ...]:
        """ColumnStatistics messages: one tuple (by column number) for each stripe; empty where
        there are none.

        Raises:
            FormatError: the metadata section is damaged.
        """
        raw = decompress(
            self.metadata_section, compression=self.compression, block_bytes=self.block_bytes
        )
        message = parse_message(proto.Metadata, raw, what="stripe statistics")
        return tuple(tuple(stripe.colStats) for stripe in message.stripeStats)


def read_tail(fs: FileSystem, path: str, *, length: int | None = None) -> OrcTail:
    """The tail of a file, or of its first ``length`` bytes.

    Raises:
        FormatError: not an ORC file, or a truncated one; context ``path``, ``expected``, ``found``.
        MissingFileError: no such file.
        StorageError: reading failed.
    """
    with fs.open_input(path) as source:
        size = source.size() if length is None else length
        return read_tail_of(source, size_bytes=size, path=path)


def read_tail_of(source: pa.NativeFile, *, size_bytes: int, path: str) -> OrcTail:
    """The tail of the first ``size_bytes`` of an open file.

    Raises:
        FormatError: not an ORC file, or a truncated one.
    """
    want = min(size_bytes, _FIRST_READ_BYTES)
    try:
        while True:
            source.seek(size_bytes - want)
            end = source.read(want)
            needed = tail_bytes_needed(end)
            if needed <= want:
                tail = parse_tail(end)
                _check(tail, size_bytes=size_bytes)
                return tail
            if needed > size_bytes:
                raise FormatError(
                    "", expected=f"a tail of {needed} bytes", found=f"{size_bytes} bytes"
                )
            want = needed
    except FormatError as error:
        expected, found = error.context.get("expected"), error.context.get("found")
        raise FormatError(
            f"{path} is not a complete ORC file: expected {expected}, found {found}",
            path=path,
            expected=expected,
            found=found,
        ) from error


def _check(tail: OrcTail, *, size_bytes: int) -> None:
    """A whole tail behind a body that lost some of its bytes is no complete file; and Hive's
    figures, on which readers rely, are figures.
    """
    end = max((stripe.offset + stripe.size_bytes for stripe in tail.stripes), default=0)
    if end > size_bytes - tail.tail_bytes:
        raise damage(f"stripes up to byte {end}", f"{size_bytes - tail.tail_bytes} bytes")
    text = tail.user_metadata.get(STATS_KEY)
    if text is not None:
        parse_stats(text.decode("ascii", "replace"))


def tail_bytes_needed(end: bytes) -> int:
    """How many last bytes of a file its tail takes, told from the last few (at least the
    postscript).

    Raises:
        FormatError: these are not the last bytes of an ORC file.
    """
    postscript, size = _postscript(end)
    return int(1 + size + postscript.footerLength + postscript.metadataLength)


def parse_tail(end: bytes, *, own: bool = False) -> OrcTail:
    """The tail from the last bytes of a file (at least ``tail_bytes_needed`` of them); ``own`` was
    written by this process just now, and is no damaged one.

    Raises:
        FormatError: not the last bytes of an ORC file; context ``expected`` and ``found``.
    """
    postscript, size = _postscript(end)
    try:
        compression = Compression(postscript.compression)
    except ValueError as error:
        raise damage("a known compression", f"kind {postscript.compression}") from error
    footer_end = len(end) - 1 - size
    footer_start = footer_end - postscript.footerLength
    metadata_start = footer_start - postscript.metadataLength
    if metadata_start < 0:
        raise damage(f"{1 + size + footer_end - metadata_start} bytes of tail", f"{len(end)} bytes")
    block = int(postscript.compressionBlockSize) or 256 * 1024
    raw = decompress(end[footer_start:footer_end], compression=compression, block_bytes=block)
    footer = parse_message(proto.Footer, raw, what="footer")
    if not own:
        check_footer(footer)
    if not footer.types:
        raise damage("a type tree", "no types")
    return OrcTail(
        compression=compression,
        block_bytes=block,
        row_index_stride=int(footer.rowIndexStride),
        rows=int(footer.numberOfRows),
        stripes=stripes_of(footer),
        types=_type_tree(tuple(node.SerializeToString() for node in footer.types)),
        user_metadata={item.name: item.value for item in footer.metadata},
        tail_bytes=len(end) - metadata_start,
        postscript=postscript,
        footer=footer,
        metadata_section=end[metadata_start:footer_start],
    )


def rewrite_tail(
    tail: OrcTail,
    *,
    user_metadata: Mapping[str, bytes],
    hive_types: Mapping[int, HiveType] | None = None,
    proleptic: bool = False,
) -> bytes:
    """The bytes of the tail with user metadata added or replaced, and the types of some columns.

    ``hive_types`` maps column numbers (0 is the root) to their types: texts become char or varchar,
    decimals get their precision and scale. ``proleptic`` states that dates are in the Gregorian
    calendar throughout; unsaid, Java readers take those before 1582-10-15 for Julian ones.
    """
    footer = deepcopy(tail.footer)
    merged = {**tail.user_metadata, **user_metadata}
    del footer.metadata[:]
    for name, value in merged.items():
        footer.metadata.add(name=name, value=value)
    for number, kind in (hive_types or {}).items():
        node = footer.types[number]
        if isinstance(kind, DecimalType):
            node.precision, node.scale = kind.precision, kind.scale
        elif isinstance(kind, CharType | VarcharType):
            node.kind = _CHAR if isinstance(kind, CharType) else _VARCHAR
            node.maximumLength = kind.length
    if proleptic:
        footer.calendar = _PROLEPTIC_GREGORIAN
    return tail_with(tail, footer, metadata_section=tail.metadata_section)


def tail_with(tail: OrcTail, footer: Any, *, metadata_section: bytes) -> bytes:
    """The bytes of the tail with this footer (a message) and metadata section (as stored)."""
    body = stored(footer.SerializeToString(), tail=tail)
    postscript = deepcopy(tail.postscript)
    postscript.footerLength = len(body)
    postscript.metadataLength = len(metadata_section)
    end = postscript.SerializeToString()
    serialised: bytes = metadata_section + body + end + bytes([len(end)])
    return serialised


def decompress(section: bytes, *, compression: Compression, block_bytes: int) -> bytes:
    """The content of a compressed section: chunks with a 3-byte header each.

    Raises:
        FormatError: damaged, or compressed in a way that cannot be read here (LZO, Brotli).
    """
    if compression is Compression.NONE:
        return section
    parts: list[bytes] = []
    at = 0
    while at < len(section):
        header = int.from_bytes(section[at : at + _CHUNK_HEADER_BYTES], "little")
        at += _CHUNK_HEADER_BYTES
        size = header >> 1
        chunk = section[at : at + size]
        if len(chunk) < size:
            raise damage(f"a chunk of {size} bytes", f"{len(chunk)} bytes")
        parts.append(chunk if header & 1 else _decompress_chunk(chunk, compression, block_bytes))
        at += size
    return b"".join(parts)


def _decompress_chunk(chunk: bytes, compression: Compression, block_bytes: int) -> bytes:
    try:
        if compression is Compression.ZLIB:
            return _inflated(chunk)
        if compression is Compression.SNAPPY:
            size, _ = varint(chunk, 0)
            return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=size))
        if compression is Compression.ZSTD:
            return bytes(pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read())
        if compression is Compression.LZ4:
            return _lz4_block(chunk, limit=block_bytes)
    except (FormatError, zlib.error, OSError, ValueError, IndexError, pa.ArrowException) as error:
        raise damage(f"{compression.name} data", "damaged bytes") from error
    raise damage("NONE, ZLIB, SNAPPY, LZ4 or ZSTD compression", compression.name)


def _inflated(chunk: bytes) -> bytes:
    """A whole deflate stream and nothing behind it: damage that ends it early is found."""
    stream = zlib.decompressobj(wbits=-15)
    data = stream.decompress(chunk)
    if not stream.eof or stream.unused_data:
        raise ValueError("the stream ends early")
    return data


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits a byte, the lowest first; and where it ends.

    Raises:
        FormatError: it does not end, or is of more than 63 bits.
    """
    number = shift = 0
    while at < len(data) and data[at] & 128:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    if at >= len(data) or shift > _VARINT_SHIFT_MAX:
        raise damage("a number", "the end of the stream")
    return number | data[at] << shift, at + 1


def _lz4_block(chunk: bytes, *, limit: int) -> bytes:
    """LZ4 block format; Arrow's codec needs the exact size, which ORC does not store."""
    out, at = bytearray(), 0
    while at < len(chunk):
        token = chunk[at]
        at += 1
        literals, at = _lz4_length(chunk, at, token >> 4)
        out += chunk[at : at + literals]
        at += literals
        if at >= len(chunk):
            break
        offset = int.from_bytes(chunk[at : at + 2], "little")
        at += 2
        count, at = _lz4_length(chunk, at, token & 15)
        if not 0 < offset <= len(out) or len(out) + count > limit + 4:
            raise ValueError("bad match")
        for _ in range(count + 4):
            out.append(out[-offset])
    return bytes(out)


def _lz4_length(chunk: bytes, at: int, value: int) -> tuple[int, int]:
    if value == 15:
        while True:
            value += chunk[at]
            at += 1
            if chunk[at - 1] != 255:
                break
    return value, at


def stored(section: bytes, *, tail: OrcTail) -> bytes:
    """A section as the file of ``tail`` may hold it: in chunks that are not compressed."""
    if tail.compression is Compression.NONE:
        return section
    step = tail.stored_chunk_bytes
    parts: list[bytes] = []
    for at in range(0, len(section), step):
        chunk = section[at : at + step]
        parts.append((len(chunk) << 1 | 1).to_bytes(_CHUNK_HEADER_BYTES, "little") + chunk)
    return b"".join(parts)


def _postscript(end: bytes) -> tuple[Any, int]:
    if not end:
        raise damage("an ORC postscript", "an empty file")
    size = end[-1]
    if size < len(MAGIC) + 1 or len(end) < size + 1:
        raise damage("an ORC postscript", f"last bytes {end[-8:]!r}")
    raw = end[-1 - size : -1]
    postscript = parse_message(proto.PostScript, raw, what="postscript")
    if postscript.magic != "ORC":
        raise damage("an ORC postscript", f"last bytes {end[-8:]!r}")
    return postscript, size


def parse_message(message: Any, raw: bytes, *, what: str) -> Any:
    """One of ORC's messages from its bytes; ``what`` names it.

    Raises:
        FormatError: the bytes do not parse.
    """
    parsed = message()
    try:
        parsed.ParseFromString(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        raise damage(f"an ORC {what}", "bytes that do not parse") from error
    return parsed


def stripes_of(footer: Any) -> tuple[Stripe, ...]:
    """The stripes that a footer lists."""
    stripes: list[Stripe] = []
    first_row = 0
    for info in footer.stripes:
        size = int(info.indexLength + info.dataLength + info.footerLength)
        stripes.append(
            Stripe(
                offset=int(info.offset),
                size_bytes=size,
                first_row=first_row,
                rows=int(info.numberOfRows),
            )
        )
        first_row += int(info.numberOfRows)
    return tuple(stripes)


_LIST, _MAP, _STRUCT, _UNION, _DECIMAL, _VARCHAR, _CHAR = 10, 11, 12, 13, 14, 16, 17
_PRIMITIVES: Final = {
    0: "boolean",
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "bigint",
    5: "float",
    6: "double",
    7: "string",
    8: "binary",
    9: "timestamp",
    15: "date",
    18: "timestamp with local time zone",
}


@lru_cache(maxsize=64)
def _type_tree(serialised: tuple[bytes, ...]) -> tuple[OrcType, ...]:
    """The same for all files of a table, nearly always."""
    nodes = [parse_message(proto.Type, node, what="type") for node in serialised]
    check_types(nodes)
    built: dict[int, HiveType] = {}
    for number in reversed(range(len(nodes))):  # children come after their parents
        children = list(nodes[number].subtypes)
        if any(child <= number or child not in built for child in children):
            raise damage("children after their parent", f"type {number} -> {children}")
        built[number] = _hive_type(nodes[number], [built[child] for child in children])
    return tuple(
        OrcType(type=built[number], children=tuple(nodes[number].subtypes))
        for number in range(len(nodes))
    )


def _hive_type(node: Any, children: Sequence[HiveType]) -> HiveType:
    kind = node.kind
    if kind in _PRIMITIVES:
        return PrimitiveType(_PRIMITIVES[kind])
    if kind == _DECIMAL:
        return DecimalType(node.precision or 38, node.scale if node.precision else 10)
    if kind == _CHAR:
        return CharType(node.maximumLength)
    if kind == _VARCHAR:
        return VarcharType(node.maximumLength)
    if kind == _LIST and len(children) == 1:
        return ListType(children[0])
    if kind == _MAP and len(children) == 2:
        return MapType(children[0], children[1])
    if kind == _STRUCT and len(children) == len(node.fieldNames):
        return StructType(tuple(zip(node.fieldNames, children, strict=True)))
    if kind == _UNION:
        return UnionType(tuple(children))
    raise damage("a known ORC type", f"kind {kind} with {len(children)} children")
