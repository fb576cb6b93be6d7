"""What a statement's files make of the statistics: counts per partition, for its commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hiveacid.layout.names import partition_name
from hiveacid.layout.target import FileKind, WriteResult
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import Partition, Table
from hiveacid.statements.insert import InsertWork
from hiveacid.statements.job import Work
from hiveacid.statements.truncate import TruncateWork
from hiveacid.txn.footprint import WriteKind

_Values = tuple[str | None, ...]


def changes_of(
    work: Work, written: WriteResult, *, partitions: Callable[[Table], Sequence[Partition]]
) -> list[StatisticsChange]:
    """One change for each partition written to or emptied; without a number of rows where the
    statement does not know how many each of its files has.
    """
    counted = getattr(type(work), "COUNTS_ROWS", False)
    table = work.table
    keys = [column.name for column in table.partition_columns]
    found = []
    for values in dict.fromkeys(
        [*(file.partition for file in written.files), *_named(work, partitions)]
    ):
        files = [file for file in written.files if file.partition == values]
        gone = sum(file.rows for file in files if file.kind is FileKind.DELETE)
        come = sum(file.rows for file in files if file.kind is not FileKind.DELETE)
        # an overwrite without rows leaves a file
        filled = [file for file in files if file.rows or not counted]
        found.append(
            StatisticsChange(
                table.name,
                partition_name(keys, values) if keys else None,
                rows=come - gone if counted else None,
                files=len(filled),
                size_bytes=sum(file.size_bytes for file in filled),
                replaces=work.kind is WriteKind.OVERWRITE,
            )
        )
    return found


def _named(work: Work, partitions: Callable[[Table], Sequence[Partition]]) -> list[_Values]:
    """The partitions that the statement names, whether or not it wrote a file there."""
    keys = [column.name for column in work.table.partition_columns]
    if not keys:
        return [()]
    if isinstance(work, TruncateWork):
        chosen = partitions(work.table) if work.chosen is None else work.chosen
        return [part.values for part in chosen]
    if isinstance(work, InsertWork) and all(key in work.static for key in keys):
        return [tuple(work.static[key] for key in keys)]
    return []
