"""A transaction batch: transactions that were opened together, and the files that they share.

Between two of its transactions no lock is held. So each takes its locks, then looks whether the
table is still the one that the batch began with; where it is not, the batch is over. What each is
to write is recorded as the batch opens, so that of a transaction only its commit waits for a disk;
those that never begin are taken out of the records as it is closed.

Tables with row ids get one file a partition and bucket for the whole batch, read at once after each
commit (``FlushedFile``). Where that cannot be, a transaction has files of its own, like those of an
INSERT: insert-only tables, object stores (which show nothing of a file before it is closed), and
partitions beyond the number of open files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from hiveacid.client import Client
from hiveacid.errors import AcidError, ConflictError, NotFoundError, tolerated
from hiveacid.layout.directories import (
    BucketFileName,
    DeltaName,
    format_bucket_file,
    format_delta,
    partition_name,
    staging_name,
)
from hiveacid.model.commits import StatisticsChange, initial_statistics
from hiveacid.model.history import CommitFacts
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import NO_STATEMENT, AcidMode, Partition, Table, WriteId
from hiveacid.model.transactions import OperationType
from hiveacid.statements.context import check_given_out
from hiveacid.statements.driver_write import in_places, write_arrow
from hiveacid.statements.placement import Placement, are_all_in_place, new_location, spellings
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.flushed_file import FlushedFile
from hiveacid.storage.orc.output import writer_settings
from hiveacid.storage.stage import runs
from hiveacid.storage.target import FileKind, WriteTarget, publish_version
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind, lock_components
from hiveacid.txn.manager import require_locks
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import is_same

_LOG = logging.getLogger(__name__)


class TransactionBatch:
    """The transactions and files of a batch; used by one connection, in one thread."""

    def __init__(
        self,
        client: Client,
        table: Table,
        *,
        static: dict[str, str | None],
        transactions: int,
        open_files_max: int,
    ) -> None:
        """Open the transactions; no lock is taken and no file made.

        Raises:
            MetastoreError: the metastore failed.
        """
        self.table = table
        self._client = client
        self._static = static
        # What only the rows will tell is recorded by each transaction.
        writes = [one for one in lock_components(self._footprint()) if not one.dynamic]
        begun = client.transactions.begin_batch(transactions, table.name, writes=writes)
        self._transactions = list(begun)
        ids = [txn.write_id(table.name) for txn in self._transactions]
        self._files = BatchFiles(client.files, table, static, ids[0], ids[-1], open_files_max)
        self._partitions: dict[Values, Partition] = {}
        self._spellings: dict[Values, list[Values]] | None = None
        self._is_over = False

    @property
    def remaining(self) -> int:
        """Transactions that can still begin."""
        return 0 if self._is_over else len(self._transactions)

    def begin(self) -> Transaction:
        """The next transaction, with its locks.

        Raises:
            LockError: the locks were not granted before the deadline; the batch is over.
            ConflictError: the table was altered, or replaced by an overwrite; the batch is over.
            NotFoundError, TransactionError: the table is gone, or the transaction; likewise.
            MetastoreError: it failed, or is older than the table's files; likewise.
        """
        txn = self._transactions.pop(0)
        try:
            txn.lock(self._footprint())
            check_same(self._client, self.table)
            check_given_out(txn, self.table)
            # statement 0 is that of the batch's own files
            txn.take_statement_ids(self.table.name, 1)
        except BaseException as error:
            txn.__exit__(type(error), error, error.__traceback__)
            self.give_up()
            raise
        self._partitions = {}
        return txn

    def write(self, txn: Transaction, arrays: list[pa.Array]) -> None:
        """Write rows of the table's types: data columns, then dynamic partition columns.

        Raises:
            ConflictError, StorageError: as ``BatchFiles.write``; the batch is over.
        """
        try:
            self._files.write(arrays, txn, lambda values: self._located(txn, values))
        except BaseException:  # Ctrl-C, too: who knows how much of it was written?
            self._is_over = True
            raise

    def commit(self, txn: Transaction, *, besides: tuple[Table, list[pa.Array]] | None) -> None:
        """Make the transaction's rows visible, and with them rows of another table (``besides``:
        without partitions).

        Raises:
            StorageError: a file could not be written; the batch is over.
            ConflictError, TransactionError, MetastoreError: as ``Transaction.commit``.
        """
        try:
            written = self._files.flush(
                txn, lambda values: self._located(txn, values), is_last=self.remaining == 0
            )
        except BaseException:
            self._is_over = True
            raise
        _record(txn, self.table, written)
        if besides is not None:
            _write_besides(self._client, txn, *besides)
        txn.commit()

    def abort(self, txn: Transaction) -> None:
        """Give the transaction's rows up.

        Raises:
            MetastoreError: the metastore could not be told; the transaction will time out.
        """
        try:
            self._files.drop()
        except AcidError as error:
            _LOG.info("A batch is over: %s", error, extra={"txn": txn.id})
            self._is_over = True
        txn.abort("aborted by its stream")

    def close(self) -> None:
        """Finish the files and abort the transactions that did not begin.

        Raises:
            StorageError, MetastoreError: what failed; the rest is left to time-out and cleaner.
        """
        self._is_over = True
        try:
            self._files.close()
        finally:
            rest, self._transactions = self._transactions, []
            if rest:
                self._client.transactions.give_up([txn.id for txn in rest])
            for txn in rest:
                txn.lost()

    def give_up(self) -> None:
        """End the batch where ``close`` may fail: what was committed stays readable."""
        with tolerated(_LOG, "A batch was left as it is: %s"):
            self.close()

    def _footprint(self) -> Footprint:
        keys = self.table.partition_keys
        is_static = bool(keys) and all(key in self._static for key in keys)
        only = (partition_name(keys, [self._static[key] for key in keys]),) if is_static else None
        return Footprint(reads=(), writes=(TableWrite(self.table, WriteKind.INSERT, only),))

    def _located(self, txn: Transaction, values: Values) -> Partition:
        """The partition as it is under the transaction's locks; one that is missing is made by its
        commit.
        """
        if not self.table.partition_columns:
            return Partition((), self.table.location)
        if values not in self._partitions:
            self._partitions[values] = self._looked_up(txn, values)
        return self._partitions[values]

    def _looked_up(self, txn: Transaction, values: Values) -> Partition:
        store, name = self._client.metastore, self.table.name
        if self._spellings is None:
            known = [one.values for one in store.list_partitions(name)]
            self._spellings = spellings(self.table, known)
        spelled = self._spellings.get(values, [values])
        try:
            return store.get_partition(name, values if values in spelled else spelled[0])
        except NotFoundError:
            made = Partition(values, new_location(self.table, values), initial_statistics(()))
            txn.pending.add_partitions(name, [made])
            return made


def check_same(client: Client, table: Table) -> None:
    """The table is still what it was, to be asked under its lock.

    Raises:
        NotFoundError: it was dropped or renamed.
        ConflictError: it was altered.
    """
    name = table.name
    now = client.metastore.get_tables((name,)).get(name)
    if now is None:
        raise NotFoundError(
            f"Table not found {name}: it was dropped or renamed under the stream",
            code=10001,
            table=str(name),
        )
    if not is_same(table, now):
        raise ConflictError(
            f"{name} was altered under the stream: its batch of transactions is closed",
            table=str(name),
            note="Begin again: the next batch has the new definition.",
        )


def _write_besides(client: Client, txn: Transaction, table: Table, arrays: list[pa.Array]) -> None:
    """Rows of another table, in files of their own.

    Raises:
        NotFoundError, ConflictError: as ``check_same``.
    """
    txn.lock(Footprint(reads=(), writes=(TableWrite(table, WriteKind.INSERT, None),)))
    check_same(client, table)
    write_id = txn.write_id(table.name)
    files = BatchFiles(client.files, table, {}, write_id, write_id, open_max=0)
    everywhere = Partition((), table.location)
    files.write(arrays, txn, lambda _: everywhere)
    _record(txn, table, files.flush(txn, lambda _: everywhere, is_last=True))


def _record(txn: Transaction, table: Table, written: Mapping[Values, Written]) -> None:
    """What a transaction wrote to a table: for conflicts, compaction, statistics, the history."""
    rows = sum(one.rows for one in written.values())
    size_bytes = sum(one.size_bytes for one in written.values())
    # the files of a batch are no single commit's
    facts = CommitFacts(table.name, txn.write_id(table.name), "STREAM", rows, 0, 0, 0, size_bytes)
    txn.pending.facts.append(facts)
    keys = table.partition_keys
    names = {values: partition_name(keys, values) if keys else None for values in written}
    txn.record_write(table, list(names.values()), OperationType.INSERT)
    txn.record_statistics(
        StatisticsChange(
            table.name, names[values], one.rows, files=one.files, size_bytes=one.size_bytes
        )
        for values, one in written.items()
    )


Values = tuple[str | None, ...]
Locate = Callable[[Values], Partition]
"""The partition of these values as it is under the current transaction's locks."""


@dataclass(slots=True)
class Written:
    """What a transaction wrote to one partition: rows, files that are new, bytes."""

    rows: int = 0
    files: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class _OpenFile:
    fs: FileSystem
    path: str
    file: FlushedFile
    counted_bytes: int = 0
    rows: int = 0
    """of the current transaction"""


@dataclass(slots=True)
class BatchFiles:
    """All files of a batch with the write ids ``first`` to ``last``."""

    files: Files
    table: Table
    static: Mapping[str, str | None]
    first: WriteId
    last: WriteId
    open_max: int
    _open: dict[tuple[Values, int], _OpenFile] = field(default_factory=dict)
    _flushed: dict[Values, bool] = field(default_factory=dict)
    _waiting: list[tuple[Partition, list[pa.Array]]] = field(default_factory=list)
    _waiting_bytes: int = 0
    _written: dict[Values, Written] = field(default_factory=dict)

    def write(self, arrays: list[pa.Array], txn: Transaction, locate: Locate) -> None:
        """Write rows of the current transaction: data columns, then dynamic partition columns.

        Raises:
            ConflictError: somebody removed a file that rows go to, or renamed its partition.
            TransactionError: somebody aborted the transaction.
            StorageError: writing failed.
        """
        for data, values, bucket in self._parts(arrays):
            partition = locate(values)
            found = self._file(partition, bucket, txn)
            if found is None:
                self._wait(data, partition, txn, locate)
                continue
            if not found.file.is_begun:
                self._begin(found, txn)
            found.file.write_rows(data)
            found.rows += data.num_rows

    def _parts(self, arrays: list[pa.Array]) -> Iterator[tuple[pa.RecordBatch, Values, int]]:
        """The rows of each partition, by values, and bucket."""
        width = len(self.table.columns)
        names = [column.name for column in self.table.columns]
        keys = self.table.partition_columns
        if self.table.bucket is None and not self.table.sort_columns and len(arrays) == width:
            yield (
                pa.RecordBatch.from_arrays(arrays, names=names),
                tuple(self.static[column.name] for column in keys),
                0,
            )
            return
        rows, dynamic = in_places(arrays, self.table, static=self.static)
        for start, stop in runs(rows.columns[width:], rows.num_rows):
            part = rows.slice(start, stop - start)
            place = [column[0].as_py() for column in part.columns[width:]]
            texts = {**self.static, **dict(zip(dynamic, place[:-1], strict=True))}
            data = pa.RecordBatch.from_arrays(part.columns[:width], names=names)
            yield data, tuple(texts[column.name] for column in keys), int(place[-1])

    def flush(self, txn: Transaction, locate: Locate, *, is_last: bool) -> Mapping[Values, Written]:
        """Make the current transaction's rows readable once it commits: what it wrote, by
        partition.

        Raises:
            StorageError: writing failed.
        """
        self._stage(txn, locate)
        for (values, _), one in self._open.items():
            if one.file.is_begun:
                one.file.flush()
                written = self._written.setdefault(values, Written())
                written.rows += one.rows
                written.files += int(one.counted_bytes == 0)
                written.size_bytes += one.file.size_bytes - one.counted_bytes
                one.counted_bytes, one.rows = one.file.size_bytes, 0
        if is_last:
            self.close()
        found, self._written = self._written, {}
        return found

    def drop(self) -> None:
        """Give the current transaction's rows up; files of its own are left to the cleaner.

        Raises:
            StorageError: writing failed.
        """
        self._waiting, self._waiting_bytes, self._written = [], 0, {}
        for one in self._open.values():
            one.file.drop()
            one.rows = 0

    def close(self) -> None:
        """Finish all files.

        Raises:
            StorageError: a file could not be finished, and is as its last flush left it.
        """
        files, self._open = list(self._open.values()), {}
        with ExitStack() as stack:
            for one in files:
                stack.callback(one.file.close)

    def _file(self, partition: Partition, bucket: int, txn: Transaction) -> _OpenFile | None:
        """The batch's file of a partition and bucket; None where it has none."""
        key = (partition.values, bucket)
        if key not in self._open:
            fs, root = self.files.at(partition.location)
            if not self._has_files(partition.values, fs):
                return None
            require_locks(txn)
            self._open[key] = self._opened(fs, root, bucket)
        return self._open[key]

    def _has_files(self, values: Values, fs: FileSystem) -> bool:
        """Whether all buckets of a partition have files of the batch. Either all of them have, or
        none: in one directory the batch's would hide those of its transactions.
        """
        if values not in self._flushed:
            buckets = self.table.bucket.count if self.table.bucket else 1
            fits = (sum(self._flushed.values()) + 1) * buckets <= self.open_max
            is_flushed = self.table.acid_mode is AcidMode.FULL and fs.shows_flushed
            self._flushed[values] = is_flushed and fits
        return self._flushed[values]

    def _opened(self, fs: FileSystem, root: str, bucket: int) -> _OpenFile:
        directory = f"{root}/{format_delta(DeltaName(self.first, self.last, NO_STATEMENT))}"
        publish_version(fs, directory)
        path = f"{directory}/{format_bucket_file(BucketFileName(bucket))}"
        if fs.exists(path):
            raise ConflictError(
                f"{path} has rows of the batch already: its partition was renamed meanwhile",
                table=str(self.table.name),
                path=path,
            )
        file = FlushedFile(
            fs,
            path,
            columns=self.table.columns,
            bucket_property=encode_bucket(bucket, 0),
            properties=self.table.properties,
        )
        return _OpenFile(fs, path, file)

    def _begin(self, found: _OpenFile, txn: Transaction) -> None:
        """A transaction's first rows for a file. No lock was held since the one before."""
        if not found.fs.exists(found.path):
            raise ConflictError(
                f"somebody removed {found.path} between two transactions of a batch",
                table=str(self.table.name),
                path=found.path,
            )
        found.file.begin(int(txn.write_id(self.table.name)))

    def _wait(
        self, data: pa.RecordBatch, partition: Partition, txn: Transaction, locate: Locate
    ) -> None:
        """Keep rows for files of the transaction's own, at most a stripe of them."""
        keys = [
            pa.repeat(pa.scalar(value, pa.string()), data.num_rows) for value in partition.values
        ]
        self._waiting.append((partition, [*data.columns, *keys]))
        self._waiting_bytes += data.nbytes
        kind = FileKind.PLAIN
        most = writer_settings(kind, properties=self.table.properties).stripe_bytes
        if self._waiting_bytes >= most:
            self._stage(txn, locate)

    def _stage(self, txn: Transaction, locate: Locate) -> None:
        """Write and publish the rows that wait, as one statement of the transaction."""
        if not self._waiting:
            return
        require_locks(txn)
        known, columns = zip(*self._waiting, strict=True)
        arrays = [pa.chunked_array(list(parts)) for parts in zip(*columns, strict=True)]
        self._waiting, self._waiting_bytes = [], 0
        (statement,) = txn.take_statement_ids(self.table.name, 1)
        fs, _ = self.files.at(self.table.location)
        target = WriteTarget(
            files=self.files,
            # no directory but its own: nothing is renamed in an object store
            in_place=[] if fs.is_object_store and are_all_in_place(self.table, known) else None,
            table=self.table,
            write_id=txn.write_id(self.table.name),
            staging=f"{self.table.location}/{staging_name(txn.id, str(int(statement)))}",
            insert_statement=statement,
        )
        result = write_arrow([_whole(array) for array in arrays], target=target)
        touched = {file.partition for file in result.files}
        placement = Placement.of(
            self.table, touched, known=[locate(one) for one in touched], files=self.files
        )
        placement.publish(result, staging=target.staging)
        for file in result.files:
            written = self._written.setdefault(file.partition, Written())
            written.rows += file.rows
            written.files += 1
            written.size_bytes += file.size_bytes


def _whole(array: pa.ChunkedArray) -> pa.Array:
    found = array.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
