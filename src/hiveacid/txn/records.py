"""What a transaction has recorded as written, as the metastore has it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hiveacid.model.conflicts import Written
from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import OperationType


@dataclass(slots=True)
class Records:
    """The records, and the tables with a placeholder: a lock request left it where only the rows
    will tell the partitions.

    ``asked``: more was asked for, and nobody knows whether it is recorded; a lock request records
    what it is for, granted or not.
    """

    known: frozenset[Written] = frozenset()
    placeholders: set[TableName] = field(default_factory=set)
    asked: bool = False

    def note_locks(self, components: Iterable[LockComponent]) -> None:
        """What the metastore recorded with a lock request."""
        self.asked = False
        for one in components:
            if one.operation is None or not one.operation.is_write or one.table is None:
                continue
            name = TableName(one.database, one.table)
            if one.dynamic:
                self.placeholders.add(name)
            else:
                self.known |= {Written(name, one.partition, one.operation)}

    def missing(
        self, table: TableName, partitions: Sequence[str | None], operation: OperationType
    ) -> list[str | None] | None:
        """The partitions that are not recorded yet; None where nothing is to be done.

        The record of a change to a whole table stands for inserts too.
        """
        new = [
            partition
            for partition in dict.fromkeys(partitions)
            if not self._is_known(Written(table, partition, operation))
        ]
        return new if new or table in self.placeholders else None

    def note(
        self, table: TableName, partitions: Sequence[str | None], operation: OperationType
    ) -> None:
        """They are recorded, in place of the placeholder."""
        self.asked = False
        self.known |= {Written(table, one, operation) for one in partitions}
        self.placeholders.discard(table)

    def forget(self, table: TableName) -> None:
        """What was recorded of the table is gone with it."""
        self.known = frozenset(one for one in self.known if one.table != table)
        self.placeholders.discard(table)

    def differ_from(self, known: frozenset[Written]) -> bool:
        """Whether the metastore has others than these, or may have."""
        return self.known != known or bool(self.placeholders) or self.asked

    def go_back(self, known: frozenset[Written]) -> None:
        """These are all that the metastore has."""
        self.known = known
        self.placeholders.clear()
        self.asked = False

    def _is_known(self, one: Written) -> bool:
        if one.partition is None and one.operation is OperationType.INSERT:
            return any((known.table, known.partition) == (one.table, None) for known in self.known)
        return one in self.known
