"""Put the stripes of several event files into one file without decoding them.

    bucket_N of delta_1_1 |s0|s1|tail    bucket_N of delta_2_2 |s0|tail
              \\  |                                  |
               ORC|s0|s1|s0| statistics of each stripe, merged ones of the file, new key index

Where stripes lie in a file does not matter to them; the tail says it. It can be done where files
are sorted apart, nothing in them is to be left out, and they agree in all that a tail says once:
types, compression, row index stride, writer, calendar. Damage inside a stripe is copied, as
nothing is decoded: it is found by whoever reads it, as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa

from hiveacid.layout.events import EVENT_FIELDS
from hiveacid.layout.metadata import (
    KEY_INDEX_KEY,
    AcidStats,
    file_metadata,
    usable_key_index,
)
from hiveacid.layout.snapshot import DataFile
from hiveacid.model.bucket import RowId
from hiveacid.model.tables import Column
from hiveacid.storage.filesystem import FileSystem, storage_error
from hiveacid.storage.merge.sources import DirectorySources, Key, key_bounds, numpy_of
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFile
from hiveacid.storage.orc.joined_tail import JoinedTail
from hiveacid.storage.orc.native import only_inserts
from hiveacid.storage.orc.tail import MAGIC, OrcTail, rewrite_tail


@dataclass(frozen=True, slots=True)
class CopyPart:
    """A file whose stripes can be copied: ``low`` and ``high`` bound its identities."""

    path: str
    tail: OrcTail
    statistics: tuple[tuple[Any, ...], ...]
    last_rows: tuple[RowId, ...]
    low: Key
    high: Key


def copyable(
    sources: DirectorySources,
    files: Iterable[DataFile],
    *,
    columns: Sequence[Column],
    stripe_bytes_min: int,
) -> tuple[CopyPart, ...] | None:
    """The files in the order of their rows, None where they must be decoded.

    All rows must count: the caller has seen to write ids and deletes.
    ``stripe_bytes_min`` is how large stripes must be on average: many small ones are slow to read.

    Raises:
        FormatError: a damaged file.
        MissingFileError, StorageError: a file is not there or cannot be read.
    """
    parts: list[CopyPart] = []
    for file in files:
        with sources.open(file) as reader:
            part = _part(reader, columns) if reader.rows else None
            if not reader.rows:
                continue
        if part is None or (parts and not _agree(parts[0].tail, part.tail)):
            return None
        parts.append(part)
    parts.sort(key=lambda part: part.low)
    apart = all(a.high < b.low for a, b in pairwise(parts))
    return tuple(parts) if apart and _are_large(parts, stripe_bytes_min) else None


def copy_stripes(fs: FileSystem, path: str, parts: Sequence[CopyPart]) -> BucketFile:
    """Write the stripes of all parts into one file.

    Raises:
        MissingFileError, StorageError: reading or writing failed; the file is removed.
    """
    try:
        with fs.open_output(path) as out:
            out.write(MAGIC)
            size = len(MAGIC)
            offsets: list[int] = []
            for part in parts:
                with fs.open_input(part.path) as source:
                    for stripe in part.tail.stripes:
                        source.seek(stripe.offset)
                        out.write(source.read_buffer(stripe.size_bytes))
                        offsets.append(size)
                        size += stripe.size_bytes
            joined = JoinedTail(parts[0].tail)
            places = iter(offsets)
            for part in parts:
                own = list(islice(places, len(part.tail.stripes)))
                joined.add(part.tail, statistics=part.statistics, offsets=own)
            tail = joined.tail(end=size)
            last_rows = (row for part in parts for row in part.last_rows)
            facts = file_metadata(last_rows, AcidStats(inserts=tail.rows))
            end = rewrite_tail(tail, user_metadata=facts)
            out.write(end)
    except (pa.ArrowException, OSError) as error:
        if fs.exists(path):
            fs.delete_file(path)
        failed = error if isinstance(error, OSError) else OSError(str(error))
        raise storage_error(failed, path=path) from error
    return BucketFile(path, tail.rows, size + len(end))


def _part(reader: BucketFileReader, columns: Sequence[Column]) -> CopyPart | None:
    tail = reader.tail
    assert tail is not None
    if not reader.is_acid or tuple(name for name, _ in tail.root.fields) != EVENT_FIELDS:
        return None
    if reader.fields != tuple((column.name, column.type) for column in columns):
        return None
    statistics = tail.stripe_statistics()
    if not only_inserts(tail) or len(statistics) != len(tail.stripes):
        return None
    if _is_of_later_orc(tail):
        return None
    return CopyPart(reader.path, tail, statistics, _last_rows(reader, tail), *key_bounds(reader))


def _is_of_later_orc(tail: OrcTail) -> bool:
    """Whether the tail says of the file or its stripes what nobody here knows: encryption is such.

    Statistics may hold more: what is not known of them is left out.
    """
    footer = proto.Footer()
    footer.CopyFrom(tail.footer)
    del footer.statistics[:]
    known, postscript = proto.Footer(), proto.PostScript()
    known.CopyFrom(footer)
    postscript.CopyFrom(tail.postscript)
    known.DiscardUnknownFields()
    postscript.DiscardUnknownFields()
    return bool(known != footer or postscript != tail.postscript)


def _agree(first: OrcTail, other: OrcTail) -> bool:
    """Whether stripes of both mean the same under one tail."""
    same_types = [node.SerializeToString() for node in first.footer.types] == [
        node.SerializeToString() for node in other.footer.types
    ]
    return same_types and _said_once(first) == _said_once(other)


def _said_once(tail: OrcTail) -> tuple[object, ...]:
    return (
        tail.compression,
        tail.row_index_stride,
        tuple(tail.postscript.version),
        tail.postscript.writerVersion,
        tail.footer.writer,
        tail.footer.calendar,
        len(tail.footer.statistics),
    )


def _are_large(parts: Sequence[CopyPart], stripe_bytes_min: int) -> bool:
    sizes = [stripe.size_bytes for part in parts for stripe in part.tail.stripes]
    return bool(sizes) and (len(sizes) == 1 or sum(sizes) >= stripe_bytes_min * len(sizes))


def _last_rows(reader: BucketFileReader, tail: OrcTail) -> tuple[RowId, ...]:
    """The last identity of each stripe: from the key index, from the rows where it is not whole."""
    text = tail.user_metadata.get(KEY_INDEX_KEY)
    known = usable_key_index(
        None if text is None else text.decode("ascii", "replace"), stripes=len(tail.stripes)
    )
    if known is not None:
        return known
    found = []
    for batch in reader.batches(table_columns=(), wanted=(), identities=True):
        ids = batch.identities
        assert ids is not None
        keys = (ids.original_write_id, ids.bucket, ids.row_id)
        found.append(RowId(*(int(numpy_of(array)[-1]) for array in keys)))
    return tuple(found)
