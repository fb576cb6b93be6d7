"""What a commit is to do besides making writes visible: statistics, new partitions and columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hiveacid.errors import ConflictError
from hiveacid.metastore.api import Catalog
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import Column, Partition, Table, TableName


@dataclass(slots=True)
class Pending:
    """Kept until the commit; what came after a mark can be forgotten."""

    statistics: list[StatisticsChange] = field(default_factory=list)
    partitions: list[tuple[TableName, Partition]] = field(default_factory=list)
    columns: list[tuple[TableName, Column]] = field(default_factory=list)

    def mark(self) -> tuple[int, int, int]:
        """What ``back_to`` needs to forget what comes after now."""
        return len(self.statistics), len(self.partitions), len(self.columns)

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Forget what came after the mark."""
        del self.statistics[mark[0] :]
        del self.partitions[mark[1] :]
        del self.columns[mark[2] :]

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
