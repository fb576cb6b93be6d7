"""What one Spark task does: a stage of storage's, in one of Spark's Python workers.

Yields one row for each file written: what the stage says of it, pickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyspark import TaskContext

RESULT_SCHEMA: Final = "file binary"
TOO_MANY_WRITERS_MARK: Final = "HIVEACID-TOO-MANY-WRITERS"


class Stage(Protocol):
    """What writes the files of one task: that of new rows, of changes, of a rewrite."""

    def staged(
        self, batches: Iterable[pa.RecordBatch], *, name: str, number: int
    ) -> Sequence[object]:
        """Write all batches; ``name`` tells the task's files from others', ``number`` is its own.
        The answer pickles.
        """


@dataclass(frozen=True, slots=True)
class StageTask:
    """Runs a stage; pickled by reference to this module. ``tasks_max`` bounds the numbers of tasks
    that have rows, where these are the numbers of files; None for no bound.
    """

    stage: Stage
    tasks_max: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all batches; yields one result batch."""
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        if self.tasks_max is not None and number >= self.tasks_max:
            batches = _refused(batches)
        files = self.stage.staged(batches, name=f"{number:05d}-{attempt}", number=number)
        yield pa.record_batch([pa.array(map(pickle.dumps, files), pa.binary())], names=["file"])


def _refused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            raise ValueError(TOO_MANY_WRITERS_MARK)
        yield batch
