"""What to read of a snapshot: the partitions, files and stripes that a predicate leaves over.

Made by storage's ``planning``, read by every reader. A plan leaves out only what cannot hold a row
that meets the predicate; readers still apply the condition itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from hiveacid.layout import events
from hiveacid.layout.directories import (
    DataFile,
    Snapshot,
    SnapshotPart,
    default_partition_value,
)
from hiveacid.model.predicates import ANYTHING, Constant, Predicate, partition_constant
from hiveacid.model.tables import AcidMode, Column, FileFormat
from hiveacid.model.types import INTEGER_BITS, is_decimal_or
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.statistics import (
    column_numbers,
    column_range,
    keeps_values,
    only_inserts,
)
from hiveacid.storage.orc.tail import OrcTail
from hiveacid.storage.orc.tails import tail_of
from hiveacid.storage.ranged import in_order


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read of one partition directory.

    ``files`` maps the path of each file with rows that is to be read to the numbers of its
    stripes, None for all of them. ``predicate`` is what is left to decide by the rows: conditions
    on partition columns are settled. ``delete_files`` are the paths of the delete files that may
    matter; None for all of them.
    """

    files: Mapping[str, tuple[int, ...] | None]
    predicate: Predicate = ANYTHING
    delete_files: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """Chosen, and of how many: files, stripes in the files whose tails were read, bytes."""

    files: int = 0
    files_of: int = 0
    stripes: int = 0
    stripes_of: int = 0
    bytes: int = 0
    bytes_of: int = 0
    rows: int = 0
    """Rows of the chosen stripes, where the tails were read."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.files + other.files,
            self.files_of + other.files_of,
            self.stripes + other.stripes,
            self.stripes_of + other.stripes_of,
            self.bytes + other.bytes,
            self.bytes_of + other.bytes_of,
            self.rows + other.rows,
        )


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One partition: all of its directory, and what to read of it.

    ``delete_files`` are those that may delete a row of the chosen files.
    """

    part: SnapshotPart
    selection: Selection
    delete_files: tuple[DataFile, ...]
    amount: Amount

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files to read, in the directory's order."""
        chosen = self.selection.files
        return tuple(file for file in self.part.directory.row_files if file.path in chosen)

    def only(self, files: Iterable[DataFile]) -> PartPlan:
        """The same with some of its files."""
        chosen = {file.path: self.selection.files[file.path] for file in files}
        return replace(self, selection=replace(self.selection, files=chosen))

    @property
    def reduced(self) -> SnapshotPart:
        """The partition as if it held nothing but the files chosen: for readers that need not
        count the rows of the others.
        """
        chosen = self.selection.files
        deleting = {file.path for file in self.delete_files}
        directory = self.part.directory

        def kept(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
            return tuple(file for file in files if file.path in chosen or file.path in deleting)

        base = directory.base
        deltas = (replace(delta, files=kept(delta.files)) for delta in directory.deltas)
        return SnapshotPart(
            self.part.partition,
            replace(
                directory,
                base=None if base is None else replace(base, files=kept(base.files)),
                originals=kept(directory.originals),
                deltas=tuple(delta for delta in deltas if delta.files),
            ),
        )


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to read of a snapshot.

    ``parts`` holds the partitions with something to read. ``partitions_of`` counts those that the
    table has. ``columns`` are the data and partition columns wanted, in the table's order.
    """

    files: Files
    snapshot: Snapshot
    columns: tuple[str, ...]
    predicate: Predicate
    parts: tuple[PartPlan, ...]
    partitions_of: int

    @property
    def amount(self) -> Amount:
        """Over all partitions read."""
        return sum((part.amount for part in self.parts), Amount())

    def summary(self) -> str:
        """What EXPLAIN says of it."""
        amount = self.amount
        texts = [
            f"partitions {len(self.parts)} of {self.partitions_of}",
            f"of those files {amount.files} of {amount.files_of}",
        ]
        if amount.stripes_of:
            texts.append(f"stripes {amount.stripes} of {amount.stripes_of}")
        texts.append(f"bytes {amount.bytes} of {amount.bytes_of}")
        deletes = sum(len(part.delete_files) for part in self.parts)
        deletes_of = sum(len(part.part.directory.delete_files) for part in self.parts)
        texts.append(f"delete files {deletes} of {deletes_of}")
        return ", ".join(texts)


# -------------------------------------------------------------------- extremes
# Aggregates over a whole table from the tails of its files, where those are exact: row counts,
# least and greatest values.
#
# Exact means: no delete event can touch a row, every write id of every delta is valid, every event
# is an insert, and the writers left statistics that keep the values whole.


_EXACT: Final = (*INTEGER_BITS, "date")
_FILES_MAX: Final = 4096
"""More tails than this are not read for one aggregate."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Of one column: how many values that are not NULL; the least and the greatest, where they were
    asked for.
    """

    values: int
    minimum: Constant | None
    maximum: Constant | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Rows of a plan, and facts of the columns asked for."""

    rows: int
    columns: dict[str, ColumnFacts]


def table_facts(
    plan: ScanPlan, columns: Iterable[str], *, extremes: Collection[str]
) -> TableFacts | None:
    """What the tails say of all rows of a plan, and of those columns the ``extremes`` of some; None
    where that is not exact.

    Raises:
        FormatError, MissingFileError: a file is damaged or not there.
    """
    table = plan.snapshot.table
    wanted = [c for c in table.all_columns if c.name in set(columns)]
    if table.format is not FileFormat.ORC or table.acid_mode is AcidMode.NONE:
        return None
    if plan.amount.files > _FILES_MAX:
        return None
    if any(
        c.type.children or (c.name in extremes and not is_decimal_or(_EXACT, c.type))
        for c in wanted
    ):
        return None
    if any(part.delete_files or not part.part.directory.are_inserts_valid for part in plan.parts):
        return None
    rows = 0
    found: dict[str, list[ColumnFacts]] = {column.name: [] for column in wanted}
    asked = (
        partial(_file, plan, part, f, wanted, extremes) for part in plan.parts for f in part.files
    )
    at_once = plan.files.at(table.location)[0].requests_at_once
    with closing(in_order(asked, threads=at_once)) as told:
        for counted in told:
            if counted is None:
                return None
            rows += counted.rows
            for name, facts in counted.columns.items():
                found[name].append(facts)
    return TableFacts(rows, {name: _together(facts) for name, facts in found.items()})


def has_rows(plan: ScanPlan) -> bool | None:
    """Whether a row is left of a plan, as far as the tails tell; None where they do not.

    Raises:
        FormatError, MissingFileError: a file is damaged or not there.
    """
    table = plan.snapshot.table
    if table.format is not FileFormat.ORC or plan.amount.files > _FILES_MAX:
        return None
    known = True
    for part in plan.parts:
        place = plan.files.at(part.part.partition.location)
        if not part.part.directory.are_inserts_valid:
            known = False
            continue
        # each event deletes one row at most
        deleted, rows = sum(tail_of(*place, file).rows for file in part.delete_files), 0
        for file in part.files:
            counted = _file(plan, part, file, (), ())
            rows += 0 if counted is None else counted.rows
            if rows > deleted:
                return True
            known = known and counted is not None
        known = known and rows == 0
    return False if known else None


def _file(
    plan: ScanPlan,
    part: PartPlan,
    file: DataFile,
    wanted: Sequence[Column],
    extremes: Collection[str],
) -> TableFacts | None:
    if file.size_bytes == 0:
        return TableFacts(0, {})
    if file.logical_bytes not in (None, file.size_bytes):
        return None
    tail = tail_of(*plan.files.at(part.part.partition.location), file)
    is_event_file = events.is_event_schema([name for name, _ in tail.root.fields])
    if tail.rows and is_event_file and not only_inserts(tail):
        return None
    table = plan.snapshot.table
    places = {column.name: place for place, column in enumerate(table.columns)}
    keys = dict(zip(table.partition_keys, part.part.partition.values, strict=True))
    facts: dict[str, ColumnFacts] = {}
    for column in wanted:
        if column.name in places:
            one = _column(tail, column, places[column.name], extremes=column.name in extremes)
        else:
            one = _key(column, keys[column.name], tail.rows)
        if one is None:
            return None
        facts[column.name] = one
    return TableFacts(tail.rows, facts)


def _column(tail: OrcTail, column: Column, place: int, *, extremes: bool) -> ColumnFacts | None:
    numbers = column_numbers(tail)
    if place >= len(numbers) or tail.rows == 0:
        return ColumnFacts(0, None, None)
    number = numbers[place]
    if tail.row_index_stride == 0 or number >= len(tail.footer.statistics):
        return None
    statistics: Any = tail.footer.statistics[number]
    if not statistics.HasField("numberOfValues"):
        return None
    if not extremes:
        kept = keeps_values(tail.types[number].type, column.type)
        return ColumnFacts(int(statistics.numberOfValues), None, None) if kept else None
    known = column_range(statistics, tail, number, column.type)
    if statistics.numberOfValues and (known.minimum is None or known.maximum is None):
        return None
    return ColumnFacts(int(statistics.numberOfValues), known.minimum, known.maximum)


def _key(column: Column, text: str | None, rows: int) -> ColumnFacts | None:
    default = default_partition_value(column.type)
    if rows == 0 or (text is None and default is None):
        return ColumnFacts(0, None, None)
    value = default if text is None else partition_constant(text, column.type)
    return None if value is None else ColumnFacts(rows, value, value)


def _together(facts: Sequence[ColumnFacts]) -> ColumnFacts:
    lows: list[Any] = [one.minimum for one in facts if one.minimum is not None]
    highs: list[Any] = [one.maximum for one in facts if one.maximum is not None]
    return ColumnFacts(
        sum(one.values for one in facts), min(lows, default=None), max(highs, default=None)
    )
