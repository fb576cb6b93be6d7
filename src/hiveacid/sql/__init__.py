"""Hive SQL: text -> statement values.

What lives here: the lexer of Hive's dialect, the grammar of its statements and the binding of
names. What never comes in: Spark, a metastore, a transaction: ``bind`` sees the catalog through
a ``Look``. The user's own expression text is kept: Spark SQL reads Hive's expressions; only the
places where the two dialects differ (table names, null order, ``ROW__ID``, char casts ...) are
spliced, by token position.

Flow: ``parse(text)`` -> ``ParsedStatement`` values, names as written; ``bind(statement, names)`` ->
value of ``hiveacid.statements``. Read ``parse.py`` first.
"""

from hiveacid.sql.bind import bind, bind_query, bind_texts
from hiveacid.sql.commands import parse_sort_items
from hiveacid.sql.parameters import Arguments, with_arguments, without_literals
from hiveacid.sql.parse import (
    ParsedStatement,
    parse,
    parse_columns,
    parse_one,
    parse_table_name,
    resolved,
)
from hiveacid.sql.subqueries import bind_answered

__all__ = [
    "Arguments",
    "ParsedStatement",
    "bind",
    "bind_answered",
    "bind_query",
    "bind_texts",
    "parse",
    "parse_columns",
    "parse_one",
    "parse_sort_items",
    "parse_table_name",
    "resolved",
    "with_arguments",
    "without_literals",
]
