"""``spark.sql`` of a session that is enabled: which statements are ours, and how the others read
tables of ours.

    no name in it is a table of ours             Spark's, untouched: one look at the metastore
    it reads or changes tables of ours            a statement of the session (``acid.sql``)
    INSERT, CREATE TABLE AS, temporary views      Spark's, over the rows of its query, which the
    of Spark's that read tables of ours           session reads
    USE, SHOW TABLES and the like                 both (``namespaces``)

Temporary views come first, then tables of ours, then Spark's.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hiveacid.compaction.purge import PurgeReport
from hiveacid.connectors.names import (
    ensure_database,
    first_words,
    is_table_of_ours,
    relation_names,
    with_identifiers,
    with_names,
    without_catalogs,
)
from hiveacid.connectors.namespaces import both, is_of_both
from hiveacid.connectors.strings import in_hives_words
from hiveacid.errors import AcidError, SqlSyntaxError, UnsupportedError
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.session import quoted
from hiveacid.sql import parse_one, with_arguments
from hiveacid.sql.cursor import Cursor, Token, TokenKind, name_of, tokenize
from hiveacid.sql.expressions import Fragment, Scope
from hiveacid.sql.parse import ParsedExplain, ParsedStatement
from hiveacid.sql.query import QueryParser
from hiveacid.statements.ddl.tables import CreateTable
from hiveacid.statements.ddl.views import CreateView
from hiveacid.statements.evolve import is_frame
from hiveacid.statements.values import (
    Delete,
    DeleteResult,
    InsertResult,
    Inserts,
    Listing,
    Merge,
    MergeResult,
    Query,
    Update,
    UpdateResult,
    listing_frame,
)
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Original = Callable[..., "DataFrame"]
_Values = Mapping[str, Any] | Sequence[Any] | None
_NUMBERS: Final = itertools.count()
_WORDS: Final = re.compile(
    r"SHOW (TRANSACTIONS|LOCKS|COMPACTIONS|TAGS|CONSUMERS|CREATE (DATABASE|SCHEMA))\b|UNDO\b"
    r"|(CREATE|DROP) (TAG|CONSUMER)\b"
    r"|ABORT (TRANSACTIONS|LOCKS|COMPACTIONS)\b|START TRANSACTION\b|(COMMIT|ROLLBACK|SAVEPOINT)\b"
    r"|RELEASE\b|(UN)?LOCK (TABLE|DATABASE|SCHEMA)\b|BEGIN( (TRANSACTION|WORK|ISOLATION)\b.*)?$"
    r"|SET (TRANSACTION|AUTOCOMMIT)\b|(RE)?SET (HIVECONF:)?HIVEACID\.|EXPLAIN LOCKS\b"
)
"""Statements that Spark lacks, by their first words."""
_USING: Final = "HIVEACID"
_TABLE_CHANGES: Final = re.compile(r"\btable_changes\s*\(\s*['\"]([^'\"]+)['\"]", re.IGNORECASE)
_PATH: Final = re.compile(r"\bhiveacid\s*\.\s*`[^`]*/", re.IGNORECASE)


class _SparksError(Exception):
    """The statement is Spark's; never leaves this module."""


def sql(
    acid: Session,
    original: _Original,
    sqlQuery: str,
    args: _Values = None,
    **kwargs: Any,
) -> DataFrame:
    """``SparkSession.sql``; of statements that change something a frame of how many rows, as that
    of other table formats, or one without columns.
    """
    if isinstance(sqlQuery, str):
        words, text, values = first_words(sqlQuery), sqlQuery, args
        if "identifier" in text.lower():
            text, values = _identified(text, args)
        if "hiveacid" in text.lower() and _PATH.search(text):
            text = with_names(acid, text)
        if is_of_both(words):
            return both(acid, original, text)
        try:
            is_ours = _WORDS.match(" ".join(words)) is not None or _creates_ours(words, text)
            look = acid.look()
            text = without_catalogs(look, text, makes_ours=is_ours)
            if is_ours or _names_ours(look, text):
                if words[:1] == ("REFRESH",):  # each query reads what is committed
                    return _frame(acid, None)
                known = None if is_ours else look
                return _carried_out(acid, original, text, values, kwargs, look=known)
        except _SparksError:
            pass
    return original(sqlQuery, args, **kwargs)


def _names_ours(look: Look, text: str) -> bool:
    """Whether one of the names in the text could be a table of ours."""
    feeds = _TABLE_CHANGES.findall(text) if "table_changes" in text.lower() else ()
    named = (tuple(name.split(".")) for name in feeds)
    names = [
        TableName.of(parts, database=look.current_database)
        for parts in (*relation_names(text), *named)
        if len(parts) <= 2
    ]
    look.ask(names)
    return any(look.table(look.actual(name)) for name in names)


def _creates_ours(words: Sequence[str], text: str) -> bool:
    """CREATE TABLE ... USING hiveacid, CREATE TRANSACTIONAL TABLE, or with 'transactional'."""
    if words[:1] not in (("CREATE",), ("REPLACE",)) or "TABLE" not in words:
        return False
    if "TRANSACTIONAL" in words[: words.index("TABLE")]:
        return True
    lower = text.lower()
    if "hiveacid" not in lower and "transactional" not in lower:
        return False
    pairs = tuple(_before_query(_tokens(text)))
    provider = next((follower for token, follower in pairs if token.key == "USING"), None)
    if provider is not None:
        return name_of(provider).upper() == _USING
    return any(
        follower.text.lower().strip("'\"") == "transactional"
        for token, follower in pairs
        if token.key in ("(", ",") and follower.kind is TokenKind.STRING
    )


def _before_query(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """The tokens before the query of CREATE TABLE AS, each with the one that follows it."""
    depth = 0
    for token, follower in itertools.pairwise(tokens):
        depth += (token.key == "(") - (token.key == ")")
        begins = token.key == "AS" and follower.key in ("SELECT", "WITH", "FROM", "(")
        if depth == 0 and (begins or token.key == "SELECT"):
            return
        yield token, follower


def _tokens(text: str) -> tuple[Token, ...]:
    try:
        return tokenize(text)
    except SqlSyntaxError:
        raise _SparksError from None


# -------------------------------------------------------------------- statements


def _carried_out(
    acid: Session,
    original: _Original,
    text: str,
    args: _Values,
    kwargs: Mapping[str, Any],
    *,
    look: Look | None,
) -> DataFrame:
    """The statement with its values in it, by the session or, over rows it reads, by Spark; without
    ``look`` it is ours by its words alone.

    Raises:
        _SparksError: it is Spark's after all.
    """
    text = in_hives_words(acid.spark, text)
    if args:
        text = with_arguments(text, _named_in(text, args))
    formatter = _formatter(acid.spark) if kwargs else None
    try:
        if formatter is not None:
            text = formatter.format(text, **kwargs)
        if look is not None:
            answer = _over_rows(acid, look, original, text)
            if answer is not None:
                return answer
        statement = parse_one(text, setting_of=acid.settings.get, sparks=True)
        if isinstance(statement.body, CreateTable):
            ensure_database(acid, statement.body.name)
        if look is not None:
            _check_target(look, statement.body)
            if isinstance(statement.body, CreateTable) and statement.body.or_replace:
                properties = {"transactional": "true", **statement.body.properties}
                body = replace(statement.body, properties=properties)
                statement = replace(statement, body=body)
        return _frame(acid, acid.run(statement, accept=partial(_accept, look)))
    finally:
        if formatter is not None and hasattr(formatter, "clear"):
            formatter.clear()


def _identified(text: str, args: _Values) -> tuple[str, _Values]:
    """The text with names in place of ``identifier(...)``, and the values that it still takes."""
    try:
        if args and with_identifiers(text) == text:
            text, args = with_arguments(text, _named_in(text, args)), None
    except AcidError:  # Spark says what is wrong with them
        pass
    return with_identifiers(text), args


def _named_in(text: str, args: Mapping[str, Any] | Sequence[Any]) -> Any:
    """The values without those that Spark would not miss: of names that the text has not."""
    if not isinstance(args, Mapping):
        return args
    return {name: value for name, value in args.items() if f":{name}" in text}


def _formatter(spark: Any) -> Any:
    """What puts ``{df}`` and values into a text; the views it makes on Spark Connect stay, because
    a query is analysed again by each action.
    """
    if "connect" in type(spark).__module__:
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as Remote

        class Formatter(Remote):
            def format(self, text: str, /, *args: Any, **kwargs: Any) -> str:
                done = super().format(text, *args, **kwargs)
                for frame, name in self._temp_views:
                    frame.createOrReplaceTempView(name)
                return done

        return Formatter(spark)
    from pyspark.sql.sql_formatter import SQLStringFormatter

    return SQLStringFormatter(spark)


def _accept(look: Look | None, bound: object) -> None:
    """A query that reads no table or view of ours is Spark's; a view of it is, unless one of ours
    has its name, which would hide it.
    """
    query = bound.query if isinstance(bound, CreateView) else bound
    if not isinstance(query, Query) or query.tables or query.views:
        return
    if look is None or not isinstance(bound, CreateView):
        raise _SparksError
    if not is_table_of_ours(look, bound.name, views_hide=False):
        raise _SparksError


def _check_target(look: Look, body: object) -> None:
    """A statement whose tables are none of ours is Spark's, whatever its expressions name."""
    if isinstance(body, ParsedExplain):
        body = body.statement.body
    if isinstance(body, Fragment | CreateView):
        return
    parts = body.branches if isinstance(body, Inserts) else (body,)
    names = [
        value
        for part in parts
        for value in (getattr(part, field.name) for field in fields(part))  # type: ignore[arg-type]
        if isinstance(value, TableName)
    ]
    views_hide = not isinstance(body, CreateTable)
    if any(is_table_of_ours(look, name, views_hide=views_hide) for name in names):
        return
    if isinstance(body, Update | Delete | Merge):
        raise UnsupportedError(
            f"{names[0].table} is a table of Spark's, and what changes its rows reads tables of"
            " ours, which Spark does not see",
            table=str(names[0]),
            note="acid.sql(query).createOrReplaceTempView(name) gives Spark the rows as they are.",
        )
    raise _SparksError


# -------------------------------------------------------------------- Spark's statements over ours


@dataclass(frozen=True)
class _Head:
    """What stands before the query of a statement of Spark's: the table that it writes (None for
    a directory), or the temporary view that it makes, and the query's first token.
    """

    target: TableName | None
    words: frozenset[str]
    columns: tuple[str, ...]
    start: int


def _over_rows(acid: Session, look: Look, original: _Original, text: str) -> DataFrame | None:
    """What Spark makes of a statement that keeps the rows of a query over ours; None where it is
    no such statement.
    """
    cursor = Cursor(source=text, tokens=_tokens(text), sparks=True)
    ctes = _ctes(cursor)
    start = cursor.token.start
    head = _head(cursor)
    if head is None:
        return None
    is_view = not head.words.isdisjoint(("VIEW", "CACHE"))
    if not is_view and head.target is not None:
        views_hide = "CREATE" not in head.words
        is_ours = is_table_of_ours(look, head.target, views_hide=views_hide)
        if is_ours:
            return None
    cursor.at = head.start
    fragment = QueryParser(cursor).query_fragment()
    cursor.accept(";")
    cursor.end_statement()
    statement = ParsedStatement(fragment.text, 1, fragment, sparks=True)
    if ctes:
        statement = parse_one(f"{ctes} {fragment.text}", setting_of=acid.settings.get, sparks=True)
    rows = acid.run(statement, accept=partial(_accept, None))
    with own_calls():
        if is_view:
            made = _view(acid, head, rows)
            before_as = text[start : cursor.tokens[head.start - 1].start]
            return made if "VIEW" in head.words else _cached(acid, head, original, before_as)
        name = f"__hiveacid_rows_{next(_NUMBERS)}"
        rows.createOrReplaceTempView(name)
        try:
            return original(f"{text[start : cursor.tokens[head.start].start]} SELECT * FROM {name}")
        finally:
            acid.spark.catalog.dropTempView(name)


def _ctes(cursor: Cursor) -> str:
    """WITH ... before an INSERT, as text; what follows is at the cursor."""
    begins = cursor.at
    if cursor.key == "WITH":
        try:
            QueryParser(cursor).with_clause(Scope())
        except AcidError:
            cursor.at = begins
        if cursor.key == "INSERT":
            return cursor.source[cursor.tokens[begins].start : cursor.tokens[cursor.at - 1].end]
    cursor.at = begins
    return ""


def _head(cursor: Cursor) -> _Head | None:
    """The head of INSERT, CREATE TABLE AS, CREATE TEMPORARY VIEW AS and CACHE TABLE AS."""
    words = set()
    while cursor.key in _HEAD_WORDS:
        words.add(cursor.next().key)
    if not words & {"INSERT", "CACHE", "TEMP", "TEMPORARY"} and not words >= {"CREATE", "TABLE"}:
        return None
    target = None
    if "DIRECTORY" not in words:
        cursor.if_not_exists()
        parts = cursor.dotted_name()
        if len(parts) <= 2:
            target = TableName.of(parts)
    columns = _view_columns(cursor) if "VIEW" in words else ()
    while not cursor.at_end():
        if cursor.accept("AS") if "INSERT" not in words else cursor.at_nested_query():
            return _Head(target, frozenset(words), columns, cursor.at)
        cursor.skip_parentheses() if cursor.key == "(" else cursor.next()
    if "VIEW" in words:  # over a data source
        raise _SparksError
    return None


_HEAD_WORDS: Final = frozenset(
    {
        "CACHE", "CREATE", "DIRECTORY", "EXTERNAL", "GLOBAL", "INSERT", "INTO", "LAZY", "LOCAL",
        "OR", "OVERWRITE", "REPLACE", "TABLE", "TEMP", "TEMPORARY", "VIEW",
    }
)  # fmt: skip


def _view_columns(cursor: Cursor) -> tuple[str, ...]:
    if cursor.key != "(":
        return ()

    def column(_: Cursor) -> str:
        name = cursor.name("view column")
        if cursor.accept("COMMENT"):
            cursor.string()
        return name

    return cursor.in_parentheses(column)


def _view(acid: Session, head: _Head, rows: Any) -> DataFrame:
    """The temporary view: the tables as they are now, like that of a DataFrame."""
    assert head.target is not None
    if head.columns:
        rows = rows.toDF(*head.columns)
    kind = "GlobalTempView" if "GLOBAL" in head.words else "TempView"
    verb = "createOrReplace" if "REPLACE" in head.words else "create"
    getattr(rows, f"{verb}{kind}")(quoted(head.target.table))
    return _frame(acid, None)


def _cached(acid: Session, head: _Head, original: _Original, text: str) -> DataFrame:
    """CACHE TABLE of the view that was made; without it where the rows cannot be had."""
    assert head.target is not None
    try:
        return original(text)
    except BaseException:
        acid.spark.catalog.dropTempView(head.target.table)
        raise


# -------------------------------------------------------------------- answers


def _frame(acid: Session, answer: Any) -> DataFrame:
    """The answer of a statement as ``spark.sql`` gives it."""
    if is_frame(answer):
        return answer
    answers = answer if isinstance(answer, tuple) else (answer,)
    with own_calls():
        counts: Counter[str] = Counter()
        for one in answers:
            counts.update(_counts(one))
        if not counts:
            return acid.spark.range(0).select()
        kinds = ("bigint",) * len(counts)
        return listing_frame(acid.spark, Listing(tuple(counts), (tuple(counts.values()),), kinds))


def _counts(answer: object) -> dict[str, int]:
    if isinstance(answer, MergeResult):
        changed = (answer.updated, answer.deleted, answer.inserted)
        names = ("num_updated_rows", "num_deleted_rows", "num_inserted_rows")
        return {"num_affected_rows": sum(changed), **dict(zip(names, changed, strict=True))}
    if isinstance(answer, InsertResult):
        return {"num_affected_rows": answer.rows, "num_inserted_rows": answer.rows}
    if isinstance(answer, UpdateResult | DeleteResult) and answer.rows is not None:
        return {"num_affected_rows": answer.rows}
    if isinstance(answer, PurgeReport):
        return {"num_affected_rows": answer.rows_deleted, "num_found_rows": answer.rows_found}
    return {}
