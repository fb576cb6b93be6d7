"""When two transactions may both commit (pure; ARCHITECTURE section 4), and what a commit makes of
the statistics of a table or partition, parameters of Hive's names and texts.

Hive's rule is the partition: the first committer wins. Ours is the row: a delete event names the
row it deletes, so two transactions conflict where they hold delete events of the same row. What
replaces a whole partition (an overwrite, recorded as UPDATE) conflicts with every change to it. A
serializable transaction conflicts, too, with every write to what it read that its snapshot does not
see.

``COLUMN_STATS_ACCURATE`` says which statistics hold: ``{"BASIC_STATS":"true","COLUMN_STATS":
{"c":"true"}}``. With them goes the write id of the last transaction that changed them or the rows;
they are those of a snapshot exactly if it sees that write id, since each commit writes its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from hiveacid.model.ids import RowId, ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import TableName, TxnId, WriteId
from hiveacid.model.transactions import OperationType

ROWS_NAMED: Final = 10
"""How many rows an error names at most."""


class ConflictUnit(Enum):
    """What two concurrent writers must not both change."""

    PARTITION = "partition"
    """the partition, or the whole of an unpartitioned table: Hive's rule"""
    ROW = "row"
    """the row"""


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction recorded as written: a partition by name, or None for all of a table."""

    table: TableName
    partition: str | None
    operation: OperationType


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that was read, all but the partitions ``left_out``, or ``only`` some (names)."""

    table: TableName
    left_out: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def includes(self, partition: str | None) -> bool:
        """Whether a write to this partition, None for the whole table, touches what was read."""
        if partition is None:
            return True
        return partition not in self.left_out and (self.only is None or partition in self.only)


@dataclass(frozen=True, slots=True)
class ReadSet:
    """All that a serializable transaction read, as of the transactions ``seen``."""

    seen: ValidTxnList
    tables: tuple[ReadTable, ...] = ()


@dataclass(frozen=True, slots=True)
class UnseenWrite:
    """A write that another transaction, the ``winner``, committed to what was read, and that the
    reader's snapshot does not see; ``partition`` is None for the whole of a table.
    """

    winner: TxnId
    table: TableName
    partition: str | None

    @property
    def resource(self) -> str:
        """Hive's ``db/table/partition``."""
        return _resource(self.table, self.partition)


@dataclass(frozen=True, slots=True)
class CommittedWrite:
    """A change that another transaction, the ``winner``, committed to a partition which mine
    changed too, after mine had opened.

    ``partition`` is None for an unpartitioned table; ``write_id`` is the winner's, None where it is
    not known any more; ``mine`` is what my transaction did there.
    """

    winner: TxnId
    commit_id: TxnId
    table: TableName
    partition: str | None
    operation: OperationType
    write_id: WriteId | None
    mine: OperationType

    @property
    def is_decided(self) -> bool:
        """Whether it conflicts whatever the rows are."""
        replaces = OperationType.UPDATE in (self.operation, self.mine)
        return replaces or self.write_id is None

    @property
    def resource(self) -> str:
        """Hive's ``db/table/partition``."""
        return _resource(self.table, self.partition)


def by_partition(
    writes: Iterable[CommittedWrite],
) -> Mapping[tuple[TableName, str | None], tuple[CommittedWrite, ...]]:
    """The writes of each table and partition, the first committed first."""
    found: dict[tuple[TableName, str | None], list[CommittedWrite]] = {}
    for one in sorted(writes, key=lambda one: (one.commit_id, one.winner)):
        found.setdefault((one.table, one.partition), []).append(one)
    return {place: tuple(those) for place, those in found.items()}


def describe_conflict(txn: TxnId, lost_to: CommittedWrite, rows: Sequence[RowId] = ()) -> str:
    """One sentence that starts with Hive's words."""
    text = (
        f"Aborting [txnid:{txn}] due to a write conflict on {lost_to.resource} committed by "
        f"[txnid:{lost_to.winner},{lost_to.commit_id}] "
        f"{lost_to.mine.value}/{lost_to.operation.value}"
    )
    if not rows:
        return text
    named = ", ".join(
        f"{{writeid:{one.write_id} bucketid:{one.bucket} rowid:{one.row_id}}}" for one in rows
    )
    return f"{text}: both changed {named}" + (" ..." if len(rows) == ROWS_NAMED else "")


def describe_unseen(txn: TxnId, lost_to: UnseenWrite) -> str:
    """One sentence that starts as that of a write conflict."""
    return (
        f"Aborting [txnid:{txn}] due to a read conflict on {lost_to.resource}: "
        f"[txnid:{lost_to.winner}] committed a write that it does not see"
    )


def _resource(table: TableName, partition: str | None) -> str:
    return "/".join(filter(None, (table.database, table.table, partition)))


ACCURATE: Final = "COLUMN_STATS_ACCURATE"
ROWS: Final = "numRows"
FILES: Final = "numFiles"
SIZE_BYTES: Final = "totalSize"
RAW_SIZE_BYTES: Final = "rawDataSize"
STATISTICS_KEYS: Final = (ACCURATE, FILES, ROWS, RAW_SIZE_BYTES, SIZE_BYTES)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column's values; the bounds as Hive stores them for its type.

    ``long_*`` for whole numbers, dates (days) and timestamps (seconds), ``double_*`` for float and
    double, ``decimal_*`` (plain text) for decimals; lengths for strings and binary.
    """

    column: str
    type: str
    nulls: int
    distinct: int | None = None
    long_low: int | None = None
    long_high: int | None = None
    double_low: float | None = None
    double_high: float | None = None
    decimal_low: str | None = None
    decimal_high: str | None = None
    average_length: float | None = None
    longest: int | None = None
    trues: int | None = None
    falses: int | None = None

    @staticmethod
    def together(parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
        """Those of several partitions as one; at least so many values are distinct."""

        def of(name: str, join: Callable[[list[Any]], Any]) -> Any:
            known = [value for part in parts if (value := getattr(part, name)) is not None]
            return join(known) if known else None

        return ColumnStatistics(
            parts[0].column,
            parts[0].type,
            sum(part.nulls for part in parts),
            **{name: of(name, min) for name in ("long_low", "double_low")},
            **{name: of(name, max) for name in ("long_high", "double_high", "distinct", "longest")},
            **{name: of(name, sum) for name in ("trues", "falses")},
            decimal_low=of("decimal_low", lambda texts: min(texts, key=Decimal)),
            decimal_high=of("decimal_high", lambda texts: max(texts, key=Decimal)),
            average_length=of("average_length", lambda known: sum(known) / len(known)),
        )


@dataclass(frozen=True, slots=True)
class StatisticsChange:
    """What a transaction makes of the statistics when it commits.

    ``partition`` is a partition's name, None for an unpartitioned table. The numbers are added, or
    take the place of the old ones (``replaces``); ``rows`` None: not counted. With ``seen``
    (ANALYZE) they hold only if nobody but those write ids changed the rows, else nothing changes;
    without ``rows`` the row count then stays. ``columns`` None: no column was looked at. With
    ``keeps_rows`` (a compaction) the same rows are in other files: all that is known of them stays,
    and where fewer are there than went, somebody has overwritten them all: so do the numbers.
    """

    table: TableName
    partition: str | None
    rows: int | None
    files: int
    size_bytes: int
    replaces: bool = False
    seen: ValidWriteIdList | None = None
    columns: tuple[ColumnStatistics, ...] | None = None
    keeps_rows: bool = False


def initial_statistics(columns: Iterable[str]) -> dict[str, str]:
    """The parameters of what holds no rows; ``columns`` whose (empty) statistics are known."""
    numbers = dict.fromkeys((FILES, ROWS, RAW_SIZE_BYTES, SIZE_BYTES), "0")
    return {ACCURATE: accuracy_text(basic=True, columns=columns), **numbers}


def accuracy_text(*, basic: bool, columns: Iterable[str]) -> str:
    """The value of COLUMN_STATS_ACCURATE."""
    found: dict[str, object] = {"BASIC_STATS": "true"} if basic else {}
    names = sorted(columns)
    if names:
        found["COLUMN_STATS"] = dict.fromkeys(names, "true")
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def is_accurate(parameters: Mapping[str, str]) -> bool:
    """Whether the numbers hold."""
    return _accuracy(parameters).get("BASIC_STATS") == "true"


def accurate_columns(parameters: Mapping[str, str]) -> frozenset[str]:
    """The columns whose statistics hold."""
    columns = _accuracy(parameters).get("COLUMN_STATS", {})
    return frozenset(columns) if isinstance(columns, dict) else frozenset()


def row_count(parameters: Mapping[str, str]) -> int | None:
    """The number of rows where it is known."""
    text = parameters.get(ROWS, "")
    return int(text) if is_accurate(parameters) and text.isdecimal() else None


def changed(parameters: Mapping[str, str], change: StatisticsChange) -> dict[str, str]:
    """The statistics among ``parameters`` after the change."""
    old = {key: _number(parameters, key) for key in (ROWS, FILES, SIZE_BYTES)}
    accurate = is_accurate(parameters)
    columns: frozenset[str] = frozenset()
    rows = change.rows
    if change.keeps_rows:
        if min(old[FILES] + change.files, old[SIZE_BYTES] + change.size_bytes) < 0:
            return {key: parameters[key] for key in STATISTICS_KEYS if key in parameters}
        columns, rows = accurate_columns(parameters), old[ROWS]
    elif change.seen is not None:
        columns = accurate_columns(parameters)
        accurate, rows = (accurate, old[ROWS]) if rows is None else (True, rows)
        if change.columns is not None:
            columns |= {one.column for one in change.columns}
    elif change.replaces:
        accurate = rows is not None
    else:
        accurate = accurate and rows is not None
        rows = old[ROWS] + (rows or 0)
    base = 0 if change.replaces else 1
    accurate = accurate and (rows or 0) >= 0
    found = {
        FILES: str(base * old[FILES] + change.files),
        ROWS: str(max(rows or 0, 0)),
        RAW_SIZE_BYTES: "0",
        SIZE_BYTES: str(base * old[SIZE_BYTES] + change.size_bytes),
    }
    if accurate or columns:
        found[ACCURATE] = accuracy_text(basic=accurate, columns=columns)
    return found


def _number(parameters: Mapping[str, str], key: str) -> int:
    text = parameters.get(key, "")
    return int(text) if text.isdecimal() else 0


def _accuracy(parameters: Mapping[str, str]) -> dict[str, object]:
    try:
        found = json.loads(parameters.get(ACCURATE, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
