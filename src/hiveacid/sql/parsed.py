"""DML and queries as parsed: names as written, expressions as fragments of the text."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName
from hiveacid.sql.scopes import Fragment
from hiveacid.statements.values import Literals
from hiveacid.statements.values_ddl import CreateTable
from hiveacid.statements.values_views import CreateView


@dataclass(frozen=True, slots=True)
class DefaultKeyword:
    """The word DEFAULT in the place of a value."""


ParsedExpression = Fragment | DefaultKeyword


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query."""

    fragment: Fragment


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """VALUES rows in which DEFAULT occurs or a cell is not a plain literal."""

    rows: tuple[tuple[ParsedExpression, ...], ...]


@dataclass(frozen=True, slots=True)
class ParsedInsert:
    """INSERT; see ``statements.values.Insert``."""

    table: TableName
    source: ParsedQuery | ParsedRows | Literals
    columns: tuple[str, ...]
    partition: tuple[tuple[str, str | None], ...]
    dynamic_partition: tuple[str, ...]
    overwrite: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class ParsedInserts:
    """FROM source INSERT ... INSERT ...: the branches of a multi-insert."""

    branches: tuple[ParsedInsert, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """column = value."""

    column: str
    value: ParsedExpression


@dataclass(frozen=True, slots=True)
class ParsedUpdate:
    """UPDATE."""

    table: TableName
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Fragment | None


@dataclass(frozen=True, slots=True)
class ParsedDelete:
    """DELETE."""

    table: TableName
    alias: str | None
    where: Fragment | None


@dataclass(frozen=True, slots=True)
class ParsedClause:
    """A WHEN clause of MERGE: ``action`` is update, delete or insert."""

    action: str
    matched: bool
    by_source: bool = False
    condition: Fragment | None = None
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[ParsedExpression, ...] = ()
    all_columns: bool = False


@dataclass(frozen=True, slots=True)
class ParsedMerge:
    """MERGE; ``source`` is a query or a table's name as written."""

    table: TableName
    alias: str | None
    source: Fragment | tuple[str, ...]
    source_alias: str | None
    on: Fragment
    clauses: tuple[ParsedClause, ...]


@dataclass(frozen=True, slots=True)
class ParsedCreateAs:
    """CREATE TABLE ... AS query."""

    table: CreateTable
    query: ParsedQuery


@dataclass(frozen=True, slots=True)
class ParsedView:
    """CREATE VIEW ... AS query, ALTER VIEW ... AS query."""

    view: CreateView
    query: ParsedQuery
