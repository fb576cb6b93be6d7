"""A transaction batch: transactions that were opened together and share their files.

Between two of its transactions no lock is held. So each takes its locks, then looks whether the
table is still the one that the batch began with; where it is not, the batch is over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa

from hiveacid.client import Client
from hiveacid.errors import AcidError, ConflictError, NotFoundError
from hiveacid.layout.names import partition_name
from hiveacid.model.statistics import StatisticsChange, initial_statistics
from hiveacid.model.tables import Partition, Table
from hiveacid.model.transactions import AbortReason, OperationType
from hiveacid.statements.placement import default_location, spellings
from hiveacid.streaming.files import BatchFiles, Values, Written
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
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
        self._transactions = list(client.transactions.begin_batch(transactions, table.name))
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
            NotFoundError: the table was dropped or renamed; the batch is over.
            TransactionError: somebody aborted the transaction; the batch is over.
        """
        txn = self._transactions.pop(0)
        try:
            txn.lock(self._footprint())
            check_same(self._client, self.table)
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
            self._abort_rest()

    def give_up(self) -> None:
        """End the batch where ``close`` may fail: what was committed stays readable."""
        try:
            self.close()
        except AcidError as error:
            _LOG.warning("A batch was left as it is: %s", error)

    def _abort_rest(self) -> None:
        rest, self._transactions = self._transactions, []
        if rest:
            store = self._client.metastore
            store.abort_txns([txn.id for txn in rest], reason=AbortReason.ROLLBACK)
        for txn in rest:
            txn.lost()

    def _footprint(self) -> Footprint:
        keys = [column.name for column in self.table.partition_columns]
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
            made = Partition(values, default_location(self.table, values), initial_statistics(()))
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
    """What a transaction wrote to a table, for conflicts, compaction and statistics."""
    keys = [column.name for column in table.partition_columns]
    names = {values: partition_name(keys, values) if keys else None for values in written}
    txn.record_write(table, list(names.values()), OperationType.INSERT)
    txn.record_statistics(
        StatisticsChange(
            table.name, names[values], one.rows, files=one.files, size_bytes=one.size_bytes
        )
        for values, one in written.items()
    )
