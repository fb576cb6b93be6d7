"""Grammar of CREATE, ALTER and DROP VIEW."""

from __future__ import annotations

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.parsed import ParsedQuery, ParsedView
from hiveacid.sql.properties import property_keys, property_list
from hiveacid.sql.query import QueryParser
from hiveacid.statements import values_views as views


def parse_create_view(cursor: Cursor, *, or_replace: bool) -> ParsedView:
    """What follows CREATE [OR REPLACE] VIEW."""
    if_not_exists = cursor.if_not_exists()
    name = cursor.table_name()
    columns = _columns(cursor) if cursor.key == "(" else ()
    comment, properties = None, {}
    while not cursor.accept("AS"):
        if cursor.accept("COMMENT"):
            comment = cursor.string()
        elif cursor.accept("TBLPROPERTIES"):
            properties = property_list(cursor)
        elif cursor.key == "PARTITIONED":
            raise UnsupportedError("partitioned views are not supported")
        else:
            raise cursor.unrecognized("create view statement")
    view = views.CreateView(
        name,
        columns,
        comment=comment,
        properties=properties,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )
    return ParsedView(view, _query(cursor))


def parse_alter_view(cursor: Cursor) -> views.AlterView | ParsedView:
    """What follows ALTER VIEW."""
    name = cursor.table_name()
    if cursor.accept("SET", "TBLPROPERTIES"):
        return views.AlterView(name, properties=property_list(cursor))
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        cursor.if_exists()
        return views.AlterView(name, unset=property_keys(cursor))
    if cursor.accept("RENAME", "TO"):
        return views.AlterView(name, new_name=cursor.table_name())
    cursor.accept("AS")
    if not cursor.at_query():
        raise cursor.unrecognized("alter view statement")
    return ParsedView(views.CreateView(name, alter=True), _query(cursor))


def parse_drop_view(cursor: Cursor) -> views.DropView:
    """What follows DROP VIEW."""
    if_exists = cursor.if_exists()
    return views.DropView(cursor.table_name(), if_exists)


def _query(cursor: Cursor) -> ParsedQuery:
    if not cursor.at_query():
        raise cursor.unrecognized("view definition")
    return ParsedQuery(QueryParser(cursor).query_fragment())


def _columns(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    found = []
    cursor.expect("(")
    while True:
        name = cursor.name("view column").lower()
        found.append((name, cursor.string() if cursor.accept("COMMENT") else None))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(found)
