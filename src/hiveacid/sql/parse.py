"""Text -> parsed statements; read this first.

``parse`` splits at ``;`` and hands each statement to the grammar of its first word: ``dml``
(queries and DML), ``ddl``, ``alter``, ``show``. Nothing is guessed: a statement that no grammar
owns is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hiveacid.errors import SqlSyntaxError, UnsupportedError
from hiveacid.model.tables import Column, TableName
from hiveacid.sql.alter import parse_alter
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import (
    column_definitions,
    parse_create,
    parse_drop,
    parse_truncate,
    parse_use,
)
from hiveacid.sql.dml import (
    ParsedDml,
    parse_delete,
    parse_insert,
    parse_merge,
    parse_query,
    parse_update,
)
from hiveacid.sql.lexer import Token, TokenKind, position, syntax_error, tokenize
from hiveacid.sql.load import parse_load
from hiveacid.sql.locks import parse_lock, parse_unlock
from hiveacid.sql.parsed import ParsedCreateAs, ParsedView
from hiveacid.sql.query import QueryParser
from hiveacid.sql.scopes import Fragment, Scope
from hiveacid.sql.show import parse_abort, parse_describe, parse_show
from hiveacid.sql.transactions import (
    autocommit,
    parse_begin,
    parse_commit,
    parse_release,
    parse_rollback,
    parse_savepoint,
    parse_set_transaction,
)
from hiveacid.sql.upkeep import parse_analyze, parse_repair
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.arguments import check_arguments
from hiveacid.statements.values_transactions import TransactionStatement


@dataclass(frozen=True, slots=True)
class ParsedExplain:
    """EXPLAIN [mode] statement."""

    statement: Statement
    mode: str


Body = (
    ParsedDml
    | ParsedCreateAs
    | ParsedView
    | ParsedExplain
    | ddl.DdlStatement
    | TransactionStatement
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: ``text`` without the semicolon, ``line`` (from 1) where it starts, what it
    says.
    """

    text: str
    line: int
    body: Body


_GRAMMARS: dict[str, Callable[[Cursor], Body]] = {
    "SELECT": parse_query,
    "FROM": parse_query,
    "WITH": parse_query,
    "VALUES": parse_query,
    "(": parse_query,
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
    "CREATE": parse_create,
    "DROP": parse_drop,
    "TRUNCATE": parse_truncate,
    "ALTER": parse_alter,
    "USE": parse_use,
    "SHOW": parse_show,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "ABORT": parse_abort,
    "ANALYZE": parse_analyze,
    "MSCK": parse_repair,
    "LOAD": parse_load,
    "START": parse_begin,
    "BEGIN": parse_begin,
    "COMMIT": parse_commit,
    "ROLLBACK": parse_rollback,
    "SAVEPOINT": parse_savepoint,
    "SET": parse_set_transaction,
    "RELEASE": parse_release,
    "LOCK": parse_lock,
    "UNLOCK": parse_unlock,
}
_UNSUPPORTED = {
    "EXPORT": "EXPORT TABLE is not supported",
    "IMPORT": "IMPORT TABLE is not supported",
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
}
_EXPLAIN_MODES = frozenset(
    {
        "EXTENDED", "FORMATTED", "DEPENDENCY", "AUTHORIZATION", "LOCKS", "AST", "CBO", "COST",
        "VECTORIZATION", "ANALYZE",
    }
)  # fmt: skip
_SETTING = re.compile(r"set\s+([^\s=]+)\s*=\s*(.*?)\s*", re.IGNORECASE | re.DOTALL)


def parse(text: str) -> tuple[Statement, ...]:
    """All statements of ``text``; empty ones are left out.

    Raises:
        SqlSyntaxError: the text is not Hive SQL; with line and column.
        UnsupportedError: a statement or clause that is known and not supported.
    """
    tokens = tokenize(text)
    statements = []
    start = 0
    for index, token in enumerate(tokens):
        if token.key == ";" or token.kind is TokenKind.END:
            if index > start:
                end = Token(TokenKind.END, "<EOF>", "<EOF>", token.start, token.start)
                statements.append(_statement(text, (*tokens[start:index], end)))
            start = index + 1
    return tuple(statements)


def parse_one(text: str) -> Statement:
    """The one statement of ``text``.

    Raises:
        SqlSyntaxError: none or several statements, or as ``parse``.
        UnsupportedError: as ``parse``.
    """
    statements = parse(text)
    if len(statements) != 1:
        what = "no statement" if not statements else "more than one statement"
        at = 0 if not statements else text.find(statements[1].text)
        raise syntax_error(text, at, what)
    return statements[0]


def parse_columns(text: str) -> tuple[Column, ...]:
    """Columns as in CREATE TABLE, without the parentheses: ``id int, name string comment 'x'``.

    Raises:
        SqlSyntaxError: the text is not a list of columns.
        UnsupportedError: it has constraints.
    """
    source = f"({text})"
    cursor = Cursor(source=source, tokens=tokenize(source))
    columns = column_definitions(cursor)
    cursor.end_statement()
    return columns


def parse_expression(text: str, *, scope: Scope) -> Fragment:
    """One expression, as a user gives it in Python; ``scope`` knows the statement's target.

    Raises:
        SqlSyntaxError: the text is not one expression.
    """
    cursor = Cursor(source=text, tokens=tokenize(text))
    fragment = QueryParser(cursor).expression_fragment(lambda _: False, scope=scope)
    cursor.end_statement()
    return fragment


def parse_table_name(text: str) -> TableName:
    """``table`` or ``database.table``; the database is '' where there is none.

    Raises:
        SqlSyntaxError: it is neither.
        InvalidInputError: it is no text.
    """
    check_arguments(str, table=text)
    cursor = Cursor(source=text, tokens=tokenize(text))
    name = cursor.table_name()
    cursor.end_statement()
    return name


def _statement(source: str, tokens: tuple[Token, ...]) -> Statement:
    text = source[tokens[0].start : tokens[-2].end]
    line, _ = position(source, tokens[0].start)
    cursor = Cursor(source=source, tokens=tokens)
    return Statement(text, line, _body(cursor, text, line))


def _body(cursor: Cursor, text: str, line: int) -> Body:
    key = cursor.key
    if key == "SET" and cursor.peek(1).key != "TRANSACTION":
        return autocommit(text) or _set(cursor, text)
    if key == "RESET":
        cursor.next()
        keys = text.split()[1:]
        return ddl.ResetProperties(tuple(keys))
    if key == "EXPLAIN":
        return _explain(cursor, line)
    grammar = _GRAMMARS.get(key)
    if grammar is None:
        if key in _UNSUPPORTED:
            raise UnsupportedError(_UNSUPPORTED[key], statement=text)
        raise cursor.unrecognized("statement") if key else _no_statement(cursor)
    body = grammar(cursor)
    cursor.end_statement()
    return body


def _no_statement(cursor: Cursor) -> SqlSyntaxError:
    return cursor.error(f"cannot recognize input near '{cursor.token.text}'")


def _set(cursor: Cursor, text: str) -> ddl.SetProperty:
    del cursor
    match = _SETTING.fullmatch(text)
    if match is not None:
        return ddl.SetProperty(match.group(1), match.group(2))
    words = text.split()[1:]
    if words in ([], ["-v"]):
        return ddl.SetProperty()
    return ddl.SetProperty(" ".join(words))


def _explain(cursor: Cursor, line: int) -> ParsedExplain:
    cursor.expect("EXPLAIN")
    modes = []
    while cursor.key in _EXPLAIN_MODES and not cursor.looking_at("ANALYZE", "TABLE"):
        modes.append(cursor.next().key.lower())
    if cursor.at_end():
        raise cursor.unrecognized("explain statement")
    text = cursor.source[cursor.token.start : cursor.tokens[-2].end]
    inner = Cursor(source=cursor.source, tokens=cursor.tokens[cursor.at :])
    return ParsedExplain(Statement(text, line, _body(inner, text, line)), " ".join(modes))
