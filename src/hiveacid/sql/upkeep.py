"""Grammar of ANALYZE TABLE and MSCK."""

from __future__ import annotations

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.dml import partition_text
from hiveacid.statements.values_upkeep import Analyze, RepairTable


def parse_analyze(cursor: Cursor) -> Analyze:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS ..."""
    cursor.expect("ANALYZE", "TABLE")
    name = cursor.table_name()
    partition = _partition(cursor) if cursor.accept("PARTITION") else ()
    cursor.expect("COMPUTE")
    if cursor.key == "INCREMENTAL":
        raise UnsupportedError("COMPUTE INCREMENTAL STATISTICS is not supported")
    cursor.expect("STATISTICS")
    if cursor.accept("NOSCAN"):
        return Analyze(name, partition, noscan=True)
    if not cursor.accept("FOR", "COLUMNS"):
        return Analyze(name, partition)
    columns = []
    while not cursor.at_end():
        columns.append(cursor.name("column name").lower())
        if not cursor.accept(","):
            break
    return Analyze(name, partition, tuple(columns))


def _partition(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """( column [= constant], ... ); a column without a value does not narrow anything."""
    found = []
    cursor.expect("(")
    while True:
        name = cursor.name("partition specification").lower()
        if cursor.accept("="):
            found.append((name, partition_text(cursor)))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(found)


def parse_repair(cursor: Cursor) -> RepairTable:
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS]"""
    cursor.expect("MSCK")
    repair = cursor.accept("REPAIR")
    cursor.expect("TABLE")
    name = cursor.table_name()
    kind = cursor.accept_any("ADD", "DROP", "SYNC") or "ADD"
    if not cursor.at_end():
        cursor.expect("PARTITIONS")
    return RepairTable(name, repair, add=kind != "DROP", drop=kind != "ADD")
