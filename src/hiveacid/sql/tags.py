"""CREATE TAG and DROP TAG."""

from __future__ import annotations

from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.history import AsOf, moment_ms
from hiveacid.sql.cursor import Cursor, TokenKind
from hiveacid.statements.tags import CreateTag, DropTag, ShowTags

_UNITS_MS: Final = {"MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def parse_create_tag(cursor: Cursor) -> CreateTag:
    """What follows CREATE TAG."""
    if_not_exists = cursor.if_not_exists()
    tag = _name(cursor)
    cursor.expect("ON")
    table = cursor.table_name()
    wanted = _version(cursor) if cursor.accept("AS", "OF") else None
    keep_ms = _duration_ms(cursor) if cursor.accept("RETAIN") else None
    return CreateTag(tag, table, wanted, keep_ms, if_not_exists)


def parse_drop_tag(cursor: Cursor) -> DropTag:
    """What follows DROP TAG."""
    if_exists = cursor.accept("IF", "EXISTS")
    tag = _name(cursor)
    cursor.expect("ON")
    return DropTag(tag, cursor.table_name(), if_exists)


def show_tags(cursor: Cursor) -> ShowTags:
    """What follows SHOW TAGS."""
    return ShowTags(cursor.table_name() if cursor.accept("ON") else None)


def _name(cursor: Cursor) -> str:
    return cursor.string() if cursor.token.kind is TokenKind.STRING else cursor.name("tag")


def _version(cursor: Cursor) -> AsOf:
    if cursor.accept_any("VERSION", "SYSTEM_VERSION"):
        return AsOf(write_id=cursor.integer("version"))
    if not cursor.accept_any("TIMESTAMP", "SYSTEM_TIME"):
        raise cursor.unrecognized("create tag: AS OF VERSION n, or AS OF TIMESTAMP '...'")
    return AsOf(time_ms=moment_ms(cursor.string()))


def _duration_ms(cursor: Cursor) -> int:
    count = cursor.integer("retain")
    unit = cursor.name("unit of time").upper().removesuffix("S")
    if unit not in _UNITS_MS:
        raise UnsupportedError(f"RETAIN {count} {unit}: it takes DAYS, HOURS or MINUTES")
    return count * _UNITS_MS[unit]
