"""CREATE TAG, DROP TAG, DROP CONSUMER, UNDO TRANSACTION."""

from __future__ import annotations

from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.history import AsOf, moment_ms
from hiveacid.model.ids import TxnId
from hiveacid.sql.cursor import Cursor, TokenKind
from hiveacid.statements.consumers import DropConsumer, ShowConsumers
from hiveacid.statements.history import UndoTransaction
from hiveacid.statements.tags import CreateTag, DropTag, ShowTags

_UNITS_MS: Final = {"MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def parse_create_tag(cursor: Cursor) -> CreateTag:
    """What follows CREATE TAG."""
    if_not_exists = cursor.if_not_exists()
    tag = pin_name(cursor, "tag")
    cursor.expect("ON")
    table = cursor.table_name()
    wanted = _version(cursor) if cursor.accept("AS", "OF") else None
    keep_ms = retained_ms(cursor)
    return CreateTag(tag, table, wanted, keep_ms, if_not_exists)


def parse_drop_pin(cursor: Cursor) -> DropTag | DropConsumer | None:
    """What follows DROP, if it is a tag or a consumer."""
    kind = cursor.accept_any("TAG", "CONSUMER")
    if kind is None:
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = pin_name(cursor, kind.lower())
    cursor.expect("ON")
    made = DropTag if kind == "TAG" else DropConsumer
    return made(name, cursor.table_name(), if_exists)


def show_consumers(cursor: Cursor) -> ShowConsumers:
    """What follows SHOW CONSUMERS."""
    return ShowConsumers(cursor.table_name() if cursor.accept("ON") else None)


def parse_undo(cursor: Cursor) -> UndoTransaction:
    """What follows UNDO."""
    cursor.expect("TRANSACTION")
    return UndoTransaction(TxnId(cursor.integer("transaction")))


def show_tags(cursor: Cursor) -> ShowTags:
    """What follows SHOW TAGS."""
    return ShowTags(cursor.table_name() if cursor.accept("ON") else None)


def pin_name(cursor: Cursor, kind: str) -> str:
    """The name of a tag or a consumer, with or without quotes."""
    return cursor.string() if cursor.token.kind is TokenKind.STRING else cursor.name(kind)


def _version(cursor: Cursor) -> AsOf:
    if cursor.accept_any("VERSION", "SYSTEM_VERSION"):
        return AsOf(write_id=cursor.integer("version"))
    if not cursor.accept_any("TIMESTAMP", "SYSTEM_TIME"):
        raise cursor.unrecognized("create tag: AS OF VERSION n, or AS OF TIMESTAMP '...'")
    return AsOf(time_ms=moment_ms(cursor.string()))


def retained_ms(cursor: Cursor) -> int | None:
    """RETAIN n DAYS, if it is there."""
    if not cursor.accept("RETAIN"):
        return None
    count = cursor.integer("retain")
    unit = cursor.name("unit of time").upper().removesuffix("S")
    if unit not in _UNITS_MS:
        raise UnsupportedError(f"RETAIN {count} {unit}: it takes DAYS, HOURS or MINUTES")
    return count * _UNITS_MS[unit]
