"""What a statement says of moments and versions of a table.

The time after ``TIMESTAMP AS OF`` is a literal, or an expression over literals and the time of the
statement, as ``current_timestamp() - INTERVAL 1 HOUR`` or ``date_sub(current_date(), 1)``. It is
parsed to a function of that time, which is UTC like every literal that names no zone.

Changes of a table in a FROM clause: ``emp CHANGES FROM VERSION 3 TO VERSION 9``, Spark's words,
and ``table_changes('emp', 3, 9)``, Delta's; or ``FROM TIMESTAMP '...'``: what was committed at that
time or later. Both bounds belong to what is read, unless EXCLUSIVE says otherwise; without the
second one it is all that is committed. ``WITH (deduplicationMode = 'none', computeUpdates = false,
key = 'id')`` says in which form. ``emp CHANGES FOR CONSUMER crm`` goes on from where that one has
read to; FROM is then where a new one begins.

Also the statements about versions that have a name: tags, consumers; and UNDO TRANSACTION.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.history import AsOf, ChangeRange, PinKind, moment_ms
from hiveacid.model.tables import TxnId
from hiveacid.sql.cursor import Cursor, TokenKind, name_of
from hiveacid.sql.forms import TABLE, after, form, whole
from hiveacid.statements.history import CreateTag, DropPin, ShowPins, UndoTransaction

_Moment = Callable[[datetime], datetime]
_Shift = Callable[[datetime, int], datetime]
_NOW: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP")
_TODAY: Final = ("CURRENT_DATE", "CURDATE")
_UNITS: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_TRUNCATED: Final = ("MINUTE", "HOUR", "DAY", "MONTH", "YEAR")


def moment(cursor: Cursor) -> AsOf:
    """Reads a time.

    Raises:
        SqlSyntaxError, UnsupportedError: it is another expression.
        InvalidInputError: it is no time, or lies where no calendar reaches.
    """
    start = cursor.at
    found = _sum(cursor)
    words = {token.key for token in cursor.tokens[start : cursor.at]}

    def time_ms(now_ms: int) -> int:
        return moment_ms(found(_of_ms(now_ms)))

    at_once = AsOf(time_ms=time_ms(0))  # which also tells what is wrong with it
    return AsOf(time_of=time_ms) if words & {*_NOW, *_TODAY} else at_once


def _of_ms(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=epoch_ms)


def _sum(cursor: Cursor) -> _Moment:
    found = _term(cursor)
    while (sign := cursor.accept_any("+", "-")) is not None:
        by = -1 if sign == "-" else 1
        if cursor.token.kind is TokenKind.NUMBER:  # of days, as after a date
            found = _shifted(found, _of_unit("DAY"), by * cursor.integer("days"))
            continue
        cursor.expect("INTERVAL")
        for shift, count in _interval(cursor):
            found = _shifted(found, shift, by * count)
    return found


def _interval(cursor: Cursor) -> list[tuple[_Shift, int]]:
    """``1 DAY 2 HOURS``, ``'1' DAY``, ``'1 day 2 hours'``."""
    words = cursor.string().split() if cursor.token.kind is TokenKind.STRING else []
    if words and len(words) % 2 == 0:
        return [(_unit(cursor, words[i + 1]), _count(words[i])) for i in range(0, len(words), 2)]
    if len(words) == 1:
        return [(_unit(cursor, cursor.name("unit")), _count(words[0]))]
    found = []
    while not words and (cursor.token.kind is TokenKind.NUMBER or cursor.key == "-"):
        count = (-1 if cursor.accept("-") else 1) * cursor.integer("interval")
        found.append((_unit(cursor, cursor.name("unit")), count))
    if not found:
        raise cursor.unrecognized("interval: INTERVAL 1 HOUR")
    return found


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"An interval is of whole numbers, not {text!r}") from error


def _unit(cursor: Cursor, name: str) -> _Shift:
    word = name.upper()
    for one in (word, word.removesuffix("S")):
        if one in _UNITS or one in _MONTHS:
            return _of_unit(one)
    raise cursor.error(f"an interval has no unit {name}")


def _of_unit(unit: str) -> _Shift:
    if unit in _MONTHS:
        return lambda at, count: _months_later(at, count * _MONTHS[unit])
    return lambda at, count: at + timedelta(**{f"{unit.lower()}s": count})


def _shifted(found: _Moment, shift: _Shift, count: int) -> _Moment:
    def later(now: datetime) -> datetime:
        try:
            return shift(found(now), count)
        except (OverflowError, ValueError) as error:
            raise InvalidInputError(f"{count} is too long an interval") from error

    return later


def _months_later(at: datetime, count: int) -> datetime:
    """The same day of another month, or its last one."""
    years, month = divmod(at.month - 1 + count, 12)
    year = at.year + years
    if not date.min.year <= year <= date.max.year:
        raise OverflowError
    return at.replace(year=year, month=month + 1, day=min(at.day, monthrange(year, month + 1)[1]))


def _day_of(found: _Moment) -> _Moment:
    return lambda now: found(now).replace(hour=0, minute=0, second=0, microsecond=0)


def _term(cursor: Cursor) -> _Moment:
    if cursor.accept("("):
        found = _sum(cursor)
        cursor.expect(")")
        return found
    if cursor.key in ("TIMESTAMP", "DATE", "TIMESTAMP_LTZ") and _is_text(cursor, 1):
        cursor.next()
    if _is_text(cursor, 0):
        at = _of_ms(moment_ms(cursor.string()))
        return lambda _: at
    word = cursor.key
    if word in _NOW or word in _TODAY:
        cursor.next()
        if cursor.accept("("):
            cursor.expect(")")
        return _day_of(lambda now: now) if word in _TODAY else (lambda now: now)
    if word not in _FUNCTIONS or cursor.peek(1).key != "(":
        raise UnsupportedError(
            f"TIMESTAMP takes a time, not {cursor.token.text}: a literal as '2026-11-22 18:30:00'",
            note="Or current_timestamp(), current_date() with + and - INTERVAL, CAST, "
            + ", ".join(name.lower() for name in _FUNCTIONS if name != "CAST"),
        )
    cursor.skip(2)
    found = _FUNCTIONS[word](cursor)
    cursor.expect(")")
    return found


def _is_text(cursor: Cursor, places: int) -> bool:
    return cursor.peek(places).kind is TokenKind.STRING


def _cast(cursor: Cursor) -> _Moment:
    found = _sum(cursor)
    cursor.expect("AS")
    kind = cursor.accept_any("TIMESTAMP", "DATE", "STRING", "TIMESTAMP_LTZ")
    if kind is None:
        raise cursor.unrecognized("cast: AS TIMESTAMP, or AS DATE")
    return _day_of(found) if kind == "DATE" else found


def _by(unit: str, sign: int, *, days: bool = False) -> Callable[[Cursor], _Moment]:
    def read(cursor: Cursor) -> _Moment:
        found = _day_of(_sum(cursor)) if days else _sum(cursor)
        cursor.expect(",")
        count = (-1 if cursor.accept("-") else 1) * cursor.integer(unit.lower())
        return _shifted(found, _of_unit(unit), sign * count)

    return read


def _added(cursor: Cursor) -> _Moment:
    shift = _unit(cursor, cursor.name("unit"))
    cursor.expect(",")
    count = (-1 if cursor.accept("-") else 1) * cursor.integer("count")
    cursor.expect(",")
    return _shifted(_sum(cursor), shift, count)


def _truncated(cursor: Cursor) -> _Moment:
    unit = cursor.string("unit").upper()
    if unit not in _TRUNCATED:
        raise cursor.error(f"date_trunc has no unit {unit}")
    cursor.expect(",")
    found = _sum(cursor)
    first = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    lower = tuple(first)[{"YEAR": 0, "MONTH": 1, "DAY": 2, "HOUR": 3, "MINUTE": 4}[unit] :]
    return lambda now: found(now).replace(**{name: first[name] for name in lower})  # type: ignore[arg-type]


def _text(cursor: Cursor) -> _Moment:
    return _sum(cursor)


_FUNCTIONS: Final[dict[str, Callable[[Cursor], _Moment]]] = {
    "CAST": _cast,
    "DATE_SUB": _by("DAY", -1, days=True),
    "DATE_ADD": _by("DAY", 1, days=True),
    "ADD_MONTHS": _by("MONTH", 1, days=True),
    "TIMESTAMPADD": _added,
    "DATEADD": _added,
    "DATE_TRUNC": _truncated,
    "TO_TIMESTAMP": _text,
    "TO_DATE": lambda cursor: _day_of(_sum(cursor)),
}


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
    TABLE,
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
    found = ChangeRange(
        since,
        until,
        includes_since=includes_since,
        includes_until=includes_until,
        consumer=consumer,
        keep_ms=keep_ms,
    )
    return found.in_form(_options(cursor))


def table_changes(cursor: Cursor) -> tuple[tuple[str, ...], ChangeRange]:
    """Reads ``('name', first [, last])`` after ``table_changes``: the table and the range."""
    cursor.expect("(")
    text = cursor.string("table_changes")
    cursor.expect(",")
    since = _version_or_time(cursor)
    until = _version_or_time(cursor) if cursor.accept(",") else None
    cursor.expect(")")
    return whole(text, Cursor.dotted_name), ChangeRange(since, until, includes_since=True)


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
