"""Values of CREATE, ALTER, DROP and SHOW of views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiveacid.model.tables import TableName
from hiveacid.statements.values import Query


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT] [TBLPROPERTIES] AS query.

    ``columns`` are names with comments, empty where the query's names are taken. ``original`` is
    the query as written, ``expanded`` with full names in place of tables and stars, both Hive SQL;
    ``query`` is the same for Spark. ``alter`` is ALTER VIEW name AS query.
    """

    name: TableName
    columns: tuple[tuple[str, str | None], ...] = ()
    query: Query | None = None
    original: str = ""
    expanded: str = ""
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    alter: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP VIEW [IF EXISTS] name."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterView:
    """ALTER VIEW name SET | UNSET TBLPROPERTIES | RENAME TO: exactly one of the last three."""

    name: TableName
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    new_name: TableName | None = None


@dataclass(frozen=True, slots=True)
class ShowViews:
    """SHOW VIEWS [IN database] [LIKE pattern]."""

    database: str | None = None
    pattern: str | None = None
