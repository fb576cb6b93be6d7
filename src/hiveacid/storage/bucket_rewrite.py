"""Rewrite one bucket of a partition for a compaction: files in, staged files out.

The unit of work of every rewrite: the Arrow rewrite does one after the other, the Spark rewrite one
in each task. Nothing is published here.
"""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.layout.compaction import MajorCompaction, MinorCompaction, RewritePlan, RewrittenFile
from hiveacid.layout.names import (
    BaseName,
    BucketFileName,
    DeltaName,
    format_bucket_file,
    format_directory,
)
from hiveacid.layout.target import FileKind
from hiveacid.storage.bucket_writer import BucketFile, BucketFileWriter
from hiveacid.storage.event_merge import Events, all_events, delete_events, live_rows, row_type_of
from hiveacid.storage.filesystem import FileSystem, path_of
from hiveacid.storage.sources import DirectorySources


class BucketRewriter:
    """Rewrites buckets of one plan, each by itself."""

    def __init__(
        self,
        fs: FileSystem,
        plan: RewritePlan,
        *,
        unit: str,
        foreign: frozenset[str] | None = None,
    ) -> None:
        """``unit`` is that of timestamps; ``foreign`` as in ``DirectorySources``."""
        self._fs = fs
        self._plan = plan
        self._unit = unit
        self._staging = path_of(plan.staging)
        self._sources = DirectorySources(
            fs, path_of(plan.location), plan.directory, valid=plan.valid, foreign=foreign
        )

    @property
    def foreign(self) -> frozenset[str]:
        """Delete files that may hold events of several buckets."""
        return self._sources.delete_files_of_several_buckets()

    def buckets(self) -> tuple[int, ...]:
        """The bucket numbers of which there may be something to write.

        Raises:
            FormatError, MissingFileError, StorageError: a delete file cannot be read.
        """
        directory = self._plan.directory
        if isinstance(self._plan.compaction, MajorCompaction):
            return tuple(sorted({file.bucket for file in directory.row_files}))
        inserts = {file.bucket for delta in directory.insert_deltas for file in delta.files}
        return tuple(sorted(inserts | self._sources.delete_buckets()))

    def rewrite(self, bucket: int) -> tuple[RewrittenFile, ...]:
        """Stage the result's files of one bucket; none where no event is left.

        Raises:
            FormatError: a damaged file, one whose events are not sorted, or rows without a bucket
            number.
            MissingFileError: a file that the plan names is not there.
            StorageError: reading or writing failed.
            UnsupportedError: a value that cannot be written.
        """
        return tuple(file for file in self._rewritten(bucket) if file is not None)

    def _rewritten(self, bucket: int) -> Iterator[RewrittenFile | None]:
        compaction, plan = self._plan.compaction, self._plan
        columns = plan.table.columns
        if isinstance(compaction, MinorCompaction):
            if compaction.delta is not None:
                events = all_events(
                    self._sources, bucket, columns=columns, valid=plan.valid, unit=self._unit
                )
                yield self._write(events, compaction.delta, FileKind.BASE, bucket)
            if compaction.delete_delta is not None:
                events = delete_events(self._sources, bucket, valid=plan.valid)
                yield self._write(events, compaction.delete_delta, FileKind.DELETE, bucket)
            return
        events = live_rows(
            self._sources, bucket, columns=columns, valid=plan.valid, unit=self._unit
        )
        yield self._write(events, compaction.output, FileKind.BASE, bucket)

    def _write(
        self, events: Iterator[Events], directory: BaseName | DeltaName, kind: FileKind, bucket: int
    ) -> RewrittenFile | None:
        """Compacted deltas get the settings of bases: they hold much."""
        name = format_bucket_file(BucketFileName(bucket))
        path = f"{self._staging}/{format_directory(directory)}-{name}"
        table = self._plan.table
        row_type = row_type_of(table.columns, unit=self._unit)
        with BucketFileWriter(
            self._fs, path, columns=table.columns, kind=kind, properties=table.properties
        ) as writer:
            for part in events:
                writer.write_events(part.record_batch(row_type))
            file: BucketFile | None = writer.close()
        if file is None:
            return None
        return RewrittenFile(format_directory(directory), name, path, file.rows, file.size_bytes)
