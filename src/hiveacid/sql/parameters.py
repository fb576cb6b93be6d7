"""What is put into a statement's text before it is read: variables and parameters.

``${hivevar:x}`` (Hive's VariableSubstitution) is replaced by the variable's text wherever it
stands, in strings and comments too, as a preprocessor does. ``:name`` and ``?`` are replaced by a
literal with the value's type, and only where they are tokens of their own: a value never becomes
anything but a value.
"""

from __future__ import annotations

import datetime
import getpass
import math
import numbers
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import LONG_MAX
from hiveacid.sql.cursor import TokenKind, name_of, syntax_error, tokenize
from hiveacid.statements.arguments import wrong_argument
from hiveacid.statements.values import Expression

Arguments = Mapping[str, Any] | Sequence[Any]
"""Values by name for ``:name``, or in order for ``?``."""
SettingOf = Callable[[str], str | None]
"""The text of a setting, None where there is none."""

_VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_DEPTH_MAX: Final = 40
_SYSTEM: Final[Mapping[str, Callable[[], str]]] = {
    "java.io.tmpdir": lambda: os.environ.get("TMPDIR", "/tmp"),
    "user.dir": os.getcwd,
    "user.home": lambda: str(Path.home()),
    "user.name": getpass.getuser,
}
"""Those of Java's properties that scripts ask for; there may be no JVM."""
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
)


# -------------------------------------------------------------------- variables


def substituted(text: str, setting_of: SettingOf) -> str:
    """The text with each ``${name}`` that is known replaced, also where a value holds another one.

    Known are ``hivevar:x`` (or ``x`` alone), ``hiveconf:x``, ``env:X`` and ``system:x``; the rest
    stays as it is. ``SET hive.variable.substitute = false`` turns it off.

    Raises:
        InvalidInputError: values that hold each other, deeper than
            ``hive.variable.substitute.depth`` (40).
    """
    switch = setting_of("hive.variable.substitute") or "true"
    if "${" not in text or switch.lower() == "false":
        return text
    depth = setting_of("hive.variable.substitute.depth") or ""
    rounds = int(depth) if depth.isdecimal() else _DEPTH_MAX
    replaced = text
    for _ in range(rounds + 1):
        before = replaced
        replaced = _VARIABLE.sub(lambda match: _value_of(match, setting_of), before)
        if replaced == before:
            return replaced
    raise InvalidInputError(
        f"Variable substitution depth is deeper than {rounds}", statement=text[:200]
    )


def _value_of(match: re.Match[str], setting_of: SettingOf) -> str:
    kind, colon, name = match.group(1).partition(":")
    value: str | None = None
    if kind == "env" and colon:
        value = os.environ.get(name)
    elif kind == "system" and colon:
        value = setting_of(f"system:{name}")
        if value is None and name in _SYSTEM:
            value = _SYSTEM[name]()
    elif kind == "hiveconf" and colon:
        value = setting_of(name)
    else:
        value = setting_of(f"hivevar:{match.group(1).removeprefix('hivevar:')}")
    return match.group() if value is None else value


# -------------------------------------------------------------------- parameters


def with_arguments(text: str, arguments: Arguments) -> str:
    """The text with literals in place of its parameters: ``:name`` for a mapping, ``?`` for a
    sequence. A list is an array; within ``IN (...)`` its items stand there one by one.

    Raises:
        SqlSyntaxError: a parameter without a value, or where no value can stand; with line and
            column.
        InvalidInputError: a value without a parameter, or of a type that has no literal.
    """
    named = isinstance(arguments, Mapping)
    if isinstance(arguments, Mapping):
        values: Mapping[Any, Any] = arguments
    elif isinstance(arguments, list | tuple):
        values = dict(enumerate(arguments))
    else:
        raise InvalidInputError(
            f"args is a mapping of names to values, or a list of values, not {arguments!r}",
            note="acid.sql('select * from t where id = :id', args={'id': 5})",
        )
    pieces, end, used = [], 0, set()
    for number, marker in enumerate(_markers(text)):
        shown = text[marker.start : marker.end]
        key = marker.name if named else number
        if key not in values or named is (marker.name is None):
            given = ", ".join(map(str, values)) if named else f"{len(values)} by place"
            what = f"no value is given for parameter {shown}; given are: {given or 'none'}"
            raise syntax_error(text, marker.start, what)
        if marker.beside:  # strings side by side are one
            raise syntax_error(
                text, marker.start, f"parameter {shown} stands beside another literal"
            )
        value = values[key]
        try:
            spread = marker.in_list and isinstance(value, list | tuple)
            if spread and not value:
                raise ValueError("the list is empty, and IN () is no condition")
            literal = ", ".join(map(literal_of, value)) if spread else literal_of(value)
        except ValueError as error:
            raise syntax_error(text, marker.start, f"parameter {shown}: {error}") from error
        pieces += [text[end : marker.start], literal]
        end = marker.end
        used.add(key)
    unused = [key for key in values if key not in used]
    if unused:
        shown = ", ".join(f":{key}" for key in unused) if named else f"{len(unused)} too many"
        raise InvalidInputError(f"args has values that the statement does not use: {shown}")
    return "".join((*pieces, text[end:]))


def refuse_parameters(source: str, *, start: int, end: int) -> None:
    """The statement between ``start`` and ``end`` has no parameters: no values were given.

    Raises:
        SqlSyntaxError: it has one.
    """
    text = source[start:end]
    for marker in _markers(text):
        shown = text[marker.start : marker.end]
        example = "[...]" if marker.name is None else "{" + repr(marker.name) + ": ...}"
        what = f"parameter {shown} has no value: give it by acid.sql(text, args={example})"
        if marker.name is not None:
            what += f", hiveacid sql --arg {marker.name}=..."
        raise syntax_error(source, start + marker.start, what)


@dataclass(frozen=True, slots=True)
class _Marker:
    """``:name``, or ``?`` with the name None; ``in_list`` is said of an item of ``IN (...)``."""

    name: str | None
    start: int
    end: int
    in_list: bool
    beside: bool


def _markers(text: str) -> Iterator[_Marker]:
    tokens = tokenize(text)
    lists: list[bool] = []
    """Of each parenthesis that is open: is it that of IN?"""
    end, types = -1, 0
    for place, token in enumerate(tokens[:-1]):
        before, after = tokens[place - 1], tokens[place + 1]
        if token.key == "<" and (types or before.key == "STRUCT"):
            types += 1
        elif token.key == ">" and types:
            types -= 1
        if token.key == "(":
            lists.append(before.key == "IN")
        elif token.key == ")" and lists:
            lists.pop()
        ends = before.is_name or before.key in (")", "]")
        field = types or (ends and before.end == token.start)  # parse_json('{}'):name
        named = token.key == ":" and after.is_name and after.start == token.end and not field
        if named or token.key == "?":
            last = after if named else token
            follower = tokens[place + 1 + named]
            beside = before.end == end or TokenKind.STRING in (before.kind, follower.kind)
            end = last.end
            yield _Marker(
                name_of(after) if named else None,
                token.start,
                last.end,
                in_list=bool(lists and lists[-1])
                and before.key in ("(", ",")
                and follower.key in (")", ","),
                beside=beside,
            )


def literal_of(value: Any) -> str:
    """A value as a literal of Hive SQL that has its type and stands for nothing else.

    Raises:
        ValueError: there is no literal for it.
    """
    value = _of_python(value)
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value)
    raise ValueError(
        f"no literal for a value of type {type(value).__name__}; there is one for None, bool, int,"
        " float, Decimal, str, bytes, date, datetime, list and dict"
    )


def condition_given(value: object) -> Expression | None:
    """What a caller gave as ``where``, as ``expression_given``; None where nothing was given.

    Raises:
        InvalidInputError: it is of no such type.
    """
    return None if value is None else expression_given("where", value)


def expression_given(name: str, value: object) -> Expression:
    """SQL text and Columns as they are, other values as literals.

    Raises:
        InvalidInputError: it is of no such type.
    """
    if isinstance(value, str) or is_column(value):
        return cast("Expression", value)
    try:
        return literal_of(value)
    except ValueError as error:
        said = "SQL text, a Column or a plain value"
        raise wrong_argument(name, said, value) from error


def is_column(value: object) -> bool:
    """Whether it is a Column of Spark, classic or of Connect."""
    return type(value).__module__.startswith("pyspark.sql") and hasattr(value, "isNull")


def _of_python(value: Any) -> Any:
    """A scalar of numpy's or pandas' as Python's own; what is absent there is None."""
    room = type(value).__module__.partition(".")[0]
    if room == "numpy" and type(value).__name__ == "datetime64":
        return value.astype("datetime64[us]").item()  # of nanoseconds it gives a number
    if room == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return None if room == "pandas" and type(value).__name__ == "NAType" else value


def _text(value: str) -> str:
    return "'" + value.translate(_ESCAPES).replace("${", "\\u0024{") + "'"


def _whole(value: Any) -> str:
    number = int(value)
    if number.bit_length() > 126:  # more than the 38 digits of a decimal
        raise ValueError(f"{number} has more than 38 digits")
    return f" {number}" if -LONG_MAX - 1 <= number <= LONG_MAX else f" {number}BD"


def _real(value: Any) -> str:
    number = float(value)
    return f" {number!r}D" if math.isfinite(number) else f"cast('{number}' as double)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite() or len(value.as_tuple().digits) > 38 or abs(value.adjusted()) > 37:
        raise ValueError(f"{value} is no decimal of 38 digits")
    return f" {value:f}BD"


def _moment(value: datetime.datetime) -> str:
    if value != value:  # pandas' NaT is a datetime
        return "NULL"
    if value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(' ', 'microseconds')}'"
    at = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    text = at.isoformat(" ", "microseconds")
    return f"cast('{text} UTC' as timestamp with local time zone)"


_FORMS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (type(None), lambda _: "NULL"),
    (bool, lambda value: str(value).upper()),
    (numbers.Integral, _whole),
    (Decimal, _decimal),
    (numbers.Real, _real),
    (str, _text),
    (bytes | bytearray, lambda value: f"X'{value.hex()}'"),
    (datetime.datetime, _moment),
    (datetime.date, lambda value: f"DATE '{value.isoformat()}'"),
    (list | tuple, lambda value: f"array({', '.join(map(literal_of, value))})"),
    (
        dict,
        lambda value: (
            "map(" + ", ".join(literal_of(one) for pair in value.items() for one in pair) + ")"
        ),
    ),
)
"""The order counts: True is an int, a datetime is a date. A number begins with a blank, so that a
minus before it never makes a comment."""


def without_literals(source: str) -> str:
    """A statement with ``?`` for each number and string, without comments, on one line."""
    kinds = (TokenKind.NUMBER, TokenKind.STRING)
    parts, at = [], 0
    for token in tokenize(source):
        if token.kind is TokenKind.END:
            break
        parts += [" " * (token.start > at), "?" if token.kind in kinds else token.text]
        at = token.end
    return "".join(parts).strip()
