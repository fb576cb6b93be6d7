"""Streams whose micro-batches are written once."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import Table, TableName


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A micro-batch of the stream ``app_id`` that a transaction wrote to a table; numbers rise.

    ``table_id`` is the table's own number: a name may stand for another table later. None for those
    that were written before it was kept.
    """

    app_id: str
    table: TableName
    number: int
    table_id: int | None

    def is_in(self, table: Table) -> bool:
        """Whether it is in this very table."""
        return self.table == table.name and self.table_id in (None, table.id)
