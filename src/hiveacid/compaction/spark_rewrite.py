"""The Spark rewrite: one job, a task for each bucket, each doing what the Arrow rewrite does.

    driver   plan, bucket numbers (largest first) or ranges of rows (rebalance)
    task     its bucket: files -> sorted events -> a staged file          (Spark's Python workers)
    driver   <- one row for each staged file

Rows never cross into the JVM. A task that is run again writes files of other names; what the first
run left stays in the staging directory, which goes as a whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext

from hiveacid.layout.compaction import RewrittenFile
from hiveacid.spark.failures import statement_error
from hiveacid.spark.workers import make_ready
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.bucket_rewrite import BucketRewriter
from hiveacid.storage.merge.rebalance import Rebalancer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULT_SCHEMA: Final = "directory string, name string, staged string, rows bigint, bytes bigint"
_RESULT: Final = pa.schema(
    [
        *[(name, pa.string()) for name in ("directory", "name", "staged")],
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


Make = Callable[..., BucketRewriter | Rebalancer]
"""Makes a rewriter from a file system, ``foreign`` and ``attempt``."""


def rewrite_with_spark(
    spark: SparkSession, fs: FileSystem, make: Make
) -> tuple[RewrittenFile, ...]:
    """Stage the result of a compaction; ``make`` is picklable.

    Raises:
        FormatError, MissingFileError, StorageError, UnsupportedError: as the rewriter does in a
        task.
        AcidError: whatever else failed in Spark, as it was.
    """
    rewriter = make(fs, foreign=None, attempt=0)
    works = tuple(map(pickle.dumps, rewriter.works()))
    if not works:
        return ()
    make_ready(spark)
    task = RewriteTask(fs, pickle.dumps(make), works, rewriter.foreign)
    try:
        frame = spark.range(0, len(works), 1, len(works)).mapInArrow(task, _RESULT_SCHEMA)
        found = frame.collect()
    except Exception as error:  # PySpark's, or py4j's: see failures
        known = statement_error(error, at=lambda path: (fs, fs.path_of(path)))
        if known is error:
            raise
        raise known from error
    return tuple(
        RewrittenFile(row["directory"], row["name"], row["staged"], row["rows"], row["bytes"])
        for row in sorted(found, key=lambda row: (row["directory"], row["name"]))
    )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Does the works whose places it is given; what makes the rewriter is unpacked in the task."""

    fs: FileSystem
    make: bytes
    works: tuple[bytes, ...]
    foreign: frozenset[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of places in, the staged files out."""
        make: Make = pickle.loads(self.make)
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        rewriter = make(self.fs, foreign=self.foreign, attempt=attempt)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield _rows(rewriter.rewrite(pickle.loads(self.works[place])))


def _rows(files: Sequence[RewrittenFile]) -> pa.RecordBatch:
    found = [(f.directory, f.name, f.staged_path, f.rows, f.size_bytes) for f in files]
    columns = list(zip(*found, strict=True)) or [()] * len(_RESULT)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _RESULT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)
