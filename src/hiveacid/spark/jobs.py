"""Spark jobs: what they are called, how far they are, their end with Ctrl-C; what a task does that
writes; whether it is hiveacid that calls Spark; rows for which Spark is not called at all.

A worker imports this module for its task, so it imports little.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, cast

import pyarrow as pa

from hiveacid.errors import InternalError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row, SparkSession


Measure = Callable[[], "tuple[int, int] | None"]
"""Tasks that are done, and all that are known; None before the first job."""

_DESCRIPTION: Final = "spark.job.description"
_GROUP: Final = "spark.jobGroup.id"
_NUMBERS: Final = itertools.count()
_OWN_CALL: Final = ContextVar("hiveacid calls Spark", default=False)


@contextmanager
def own_calls() -> Iterator[None]:
    """A block in which Spark's methods do what Spark made them for, on sessions, too, whose methods
    know tables of ours.
    """
    token = _OWN_CALL.set(True)
    try:
        yield
    finally:
        _OWN_CALL.reset(token)


def is_own_call() -> bool:
    """Whether it is within ``own_calls``."""
    return _OWN_CALL.get()


def is_stopped(spark: Any) -> bool:
    """Whether somebody has called ``stop`` of the session, or of another one of its JVM."""
    if hasattr(spark, "is_stopped"):
        return bool(spark.is_stopped)
    context = getattr(spark, "_sc", None)
    return context is not None and type(context)._active_spark_context is not context


@contextmanager
def jobs_described(spark: SparkSession | None, text: str) -> Iterator[None]:
    """Lets Spark's web page call the jobs of a block ``text``, on Spark Connect by a tag."""
    context = getattr(spark, "_sc", None)
    if spark is None or context is None:
        with nullcontext() if spark is None else _tagged(spark, text.replace(",", ";")):
            yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


@contextmanager
def jobs_described_once_asked(
    spark: SparkSession | None, text: str
) -> Iterator[Callable[[], None]]:
    """As ``jobs_described``, from the first call of what it gives to the end of the block: a
    statement that needs no job calls no JVM.
    """
    with ExitStack() as stack:
        begun = False

        def begin() -> None:
            nonlocal begun
            if not begun:
                begun = True
                stack.enter_context(jobs_described(spark, text))

        try:
            yield begin
        finally:
            begun = True


@contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    if tag in spark.getTags():
        yield
        return
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def shows_its_own(spark: SparkSession) -> bool:
    """Whether Spark draws a bar of progress itself, in the same place."""
    if os.environ.get("SPARK_CONNECT_PROGRESS_BAR_ENABLED") == "1":
        return True
    return spark.conf.get("spark.ui.showConsoleProgress", "false") == "true"


@contextmanager
def jobs_watched(spark: SparkSession) -> Iterator[Measure]:
    """Gives what tells, in any thread, how far the jobs of a block are.

    On Spark Connect before PySpark 4 nobody knows.
    """
    context = getattr(spark, "_sc", None)
    if context is not None:
        with _grouped(context) as measure:
            yield measure
    elif hasattr(spark, "registerProgressHandler"):
        watcher = _Watcher()
        handler: Any = watcher.note
        spark.registerProgressHandler(handler)
        try:
            yield watcher.measure
        finally:
            spark.removeProgressHandler(handler)
    else:
        yield lambda: None


@contextmanager
def _grouped(context: SparkContext) -> Iterator[Measure]:
    """Jobs are found by their group: a new one, or the user's without what it has had before."""
    tracker = context.statusTracker()
    theirs = context.getLocalProperty(_GROUP)
    group = theirs or f"hiveacid-{os.getpid()}-{next(_NUMBERS)}"
    before = set(tracker.getJobIdsForGroup(group)) if theirs else set()

    def measure() -> tuple[int, int] | None:
        jobs = map(tracker.getJobInfo, set(tracker.getJobIdsForGroup(group)) - before)
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = [info for info in map(tracker.getStageInfo, stages) if info is not None]
        done = sum(info.numCompletedTasks for info in found)
        return (done, sum(info.numTasks for info in found)) if found else None

    if not theirs:
        context.setLocalProperty(_GROUP, group)
    try:
        yield measure
    finally:
        if not theirs:
            context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]


class _Watcher:
    """Told by the client of Spark Connect about each operation; those of one thread count."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._seen: dict[str | None, tuple[int, int]] = {}

    def note(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        del inflight_tasks, done
        known = list(stages or ())
        if known and threading.get_ident() == self._thread:
            completed = sum(stage.num_completed_tasks for stage in known)
            self._seen[operation_id] = completed, sum(stage.num_tasks for stage in known)

    def measure(self) -> tuple[int, int] | None:
        seen = tuple(self._seen.values())
        return (sum(done for done, _ in seen), sum(known for _, known in seen)) if seen else None


@contextmanager
def jobs_end_with(spark: SparkSession) -> Iterator[None]:
    """Ctrl-C in the block is a KeyboardInterrupt, and ends the Spark jobs that it started.

    PySpark's own handler wants to end them, but cannot while its thread waits for an answer: the
    call that would do it is refused as reentrant, and up to PySpark 4.1 it is that error of py4j's
    which is raised. The client of Spark Connect can.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:
        yield
        return
    tag = f"hiveacid-{os.getpid()}-{next(_NUMBERS)}"
    context.addJobTag(tag)
    try:
        with _ending_in_an_interrupt():
            yield
    except KeyboardInterrupt:
        context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)


@contextmanager
def _ending_in_an_interrupt() -> Iterator[None]:
    """What PySpark's handler does, its error included, which closes the connection with the answer
    that nobody will read; and then KeyboardInterrupt, as since PySpark 4.2.
    """
    theirs = signal.getsignal(signal.SIGINT)
    if (
        not callable(theirs)
        or not str(theirs.__module__).startswith("pyspark.")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def handler(number: int, frame: FrameType | None) -> NoReturn:
        try:
            theirs(number, frame)
        finally:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)


# -------------------------------------------------------------------- what a task does
# One Spark task runs a stage of storage's, in one of Spark's Python workers. It yields one row for
# each file written: what the stage says of it, pickled.


RESULT_SCHEMA: Final = "file binary"
_DAEMON: Final = "pyspark.daemon"
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
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        if self.tasks_max is not None and number >= self.tasks_max:
            batches = _refused(batches)
        files = self.stage.staged(batches, name=f"{number:05d}-{attempt}", number=number)
        settle()
        yield pa.record_batch([pa.array(map(pickle.dumps, files), pa.binary())], names=["file"])


def _refused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            raise InternalError(TOO_MANY_WRITERS_MARK)
        yield batch


_ARCHIVE_OF_SPARK: Final = re.compile(
    r"[/\\](pyspark|py4j-[\w.]+-src|hiveacid-[\w.]+-[0-9a-f]{12})\.zip(?![^/\\])"
)
"""Paths in archives: Spark's, and this package where it was sent to the workers
(``spark/workers.py``).
"""
_SETTLED: Final = {"modules": 0}
"""How many modules this worker had when it last settled."""


def settle() -> None:
    """In a worker, after its work: what has been imported since the last time is garbage never, and
    not looked at again.

    PySpark lets a worker collect its garbage after every task, whatever the task was. With the
    modules that ours import that takes ten times what a small task does. Before every task PySpark
    3.5 to 4.1 let it forget what its import path holds, and Python 3.10 to 3.12 read the contents
    of each archive that they have an importer of again, for as long: Spark's own archives, which do
    not change, are given to importers anew where something is imported.
    """
    if not _is_worker():
        return
    for path in [path for path in sys.path_importer_cache if _ARCHIVE_OF_SPARK.search(path)]:
        del sys.path_importer_cache[path]
    if _SETTLED["modules"] != len(sys.modules):
        gc.collect()
        gc.freeze()
        _SETTLED["modules"] = len(sys.modules)


def _is_worker() -> bool:
    """Whether this process is a child of PySpark's daemon, or of one made of it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(spec, "name", None) == _DAEMON or _DAEMON in sys.modules


_VIEWS: Final = itertools.count()


def explained(spark: SparkSession, frame: DataFrame, mode: str) -> str:
    """What EXPLAIN says of a DataFrame; ``mode`` is its word, or ''."""
    view = f"__hiveacid_source_{next(_VIEWS)}"
    with own_calls():
        frame.createOrReplaceTempView(view)
        try:
            rows = spark.sql(f"explain {mode} select * from {view}").collect()
        finally:
            spark.catalog.dropTempView(view)
    text: str = rows[0][0]  # of an error in planning there are several
    return text


def known_rows(
    spark: SparkSession, rows: Callable[[], list[Row]], *, otherwise: Callable[[], DataFrame]
) -> DataFrame | None:
    """A DataFrame that collects ``rows``; for all else it becomes that of ``otherwise``, which is
    made when it is asked for. None on Spark Connect.
    """
    if getattr(spark, "_sc", None) is None:
        return None
    return cast("DataFrame", _known_rows_class()(spark, rows, otherwise))


@cache
def _known_rows_class() -> Any:
    from pyspark.sql.classic.dataframe import DataFrame

    class KnownRows(DataFrame):
        """What it has not itself, the handle of Spark's own above all, its other self has."""

        __module__ = DataFrame.__module__  # by which we and others tell a DataFrame of Spark's

        def __new__(cls, *_: object) -> Any:  # that of PySpark 4.0 takes two arguments
            return object.__new__(cls)

        def __init__(
            self, spark: SparkSession, rows: Callable[[], list[Row]], other: Callable[[], DataFrame]
        ) -> None:
            self._session = spark
            self._sc = spark._sc
            self.is_cached = False
            self._support_repr_html = False
            self._rows = rows
            self._make = other

        def collect(self) -> list[Row]:
            """All rows."""
            return self._rows()

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or "_make" not in self.__dict__:
                raise AttributeError(name)
            if "_other" not in self.__dict__:
                with own_calls():
                    self._other = self._make()
            return getattr(self._other, name)

    return KnownRows
