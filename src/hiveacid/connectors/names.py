"""The names in a text of Spark SQL that may be tables, told without a grammar: what Spark reads is
more than what ours does, and a statement that is not ours must cost next to nothing.

A name counts where a relation can stand: after FROM, JOIN, INTO, TABLE and the like, and after the
commas of a FROM list. Too many cost a look at the metastore, too few would hide a table.

A name means a table of ours by its name, or by where it lies (``save(path)``, ``load(path)``,
``hiveacid.`/path```). A table at a path is one of the metastore like another: the first write
registers it, under the name of its directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hiveacid.errors import NotFoundError, SqlSyntaxError
from hiveacid.model.tables import TableName
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.session import BRACKETED, literal, quoted
from hiveacid.sql import parse_table_name
from hiveacid.storage.locations import one_name
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from hiveacid.session import Session
    from hiveacid.table import AcidTable


COMMENT: Final = rf"--(?:\\\n|[^\r\n])*|{BRACKETED}"
"""As Spark reads it, with DOTALL."""
_SKIPPED: Final = (
    rf"""\b[rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | {COMMENT}"""
)
_NAME: Final = r"(?P<name>(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))*)"
_OPENS: Final = frozenset(
    {
        "ANALYZE", "CACHE", "EXISTS", "FROM", "IN", "INTO", "JOIN", "LIKE", "OPTIMIZE", "OVERWRITE",
        "PARTITIONS", "REFRESH", "RESTORE", "TABLE", "TBLPROPERTIES", "UPDATE", "USING", "VACUUM",
        "VIEW",
    }
)  # fmt: skip
"""A relation, or another of these words, may follow."""
_BETWEEN: Final = frozenset(
    {"DETAIL", "EXTENDED", "FORMATTED", "HISTORY", "IF", "LATERAL", "LAZY", "NOT"}
)
"""May stand between such a word and the relation."""
_CLAUSES: Final = frozenset(
    {
        "BY", "GROUP", "HAVING", "LIMIT", "ON", "ORDER", "QUALIFY", "SELECT", "SET", "WHEN",
        "WHERE", "WINDOW", "WITH",
    }
)  # fmt: skip
"""After these a comma is followed by an expression."""
_FLAGS: Final = re.VERBOSE | re.DOTALL
_PIECE: Final = re.compile(
    rf"{_SKIPPED} | (?P<parameter>\{{[^{{}}]*\}}) | {_NAME} | (?P<symbol>[(),;|])", _FLAGS
)
_NEXT: Final = re.compile(rf"(?:\s+ | {COMMENT})* {_NAME}", _FLAGS)
_WORDS: Final = rf"\b(?P<word>{'|'.join(sorted(_OPENS | _CLAUSES))})\b"
_IN_FROM: Final = re.compile(
    rf"{_SKIPPED} | \{{[^{{}}]*\}} | `[^`]*` | (?P<symbol>[(),;|]) | {_WORDS}", _FLAGS
)
_ELSEWHERE: Final = re.compile(
    rf"{_SKIPPED} | \{{[^{{}}]*\}} | `[^`]*` | (?P<symbol>[();|]) | {_WORDS}", _FLAGS
)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`|(\w+)")


_IDENTIFIER: Final = re.compile(r"\s*\(\s*'([^'\\]*)'\s*\)")


def with_identifiers(text: str) -> str:
    """The text with names in place of Spark's ``identifier('name')``."""
    if "identifier" not in text.lower():
        return text
    pieces, at = [], 0
    for piece in _PIECE.finditer(text):
        if (piece["name"] or "").upper() != "IDENTIFIER":
            continue
        named = _IDENTIFIER.match(text, piece.end())
        if named is not None:
            pieces += [text[at : piece.start()], named[1]]
            at = named.end()
    return "".join((*pieces, text[at:]))


def first_words(text: str, count: int = 6) -> tuple[str, ...]:
    """The first words of a statement in upper case, without its comments."""
    words = []
    for piece in _PIECE.finditer(text):
        if piece["name"]:
            words.append(piece["name"].upper())
        elif piece["symbol"] or piece["parameter"]:
            break
        if len(words) == count:
            break
    return tuple(words)


def relation_names(text: str) -> tuple[tuple[str, ...], ...]:
    """The names that may be relations, each once, as their parts."""
    return tuple(dict.fromkeys(parts for _, _, parts in relation_places(text)))


def relation_places(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where names that may be relations start and end, and their parts."""
    in_from, at, upper = False, 0, _upper(text)
    expected = first_words(text, 1) in (("DESC",), ("DESCRIBE",))
    if expected:
        at = _NEXT.match(text).end()  # type: ignore[union-attr]
    outer: list[bool] = []
    while True:
        name = _NEXT.match(text, at) if expected else None
        if name is not None:
            word, at = name["name"].upper(), name.end()
            expected = word in _OPENS or word in _BETWEEN
            in_from = (in_from or word in ("FROM", "JOIN")) and word not in _CLAUSES
            is_function = in_from and text.startswith("(", at)
            if not (expected or is_function or word in _CLAUSES):
                yield name.start("name"), at, parts_of(name["name"])
            continue
        event = (_IN_FROM if in_from else _ELSEWHERE).search(upper, at)
        if event is None:
            return
        at, symbol, word = event.end(), event["symbol"], event["word"]
        if word:
            expected = word in _OPENS
            in_from = word in ("FROM", "JOIN") or (in_from and expected)
        elif symbol == "(":
            outer.append(in_from)
            in_from = expected = in_from and expected
        elif symbol == ")":
            in_from, expected = bool(outer) and outer.pop(), False
        else:
            expected = symbol == ","


def _upper(text: str) -> str:
    """The text with its keywords in upper case, character for character: to search for words of any
    case takes three times as long.
    """
    return text.encode(errors="surrogatepass").upper().decode(errors="surrogatepass")


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a dotted name; ```db.table``` in one pair of back-quotes are two."""
    found = _PART.findall(name)
    parts = tuple(quoted.replace("``", "`") or word for quoted, word in found)
    if len(parts) == 1 and "." in parts[0] and "/" not in parts[0]:
        return tuple(parts[0].split("."))
    return parts


FORMAT = "hiveacid"
_USING = re.compile(r"\bUSING\s+`?hiveacid`?(?!\w)", re.IGNORECASE)


def written_text(name: TableName) -> str:
    """The name as Python's methods take it, in back-quotes where they need them."""
    parts = tuple(filter(None, (name.database, name.table)))
    with suppress(SqlSyntaxError):
        if parse_table_name(".".join(parts)) == name:
            return ".".join(parts)
    return quoted(*parts)


def table_at(acid: Session, path: str) -> AcidTable | None:
    """The table that lies there; else, where the path is one word, the table of that name, which is
    what ``format("hiveacid")`` takes it for in a session that is not enabled.
    """
    wanted = one_name(location_of(path))
    for place in acid.client.own.places():
        if place.partition is None and one_name(place.location) == wanted:
            return acid.table(written_text(place.table))
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts) or len(parts) > 2:
        return None
    name = TableName.of(parts)
    return acid.table(path) if is_table_of_ours(acid.look(), name, views_hide=False) else None


def required_at(acid: Session, path: str) -> AcidTable:
    """The table that lies there.

    Raises:
        NotFoundError: there is none.
    """
    table = table_at(acid, path)
    if table is None:
        raise NotFoundError(
            f"No table of {acid.client.metastore.url} lies at {path}",
            path=path,
            note="A table is named by .table(name) or .option('table', name);"
            " acid.attach(path, name=...) takes over what another client wrote.",
        )
    return table


def location_of(path: str) -> str:
    """The path as a location of a table."""
    return path if ":" in path.partition("/")[0] else os.path.abspath(path)


def name_for(acid: Session, path: str) -> str:
    """A name for a new table at a path: that of its directory, with a number if it is taken."""
    stem = re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2]).strip("_").lower() or "table"
    taken = set(acid.client.metastore.list_tables(acid.database))
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def with_names(acid: Session, text: str) -> str:
    """The statement with the names of tables in the place of ``hiveacid.`/path```; one that makes a
    table there says so by LOCATION.
    """
    edited = text
    for start, end, parts in reversed(list(relation_places(text))):
        if len(parts) != 2 or parts[0].lower() != FORMAT or "/" not in parts[1]:
            continue
        table = table_at(acid, parts[1])
        if table is not None:
            name = quoted(table.name.database, table.name.table)
        elif _USING.search(edited, end):
            name = quoted(name_for(acid, parts[1]))
            clause = f"USING hiveacid LOCATION {literal(location_of(parts[1]))}"
            edited = _USING.sub(clause.replace("\\", r"\\"), edited, count=1)
        else:
            required_at(acid, parts[1])
            continue
        edited = f"{edited[:start]}{name}{edited[end:]}"
    return edited


_CATALOG: Final = "spark_catalog"
"""Spark's own catalog, which a third part may name: tables of ours stand beside those in it."""


def without_catalog(name: str) -> str:
    """A name in Python without Spark's own catalog."""
    parts = parts_of(name)
    is_written_so = len(parts) == 3 and parts[0].lower() == _CATALOG
    return quoted(*parts[1:]) if is_written_so else name


def without_catalogs(look: Look, text: str, *, makes_ours: bool) -> str:
    """The statement with names of ours as two parts where Spark's own catalog is a third."""
    if _CATALOG not in text.lower():
        return text
    for start, end, parts in reversed(list(relation_places(text))):
        if len(parts) != 3 or parts[0].lower() != _CATALOG:
            continue
        if makes_ours or is_table_of_ours(look, TableName(*parts[1:])):
            text = f"{text[:start]}{quoted(*parts[1:])}{text[end:]}"
    return text


def is_table_of_ours(look: Look, name: TableName, *, views_hide: bool = True) -> bool:
    """Whether a name as written means a table or view of ours. A temporary view of that name hides
    it, but not from who makes or saves a table: for Spark, too, such a view is not in the way.
    """
    known = name if name.database else TableName(look.current_database, name.table)
    if look.table(look.actual(known)) is None:
        return False
    hidden = views_hide and not name.database and look.is_temporary_view(name.table)
    return not hidden


def name_of_new(acid: Session, name: str) -> str:
    """The name of a table of ours to be made, whose database is there where Spark has it."""
    name = without_catalog(name)
    ensure_database(acid, parse_table_name(name))
    return name


def ensure_database(acid: Session, name: TableName) -> None:
    """A new table may go to a database that only Spark has: then ours gets one of this name."""
    database = name.database or acid.database
    if database in acid.client.metastore.list_databases():
        return
    with own_calls():
        is_there = acid.spark.catalog.databaseExists(database)
    if is_there:  # else the error that follows says it
        acid.sql(f"create database if not exists {quoted(database)}")
