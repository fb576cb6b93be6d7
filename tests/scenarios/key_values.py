"""A key-value table held in memory, under real transactions: what rows are is a model, who sees
them and who conflicts is decided by the transaction manager under test.

As in an ACID table, a change is the delete event of a row and a new row under the transaction's
write id, and a reader sees the rows whose write ids are valid for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiveacid.client import Client
from hiveacid.errors import AlreadyExistsError, NotFoundError
from hiveacid.model.ids import RowId, ValidWriteIdList
from hiveacid.model.tables import Column, Table, TableName, WriteId
from hiveacid.model.transactions import OperationType
from hiveacid.model.types import parse_type
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite, WriteKind
from hiveacid.txn.transaction import Transaction


class KeyValues:
    """Tables of keys and values, shared by all clients of a metastore in this process."""

    def __init__(self, client: Client, tables: Sequence[str]) -> None:
        """Create the tables.

        Raises:
            AlreadyExistsError: one exists.
        """
        self._tables = {name: _create(client, name) for name in tables}
        self._rows: dict[TableName, dict[RowId, tuple[int, int]]] = {}
        self._deleted: dict[TableName, dict[WriteId, set[RowId]]] = {}
        for one in self._tables.values():
            self._rows[one.name] = {}
            self._deleted[one.name] = {}

    def read(self, txn: Transaction, table: str) -> Mapping[int, int]:
        """All keys and values that the transaction sees.

        Raises:
            AcidError: as the transaction's calls.
        """
        found = self._tables[table]
        txn.lock(Footprint(reads=(TableRead(found),)))
        return dict(self._visible(txn, found).values())

    def insert(self, txn: Transaction, table: str, key: int, value: int) -> None:
        """Raises: AlreadyExistsError: the transaction sees the key."""
        found = self._begin_write(txn, table, WriteKind.INSERT)
        if any(known == key for known, _ in self._visible(txn, found).values()):
            raise AlreadyExistsError(f"{table} has key {key}", key=key)
        self._add(txn, found, key, value)
        txn.record_write(found, [None], OperationType.INSERT)

    def update(self, txn: Transaction, table: str, key: int, value: int) -> None:
        """Raises: NotFoundError: the transaction does not see the key."""
        found = self._begin_write(txn, table, WriteKind.UPDATE)
        self._remove(txn, found, key)
        self._add(txn, found, key, value)
        txn.record_write(found, [None], OperationType.INSERT)

    def delete(self, txn: Transaction, table: str, key: int) -> None:
        """Raises: NotFoundError: the transaction does not see the key."""
        self._remove(txn, self._begin_write(txn, table, WriteKind.DELETE), key)

    def commit(self, txn: Transaction) -> None:
        """Commit, row against row.

        Raises:
            ConflictError: another transaction changed one of the rows first.
        """

        def overlap(
            table: TableName, partition: str | None, winners: Sequence[WriteId]
        ) -> Sequence[RowId]:
            del partition
            deleted = self._deleted[table]
            theirs = set[RowId]().union(*(deleted.get(one, ()) for one in winners))
            return sorted(deleted.get(txn.write_id(table), set()) & theirs)[:10]

        txn.commit(overlap=overlap)

    def keys_of(self, table: str, rows: Sequence[RowId]) -> list[int]:
        """The keys of some rows."""
        known = self._rows[self._tables[table].name]
        return sorted(known[one][0] for one in rows)

    def _begin_write(self, txn: Transaction, table: str, kind: WriteKind) -> Table:
        found = self._tables[table]
        txn.lock(Footprint(writes=(TableWrite(found, kind),)))
        return found

    def _visible(self, txn: Transaction, table: Table) -> dict[RowId, tuple[int, int]]:
        valid: ValidWriteIdList = txn.valid_write_ids(table)
        gone = {
            row
            for write_id, rows in list(self._deleted[table.name].items())
            if valid.is_valid(write_id)
            for row in list(rows)
        }
        return {
            row: pair
            for row, pair in list(self._rows[table.name].items())
            if row not in gone and valid.is_valid(row.write_id)
        }

    def _add(self, txn: Transaction, table: Table, key: int, value: int) -> None:
        rows = self._rows[table.name]
        rows[RowId(txn.write_id(table.name), 0, len(rows))] = (key, value)

    def _remove(self, txn: Transaction, table: Table, key: int) -> None:
        for row, (known, _) in self._visible(txn, table).items():
            if known == key:
                write_id = txn.write_id(table.name)
                self._deleted[table.name].setdefault(write_id, set()).add(row)
                txn.record_write(table, [None], OperationType.DELETE)
                return
        raise NotFoundError(f"{table.name} has no key {key}", key=key)


def _create(client: Client, name: str) -> Table:
    full = TableName("default", name)
    made = Table(
        full,
        (Column("k", parse_type("int")), Column("v", parse_type("int"))),
        f"{client.warehouse}/{name}",
        properties={"transactional": "true"},
    )
    client.metastore.create_table(made)
    return made
