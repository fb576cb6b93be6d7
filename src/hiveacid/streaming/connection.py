"""A streaming connection: many small transactions of inserts into one table, without Spark.

    with acid.stream("emp", partition={"day": "2026-11-22"}) as stream:
        with stream.transaction():
            stream.write({"id": 1, "name": "ann"})

As Hive's ``HiveStreamingConnection``: transactions are opened in batches, each batch writes one
file a partition and bucket, and what is committed is read at once. Rows given one by one wait until
there are enough of them, or the commit comes; then they are converted together.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa

from hiveacid.client import Client
from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    ConversionError,
    InvalidInputError,
    TransactionError,
    no_such_table,
    tolerated,
)
from hiveacid.model.readable import at
from hiveacid.model.tables import (
    AcidMode,
    Column,
    Table,
    TableKind,
    TableName,
    TxnId,
    WriteId,
    check_mode,
)
from hiveacid.statements.arrow_rows import (
    literal_default,
    refuse_what_needs_spark,
    stored_arrays,
)
from hiveacid.statements.partition_values import normal_spec, partition_texts
from hiveacid.storage.python_values import python_rows
from hiveacid.streaming.batch import TransactionBatch
from hiveacid.streaming.record_writers import PythonRows, RecordWriter, not_given, shown
from hiveacid.txn.transaction import Transaction
from hiveacid.writing import arrow_table, is_tabular

_LOG = logging.getLogger(__name__)
_WAITING_MAX: Final = 1_000
"""Records that wait until they are converted together."""
OPEN_FILES_MAX: Final = 100
"""Open files of a batch; each holds at most a stripe (``orc.stripe.size`` / 8) in memory."""


class StreamState(Enum):
    """State of a connection's current transaction (HiveStreamingConnection.TxnState)."""

    INACTIVE = "inactive"
    """no transaction was begun yet"""
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    CLOSED = "closed"
    """the connection was closed"""


TRANSITIONS: Final[Mapping[StreamState, frozenset[StreamState]]] = {
    StreamState.INACTIVE: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.OPEN: frozenset({StreamState.COMMITTED, StreamState.ABORTED}),
    StreamState.COMMITTED: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.ABORTED: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.CLOSED: frozenset(),
}
"""State -> states that may follow."""


_Method = TypeVar("_Method", bound=Callable[..., None])


def _alone(method: _Method) -> _Method:
    """Two threads with one batch would mix their rows: the second one gets an error."""

    @functools.wraps(method)
    def guarded(self: StreamingConnection, *args: object) -> None:
        if not self._mutex.acquire(blocking=False):
            raise TransactionError(
                f"Another thread uses the stream into {self.table} now",
                table=str(self.table),
                note="A connection is for one thread; several may stream into one table.",
            )
        try:
            method(self, *args)
        finally:
            self._mutex.release()

    return guarded  # type: ignore[return-value]


@dataclass(slots=True)
class StreamStatistics:
    """What a connection has done so far."""

    rows: int = 0
    """committed"""
    rejected: int = 0
    """records that did not fit, where ``strict`` is off; committed or not"""
    committed: int = 0
    """transactions"""
    aborted: int = 0
    """transactions that had begun"""


class StreamingConnection(AbstractContextManager["StreamingConnection"]):
    """Writes rows to one table; made by ``Session.stream``. For one thread at a time."""

    def __init__(
        self,
        client: Client,
        table: TableName,
        *,
        partition: Mapping[str, object] | None = None,
        transactions_per_batch: int = 10,
        strict: bool = True,
        record_writer: RecordWriter | None = None,
        open_files_max: int = OPEN_FILES_MAX,
        make_rejected_table: Callable[[], Table],
    ) -> None:
        """Look at the table; nothing is opened before the first transaction.

        ``make_rejected_table`` makes the table of rejected records where there is none
        (``rejected_at timestamp, record string, reason string``); called where ``strict`` is off
        and a record does not fit.

        Raises:
            NotFoundError: no such table, or partition column.
            InvalidInputError: the table is a view, not transactional, or has CHECK constraints; a
            number is below 1.
        """
        for name, number in (
            ("transactions_per_batch", transactions_per_batch),
            ("open_files_max", open_files_max),
        ):
            if number < 1:
                raise InvalidInputError(f"{name} is at least 1, not {number}", argument=name)
        self._client = client
        self._mutex = threading.RLock()
        self._name = table
        self._partition = partition_texts(partition)
        self._per_batch = transactions_per_batch
        self._strict = strict
        self._record_writer: RecordWriter = record_writer or PythonRows()
        self._open_files_max = open_files_max
        self._make_rejected_table = make_rejected_table
        self._state = StreamState.INACTIVE
        self._batch: TransactionBatch | None = None
        self._txn: Transaction | None = None
        self._write_id: WriteId | None = None
        self._waiting: list[object] = []
        self._rejected: list[tuple[str, str]] = []
        self._is_whole = True
        self._rows = 0
        self._records = 0
        self._absent: dict[str, object] = {}
        self.statistics = StreamStatistics()
        self._table = self._looked_up()

    @property
    def table(self) -> TableName:
        """The table."""
        return self._name

    @property
    def state(self) -> StreamState:
        """State of the current transaction."""
        return self._state

    @property
    def transaction_id(self) -> TxnId | None:
        """The current transaction's id; None before the first."""
        return None if self._txn is None else self._txn.id

    @property
    def write_id(self) -> WriteId | None:
        """The current transaction's write id; None before the first."""
        return self._write_id

    @property
    def remaining_transactions(self) -> int:
        """Transactions of the current batch that can still begin."""
        return 0 if self._batch is None else self._batch.remaining

    @_alone
    def begin(self) -> None:
        """Begin the next transaction; where the batch has no more, the next batch.

        Raises:
            TransactionError: one is open, or the connection is closed.
            NotFoundError: the table was dropped or renamed.
            ConflictError: it was altered, or overwritten: begin again for a batch of its new form.
            LockError, MetastoreError: as every statement.
        """
        if StreamState.OPEN not in TRANSITIONS[self._state]:
            raise TransactionError(
                f"The stream into {self._name} is {self._state.value}: no transaction can begin",
                table=str(self._name),
                state=self._state.value,
            )
        if self._batch is not None and not self._batch.remaining:
            batch, self._batch = self._batch, None
            batch.give_up()
        if self._batch is None:
            self._table = self._looked_up()
            self._batch = TransactionBatch(
                self._client,
                self._table,
                static=normal_spec(self._table, self._partition),
                transactions=self._per_batch,
                open_files_max=self._open_files_max,
            )
        try:
            self._txn = self._batch.begin()
        except BaseException:
            self._batch = None
            raise
        self._write_id = self._txn.write_id(self._name)
        self._waiting, self._rejected, self._rows, self._records = [], [], 0, 0
        self._is_whole = True
        self._state = StreamState.OPEN

    @_alone
    def write(self, data: object) -> None:
        """Write one record or many: what the record writer takes, or Arrow, pandas, Polars data
        with columns by name.

        Raises:
            TransactionError: no transaction is open.
            ConversionError: a record does not fit the table (``strict``); the context has the
            ``record`` (its number in the transaction, from 0) and the ``column``. Records that wait
            are looked at later, at the latest by ``commit``.
            ConflictError, StorageError: the rows could not be written.
        After a row that was not written the transaction can only be aborted.
        """
        self._require_open()
        if is_tabular(data):
            self._convert()
            self._write_fitting(arrow_table(data, argument="data"))
            return
        self._waiting += self._record_writer.records(data)
        if len(self._waiting) >= _WAITING_MAX:
            self._convert()

    @_alone
    def commit(self) -> None:
        """Make the transaction's rows visible. Where it fails, the transaction is aborted.

        Raises:
            TransactionError: no transaction is open, somebody aborted it, or a ``write`` of it
                failed.
            CommitOutcomeUnknownError: nobody knows whether it was committed.
            ConversionError, ConflictError, StorageError, MetastoreError: nothing is visible.
        """
        batch, txn = self._require_open()
        try:
            if not self._is_whole:
                raise TransactionError(
                    f"A write of this transaction of the stream into {self._name} failed: what it"
                    " has is not all that was written",
                    table=str(self._name),
                    note="begin() and write all of it again.",
                )
            self._convert()
            batch.commit(txn, besides=self._rejected_rows())
        except BaseException as error:
            self._failed(error)
            raise
        self._state = StreamState.COMMITTED
        self.statistics.committed += 1
        self.statistics.rows += self._rows

    @_alone
    def abort(self) -> None:
        """Give the transaction's rows up.

        Raises:
            TransactionError: no transaction is open.
            MetastoreError: the metastore could not be told; the transaction will time out.
        """
        batch, txn = self._require_open()
        self._state = StreamState.ABORTED
        self.statistics.aborted += 1
        self._waiting = []
        batch.abort(txn)

    @contextmanager
    def transaction(self) -> Iterator[StreamingConnection]:
        """One transaction, committed at the end of the block, aborted where it raises.

        Raises:
            AcidError: as ``begin`` and ``commit``.
        """
        self.begin()
        try:
            yield self
        except BaseException as error:
            self._failed(error)
            raise
        if self._state is StreamState.OPEN:
            self.commit()

    @_alone
    def close(self) -> None:
        """Abort what is open, finish the files, give the rest of the batch back; once.

        Raises:
            StorageError, MetastoreError: what failed; what was committed stays.
        """
        if self._state is StreamState.CLOSED:
            return
        try:
            if self._state is StreamState.OPEN:
                self.abort()
        finally:
            self._state = StreamState.CLOSED
            batch, self._batch = self._batch, None
            if batch is not None:
                batch.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except AcidError as failure:
            if error is None:
                raise
            _LOG.warning("A stream could not be closed: %s", failure)

    def __repr__(self) -> str:
        return f"<StreamingConnection {self._name} {self._state.value}>"

    # ---------------------------------------------------------------- rows

    def _columns_of(self, table: Table) -> tuple[Column, ...]:
        """What a record may give: data columns, then the partition columns that are not static."""
        static = {name for name, _ in self._partition}
        return tuple(c for c in table.all_columns if c.name not in static)

    def _convert(self) -> None:
        """Write the records that wait."""
        records, self._waiting = self._waiting, []
        self._write_fitting(records)

    def _write_fitting(self, records: Sequence[object] | pa.Table) -> None:
        is_whole, self._is_whole = self._is_whole, False
        for arrays in self._fitting(records, first=self._records):
            batch, txn = self._require_open()
            batch.write(txn, arrays)
            self._rows += len(arrays[0])
        self._records += len(records)
        self._is_whole = is_whole

    def _fitting(self, records: Sequence[object] | pa.Table, *, first: int) -> list[list[pa.Array]]:
        """The records as arrays of the table's types; what does not fit is looked for by halves.
        ``first`` is the number of the first record in the transaction.
        """
        if not len(records):
            return []
        try:
            return [self._typed(records)]
        except InvalidInputError as error:  # ConversionError, or records of different types
            if len(records) == 1:
                self._refuse(records[0:1], error, number=first)
                return []
            middle = len(records) // 2
            return [
                *self._fitting(records[:middle], first=first),
                *self._fitting(records[middle:], first=first + middle),
            ]

    def _refuse(
        self, record: Sequence[object] | pa.Table, error: InvalidInputError, *, number: int
    ) -> None:
        """A record that does not fit: an error, or a row of the table of rejected records."""
        if self._strict:
            raise ConversionError(
                f"record {number} of the transaction: {error.message}",
                **{**error.context, "record": number},  # type: ignore[arg-type]
            ) from error
        only = python_rows(record)[0] if isinstance(record, pa.Table) else record[0]
        self._rejected.append((shown(only), shown(error.message)))
        self.statistics.rejected += 1

    def _typed(self, records: Sequence[object] | pa.Table) -> list[pa.Array]:
        columns = self._columns_of(self._table)
        rows = records
        if not isinstance(rows, pa.Table):
            try:
                rows = self._record_writer.rows(rows, columns, self._absent)
            except RecursionError as error:
                raise ConversionError("it is nested too deeply") from error
        known = {column.name for column in columns}
        unknown = [name for name in rows.schema.names if name not in known]
        if unknown:
            raise ConversionError(
                f"{self._name} has no column {', '.join(unknown)} that a record may give",
                table=str(self._name),
                column=unknown[0],
            )
        for name in known - set(self._absent):
            if name not in rows.schema.names:
                raise not_given(name)
        return stored_arrays(self._table, rows, columns)

    def _rejected_rows(self) -> tuple[Table, list[pa.Array]] | None:
        """The table of rejected records and the rows for it; None where there are none."""
        if not self._rejected:
            return None
        table = self._make_rejected_table()
        texts, reasons = zip(*self._rejected, strict=True)
        moment = at(self._client.clock.now_ms()).replace(tzinfo=None)
        rows = pa.table(
            {
                "rejected_at": pa.array([moment] * len(texts), pa.timestamp("us")),
                "record": pa.array(texts, pa.string()),
                "reason": pa.array(reasons, pa.string()),
            }
        )
        return table, stored_arrays(table, rows, table.columns)

    # ---------------------------------------------------------------- state

    def _looked_up(self) -> Table:
        table = self._client.metastore.get_tables((self._name,)).get(self._name)
        if table is None:
            raise no_such_table(self._name)
        if table.kind is TableKind.VIEW:
            raise InvalidInputError(f"{self._name} is a view: no rows can be written to it")
        if table.acid_mode is AcidMode.NONE:
            raise InvalidInputError(
                f"{self._name} is not transactional: a stream needs a transactional table",
                table=str(self._name),
            )
        check_mode(table)
        refuse_what_needs_spark(table, table.column_names)
        normal_spec(table, self._partition)
        columns = self._columns_of(table)
        self._record_writer.check(columns)
        keys = set(table.partition_keys)
        defaults = {c.name: literal_default(table, c) for c in columns if c.name not in keys}
        self._absent = {n: one.as_py() for n, one in defaults.items() if one is not None}
        return table

    def _require_open(self) -> tuple[TransactionBatch, Transaction]:
        if self._state is not StreamState.OPEN or self._batch is None or self._txn is None:
            raise TransactionError(
                f"The stream into {self._name} has no open transaction: it is {self._state.value}",
                table=str(self._name),
                state=self._state.value,
                note="begin() comes first.",
            )
        return self._batch, self._txn

    def _failed(self, error: BaseException) -> None:
        """Abort because of an error; what fails in that is left to the time-out."""
        if self._state is not StreamState.OPEN:
            return
        with tolerated(_LOG, "A transaction is left to its time-out: %s"):
            self.abort()
        if isinstance(error, CommitOutcomeUnknownError):
            _LOG.warning("Nobody knows whether a transaction was committed: %s", error)
