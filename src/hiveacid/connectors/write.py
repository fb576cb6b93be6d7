"""``df.write`` and ``df.writeStream`` with ``format("hiveacid")``: one transaction each time.

    pickled, to go to the tasks     the transaction is opened, its write id known      ``begin``
    write, in each task             staged files, hidden; a heartbeat where it lasts   ``stage``
    commit, in the driver's Python  an INSERT of the staged files, as any other        ``commit``

These are three processes, which share nothing but ``Work``. Between them the transaction is kept
alive by the tasks. An abort takes back what it is told of; where no task of a sink tells anything,
what was begun for its checkpoint. A write of which nobody tells times out, and the cleaner takes
its files.

A sink's micro-batch is known by the query's id and its number, which a task has as its local
properties. The commit keeps them with the rows: a batch that comes again is left out.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row, datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hiveacid.clock import DaemonThreads, SystemClock
from hiveacid.connectors.batch_read import readable_table
from hiveacid.connectors.names import written_text
from hiveacid.connectors.options import Options
from hiveacid.connectors.spool import Chunk, Spool, in_order
from hiveacid.errors import (
    AcidError,
    ConflictError,
    InternalError,
    InvalidInputError,
    MetastoreError,
    MissingFileError,
    NotFoundError,
    UnsupportedError,
)
from hiveacid.layout.directories import staging_name
from hiveacid.model.tables import MAX_BUCKET_ID, AcidMode, StatementId, Table
from hiveacid.settings import Settings
from hiveacid.spark.jobs import settle
from hiveacid.spark.wall_clock import session_zone, with_zone
from hiveacid.statements.arrow_rows import lower_names, refuse_what_needs_spark, stored_arrays
from hiveacid.statements.checks import check_has_partition_columns, refuse_extra
from hiveacid.statements.driver_write import in_places
from hiveacid.statements.values import Insert, Staged
from hiveacid.storage.filesystem import Files
from hiveacid.storage.stage import RowStage, make_staging
from hiveacid.storage.target import WriteTarget, WrittenFile
from hiveacid.txn.manager import HandedOn

if TYPE_CHECKING:
    from hiveacid.session import Session
    from hiveacid.transaction import AcidTransaction

_LOG = logging.getLogger(__name__)
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Work:
    """A write as all its processes know it."""

    options: Options
    handed: HandedOn
    target: WriteTarget
    begun_ms: int

    @property
    def is_gathered(self) -> bool:
        """Whether the commit writes the files: each task has rows for each bucket, which is one
        file.
        """
        return self.target.table.bucket is not None


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task did: files, or rows for the commit to write; for a sink its micro-batch too."""

    work: Work
    files: tuple[WrittenFile, ...]
    chunks: tuple[Chunk, ...]
    query: str | None = None
    batch: int | None = None


def begin(options: Options, schema: StructType, *, overwrite: bool) -> Work:
    """Open the transaction of a write of rows with the columns of ``schema``, found by name.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: no rows can be written to it, or the columns are not the table's.
    """
    with options.connect() as session:
        table = readable_table(session, options)
        _check_writable(table, [name.lower() for name in schema.names])
        client = session.client
        handed = client.transactions.begin_for_another(table.name, agent=_agent(options))
        target = WriteTarget(
            files=client.files,
            table=table,
            write_id=handed.write_id,
            staging=f"{table.location}/{staging_name(handed.txn, '0')}",
            insert_statement=StatementId(0),
            overwrite=overwrite,
        )
        try:
            make_staging(target)
        except BaseException:
            session.take_over(handed).rollback()
            raise
        return Work(options, handed, target, client.clock.now_ms())


def _check_writable(table: Table, given: Sequence[str]) -> None:
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: format('hiveacid') writes in a transaction",
            table=str(table.name),
            note="acid.table(...).insert(frame) writes to it.",
        )
    refuse_extra(given, table.column_names, table)
    check_has_partition_columns(given, table)
    refuse_what_needs_spark(table, given)


# -------------------------------------------------------------------- in a task


def stage(work: Work, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write the rows of this task, hidden.

    Raises:
        ConflictError: the table was dropped, renamed or made anew since the write began.
        ConversionError: a value does not fit its column.
        InvalidInputError: more tasks write than there are bucket numbers.
        StorageError: a file could not be written.
    """
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    attempt = context.taskAttemptId() if context is not None else 0
    name, table = f"{number:05d}-{attempt}", work.target.table
    rows = _rows(work, batches)
    stage = RowStage(
        work.target, table.partition_keys, bucketed=False, statement=work.target.insert_statement
    )
    with _kept_alive(work), _in_its_place(work):
        if not table.partition_keys and not work.is_gathered:
            files = stage.staged(_checked(rows, number), name=name, number=number)
            return Written(work, tuple(files), ())
        fs, staging = work.target.files.at(work.target.staging)
        spool = Spool(fs, f"{staging}/rows-{name}", width=len(table.columns))
        for batch in rows:
            spool.add(batch)
        if work.is_gathered:
            spool.write_down()
            return Written(work, (), tuple(spool.chunks))
        files = stage.staged(_checked(spool.in_order(), number), name=name, number=number)
        return Written(work, tuple(files), ())


@contextmanager
def _in_its_place(work: Work) -> Iterator[None]:
    """A block that writes to the staging directory, which goes where the table goes: a write holds
    no lock before its commit.
    """
    try:
        yield
    except MissingFileError as error:
        path, table = str(error.context.get("path")), work.target.table.name
        if not path.startswith(work.target.files.at(work.target.staging)[1]):
            raise
        raise ConflictError(
            f"{table} was dropped, renamed or made anew while rows for it were staged",
            table=str(table),
        ) from error


def _rows(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are stored, with their places behind."""
    table, zone = work.target.table, session_zone()
    for batch in batches:
        if batch.num_rows:
            given = lower_names(pa.Table.from_batches([with_zone(batch, zone)]))
            arrays = stored_arrays(table, given, table.all_columns)
            yield in_places(arrays, table, static=())[0]


def _checked(batches: Iterator[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if number > MAX_BUCKET_ID:
            raise InvalidInputError(
                f"More than {MAX_BUCKET_ID + 1} tasks write: each is a bucket number",
                note=f"df.coalesce({MAX_BUCKET_ID + 1}).write ...",
            )
        yield batch


_BEATEN: Final[dict[str, int]] = {}
"""When this process sent its last heartbeat for the write with a staging directory, that of now."""


@contextmanager
def _kept_alive(work: Work) -> Iterator[None]:
    """A block during which the transaction gets its heartbeats, each after half its time-out. Tasks
    may be short and many: one that begins when a quarter of it is over sends one at once. A write
    that is quicker than that asks nothing of the metastore.
    """
    every_s = Settings.of(dict(work.options.settings)).txn_timeout_s / 2
    now_ms, write = SystemClock().now_ms(), work.target.staging
    if now_ms - _BEATEN.get(write, work.begun_ms) > every_s / 2 * 1000:
        _BEATEN.clear()
        _BEATEN[write] = now_ms
        _beat(work)
    stop = DaemonThreads().every(every_s, partial(_beat, work), name="hiveacid-task-heartbeat")
    try:
        yield
    finally:
        stop()
        settle()


def _beat(work: Work) -> None:
    txn = work.handed.txn
    try:
        with work.options.connect() as session:
            session.client.metastore.heartbeat_range(txn, txn)
    except AcidError as error:
        _LOG.warning("No heartbeat from this task: %s", error, extra={"txn": txn})


# -------------------------------------------------------------------- in the driver's Python


def commit(work: Work, written: Sequence[Written], *, batch: tuple[str, int] | None) -> None:
    """Insert what the tasks staged; a micro-batch ``batch`` (query, number) that is there already
    is left out.

    Raises:
        ConflictError: the table was altered or replaced since the write began.
        NotFoundError: it was dropped or renamed.
        TransactionError: the write took longer than the transaction's time-out.
        AcidError: as an INSERT.
    """
    table = written_text(work.target.table.name)
    with _session(work, lasts=batch is not None) as session:
        try:
            with session.take_over(work.handed) as txn:
                if batch is not None and not txn.begin_batch(*batch, table=table, checkpoint=True):
                    txn.rollback()
                    _tell_done(work, batch)
                else:
                    _insert(txn, work, written)
        except ConflictError as error:
            if batch is None or "batch" not in error.context:
                raise
            _tell_done(work, batch)  # another driver was quicker
        finally:
            _drop_staging(work)
            settle()


_LASTING: Final[dict[str, Session]] = {}


@contextmanager
def _session(work: Work, *, lasts: bool) -> Iterator[Session]:
    """A session for a commit. That of a sink lasts: one process makes the commits as long as
    batches come, and between them the session compacts what they wrote.
    """
    if not lasts:
        with work.options.connect() as session:
            yield session
        return
    # a metastore that was made anew at the same place is another one
    key = f"{work.options} {work.target.table.id} {work.target.table.created_at_ms}"
    if key not in _LASTING:
        _LASTING[key] = work.options.connect()
    try:
        yield _LASTING[key]
    except MetastoreError:
        _LASTING.pop(key).close()
        raise


def _insert(txn: AcidTransaction, work: Work, written: Sequence[Written]) -> None:
    target = work.target
    staged = Staged(target, partial(_files, target, written))
    table = txn.table(written_text(target.table.name))
    table.session.execute(Insert(table.name, staged, overwrite=target.overwrite, by_name=True))


def _files(target: WriteTarget, written: Sequence[Written]) -> tuple[WrittenFile, ...]:
    """What the tasks staged: their files, or files of the rows that they left to the commit."""
    chunks = [chunk for one in written for chunk in one.chunks]
    if not chunks:
        return tuple(file for one in written for file in one.files)
    stage = RowStage(
        target, target.table.partition_keys, bucketed=True, statement=target.insert_statement
    )
    fs, _ = target.files.at(target.staging)
    return tuple(stage.staged(in_order(fs, chunks), name="gathered"))


def abort(work: Work) -> None:
    """Give a write up.

    Raises:
        MetastoreError: the metastore could not be told; the transaction will time out.
    """
    with work.options.connect() as session:
        session.take_over(work.handed).rollback()
        _drop_staging(work)


def abort_unheard(options: Options) -> None:
    """Give up what was begun for a sink's micro-batch of which no task tells. What began it knew
    the checkpoint, which one query at a time has.

    Raises:
        MetastoreError: the metastore could not be told; the transaction will time out.
    """
    agent = _agent(options)
    if not agent:
        return
    with options.connect() as session:
        aborted = session.client.transactions.abort_of(agent)
        if not aborted:
            return
        try:
            table = readable_table(session, options)
        except NotFoundError:  # its staging directory went with it
            return
        for txn in aborted:
            _drop(session.client.files, f"{table.location}/{staging_name(txn, '0')}")


def _agent(options: Options) -> str:
    """What a sink's transactions are found by."""
    if not options.checkpoint:
        return ""
    named = f"{options.checkpoint}\0{options.table}".encode()
    return f"hiveacid-sink-{hashlib.sha256(named).hexdigest()[:32]}"


def _drop_staging(work: Work) -> None:
    _drop(work.target.files, work.target.staging)


def _drop(files: Files, staging: str) -> None:
    try:
        fs, path = files.at(staging)
        fs.delete_directory(path)
    except AcidError as error:
        _LOG.warning("Staging directory stays: %s", error, extra={"path": staging})


def _tell_done(work: Work, batch: tuple[str, int]) -> None:
    query, number = batch
    text = "Batch %d of %s is in %s already: left out"
    _LOG.warning(text, number, query, work.target.table.name)


# -------------------------------------------------------------------- what Spark calls


class _Beginning:
    """A write that begins when Spark pickles it, to send it to the workers."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool = False) -> None:
        self._options = options
        self._schema = schema
        self._overwrite = overwrite
        self._work: Work | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._begun()
        return self.__dict__

    def _begun(self) -> Work:
        if self._work is None:
            self._work = begin(self._options, self._schema, overwrite=self._overwrite)
        return self._work


class BatchWriter(_Beginning, DataSourceArrowWriter):
    """A write of a DataFrame."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of a task."""
        return stage(self._begun(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows visible."""
        commit(self._begun(), _of_ours(messages), batch=None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give the rows up."""
        del messages
        abort(self._begun())


class StreamWriter(_Beginning, DataSourceStreamWriter):
    """The micro-batches of a sink: Spark makes one of these for the tasks of each, and another for
    its commit, which knows what the tasks tell.
    """

    def write(self, iterator: Iterator[Row]) -> Written:
        """Stage the rows of a task."""
        from pyspark.sql.conversion import LocalDataToArrowConversion

        def batches() -> Iterator[pa.RecordBatch]:
            while rows := list(islice(iterator, _ROWS_AT_ONCE)):
                table = LocalDataToArrowConversion.convert(rows, self._schema, False)
                yield from table.to_batches()

        return self._staged(batches())

    def _staged(self, batches: Iterator[pa.RecordBatch]) -> Written:
        assert self._work is not None
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        batch = None if context is None else context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise InternalError("Spark does not tell which micro-batch a task belongs to")
        done = stage(self._work, batches)
        return Written(done.work, done.files, done.chunks, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows visible, unless the batch is there."""
        written = _of_ours(messages)
        if not written:
            return
        first = written[0]
        assert first.query is not None
        assert first.batch == batchId
        commit(first.work, written, batch=(first.query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Give the rows up."""
        del batchId
        written = _of_ours(messages)
        if written:
            abort(written[0].work)
        else:
            abort_unheard(self._options)


if hasattr(datasource, "DataSourceStreamArrowWriter"):  # from Spark 4.1 on

    class StreamArrowWriter(StreamWriter, datasource.DataSourceStreamArrowWriter):
        """The same with Arrow data."""

        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            """Stage the rows of a task."""
            return self._staged(iterator)


def stream_writer(
    options: Options, schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """The sink of this version of Spark: from 4.1 on tasks get Arrow data.

    Raises:
        UnsupportedError: the stream is to replace what the table has.
    """
    if overwrite:
        raise UnsupportedError(
            "The sink hiveacid appends: it has no output mode complete",
            note="hiveacid.foreach_batch(acid, table, mode='upsert', on=...) updates rows.",
        )
    kind: type[StreamWriter] = globals().get("StreamArrowWriter", StreamWriter)
    return kind(options, schema)


def _of_ours(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [one for one in messages if isinstance(one, Written)]
