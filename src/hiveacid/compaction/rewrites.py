"""The rewrites of a compaction: which one, and doing it. Files are staged, or written where nobody
sees them, never published.

    insert-only table            files are copied as they are
    stripe copy   (minor)        whole stripes move without being decoded
    Arrow                        one bucket after the other, in this process
    Spark                        one job for all buckets, for much data

All of them give the same rows with the same identities (format.md 10.3). A rebalance gives new
ones; it is done here or by Spark, sorted by columns always here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from hiveacid.errors import FormatError, NotFoundError, spark_needed
from hiveacid.layout.compaction import (
    MajorCompaction,
    Rebalance,
    RewritePlan,
    bucket_bytes,
    input_bytes,
)
from hiveacid.layout.directories import (
    VERSION_FILE,
    AcidDirectory,
    BucketFileName,
    OriginalFileName,
    format_bucket_file,
    format_directory,
    format_original_file,
    parse_partition_name,
)
from hiveacid.layout.events import VERSION_TEXT
from hiveacid.layout.resolve import Entry
from hiveacid.metastore.api import Catalog
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.tables import AcidMode, Partition, Table
from hiveacid.settings import Settings
from hiveacid.spark.jobs import StageTask, jobs_described
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.bucket_rewrite import BucketRewriter, copy_files, rewritten_path
from hiveacid.storage.merge.rebalance import Rebalancer
from hiveacid.storage.orc.tails import unit_of_rewrite
from hiveacid.storage.plain.writers import write_no_rows
from hiveacid.storage.target import FileKind, WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Make = Callable[..., BucketRewriter | Rebalancer]
"""Makes a rewriter from a file system, ``foreign`` and ``task``."""


class Method(Enum):
    """How a compaction's result is made."""

    STRIPE_COPY = "stripe copy"
    ARROW = "arrow"
    SPARK = "spark"


def choose_method(plan: RewritePlan, *, spark: bool, settings: Settings) -> Method:
    """The method for a plan, from the sizes of its files alone; ``spark`` says that there is a
    session.

    Stripes are copied by Spark's tasks, too. Where they cannot be, they are decoded.
    """
    if spark and input_bytes(plan) > settings.compactor_spark_bytes:
        return Method.SPARK
    major = isinstance(plan.compaction, MajorCompaction)
    if isinstance(plan.compaction, Rebalance) or (major and plan.directory.delete_deltas):
        return Method.ARROW
    sizes = [file.size_bytes for delta in plan.directory.insert_deltas for file in delta.files]
    large = sum(sizes) >= settings.compactor_stripe_bytes * len(sizes)
    return Method.STRIPE_COPY if large else Method.ARROW


@dataclass(frozen=True, slots=True)
class Share:
    """Part ``number`` of ``of`` of a rewrite, for processes side by side."""

    number: int = 0
    of: int = 1


def share_count_max(plan: RewritePlan) -> int:
    """Into how many shares, none of them empty, a rewrite can be divided at most."""
    if plan.table.acid_mode is AcidMode.INSERT_ONLY:
        return 1
    if isinstance(plan.compaction, Rebalance):
        return 1 if plan.compaction.order_by is not None else plan.compaction.buckets
    return max(1, len(bucket_bytes(plan)))


def rewrite(
    fs: FileSystem,
    plan: RewritePlan,
    *,
    settings: Settings,
    spark: SparkSession | None = None,
    method: Method | None = None,
) -> tuple[WrittenFile, ...]:
    """Stage the result of a compaction below ``plan.staging``, which is created, or in its place.

    ``method`` None is chosen by size.

    Raises:
        FormatError, MissingFileError, StorageError, SparkNeededError, UnsupportedError: as
        ``rewrite_share``.
    """
    method = method or choose_method(plan, spark=spark is not None, settings=settings)
    files = rewrite_share(fs, plan, Share(), settings=settings, method=method, spark=spark)
    return whole_result(fs, plan, files)


def whole_result(
    fs: FileSystem, plan: RewritePlan, files: tuple[WrittenFile, ...]
) -> tuple[WrittenFile, ...]:
    """The result that all shares' ``files`` are. A base always has one, without rows where none is
    left: it must exist to hide what it replaces. A minor compaction that leaves no event has none.

    Raises:
        StorageError: writing failed.
    """
    if not files and isinstance(plan.compaction, MajorCompaction):
        return (_empty_base(fs, plan, plan.compaction),)
    return files


def rewrite_share(
    fs: FileSystem,
    plan: RewritePlan,
    share: Share,
    *,
    settings: Settings,
    method: Method,
    spark: SparkSession | None = None,
) -> tuple[WrittenFile, ...]:
    """Stage a share's files below ``plan.staging``, which is created, or in their places.

    Raises:
        FormatError: a damaged input file; the context names it.
        MissingFileError: an input file is not there.
        StorageError: reading or writing failed.
        SparkNeededError: ``Method.SPARK`` without a session.
        UnsupportedError: a value that cannot be written.
    """
    fs.make_room(fs.path_of(plan.staging))
    if plan.table.acid_mode is AcidMode.INSERT_ONLY:
        return copy_files(fs, plan)
    make: Make
    if isinstance(plan.compaction, Rebalance):
        make = partial(Rebalancer, plan=plan, unit=unit_of_rewrite(fs, plan))
        if plan.compaction.order_by is not None:
            return Rebalancer(fs, plan, unit=unit_of_rewrite(fs, plan)).rewrite_sorted(
                plan.compaction.order_by
            )
    else:
        least = None if method is Method.ARROW else settings.compactor_stripe_bytes
        make = partial(
            BucketRewriter, plan=plan, unit=unit_of_rewrite(fs, plan), stripe_bytes_min=least
        )
    if method is Method.SPARK:
        if spark is None:
            raise spark_needed("A compaction by Spark")
        with jobs_described(spark, f"hiveacid: compaction of {plan.table.name}"):
            return rewrite_with_spark(spark, fs, make)
    rewriter = make(fs)
    works = rewriter.works()[share.number :: share.of]
    return tuple(file for work in works for file in rewriter.rewrite(work))


def _empty_base(fs: FileSystem, plan: RewritePlan, compaction: MajorCompaction) -> WrittenFile:
    full = plan.table.acid_mode is AcidMode.FULL
    name = (
        format_bucket_file(BucketFileName(0))
        if full
        else format_original_file(OriginalFileName(0, 0))
    )
    directory = format_directory(compaction.output)
    path = rewritten_path(fs, plan, directory, name)
    file = write_no_rows(
        fs,
        path,
        format=plan.table.format,
        columns=plan.table.columns,
        properties=plan.table.properties,
        events=full,
    )
    kind = FileKind.BASE if full else FileKind.PLAIN
    return WrittenFile((), directory, name, path, kind, 0, file.size_bytes)


# -------------------------------------------------------------------- the Spark rewrite
# The Spark rewrite: one job, a task for each bucket, each doing what the Arrow rewrite does.
#
#     driver   plan, bucket numbers (largest first) or ranges of rows (rebalance)
#     task     its bucket: files -> sorted events -> a staged file          (Spark's Python workers)
#     driver   <- one row for each staged file
#
# Rows never cross into the JVM. A task that is run again writes files of other names, and what the
# first run left stays in the staging directory, which goes as a whole; or it sends them once more,
# and the driver makes files of what the task that it knows of has sent.


def rewrite_with_spark(spark: SparkSession, fs: FileSystem, make: Make) -> tuple[WrittenFile, ...]:
    """Stage the result of a compaction; ``make`` is picklable.

    Raises:
        FormatError, MissingFileError, StorageError, UnsupportedError: as the rewriter does in a
        task.
        AcidError: whatever else failed in Spark, as it was.
    """
    from hiveacid.spark.write import staged_by_spark  # needs pyspark

    rewriter = make(fs)
    works = tuple(map(pickle.dumps, rewriter.works()))
    if not works:
        return ()
    task = StageTask(RewriteStage(fs, pickle.dumps(make), works, rewriter.foreign), tasks_max=None)
    frame = spark.range(0, len(works), 1, len(works))
    files = staged_by_spark(spark, frame, task, at=lambda path: (fs, fs.path_of(path)))
    return tuple(sorted(files, key=attrgetter("directory", "name")))


@dataclass(frozen=True, slots=True)
class RewriteStage:
    """Does the works whose places it is given; what makes the rewriter is unpacked in the task."""

    fs: FileSystem
    make: bytes
    works: tuple[bytes, ...]
    foreign: frozenset[str]

    def staged(
        self, batches: Iterable[pa.RecordBatch], *, name: str, number: int
    ) -> list[WrittenFile]:
        """Batches of places in, the staged files out."""
        del number
        make: Make = pickle.loads(self.make)
        rewriter = make(self.fs, foreign=self.foreign, task=name)
        places = (place for batch in batches for place in batch.column(0).to_pylist())
        return [
            file for place in places for file in rewriter.rewrite(pickle.loads(self.works[place]))
        ]


# -------------------------------------------------------------------- entries of the queue
# What an entry of the queue is about, as the catalog has it now; and whether its files may be
# read.


_VERSIONS = frozenset({"0", "1", VERSION_TEXT})


def find_table(catalog: Catalog, entry: CompactionInfo) -> Table | None:
    """The entry's table, None where it is gone."""
    try:
        return catalog.get_table(entry.table)
    except NotFoundError:
        return None


def find_partition(catalog: Catalog, entry: CompactionInfo, table: Table) -> Partition | None:
    """The entry's partition, which stands for the whole of a table without; None where an entry
    about a partitioned table names none.

    Raises:
        NotFoundError: it is gone.
    """
    if not table.partition_columns:
        return Partition((), table.location)
    if entry.partition is None:
        return None
    parsed = parse_partition_name(entry.partition) or ()
    return catalog.get_partition(entry.table, tuple(value for _, value in parsed))


def check_versions(
    fs: FileSystem, root: str, directory: AcidDirectory, entries: Iterable[Entry]
) -> None:
    """Refuse to rewrite what a later Hive may have written in another way.

    Raises:
        FormatError: an ``_orc_acid_version`` says a version that is not known; names it.
        StorageError: it could not be read.
    """
    chosen = {delta.path for delta in directory.deltas}
    if directory.base is not None:
        chosen.add(directory.base.path)
    for entry in entries:
        parent, _, name = entry.path.rpartition("/")
        if name != VERSION_FILE or parent not in chosen:
            continue
        path = f"{root.rstrip('/')}/{entry.path}"
        text = fs.read_bytes(path).decode("utf-8", "replace").strip()
        if text not in _VERSIONS:
            raise FormatError(
                f"{path} says version {text[:20]!r}, known are versions up to {VERSION_TEXT}",
                path=path,
                expected=VERSION_TEXT,
                found=text[:200],
            )
