"""Columns that a query or other rows have, and those that a statement adds to its table because it
lacks them.

They are appended as ADD COLUMNS CASCADE does, under its lock, and become the table's with the
commit: a statement that fails, is rolled back or is killed leaves none behind. Columns that are
there keep their types, and structs their fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar, cast

import pyarrow as pa
from pyarrow import Table as ArrowTable

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column, Table, TableKind
from hiveacid.model.types import (
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    parse_type,
)
from hiveacid.statements.checks import (
    check_has_columns,
    check_has_partition_columns,
    columns_named,
    refuse_extra,
    refuse_repeated,
)
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.select import query_schema
from hiveacid.statements.values import (
    Insert,
    Literals,
    Merge,
    NotMatchedInsert,
    Query,
    VirtualColumn,
)
from hiveacid.storage.arrow_types import column_type
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType as SparkStruct

_Evolving = TypeVar("_Evolving", Insert, Merge)
_Given = Sequence[tuple[str, Callable[[], HiveType]]]
"""Names of the columns of rows, and how to tell their types."""
_NO_NAME: Final = re.compile(r"\s*|.*[.:`].*", re.DOTALL)
_VIRTUAL: Final = frozenset(column.value.lower() for column in VirtualColumn)


def evolved(context: ExecutionContext, statement: _Evolving, look: Look) -> _Evolving:
    """The statement with the columns that it adds to its table, where it may (``evolve``, of SQL
    the setting ``hiveacid.schema.evolve``).

    Raises:
        InvalidInputError: a name or type that a column cannot have; new fields of a struct; no
            values for a partition column.
    """
    by_setting = isinstance(statement.source, Query) and context.settings.schema_evolve
    if not (statement.evolve or by_setting) or isinstance(statement.source, Literals):
        return statement
    table = look.definition(statement.table)
    if table.kind is TableKind.VIEW:
        return statement  # refused by its plan
    if isinstance(statement, Merge):
        return _evolved_merge(statement, table, _given(context, statement.source, look))
    known = set(table.column_names)
    if isinstance(statement.source, Query):
        if known.issuperset(name.lower() for name in statement.columns):
            return statement
        given = _given(context, statement.source, look)
        if len(given) != len(statement.columns):
            return statement
        types = (type_of for _, type_of in given)
        given = [(name.lower(), kind) for name, kind in zip(statement.columns, types, strict=True)]
    else:
        given = _given(context, statement.source, look)
    return _evolved_insert(statement, table, given)


def named(statement: Insert, look: Look) -> Insert:
    """An INSERT of what the driver has, with the columns that its rows have: they are found by
    name, and the others get their default, as everywhere where rows are no DataFrame of Spark's.

    Raises:
        InvalidInputError: the table lacks a column, or a partition column is missing.
    """
    source = statement.source
    if not isinstance(source, pa.Table) or not statement.by_name or statement.columns:
        return statement
    table = look.definition(statement.table)
    names = source.schema.names
    known = set(table.column_names)
    if table.kind is TableKind.VIEW or known.issubset((*names, *statement.partition)):
        return statement
    refuse_extra(names, known, table)
    check_has_partition_columns(names, table, static=statement.partition)
    return replace(statement, columns=tuple(names))


def added_columns(given: _Given, table: Table, *, wanted: Collection[str]) -> tuple[Column, ...]:
    """The columns of the rows that the table lacks, of those ``wanted``; the others fit.

    Raises:
        InvalidInputError: two columns of one name; a name or a type that a column cannot have; new
            fields of a struct.
    """
    refuse_repeated([name for name, _ in given], "data", table)
    known = table.types
    added = []
    for name, type_of in given:
        if name in known:
            _refuse_new_fields(name, type_of, known[name], table)
        elif name in wanted:
            _check_name(name, table)
            added.append(Column(name, _type(name, type_of, table)))
    return tuple(added)


def given_by_arrow(rows: pa.Table) -> _Given:
    """Names and types of the columns of Arrow data."""
    return [(field.name, partial(column_type, field)) for field in rows.schema]


def _given(
    context: ExecutionContext, source: Query | Literals | DataFrame | pa.Table, look: Look
) -> _Given:
    if isinstance(source, pa.Table):
        return given_by_arrow(source)
    from hiveacid.spark.assign import hive_type

    schema = source.schema if is_frame(source) else query_schema(context, cast(Query, source), look)
    return [(field.name.lower(), partial(hive_type, field.dataType)) for field in schema.fields]


def _evolved_insert(statement: Insert, table: Table, given: _Given) -> Insert:
    """An INSERT whose rows are found by name: columns that they lack get their default."""
    there = [name for name, _ in given]
    wanted = [name.lower() for name in statement.columns] or there
    check_has_columns(there, wanted, table)
    check_has_partition_columns(there, table, static=statement.partition)
    added = added_columns(given, table, wanted=wanted)
    return replace(statement, columns=tuple(wanted), added=added)


def _evolved_merge(statement: Merge, table: Table, given: _Given) -> Merge:
    """A MERGE adds what a clause assigns by name, and what ``*`` takes: columns that a condition
    names are the statement's own.
    """
    there = [name for name, _ in given]
    assigned: set[str] = set()
    for clause in statement.clauses:
        assigned.update(name.lower() for name, _ in getattr(clause, "assignments", ()))
        assigned.update(name.lower() for name in getattr(clause, "columns", ()))
        if isinstance(clause, NotMatchedInsert) and clause.all_columns:
            check_has_partition_columns(there, table)
    if any(getattr(clause, "all_columns", False) for clause in statement.clauses):
        assigned.update(set(there) - columns_named(statement))
    return replace(statement, evolve=True, added=added_columns(given, table, wanted=assigned))


def _check_name(name: str, table: Table) -> None:
    why = "is a virtual column" if name in _VIRTUAL else "is no name of a column"
    if name in _VIRTUAL or _NO_NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} {why}: it cannot be added to {table.name}",
            table=str(table.name),
            column=name,
            note="Rename it in the data, or leave it out.",
        )


def _type(name: str, type_of: Callable[[], HiveType], table: Table) -> HiveType:
    facts: dict[str, Any] = {"table": str(table.name), "column": name}
    try:
        found = type_of()
    except UnsupportedError as error:
        raise UnsupportedError(
            f"column {name} cannot be added to {table.name}: {error.message}", **facts
        ) from error
    if has_no_type(found):
        raise InvalidInputError(
            f"column {name} cannot be added to {table.name}: it holds nothing but NULLs, which"
            " tells no type",
            note="Give it a type (Arrow's cast, pandas' astype), or leave it out.",
            **facts,
        )
    return found


def has_no_type(kind: HiveType) -> bool:
    """Whether it, or a type in it, is that of NULL alone."""
    return kind == PrimitiveType("void") or any(map(has_no_type, _children(kind).values()))


def _children(kind: HiveType) -> dict[str, HiveType]:
    """What a nested type is made of; only the names of a struct's fields are somebody's choice."""
    if isinstance(kind, StructType):
        return {name.lower(): child for name, child in kind.fields}
    if isinstance(kind, ListType):
        return {"an element": kind.element}
    if isinstance(kind, MapType):
        return {"a key": kind.key, "a value": kind.value}
    return {}


def _refuse_new_fields(
    name: str, type_of: Callable[[], HiveType], known: HiveType, table: Table
) -> None:
    try:
        new = _new_fields(type_of(), known)
    except UnsupportedError:  # it may still fit: a cast tells
        return
    if new:
        raise InvalidInputError(
            f"column {name} of {table.name} has no field {', '.join(new)}: evolve is for top-level"
            " columns",
            table=str(table.name),
            column=name,
            note=f"ALTER TABLE {table.name} CHANGE COLUMN {name} {name} struct<...> adds fields.",
        )


def _new_fields(given: HiveType, known: HiveType) -> list[str]:
    if type(given) is not type(known):
        return []
    there, children = _children(known), _children(given)
    new = [name for name in children if name not in there]
    return new + [
        one
        for name, child in children.items()
        if name in there
        for one in _new_fields(child, there[name])
    ]


_SET_OPERATION: Final = re.compile(r"\b(union|intersect|except|minus)\b", re.IGNORECASE)
_EXPRESSION = re.compile(r"[\d.]+|.*[()].*", re.DOTALL)
"""What Spark calls a column that has no name."""


def columns_of(schema: SparkStruct, query: Query) -> tuple[Column, ...]:
    """The columns of a query as a table gets them; Hive calls those without a name _c0, _c1, ..."""
    from hiveacid.spark.assign import hive_type, hive_type_of

    first, last = query.titles
    names = [
        f"_c{number}" if _EXPRESSION.fullmatch(field.name) else field.name.lower()
        for number, field in enumerate(schema.fields)
    ]
    names = [*first, *names[len(first) : len(names) - len(last)], *last]
    # Of several queries Spark keeps what the first one's columns tell.
    is_one = _SET_OPERATION.search(query.text) is None
    types = [hive_type_of(f) if is_one else hive_type(f.dataType) for f in schema.fields]
    first, last = query.kinds if is_one else ((), ())
    kinds = [*first, *[""] * (len(names) - len(first) - len(last)), *last]
    types = [parse_type(kind) if kind else one for kind, one in zip(kinds, types, strict=True)]
    return tuple(map(Column, names, types))


def columns_of_struct(schema: SparkStruct) -> tuple[Column, ...]:
    """The columns of a schema, under the names that they have there."""
    from hiveacid.spark.assign import hive_type

    return tuple(Column(f.name.lower(), hive_type(f.dataType)) for f in schema.fields)


def is_frame(rows: object) -> TypeGuard[DataFrame]:
    """Whether it is a DataFrame of Spark's."""
    return type(rows).__module__.startswith("pyspark.sql") and hasattr(rows, "toDF")


def renamed(rows: Any, columns: Sequence[Column]) -> DataFrame | ArrowTable:
    """The rows under the names of these columns."""
    names = [column.name for column in columns]
    return rows.toDF(*names) if is_frame(rows) else rows.rename_columns(names)


def columns_of_rows(rows: DataFrame | ArrowTable) -> tuple[Column, ...]:
    """The columns of a table that is made from rows."""
    if is_frame(rows):
        return columns_of_struct(rows.schema)
    schema = cast("ArrowTable", rows).schema
    return tuple(Column(field.name, column_type(field)) for field in schema)
