"""Changes of a table in a FROM clause: ``emp CHANGES FROM VERSION 3 TO VERSION 9``, Spark's words,
and ``table_changes('emp', 3, 9)``, Delta's; or ``FROM TIMESTAMP '...'``: what was committed at that
time or later.

Both bounds belong to what is read, unless EXCLUSIVE says otherwise; without the second one it is
all that is committed. ``WITH (deduplicationMode = 'none', computeUpdates = false, key = 'id')``
says in which form. ``emp CHANGES FOR CONSUMER crm`` goes on from where that one has read to; FROM
is then where a new one begins.

Also the statements about versions that have a name: tags, consumers; and UNDO TRANSACTION.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.history import AsOf, ChangeRange, Deduplication, PinKind
from hiveacid.model.tables import TxnId
from hiveacid.sql.cursor import Cursor, TokenKind, name_of
from hiveacid.sql.forms import after, form, whole
from hiveacid.sql.moments import moment
from hiveacid.statements.history import CreateTag, DropPin, ShowPins, UndoTransaction

_UNITS_MS: Final = {"MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def parse_drop_pin(cursor: Cursor) -> DropPin | None:
    """What follows DROP, if it is a tag or a consumer."""
    word = cursor.accept_any("TAG", "CONSUMER")
    if word is None:
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = pin_name(cursor, word.lower())
    cursor.expect("ON")
    return DropPin(PinKind(word.lower()), name, cursor.table_name(), if_exists)


def show_pins(cursor: Cursor, kind: PinKind) -> ShowPins:
    """What follows SHOW TAGS or SHOW CONSUMERS."""
    return ShowPins(kind, cursor.table_name() if cursor.accept("ON") else None)


def pin_name(cursor: Cursor, kind: str) -> str:
    """The name of a tag or a consumer, with or without quotes."""
    return cursor.string() if cursor.token.kind is TokenKind.STRING else cursor.name(kind)


def _version(cursor: Cursor) -> AsOf:
    if cursor.accept_any("VERSION", "SYSTEM_VERSION"):
        return AsOf(write_id=cursor.integer("version"))
    if not cursor.accept_any("TIMESTAMP", "SYSTEM_TIME"):
        raise cursor.unrecognized("create tag: AS OF VERSION n, or AS OF TIMESTAMP '...'")
    return moment(cursor)


def retained_ms(cursor: Cursor) -> int | None:
    """RETAIN n DAYS, if it is there."""
    if not cursor.accept("RETAIN"):
        return None
    count = cursor.integer("retain")
    unit = cursor.name("unit of time").upper().removesuffix("S")
    if unit not in _UNITS_MS:
        raise UnsupportedError(f"RETAIN {count} {unit}: it takes DAYS, HOURS or MINUTES")
    return count * _UNITS_MS[unit]


parse_create_tag: Final = form(
    CreateTag,
    ("if_not_exists", Cursor.if_not_exists),
    ("tag", lambda cursor: pin_name(cursor, "tag")),
    "ON",
    ("name", Cursor.table_name),
    ("wanted", after("AS OF", _version)),
    ("keep_ms", retained_ms),
)
"""What follows CREATE TAG."""
parse_undo: Final = form(
    UndoTransaction, "TRANSACTION", ("txn", lambda cursor: TxnId(cursor.integer("transaction")))
)
"""What follows UNDO."""

TABLE_CHANGES = "table_changes"
_OPTIONS = ("deduplicationmode", "computeupdates", "key")


def changes_clause(cursor: Cursor) -> ChangeRange | None:
    """Reads ``CHANGES FROM ...`` or ``CHANGES FOR CONSUMER ...`` after a table's name, if it is
    there.
    """
    consumer = None
    if cursor.accept("CHANGES", "FOR", "CONSUMER"):
        consumer = pin_name(cursor, "consumer").lower()
    elif cursor.looking_at("CHANGES", "FROM"):
        cursor.next()
    else:
        return None
    since: int | AsOf | None = None
    until: int | AsOf | None = None
    includes_since = includes_until = True
    if cursor.accept("FROM"):
        since, includes_since = _bound(cursor)
    if cursor.accept("TO"):
        until, includes_until = _bound(cursor)
    keep_ms = None if consumer is None else retained_ms(cursor)
    found = _range(since, until, includes_since, includes_until, _options(cursor))
    return replace(found, consumer=consumer, keep_ms=keep_ms)


def table_changes(cursor: Cursor) -> tuple[tuple[str, ...], ChangeRange]:
    """Reads ``('name', first [, last])`` after ``table_changes``: the table and the range."""
    cursor.expect("(")
    text = cursor.string("table_changes")
    cursor.expect(",")
    since = _version_or_time(cursor)
    until = _version_or_time(cursor) if cursor.accept(",") else None
    cursor.expect(")")
    return whole(text, Cursor.dotted_name), _range(since, until, True, True, {})


def _bound(cursor: Cursor) -> tuple[int | AsOf, bool]:
    bound: int | AsOf
    if cursor.accept("TIMESTAMP"):
        bound = moment(cursor)
    else:
        cursor.expect("VERSION")
        bound = cursor.integer("version")
    return bound, cursor.accept_any("INCLUSIVE", "EXCLUSIVE") != "EXCLUSIVE"


def _version_or_time(cursor: Cursor) -> int | AsOf:
    is_number = cursor.token.kind is TokenKind.NUMBER
    return cursor.integer("version") if is_number else moment(cursor)


def _options(cursor: Cursor) -> dict[str, str]:
    if not cursor.looking_at("WITH", "("):
        return {}
    cursor.next()
    return dict(cursor.in_parentheses(_option))


def _option(cursor: Cursor) -> tuple[str, str]:
    name = cursor.name("option").lower()
    if name not in _OPTIONS:
        raise InvalidInputError(f"CHANGES has no option {name}: it has {', '.join(_OPTIONS)}")
    cursor.expect("=")
    is_text = cursor.token.kind is TokenKind.STRING
    return name, cursor.string() if is_text else name_of(cursor.next())


def _range(
    since: int | AsOf | None,
    until: int | AsOf | None,
    includes_since: bool,
    includes_until: bool,
    options: dict[str, str],
) -> ChangeRange:
    updates = options.get("computeupdates", "true").lower()
    if updates not in ("true", "false"):
        raise InvalidInputError(f"computeUpdates is true or false, not {updates!r}")
    key = options.get("key")
    mode = options.get("deduplicationmode", Deduplication.DROP_CARRYOVERS.value)
    return ChangeRange(
        since,
        until,
        None if key is None else tuple(name.strip() for name in key.split(",") if name.strip()),
        Deduplication.parse(mode),
        computes_updates=updates == "true",
        includes_since=includes_since,
        includes_until=includes_until,
    )
