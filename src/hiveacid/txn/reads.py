"""What a transaction has read, for the check of a serializable commit (pure).

A table is kept as "all of it but these partitions": what a predicate left out among the partitions
that were there. So a write to a partition made later counts as one to what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hiveacid.layout.names import partition_name
from hiveacid.model.conflicts import ReadSet, ReadTable
from hiveacid.model.tables import AcidMode, Partition, Table, TableName
from hiveacid.model.transactions import Isolation
from hiveacid.model.valid import ValidTxnList


@dataclass(slots=True)
class Reads:
    """The tables read; the isolation rises where a table demands it, and never falls."""

    isolation: Isolation
    _left_out: dict[TableName, frozenset[str]] = field(default_factory=dict)

    @property
    def is_serializable(self) -> bool:
        """Whether the commit is to check what was read."""
        return self.isolation is Isolation.SERIALIZABLE

    def touch(self, table: Table) -> None:
        """The transaction reads or writes the table."""
        if not self.is_serializable and table.isolation is Isolation.SERIALIZABLE:
            self.isolation = Isolation.SERIALIZABLE

    def note(
        self,
        table: Table,
        *,
        chosen: Sequence[Partition] | None = None,
        of: Sequence[Partition] | None = None,
    ) -> None:
        """The table was read: ``chosen`` of the partitions ``of``, or all of it."""
        if table.acid_mode is AcidMode.NONE:
            return
        self.touch(table)
        left_out: frozenset[str] = frozenset()
        # Names of thousands of partitions take time: who is not serializable by now reads all.
        if self.is_serializable and chosen is not None and of is not None:
            keys = [column.name for column in table.partition_columns]
            left_out = frozenset(partition_name(keys, one.values) for one in of)
            left_out -= {partition_name(keys, one.values) for one in chosen}
        known = self._left_out.get(table.name)
        self._left_out[table.name] = left_out if known is None else known & left_out

    def as_of(self, seen: ValidTxnList) -> ReadSet:
        """What was read by a transaction that sees these."""
        return ReadSet(
            seen, tuple(ReadTable(name, left_out) for name, left_out in self._left_out.items())
        )
