"""Grammar of what a table's columns have: types, constraints, and of lists of properties and ROW
FORMAT, which says how a text file holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import (
    COLLECTION,
    ESCAPE,
    FIELD,
    LINE,
    MAP_KEY,
    NULL_TEXT,
    STORAGE_CLASSES,
    FileFormat,
)
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.sql.cursor import Cursor, TokenKind
from hiveacid.statements.constraints import Constraints, KeyConstraint

_PRIMITIVES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "REAL": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMPLOCALTZ": "timestamp with local time zone",
    # names of Spark's, for its CREATE TABLE ... USING hiveacid and its texts of schemas
    "BYTE": "tinyint",
    "SHORT": "smallint",
    "LONG": "bigint",
    "TIMESTAMP_LTZ": "timestamp with local time zone",
    "TIMESTAMP_NTZ": "timestamp",
}

_NESTED = ("ARRAY", "MAP", "STRUCT", "UNIONTYPE")


def parse_column_type(cursor: Cursor) -> HiveType:
    """A type at the cursor.

    Raises:
        SqlSyntaxError: not a type of Hive's, nor one of them in Spark's words.
    """
    word = cursor.key
    if word in _PRIMITIVES:
        cursor.next()
        return PrimitiveType(_PRIMITIVES[word])
    if cursor.accept("DOUBLE"):
        cursor.accept("PRECISION")
        return PrimitiveType("double")
    if cursor.accept("TIMESTAMP"):
        is_local = cursor.accept("WITH", "LOCAL", "TIME", "ZONE")
        return PrimitiveType("timestamp with local time zone" if is_local else "timestamp")
    if word in ("DECIMAL", "NUMERIC", "DEC"):
        return _decimal(cursor)
    if word in ("CHAR", "VARCHAR"):
        return _characters(cursor)
    if word in _NESTED and cursor.peek(1).key in ("<", "<>"):
        return _complex(cursor)
    raise cursor.unrecognized("column type")


def _decimal(cursor: Cursor) -> DecimalType:
    start = cursor.token
    cursor.next()
    precision, scale = 10, 0
    if cursor.accept("("):
        precision = cursor.integer("column type")
        if cursor.accept(","):
            scale = cursor.integer("column type")
        cursor.expect(")")
    if not 1 <= precision <= 38 or scale > precision:
        raise cursor.error(f"'{start.text}({precision},{scale})': precision 1..38, scale up to it")
    return DecimalType(precision, scale)


def _characters(cursor: Cursor) -> CharType | VarcharType:
    word = cursor.next().key
    cursor.expect("(")
    length = cursor.integer("column type")
    limit = 255 if word == "CHAR" else 65535
    if not 1 <= length <= limit:
        raise cursor.error(f"{word.lower()} length {length} is out of allowed range [1, {limit}]")
    cursor.expect(")")
    return CharType(length) if word == "CHAR" else VarcharType(length)


def _complex(cursor: Cursor) -> HiveType:
    word = cursor.next().key
    cursor.expect("<")
    if word == "ARRAY":
        found: HiveType = ListType(parse_column_type(cursor))
    elif word == "MAP":
        if cursor.key in _NESTED:  # no key that Hive can read
            raise cursor.unrecognized("primitive type specification")
        key = parse_column_type(cursor)
        cursor.expect(",")
        found = MapType(key, parse_column_type(cursor))
    elif word == "UNIONTYPE":
        found = UnionType(cursor.listed(parse_column_type))
    else:
        found = StructType(cursor.listed(_field))
    cursor.expect(">")
    return found


def _field(cursor: Cursor) -> tuple[str, HiveType]:
    name = cursor.small_name("column type")
    cursor.accept(":")  # which Spark can do without
    kind = parse_column_type(cursor)
    if cursor.accept("COMMENT"):
        cursor.string()
    return name, kind


def property_list(cursor: Cursor) -> dict[str, str]:
    """( 'key' = 'value', ... )"""
    return dict(cursor.in_parentheses(_property))


def _property(cursor: Cursor) -> tuple[str, str]:
    key = cursor.string("table properties")
    cursor.expect("=")
    return key, cursor.string("table properties")


def property_keys(cursor: Cursor) -> tuple[str, ...]:
    """( 'key', ... )"""
    return cursor.in_parentheses(lambda one: one.string("table properties"))


_OF_SERDES: Final = {str(classes.serde): kind for kind, classes in STORAGE_CLASSES.items()}
_CLAUSES: Final = (
    (("COLLECTION", "ITEMS", "TERMINATED", "BY"), COLLECTION),
    (("MAP", "KEYS", "TERMINATED", "BY"), MAP_KEY),
    (("LINES", "TERMINATED", "BY"), LINE),
    (("NULL", "DEFINED", "AS"), NULL_TEXT),
)


def parse_serde(cursor: Cursor) -> tuple[FileFormat, dict[str, str]]:
    """'class' [WITH SERDEPROPERTIES (...)]: the format that the SerDe is of, and properties.

    Raises:
        UnsupportedError: another SerDe.
    """
    name = cursor.string()
    if name not in _OF_SERDES:
        raise UnsupportedError(
            f"SERDE '{name}' is not supported", note=f"There are {', '.join(_OF_SERDES)}."
        )
    found = property_list(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
    return _OF_SERDES[name], found


def parse_row_format(cursor: Cursor) -> tuple[FileFormat, dict[str, str]]:
    """What follows ROW FORMAT: DELIMITED with its clauses, or a SerDe of a format that is known;
    the format, and what a table keeps of it.

    Raises:
        UnsupportedError: another SerDe, or lines that do not end with a newline.
    """
    if cursor.accept("SERDE"):
        return parse_serde(cursor)
    cursor.expect("DELIMITED")
    found: dict[str, str] = {}
    if cursor.accept("FIELDS", "TERMINATED", "BY"):
        found[FIELD] = found["serialization.format"] = cursor.string()
        if cursor.accept("ESCAPED", "BY"):
            found[ESCAPE] = cursor.string()
    for words, key in _CLAUSES:
        if cursor.accept(*words):
            found[key] = cursor.string()
    if found.get(LINE, "\n") not in ("\n", "10"):
        raise UnsupportedError("LINES TERMINATED BY only supports newline '\\n' right now")
    return FileFormat.TEXT, found


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
            if self._is_kept(cursor, name, column):
                self.not_null.append(column)
        elif cursor.accept("DEFAULT"):
            text = _default(cursor)
            if self._is_kept(cursor, name, f"default.{column}"):
                self.defaults[column] = text
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
        if cursor.key == "CONSTRAINT" and cursor.peek(1).is_name:
            if cursor.peek(2).key not in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK"):
                return False
            name = _name(cursor)
        if cursor.accept("PRIMARY", "KEY"):
            self._key(cursor, name, "PRIMARY KEY", cursor.names())
        elif cursor.looking_at("UNIQUE", "("):
            cursor.next()
            self._key(cursor, name, "UNIQUE", cursor.names())
        elif cursor.accept("FOREIGN", "KEY"):
            self._foreign_key(cursor, name, cursor.names())
        elif cursor.looking_at("CHECK", "("):
            cursor.next()
            self._check(cursor, name)
        else:
            return False
        return True

    def _check(self, cursor: Cursor, name: str) -> None:
        text = _condition(cursor)
        if self._is_kept(cursor, name, text):
            self.checks.append(text)

    def _is_kept(self, cursor: Cursor, name: str, key: str) -> bool:
        """Whether a constraint is enforced, as what follows it says; then it has its name."""
        if _state(cursor).enforced is False:
            return False
        self.names |= {key: name} if name else {}
        return True

    def _foreign_key(self, cursor: Cursor, name: str, columns: tuple[str, ...]) -> None:
        cursor.expect("REFERENCES")
        parent = ".".join(part.lower() for part in cursor.dotted_name())
        self._key(cursor, name, "FOREIGN KEY", columns, parent, cursor.names())

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
        if state.enforced:
            raise InvalidInputError(
                "Invalid Constraint syntax ENABLE/ENFORCED feature not supported yet. Please use "
                "DISABLE/NOT ENFORCED instead.",
                code=10326,
            )
        self.keys.append(KeyConstraint(name, kind, columns, state.rely, parent, parent_columns))


class _State(NamedTuple):
    """[ENABLE | DISABLE | [NOT] ENFORCED] [VALIDATE | NOVALIDATE] [RELY | NORELY]; ``enforced``
    is None where nothing says it.
    """

    enforced: bool | None
    rely: bool


def _state(cursor: Cursor) -> _State:
    enforced, rely = None, False
    while cursor.key in _STATES or cursor.looking_at("NOT", "ENFORCED"):
        negated = cursor.accept("NOT")
        word = cursor.next().key
        if word in ("ENABLE", "DISABLE", "ENFORCED"):
            enforced = word != "DISABLE" and not negated
        rely = rely or word == "RELY"
    return _State(enforced, rely)


def _name(cursor: Cursor) -> str:
    return cursor.small_name("constraint") if cursor.accept("CONSTRAINT") else ""


def _condition(cursor: Cursor) -> str:
    """The text of a CHECK, without the parentheses around all of it where there are some."""
    start = cursor.at
    if cursor.key == "(":
        inside = cursor.skip_parentheses()
        if _at_end_of_condition(cursor):
            return cursor.between(*inside)
    while not _at_end_of_condition(cursor):
        cursor.skip_parentheses() if cursor.key == "(" else cursor.next()
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
    if cursor.peek(0).kind is TokenKind.STRING:
        cursor.string()
        return cursor.between(start, cursor.at)
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
