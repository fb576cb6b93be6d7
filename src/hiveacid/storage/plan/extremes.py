"""Aggregates over a whole table from the tails of its files, where those are exact: row counts,
least and greatest values.

Exact means: no delete event can touch a row, every write id of every delta is valid, every event
is an insert, and the writers left statistics that keep the values whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hiveacid.layout import events
from hiveacid.layout.directories import DataFile
from hiveacid.model.predicates import Constant, partition_constant
from hiveacid.model.tables import AcidMode, Column, FileFormat
from hiveacid.model.types import INTEGER_BITS, DecimalType, HiveType, PrimitiveType
from hiveacid.storage.orc.statistics import column_numbers, column_range, only_inserts
from hiveacid.storage.orc.tail import OrcTail
from hiveacid.storage.orc.tails import tail_of
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

_EXACT: Final = (*INTEGER_BITS, "date")
_FILES_MAX: Final = 4096
"""More tails than this are not read for one aggregate."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Of one column: how many values that are not NULL, the least and the greatest."""

    values: int
    minimum: Constant | None
    maximum: Constant | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Rows of a plan, and facts of the columns asked for."""

    rows: int
    columns: dict[str, ColumnFacts]


def table_facts(plan: ScanPlan, columns: Iterable[str]) -> TableFacts | None:
    """What the tails say of all rows of a plan; None where that is not exact.

    Raises:
        FormatError, MissingFileError: a file is damaged or not there.
    """
    table = plan.snapshot.table
    wanted = [c for c in table.all_columns if c.name in set(columns)]
    if table.format is not FileFormat.ORC or table.acid_mode is AcidMode.NONE:
        return None
    if plan.amount.files > _FILES_MAX or not all(_is_exact_type(c.type) for c in wanted):
        return None
    rows = 0
    found: dict[str, list[ColumnFacts]] = {column.name: [] for column in wanted}
    for part in plan.parts:
        if part.delete_files or not all(d.all_valid for d in part.part.directory.insert_deltas):
            return None
        for file in part.files:
            counted = _file(plan, part, file, wanted)
            if counted is None:
                return None
            rows += counted.rows
            for name, facts in counted.columns.items():
                found[name].append(facts)
    return TableFacts(rows, {name: _together(facts) for name, facts in found.items()})


def _is_exact_type(kind: HiveType) -> bool:
    return isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and kind.name in _EXACT
    )


def _file(
    plan: ScanPlan, part: PartPlan, file: DataFile, wanted: Sequence[Column]
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
    names = [column.name for column in table.partition_columns]
    keys = dict(zip(names, part.part.partition.values, strict=True))
    facts: dict[str, ColumnFacts] = {}
    for column in wanted:
        if column.name in places:
            one = _column(tail, column, places[column.name])
        else:
            one = _key(column, keys[column.name], tail.rows)
        if one is None:
            return None
        facts[column.name] = one
    return TableFacts(tail.rows, facts)


def _column(tail: OrcTail, column: Column, place: int) -> ColumnFacts | None:
    numbers = column_numbers(tail)
    if place >= len(numbers) or tail.rows == 0:
        return ColumnFacts(0, None, None)
    number = numbers[place]
    if tail.row_index_stride == 0 or number >= len(tail.footer.statistics):
        return None
    statistics: Any = tail.footer.statistics[number]
    if not statistics.HasField("numberOfValues"):
        return None
    known = column_range(statistics, tail, number, column.type)
    if statistics.numberOfValues and (known.minimum is None or known.maximum is None):
        return None
    return ColumnFacts(int(statistics.numberOfValues), known.minimum, known.maximum)


def _key(column: Column, text: str | None, rows: int) -> ColumnFacts | None:
    if text is None or rows == 0:
        return ColumnFacts(0, None, None)
    value = partition_constant(text, column.type)
    return None if value is None else ColumnFacts(rows, value, value)


def _together(facts: Sequence[ColumnFacts]) -> ColumnFacts:
    lows: list[Any] = [one.minimum for one in facts if one.minimum is not None]
    highs: list[Any] = [one.maximum for one in facts if one.maximum is not None]
    return ColumnFacts(
        sum(one.values for one in facts), min(lows, default=None), max(highs, default=None)
    )
