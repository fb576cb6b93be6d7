"""Lists of properties: of tables, views and databases."""

from __future__ import annotations

from hiveacid.sql.cursor import Cursor


def property_list(cursor: Cursor) -> dict[str, str]:
    """( 'key' = 'value', ... )"""
    found: dict[str, str] = {}
    cursor.expect("(")
    while True:
        key = cursor.string("table properties")
        cursor.expect("=")
        found[key] = cursor.string("table properties")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def property_keys(cursor: Cursor) -> tuple[str, ...]:
    """( 'key', ... )"""
    cursor.expect("(")
    keys = [cursor.string("table properties")]
    while cursor.accept(","):
        keys.append(cursor.string("table properties"))
    cursor.expect(")")
    return tuple(keys)
