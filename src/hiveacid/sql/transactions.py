"""Grammar of the statements that begin and end transactions."""

from __future__ import annotations

import re

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.transactions import Isolation
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.lexer import TokenKind
from hiveacid.statements import values_transactions as values

_AUTOCOMMIT = re.compile(r"set\s+autocommit(?:(?:\s*=\s*|\s+)(\S+))?\s*", re.IGNORECASE)
_ON = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def parse_begin(cursor: Cursor) -> values.Begin:
    """START TRANSACTION [ISOLATION LEVEL level | READ WRITE], BEGIN [TRANSACTION | WORK]"""
    if cursor.accept("START"):
        cursor.expect("TRANSACTION")
    else:
        cursor.expect("BEGIN")
        cursor.accept_any("TRANSACTION", "WORK")
    return values.Begin(_modes(cursor))


def parse_set_transaction(cursor: Cursor) -> values.SetTransaction:
    """SET TRANSACTION ISOLATION LEVEL level"""
    cursor.expect("SET")
    cursor.expect("TRANSACTION")
    isolation = _modes(cursor)
    if isolation is None:
        raise cursor.unrecognized("isolation level")
    return values.SetTransaction(isolation)


def parse_commit(cursor: Cursor) -> values.Commit:
    """COMMIT [TRANSACTION | WORK]"""
    cursor.expect("COMMIT")
    cursor.accept_any("TRANSACTION", "WORK")
    return values.Commit()


def parse_rollback(cursor: Cursor) -> values.Rollback:
    """ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]"""
    cursor.expect("ROLLBACK")
    cursor.accept_any("TRANSACTION", "WORK")
    return values.Rollback(_savepoint(cursor) if cursor.accept("TO") else None)


def parse_savepoint(cursor: Cursor) -> values.Savepoint:
    """SAVEPOINT name"""
    cursor.expect("SAVEPOINT")
    return values.Savepoint(cursor.name("savepoint"))


def parse_release(cursor: Cursor) -> values.ReleaseSavepoint:
    """RELEASE [SAVEPOINT] name"""
    cursor.expect("RELEASE")
    return values.ReleaseSavepoint(_savepoint(cursor))


def autocommit(text: str) -> values.SetAutocommit | None:
    """SET autocommit [[=] value]; None for another SET.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    found = _AUTOCOMMIT.fullmatch(text)
    if found is None or found.group(1) is None:
        return None if found is None else values.SetAutocommit()
    on = _ON.get(found.group(1).lower())
    if on is None:
        raise InvalidInputError(f"autocommit is true or false, not {found.group(1)}")
    return values.SetAutocommit(on)


def _modes(cursor: Cursor) -> Isolation | None:
    """The level of a list of modes, None where it has none."""
    found: Isolation | None = None
    while not cursor.at_end():
        level = next(
            (one for one in Isolation if cursor.accept("ISOLATION", "LEVEL", one.name)), None
        )
        found = level or found
        if level is None and not cursor.accept("READ", "WRITE"):
            if cursor.key in ("ISOLATION", "READ"):
                raise UnsupportedError(
                    "A transaction is READ WRITE at ISOLATION LEVEL SNAPSHOT or SERIALIZABLE, "
                    "nothing else is supported"
                )
            raise cursor.unrecognized("transaction statement")
        cursor.accept(",")
    return found


def _savepoint(cursor: Cursor) -> str:
    if cursor.peek(1).kind is not TokenKind.END:
        cursor.accept("SAVEPOINT")
    return cursor.name("savepoint")
