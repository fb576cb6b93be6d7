"""Grammar of LOCK and UNLOCK."""

from __future__ import annotations

from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import optional_partition
from hiveacid.statements import values_locks as values


def parse_lock(cursor: Cursor) -> values.LockTable | values.LockDatabase:
    """LOCK TABLE name [PARTITION (...)] mode, LOCK DATABASE | SCHEMA name mode"""
    cursor.expect("LOCK")
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.name("lock statement").lower()
        return values.LockDatabase(schema, _exclusive(cursor))
    cursor.expect("TABLE")
    name = cursor.table_name()
    partition = optional_partition(cursor)
    return values.LockTable(name, partition, _exclusive(cursor))


def parse_unlock(cursor: Cursor) -> values.UnlockTable | values.UnlockDatabase:
    """UNLOCK TABLE name [PARTITION (...)], UNLOCK DATABASE | SCHEMA name"""
    cursor.expect("UNLOCK")
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        return values.UnlockDatabase(cursor.name("unlock statement").lower())
    cursor.expect("TABLE")
    return values.UnlockTable(cursor.table_name(), optional_partition(cursor))


def _exclusive(cursor: Cursor) -> bool:
    mode = cursor.accept_any("SHARED", "EXCLUSIVE")
    if mode is None:
        raise cursor.unrecognized("lock mode")
    return mode == "EXCLUSIVE"
