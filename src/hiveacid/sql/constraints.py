"""Grammar of constraints, of columns and of tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.errors import InvalidInputError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.lexer import TokenKind
from hiveacid.statements.constraints import KeyConstraint
from hiveacid.statements.values_ddl import Constraints

_STATES = ("ENABLE", "DISABLE", "ENFORCED", "VALIDATE", "NOVALIDATE", "RELY", "NORELY")


@dataclass(slots=True)
class ConstraintReader:
    """Constraints while they are being read; those that are not enforced are left out, but for
    keys, which never are.
    """

    not_null: list[str] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    keys: list[KeyConstraint] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def value(self) -> Constraints:
        """What was read."""
        return Constraints(
            tuple(self.not_null), self.defaults, tuple(self.checks), tuple(self.keys), self.names
        )

    def column(self, cursor: Cursor, column: str) -> bool:
        """One constraint of a column, if there is one."""
        name = _name(cursor)
        if cursor.accept("NOT", "NULL"):
            if _state(cursor).enforced:
                self.not_null.append(column)
                self.names |= {column: name} if name else {}
        elif cursor.accept("DEFAULT"):
            text = _default(cursor)
            if _state(cursor).enforced:
                self.defaults[column] = text
                self.names |= {f"default.{column}": name} if name else {}
        elif cursor.accept("CHECK"):
            self._check(cursor, name)
        elif cursor.accept("PRIMARY", "KEY"):
            self._key(cursor, name, "PRIMARY KEY", (column,))
        elif cursor.accept("UNIQUE"):
            self._key(cursor, name, "UNIQUE", (column,))
        elif cursor.key == "REFERENCES":
            self._foreign_key(cursor, name, (column,))
        elif name:
            raise cursor.unrecognized("constraint")
        else:
            return False
        return True

    def table(self, cursor: Cursor) -> bool:
        """One constraint of the table, if there is one."""
        name = ""
        named = (TokenKind.WORD, TokenKind.QUOTED)
        if cursor.key == "CONSTRAINT" and cursor.peek(1).kind in named:
            if cursor.peek(2).key not in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK"):
                return False
            name = _name(cursor)
        if cursor.accept("PRIMARY", "KEY"):
            self._key(cursor, name, "PRIMARY KEY", _columns(cursor))
        elif cursor.looking_at("UNIQUE", "("):
            cursor.next()
            self._key(cursor, name, "UNIQUE", _columns(cursor))
        elif cursor.accept("FOREIGN", "KEY"):
            self._foreign_key(cursor, name, _columns(cursor))
        elif cursor.looking_at("CHECK", "("):
            cursor.next()
            self._check(cursor, name)
        else:
            return False
        return True

    def _check(self, cursor: Cursor, name: str) -> None:
        text = _condition(cursor)
        if _state(cursor).enforced:
            self.checks.append(text)
            self.names |= {text: name} if name else {}

    def _foreign_key(self, cursor: Cursor, name: str, columns: tuple[str, ...]) -> None:
        cursor.expect("REFERENCES")
        parent = ".".join(part.lower() for part in cursor.dotted_name())
        self._key(cursor, name, "FOREIGN KEY", columns, parent, _columns(cursor))

    def _key(
        self,
        cursor: Cursor,
        name: str,
        kind: str,
        columns: tuple[str, ...],
        parent: str = "",
        parent_columns: tuple[str, ...] = (),
    ) -> None:
        state = _state(cursor)
        if state.said and state.enforced:
            raise InvalidInputError(
                "Invalid Constraint syntax ENABLE/ENFORCED feature not supported yet. Please use "
                "DISABLE/NOT ENFORCED instead.",
                code=10326,
            )
        self.keys.append(KeyConstraint(name, kind, columns, state.rely, parent, parent_columns))


@dataclass(slots=True)
class _State:
    """[ENABLE | DISABLE | [NOT] ENFORCED] [VALIDATE | NOVALIDATE] [RELY | NORELY]"""

    enforced: bool = True
    said: bool = False
    rely: bool = False


def _state(cursor: Cursor) -> _State:
    found = _State()
    while cursor.key in _STATES or cursor.looking_at("NOT", "ENFORCED"):
        if cursor.accept("NOT", "ENFORCED"):
            found.enforced, found.said = False, True
            continue
        word = cursor.next().key
        if word in ("ENABLE", "DISABLE", "ENFORCED"):
            found.enforced, found.said = word != "DISABLE", True
        found.rely = found.rely or word == "RELY"
    return found


def _name(cursor: Cursor) -> str:
    return cursor.name("constraint").lower() if cursor.accept("CONSTRAINT") else ""


def _columns(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    found = [cursor.name("column name").lower()]
    while cursor.accept(","):
        found.append(cursor.name("column name").lower())
    cursor.expect(")")
    return tuple(found)


def _condition(cursor: Cursor) -> str:
    """The text of a CHECK, without the parentheses around all of it where there are some."""
    start = cursor.at
    if cursor.key == "(":
        inside = cursor.skip_parentheses()
        if _at_end_of_condition(cursor):
            return cursor.between(*inside)
    while not _at_end_of_condition(cursor):
        if cursor.key == "(":
            cursor.skip_parentheses()
        else:
            cursor.next()
    if cursor.at == start:
        raise cursor.unrecognized("check constraint")
    return cursor.between(start, cursor.at)


def _at_end_of_condition(cursor: Cursor) -> bool:
    if cursor.key in (*_STATES, ",", ")", "COMMENT", "CONSTRAINT") or cursor.at_end():
        return True
    return cursor.looking_at("NOT", "ENFORCED")


def _default(cursor: Cursor) -> str:
    """The text of a DEFAULT: a literal, a call or a cast."""
    start = cursor.at
    cursor.accept("-")
    cursor.next()
    if cursor.key == "(":
        cursor.skip_parentheses()
    elif cursor.token.kind is TokenKind.STRING:
        word = cursor.tokens[start].key
        text = cursor.next().text
        if word == "TIMESTAMPLOCALTZ":
            return f"TIMESTAMP_LTZ {text}"
        if word not in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"):
            raise cursor.unrecognized("default value")
    return cursor.between(start, cursor.at)
