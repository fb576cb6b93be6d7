"""What a transaction keeps until its commit: what it has recorded as written, as the metastore has
it, what it has read (for the check of a serializable commit), what the commit is to do besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hiveacid.errors import ConflictError
from hiveacid.layout.names import partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.model.conflicts import ReadSet, ReadTable, Written
from hiveacid.model.history import CommitFacts, CommitNote, ConsumerMove, StreamBatch
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import AcidMode, Column, Isolation, Partition, Table, TableName, WriteId
from hiveacid.model.transactions import LockComponent, OperationType
from hiveacid.model.valid import ValidTxnList


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


@dataclass(slots=True)
class Reads:
    """The tables read; the isolation rises where a table demands it, and never falls.

    A table is kept as "all of it but these partitions": what a predicate left out among the
    partitions that were there. So a write to a partition made later counts as one to what was read.
    """

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


@dataclass(slots=True)
class Pending:
    """Kept until the commit; what came after a mark can be forgotten."""

    statistics: list[StatisticsChange] = field(default_factory=list)
    partitions: list[tuple[TableName, Partition]] = field(default_factory=list)
    columns: list[tuple[TableName, Column]] = field(default_factory=list)
    facts: list[CommitFacts] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    kind: str = ""
    """What is done to tables of which no statement tells more."""
    renamed: dict[TableName, TableName] = field(default_factory=dict)
    """By the names under which they got their write ids, the names that tables have by now."""
    batches: list[StreamBatch] = field(default_factory=list)
    """Micro-batches of streams that the whole transaction is: they stay where a part goes."""
    consumed: list[ConsumerMove] = field(default_factory=list)
    """What was read under the names of consumers."""

    def note_statement(self, text: str | None) -> None:
        """The text of a statement of the transaction, where it has one."""
        if text:
            self.statements.append(text)

    def _parts(self) -> tuple[list[Any], ...]:
        made = self.statistics, self.partitions, self.columns, self.facts
        return *made, self.statements, self.consumed

    def mark(self) -> tuple[int, ...]:
        """What ``back_to`` needs to forget what comes after now."""
        return tuple(map(len, self._parts()))

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Forget what came after the mark; an empty one stands for the beginning."""
        for at, part in enumerate(self._parts()):
            del part[mark[at] if mark else 0 :]

    def moves(self) -> tuple[ConsumerMove, ...]:
        """Where consumers go on; of what one has read twice, the more."""
        found: dict[tuple[TableName, str], ConsumerMove] = {}
        for one in self.consumed:
            known = found.setdefault((one.after.table, one.after.name), one)
            if one.after.valid.covers(known.after.valid):
                found[one.after.table, one.after.name] = one
        return tuple(found.values())

    def note(self, write_ids: Mapping[TableName, WriteId], *, application: str) -> CommitNote:
        """What the commit keeps of itself: each table with a write id, told of or not."""
        told = tuple(one for one in self.facts if write_ids.get(one.table) == one.write_id)
        rest = write_ids.keys() - {one.table for one in told}
        bare = tuple(
            CommitFacts(self.renamed.get(name, name), write_ids[name], self.kind)
            for name in sorted(rest)
        )
        return CommitNote((*told, *bare), application, "; ".join(self.statements) or None)

    def with_columns(self, table: Table) -> Table:
        """The table as the commit will make it: with the columns that are to be appended."""
        known = {column.name for column in table.all_columns}
        new = [one for name, one in self.columns if name == table.name and one.name not in known]
        return replace(table, columns=(*table.columns, *new)) if new else table

    def add_partitions(self, table: TableName, partitions: Iterable[Partition]) -> None:
        """Partitions that are made unless they exist by then."""
        self.partitions += [(table, partition) for partition in partitions]

    def add_columns(self, table: TableName, columns: Iterable[Column]) -> None:
        """Columns that are appended; the transaction holds the table exclusively."""
        self.columns += [(table, column) for column in columns]

    def with_new(self, table: TableName, known: Iterable[Partition]) -> tuple[Partition, ...]:
        """The table's partitions: those known, and those that are to be made."""
        found = {partition.values: partition for partition in known}
        for name, partition in self.partitions:
            if name == table:
                found.setdefault(partition.values, partition)
        return tuple(found.values())

    def make_partitions(self, catalog: Catalog) -> None:
        """Make them now; those that exist stay as they are.

        Raises:
            ConflictError: somebody made one of them in another place, where nothing was written.
            MetastoreError: the metastore failed.
        """
        for table in dict.fromkeys(name for name, _ in self.partitions):
            wanted = self.with_new(table, ())
            if len(catalog.add_partitions(table, wanted)) == len(wanted):
                continue
            there = {one.values: one.location for one in catalog.list_partitions(table)}
            for one in wanted:
                if there.get(one.values) != one.location:
                    raise ConflictError(
                        f"Partition {one.values} of {table} was added in another place meanwhile: "
                        f"what was written is in {one.location}",
                        table=str(table),
                    )
