"""Rewrite one bucket of a partition for a compaction: files in, staged files out.

The unit of work of every rewrite: the Arrow rewrite does one after the other, the Spark rewrite one
in each task. Nothing is published here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

import pyarrow as pa

from hiveacid.errors import StorageError
from hiveacid.layout.compaction import MajorCompaction, RewritePlan, bucket_bytes
from hiveacid.layout.directories import (
    BaseName,
    BucketFileName,
    DataFile,
    DeltaName,
    OriginalFileName,
    format_bucket_file,
    format_directory,
    format_original_file,
)
from hiveacid.layout.events import (
    EVENT_FIELDS,
    KEY_INDEX_KEY,
    AcidStats,
    file_metadata,
    format_key_index,
    usable_key_index,
)
from hiveacid.model.ids import RowId
from hiveacid.model.tables import Column
from hiveacid.storage.failures import storage_error
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.event_merge import (
    Events,
    What,
    all_events,
    delete_events,
    live_rows,
    row_type_of,
)
from hiveacid.storage.merge.sources import DirectorySources, Key, Source, key_bounds
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFile, BucketFileWriter
from hiveacid.storage.orc.joined_tail import JoinedTail
from hiveacid.storage.orc.output import Destination
from hiveacid.storage.orc.statistics import only_inserts
from hiveacid.storage.orc.tail import MAGIC, OrcTail, rewrite_tail
from hiveacid.storage.target import FileKind, WrittenFile

_AHEAD_BYTES: Final = 8 * 1024 * 1024
"""What is worth a thread that reads while the other writes."""
_AHEAD: Final = 6
"""So many batches take as long to write as a stripe to read."""


class RewriterBasis:
    """What every rewriter has: the plan, its files, and how a file of events is staged."""

    def __init__(
        self,
        fs: FileSystem,
        plan: RewritePlan,
        *,
        unit: str,
        foreign: frozenset[str] | None = None,
        task: str | None = None,
    ) -> None:
        """``unit`` is that of timestamps; ``foreign`` as in ``DirectorySources``; ``task`` is the
        name of one that may run twice: it sends its files to where they stay, or stages them.
        """
        self._fs = fs
        self._plan = plan
        self._unit = unit
        self._task = task
        self._uploads = fs.uploads if plan.in_place and task is not None else None
        self._bucket_bytes = bucket_bytes(plan)
        self._sources = DirectorySources(
            fs, fs.path_of(plan.location), plan.directory, valid=plan.valid, foreign=foreign
        )

    @property
    def foreign(self) -> frozenset[str]:
        """Delete files that may hold events of several buckets."""
        return self._sources.delete_files_of_several_buckets()

    def _written(
        self, directory: BaseName | DeltaName, bucket: int, events: Callable[[], Iterator[Events]]
    ) -> WrittenFile | None:
        """The file of some events, None where there are none; ``events`` may be asked again."""
        path, name = self._place(directory, bucket)
        deletes = isinstance(directory, DeltaName) and directory.is_delete
        kind = FileKind.DELETE if deletes else FileKind.BASE
        ahead = self._bucket_bytes.get(bucket, 0) >= _AHEAD_BYTES

        def made() -> BucketFile | None:
            return self._made(path, kind, made_ahead(events(), count=_AHEAD) if ahead else events())

        file = self._fs.made_again(path, made)
        return None if file is None else self._finished(file, directory, name)

    def _made(self, path: str, kind: FileKind, events: Iterator[Events]) -> BucketFile | None:
        """Compacted deltas get the settings of bases: they hold much."""
        table = self._plan.table
        with BucketFileWriter(
            self._uploads or self._fs,
            path,
            columns=table.columns,
            kind=kind,
            properties=table.properties,
        ) as writer:
            row_type = row_type_of(table.columns, unit=self._unit)
            for part in events:
                writer.write_events(part.record_batch(row_type))
                del part
            return writer.close()

    def _finished(
        self, file: BucketFile, directory: BaseName | DeltaName, name: str
    ) -> WrittenFile:
        return WrittenFile(
            (),
            format_directory(directory),
            name,
            file.path,
            FileKind.BASE,
            file.rows,
            file.size_bytes,
            upload=None if self._uploads is None else self._uploads.taken(file.path),
        )

    def _place(self, directory: BaseName | DeltaName, bucket: int) -> tuple[str, str]:
        """The path of a file, and its name."""
        name, is_sure = format_bucket_file(BucketFileName(bucket)), self._task is None
        return rewritten_path(
            self._fs,
            self._plan,
            format_directory(directory),
            name if is_sure or self._uploads else f"{name}-{self._task}",
            in_place=is_sure or self._uploads is not None,
        ), name


def rewritten_path(
    fs: FileSystem, plan: RewritePlan, directory: str, name: str, *, in_place: bool = True
) -> str:
    """Where a file of the result is written: in its place, where the plan allows it, too."""
    if plan.in_place and in_place:
        return f"{fs.path_of(plan.location)}/{directory}/{name}"
    return f"{fs.path_of(plan.staging)}/{directory}-{name}"


class BucketRewriter(RewriterBasis):
    """Rewrites buckets of one plan, each by itself; identities stay."""

    def __init__(
        self,
        fs: FileSystem,
        plan: RewritePlan,
        *,
        unit: str,
        stripe_bytes_min: int | None,
        foreign: frozenset[str] | None = None,
        task: str | None = None,
    ) -> None:
        """Whole stripes are copied where that is possible and they have ``stripe_bytes_min`` on
        average, never where it is None. The rest as ``RewriterBasis``.
        """
        super().__init__(fs, plan, unit=unit, foreign=foreign, task=task)
        self._stripe_bytes_min = stripe_bytes_min

    def works(self) -> tuple[int, ...]:
        """The bucket numbers of which there may be something to write, the largest first.

        Raises:
            FormatError, MissingFileError, StorageError: a delete file cannot be read.
        """
        directory = self._plan.directory
        if isinstance(self._plan.compaction, MajorCompaction):
            buckets = {file.bucket for file in directory.row_files}
        else:
            buckets = {file.bucket for delta in directory.insert_deltas for file in delta.files}
            buckets |= self._sources.delete_buckets()
        sizes = self._bucket_bytes
        return tuple(sorted(buckets, key=lambda bucket: (-sizes.get(bucket, 0), bucket)))

    def rewrite(self, work: object) -> tuple[WrittenFile, ...]:
        """Stage the result's files of one of ``works``; none where no event is left.

        Raises:
            FormatError: a damaged file, one whose events are not sorted, or rows without a bucket
            number.
            MissingFileError: a file that the plan names is not there.
            StorageError: reading or writing failed.
            UnsupportedError: a value that cannot be written.
        """
        assert isinstance(work, int)
        return tuple(file for file in self._rewritten(work) if file is not None)

    def _rewritten(self, bucket: int) -> Iterator[WrittenFile | None]:
        compaction, plan, sources = self._plan.compaction, self._plan, self._sources
        what = What((bucket,), plan.table.columns, plan.valid, self._unit)
        if isinstance(compaction, MajorCompaction):
            rows = sources.rows_of(bucket)
            yield self._copied(
                compaction.output, bucket, None if any(sources.delete_files_of(bucket)) else rows
            ) or self._written(compaction.output, bucket, partial(live_rows, sources, what))
            return
        if compaction.delta is not None:
            rows = tuple(s for s in sources.rows_of(bucket) if isinstance(s.origin, DeltaName))
            yield self._copied(compaction.delta, bucket, rows) or self._written(
                compaction.delta, bucket, partial(all_events, sources, what)
            )
        if compaction.delete_delta is not None:
            events = partial(delete_events, sources, what)
            yield self._written(compaction.delete_delta, bucket, events)

    def _copied(
        self, directory: BaseName | DeltaName, bucket: int, rows: Sequence[Source] | None
    ) -> WrittenFile | None:
        """The file of the stripes of ``rows``, None where they must be decoded."""
        if self._stripe_bytes_min is None or rows is None:
            return None
        if any(source.check_write_ids for source in rows):
            return None
        parts = copyable(
            self._sources,
            (source.file for source in rows),
            columns=self._plan.table.columns,
            stripe_bytes_min=self._stripe_bytes_min,
        )
        if not parts:
            return None
        path, name = self._place(directory, bucket)
        to = self._uploads or self._fs
        copied = partial(copy_stripes, self._fs, path, parts, to=to)
        file = self._fs.made_again(path, copied)
        return self._finished(file, directory, name)


# -------------------------------------------------------------------- tables without row events
# Compact a directory of an insert-only table: files are copied, byte by byte, never read.
#
# A delta of such a table counts as a whole or not at all (format.md 1.9): those of aborted
# transactions are not in the plan, and none holds rows of several transactions that did not all
# commit. So no file needs to be opened, whatever its format.


def copy_files(fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
    """Stage a copy of every input file with a name of its own; files of 0 bytes are left out.

    Raises:
        MissingFileError: a file that the plan names is not there.
        StorageError: copying failed.
    """
    compaction = plan.compaction
    output = compaction.output if isinstance(compaction, MajorCompaction) else compaction.delta
    if output is None:
        return ()
    directory, location = format_directory(output), fs.path_of(plan.location)
    copied = []
    for file, name in _named(plan):
        target = rewritten_path(fs, plan, directory, name)
        fs.copy_file(f"{location}/{file.path}", target=target)
        copied.append(WrittenFile((), directory, name, target, FileKind.PLAIN, 0, file.size_bytes))
    return tuple(copied)


def _named(plan: RewritePlan) -> Iterator[tuple[DataFile, str]]:
    """Input files with their new names: numbers from 0 on; where the table has buckets the file's
    own, the second of a number being a copy.
    """
    directory = plan.directory
    if isinstance(plan.compaction, MajorCompaction):
        files = directory.row_files
    else:
        files = tuple(file for delta in directory.insert_deltas for file in delta.files)
    seen: dict[int, int] = {}
    for number, file in enumerate(file for file in files if file.size_bytes):
        bucket = file.bucket if plan.table.bucket is not None and file.bucket >= 0 else number
        copy = seen.get(bucket, 0)
        seen[bucket] = copy + 1
        yield file, format_original_file(OriginalFileName(bucket, 0, str(copy) if copy else None))


# -------------------------------------------------------------------- items made by a thread
# The next items of an iterator are made while one is in use.


_Item = TypeVar("_Item")


def made_ahead(items: Iterator[_Item], *, count: int) -> Iterator[_Item]:
    """The same items, made by a thread, which is up to ``count`` of them ahead.

    What the iterator raises is raised here. Left early, the thread ends with the item that it is
    making.
    """
    with ThreadPoolExecutor(1) as thread:
        coming = deque(thread.submit(next, items, None) for _ in range(count))
        try:
            while (item := coming.popleft().result()) is not None:
                coming.append(thread.submit(next, items, None))
                yield item
                del item
        finally:
            for one in coming:
                one.cancel()


# -------------------------------------------------------------------- copies of stripes
# Put the stripes of several event files into one file without decoding them.
#
#     bucket_N of delta_1_1 |s0|s1|tail    bucket_N of delta_2_2 |s0|tail
#               \  |                                  |
#                ORC|s0|s1|s0| statistics of each stripe, merged ones of the file, new key index
#
# Where stripes lie in a file does not matter to them; the tail says it. It can be done where files
# are sorted apart, nothing in them is to be left out, and they agree in all that a tail says once:
# types, compression, row index stride, writer, calendar. Damage inside a stripe is copied, as
# nothing is decoded: it is found by whoever reads it, as before.


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


def copy_stripes(
    fs: FileSystem, path: str, parts: Sequence[CopyPart], *, to: Destination
) -> BucketFile:
    """Write the stripes of all parts into one file, which is made by ``to``.

    Raises:
        MissingFileError, StorageError: reading or writing failed; the file is removed.
    """
    try:
        with closing(to.open_output(path)) as out:
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
            facts = file_metadata(format_key_index(last_rows), AcidStats(inserts=tail.rows))
            end = rewrite_tail(tail, user_metadata=facts)
            out.write(end)
    except (pa.ArrowException, OSError, StorageError) as error:
        if to.exists(path):
            to.delete_file(path)
        if isinstance(error, StorageError):
            raise
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
    footer, postscript = deepcopy(tail.footer), deepcopy(tail.postscript)
    del footer.statistics[:]
    known = deepcopy(footer)
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
    ends = ([int(values[-1]) for values in ids.numbers()] for ids in reader.identities())
    return tuple(RowId(*end) for end in ends)
