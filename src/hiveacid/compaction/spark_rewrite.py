"""The Spark rewrite: one job, a task for each bucket, each doing what the Arrow rewrite does.

    driver   plan, bucket numbers (largest first) or ranges of rows (rebalance)
    task     its bucket: files -> sorted events -> a staged file          (Spark's Python workers)
    driver   <- one row for each staged file

Rows never cross into the JVM. A task that is run again writes files of other names; what the first
run left stays in the staging directory, which goes as a whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from hiveacid.layout.compaction import RewrittenFile
from hiveacid.spark.bucket_task import StageTask
from hiveacid.spark.write import staged_by_spark
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.bucket_rewrite import BucketRewriter
from hiveacid.storage.merge.rebalance import Rebalancer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., BucketRewriter | Rebalancer]
"""Makes a rewriter from a file system, ``foreign`` and ``task``."""


def rewrite_with_spark(
    spark: SparkSession, fs: FileSystem, make: Make
) -> tuple[RewrittenFile, ...]:
    """Stage the result of a compaction; ``make`` is picklable.

    Raises:
        FormatError, MissingFileError, StorageError, UnsupportedError: as the rewriter does in a
        task.
        AcidError: whatever else failed in Spark, as it was.
    """
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
    ) -> list[RewrittenFile]:
        """Batches of places in, the staged files out."""
        del number
        make: Make = pickle.loads(self.make)
        rewriter = make(self.fs, foreign=self.foreign, task=name)
        places = (place for batch in batches for place in batch.column(0).to_pylist())
        return [
            file for place in places for file in rewriter.rewrite(pickle.loads(self.works[place]))
        ]
