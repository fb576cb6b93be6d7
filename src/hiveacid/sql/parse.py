"""Text -> parsed statements; read this first.

``parse`` splits at ``;`` and hands each statement to the grammar of its first word: in ``query``
and ``dml`` (queries, DML), ``ddl`` (CREATE, ALTER, DROP), ``moments`` (tags, UNDO), ``commands``
(all others). Nothing is guessed: a statement that no grammar owns is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import Column, TableName
from hiveacid.sql.alter import parse_alter, parse_comment
from hiveacid.sql.commands import (
    autocommit,
    parse_abort,
    parse_analyze,
    parse_begin,
    parse_commit,
    parse_describe,
    parse_load,
    parse_lock,
    parse_release,
    parse_repair,
    parse_rollback,
    parse_set_transaction,
    parse_show,
    parse_start,
    parse_unlock,
    parse_vacuum,
)
from hiveacid.sql.cursor import Cursor, Token, TokenKind, position, syntax_error, tokenize
from hiveacid.sql.ddl import (
    column_definitions,
    parse_create,
    parse_drop,
    parse_replace,
    parse_truncate,
)
from hiveacid.sql.dml import (
    ParsedDml,
    parse_delete,
    parse_insert,
    parse_merge,
    parse_purge,
    parse_query,
    parse_update,
)
from hiveacid.sql.expressions import Fragment, Scope
from hiveacid.sql.forms import whole
from hiveacid.sql.moments import parse_create_tag, parse_drop_pin, parse_undo
from hiveacid.sql.parameters import (
    Arguments,
    SettingOf,
    refuse_parameters,
    substituted,
    with_arguments,
)
from hiveacid.sql.query import QueryParser
from hiveacid.statements.session_state import (
    ResetProperties,
    Savepoint,
    SetProperty,
    TransactionStatement,
    UseDatabase,
)
from hiveacid.statements.values import Command


@dataclass(frozen=True, slots=True)
class ParsedExplain:
    """EXPLAIN [mode] statement."""

    statement: ParsedStatement
    mode: str


@dataclass(frozen=True, slots=True)
class ParsedLater:
    """A statement of a script with ``${...}`` in it: what it says depends on those before it.
    ``blanks`` before its text give errors their place in the script.
    """

    blanks: str


Body = ParsedDml | ParsedLater | ParsedExplain | Command | TransactionStatement


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """One statement: ``text`` without the semicolon, ``line`` (from 1) where it starts, what it
    says; and whether it was said in one of Spark's own calls (``Cursor``).
    """

    text: str
    line: int
    body: Body
    sparks: bool = False


_QUERIES: dict[str, Callable[[Cursor], Body]] = {
    **dict.fromkeys(("SELECT", "FROM", "WITH", "VALUES", "TABLE", "("), parse_query),
    "INSERT": parse_insert,
}
"""By their first word, which is part of what they read."""
_GRAMMARS: dict[str, Callable[[Cursor], Body]] = {
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
    "PURGE": parse_purge,
    "RESTORE": lambda cursor: QueryParser(cursor).restore(),
    "CREATE": lambda cursor: (
        parse_create_tag(cursor) if cursor.accept("TAG") else parse_create(cursor)
    ),
    "REPLACE": parse_replace,
    "DROP": lambda cursor: parse_drop_pin(cursor) or parse_drop(cursor),
    "TRUNCATE": parse_truncate,
    "ALTER": parse_alter,
    "COMMENT": parse_comment,
    "USE": lambda cursor: UseDatabase(cursor.small_name("use statement")),
    "SHOW": parse_show,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "ABORT": parse_abort,
    "ANALYZE": parse_analyze,
    "MSCK": parse_repair,
    "LOAD": parse_load,
    "START": parse_start,
    "BEGIN": parse_begin,
    "COMMIT": parse_commit,
    "ROLLBACK": parse_rollback,
    "SAVEPOINT": lambda cursor: Savepoint(cursor.name("savepoint")),
    "SET": parse_set_transaction,
    "RELEASE": parse_release,
    "LOCK": parse_lock,
    "UNLOCK": parse_unlock,
    "VACUUM": parse_vacuum,
    "UNDO": parse_undo,
}
_UNSUPPORTED = {
    "EXPORT": "EXPORT TABLE is not supported: spark.table or read_arrow give the rows to a writer",
    "IMPORT": "IMPORT TABLE is not supported: LOAD DATA takes files, hiveacid attach whole tables",
    "GRANT": "GRANT is not supported",
    "REVOKE": "REVOKE is not supported",
    "REPL": "REPL is not supported",
    "KILL": "KILL QUERY is not supported",
    "RELOAD": "RELOAD FUNCTION is not supported",
    "ADD": "ADD JAR is not supported",
    "DFS": "DFS is not supported",
    "CACHE": "CACHE TABLE is not supported",
    "PREPARE": "PREPARE is not supported",
    "EXECUTE": "EXECUTE is not supported",
    "OPTIMIZE": "OPTIMIZE is not supported: ALTER TABLE t COMPACT 'major' makes few files of many",
}
_EXPLAIN_MODES = frozenset(
    {
        "EXTENDED", "FORMATTED", "DEPENDENCY", "AUTHORIZATION", "LOCKS", "AST", "CBO", "COST",
        "VECTORIZATION", "ANALYZE", "ONLY", "SUMMARY", "OPERATOR", "EXPRESSION", "DETAIL",
        "JOINCOST", "LOGICAL", "REOPTIMIZATION",
    }
)  # fmt: skip
_SETTING = re.compile(r"set\s+([^\s=]+)\s*=\s*(.*?)\s*", re.IGNORECASE | re.DOTALL)


def parse(text: str) -> tuple[ParsedStatement, ...]:
    """All statements of a script; empty ones are left out, those with variables are read by
    ``resolved`` when it is their turn.

    Raises:
        SqlSyntaxError: the text is not Hive SQL; with line and column.
        UnsupportedError: a statement or clause that is known and not supported.
    """
    return tuple(_statement(text, tokens, wait=True, sparks=False) for tokens in _split(text))


def parse_one(
    text: str,
    *,
    setting_of: SettingOf | None = None,
    args: Arguments | None = None,
    sparks: bool = False,
) -> ParsedStatement:
    """The one statement of ``text``, with its variables and parameters replaced; ``sparks`` as
    ``Cursor`` has it.

    Raises:
        SqlSyntaxError: none or several statements, a parameter without a value, or as ``parse``.
        InvalidInputError: as ``substituted`` and ``with_arguments``.
        UnsupportedError: as ``parse``.
    """
    text = text if setting_of is None else substituted(text, setting_of)
    text = text if args is None else with_arguments(text, args)
    statements = list(_split(text))
    if len(statements) != 1:
        what = "no statement" if not statements else "more than one statement"
        raise syntax_error(text, 0 if not statements else statements[1][0].start, what)
    return _statement(text, statements[0], wait=False, sparks=sparks)


def resolved(statement: ParsedStatement, setting_of: SettingOf) -> ParsedStatement:
    """A statement of a script with its variables replaced.

    Raises:
        SqlSyntaxError, UnsupportedError: as ``parse_one``.
        InvalidInputError: as ``substituted``.
    """
    if not isinstance(statement.body, ParsedLater):
        return statement
    return parse_one(statement.body.blanks + statement.text, setting_of=setting_of)


def _split(text: str) -> Iterator[tuple[Token, ...]]:
    """The tokens of each statement, and one of kind END."""
    tokens = tokenize(text)
    start = 0
    for index, token in enumerate(tokens):
        if token.key == ";" or token.kind is TokenKind.END:
            if index > start:
                end = Token(TokenKind.END, "<EOF>", "<EOF>", token.start, token.start)
                yield (*tokens[start:index], end)
            start = index + 1


def parse_columns(text: str) -> tuple[Column, ...]:
    """Columns as in CREATE TABLE, without the parentheses: ``id int, name string comment 'x'``.

    Raises:
        SqlSyntaxError: the text is not a list of columns.
        UnsupportedError: it has constraints.
    """
    return whole(f"({text})", column_definitions)


def parse_expression(text: str, *, scope: Scope) -> Fragment:
    """One expression, as a user gives it in Python; ``scope`` knows the statement's target.

    Raises:
        SqlSyntaxError: the text is not one expression.
    """
    return whole(
        text, lambda one: QueryParser(one).expression_fragment(lambda _: False, scope=scope)
    )


def parse_table_name(text: str) -> TableName:
    """``table`` or ``database.table``; the database is '' where there is none.

    Raises:
        SqlSyntaxError: it is neither.
    """
    return whole(text, Cursor.table_name)


def _statement(
    source: str, tokens: tuple[Token, ...], *, wait: bool, sparks: bool
) -> ParsedStatement:
    text = source[tokens[0].start : tokens[-2].end]
    line, column = position(source, tokens[0].start)
    if wait and "${" in text:
        return ParsedStatement(text, line, ParsedLater("\n" * (line - 1) + " " * (column - 1)))
    unknown = next((token for token in tokens if token.key == "${"), None)
    if unknown is not None and tokens[0].key != "SET":  # SET may name what is set later
        name = source[unknown.start : source.find("}", unknown.start) + 1]
        raise syntax_error(source, unknown.start, f"variable {name} has no value")
    if tokens[0].key != "SET" and any(token.key in (":", "?") for token in tokens):
        refuse_parameters(source, start=tokens[0].start, end=tokens[-1].start)
    cursor = Cursor(source=source, tokens=tokens, sparks=sparks)
    try:
        return ParsedStatement(text, line, _body(cursor, text, line), sparks)
    except RecursionError as error:
        raise UnsupportedError("Queries or types are nested too deeply here") from error


def _body(cursor: Cursor, text: str, line: int) -> Body:
    key = cursor.key
    if key == "SET" and cursor.peek(1).key != "TRANSACTION":
        return autocommit(text) or _set(text)
    if key == "RESET":
        return ResetProperties(tuple(text.split()[1:]))
    if key == "EXPLAIN":
        return _explain(cursor, line)
    grammar = _QUERIES.get(key)
    if grammar is None:
        if key in _UNSUPPORTED:
            raise UnsupportedError(_UNSUPPORTED[key], statement=text)
        grammar = _GRAMMARS.get(key)
        if grammar is None:
            near = f"cannot recognize input near '{cursor.token.text}'"
            raise cursor.unrecognized("statement") if key else cursor.error(near)
        cursor.next()
    body = grammar(cursor)
    cursor.end_statement()
    return body


def _set(text: str) -> SetProperty:
    match = _SETTING.fullmatch(text)
    if match is not None:
        return SetProperty(match.group(1).removeprefix("hiveconf:"), match.group(2))
    name = " ".join(text.split()[1:]).removeprefix("hiveconf:")
    return SetProperty() if name in ("", "-v") else SetProperty(name)


def _explain(cursor: Cursor, line: int) -> ParsedExplain:
    cursor.expect("EXPLAIN")
    modes = []
    while cursor.key in _EXPLAIN_MODES and not cursor.looking_at("ANALYZE", "TABLE"):
        modes.append(cursor.next().key.lower())
    if cursor.at_end():
        raise cursor.unrecognized("explain statement")
    text = cursor.source[cursor.token.start : cursor.tokens[-2].end]
    tokens, sparks = cursor.tokens[cursor.at :], cursor.sparks
    inner = Cursor(source=cursor.source, tokens=tokens, sparks=sparks)
    said = ParsedStatement(text, line, _body(inner, text, line), sparks)
    return ParsedExplain(said, " ".join(modes))
