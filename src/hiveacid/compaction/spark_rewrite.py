"""The Spark rewrite: one job, a task for each bucket, each doing what the Arrow rewrite does.

    driver   plan, bucket numbers (largest first), which delete files are of several buckets
    task     its bucket: files -> sorted events -> a staged file          (Spark's Python workers)
    driver   <- one row for each staged file

Rows never cross into the JVM. A task that is run again writes files of other names; what the first
run left stays in the staging directory, which goes as a whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext

from hiveacid.layout.compaction import RewritePlan, RewrittenFile, bucket_bytes
from hiveacid.model.ids import MAX_BUCKET_ID
from hiveacid.spark.failures import statement_error
from hiveacid.storage.bucket_rewrite import BucketRewriter
from hiveacid.storage.filesystem import FileSystem, file_system_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_MAX: Final = MAX_BUCKET_ID + 1
_RESULT_SCHEMA: Final = "directory string, name string, staged string, rows bigint, bytes bigint"
_RESULT: Final = pa.schema(
    [
        *[(name, pa.string()) for name in ("directory", "name", "staged")],
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


def rewrite_with_spark(
    spark: SparkSession,
    fs: FileSystem,
    plan: RewritePlan,
    *,
    unit: str,
    stripe_bytes_min: int | None,
) -> tuple[RewrittenFile, ...]:
    """Stage the result of a compaction; ``unit`` and ``stripe_bytes_min`` as in
    ``BucketRewriter``.

    Raises:
        FormatError, MissingFileError, StorageError, UnsupportedError: as ``BucketRewriter.rewrite``
        does in a task.
        AcidError: whatever else failed in Spark, as it was.
    """
    rewriter = BucketRewriter(fs, plan, unit=unit, stripe_bytes_min=stripe_bytes_min)
    sizes = bucket_bytes(plan)
    buckets = sorted(rewriter.buckets(), key=lambda bucket: -sizes.get(bucket, 0))
    if not buckets:
        return ()
    task = RewriteTask(pickle.dumps(plan), tuple(buckets), unit, rewriter.foreign, stripe_bytes_min)
    tasks = min(len(buckets), _TASKS_MAX)
    try:
        frame = spark.range(0, len(buckets), 1, tasks).mapInArrow(task, _RESULT_SCHEMA)
        found = frame.collect()
    except Exception as error:  # PySpark's, or py4j's: see failures
        known = statement_error(error)
        if known is error:
            raise
        raise known from error
    return tuple(
        RewrittenFile(row["directory"], row["name"], row["staged"], row["rows"], row["bytes"])
        for row in sorted(found, key=lambda row: (row["directory"], row["name"]))
    )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Rewrites the buckets whose places it is given; the plan is unpacked in the task."""

    plan: bytes
    buckets: Sequence[int]
    unit: str
    foreign: frozenset[str]
    stripe_bytes_min: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of places in, the staged files out."""
        plan: RewritePlan = pickle.loads(self.plan)
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        rewriter = BucketRewriter(
            file_system_for(plan.location)[0],
            plan,
            unit=self.unit,
            stripe_bytes_min=self.stripe_bytes_min,
            foreign=self.foreign,
            attempt=attempt,
        )
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield _rows(rewriter.rewrite(self.buckets[place]))


def _rows(files: Sequence[RewrittenFile]) -> pa.RecordBatch:
    found = [(f.directory, f.name, f.staged_path, f.rows, f.size_bytes) for f in files]
    columns = list(zip(*found, strict=True)) or [()] * len(_RESULT)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _RESULT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)
