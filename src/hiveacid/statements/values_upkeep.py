"""Values of the statements that bring the catalog up to date: ANALYZE and MSCK."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName


@dataclass(frozen=True, slots=True)
class Analyze:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS [names]].

    ``partition`` names some of the partition columns; none of them: all partitions. ``columns``
    None: no column statistics; empty: of all columns.
    """

    name: TableName
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] | None = None
    noscan: bool = False


@dataclass(frozen=True, slots=True)
class RepairTable:
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS]; ``repair`` False: only tell."""

    name: TableName
    repair: bool = True
    add: bool = True
    drop: bool = False
