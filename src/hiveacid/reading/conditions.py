"""What a user gives as a condition: SQL text, an expression of Arrow, values of partitions.

A text becomes a predicate, which files and stripes are chosen by, and from that an expression of
Arrow; an expression of Arrow is taken as it is, and Arrow itself tells which partitions it leaves.
Either way each row is tested in the end.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, NotFoundError, UnsupportedError
from hiveacid.layout.names import default_partition_value
from hiveacid.model.predicates import (
    ANYTHING,
    Compare,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
    columns_of,
    typed,
)
from hiveacid.model.tables import Column, TableName
from hiveacid.model.types import STRING, HiveType
from hiveacid.sql.conditions import parse_condition
from hiveacid.storage.plan.arrow_conditions import (
    Condition,
    check_expression,
    expression_of,
    mentions,
)

PartitionChoice = str | Mapping[str, object] | Sequence[Mapping[str, object]] | None
"""A text over partition columns, or values of partition columns, or a list of such values."""


def condition_of(
    given: str | pc.Expression | Predicate | None,
    columns: Sequence[Column],
    *,
    table: TableName | None = None,
) -> Condition:
    """The condition that a user's text or expression is, on a table's columns; a predicate only
    leaves places out. ``table`` is the name by which a text may qualify columns.

    Raises:
        NotFoundError: a column that the table does not have.
        SqlSyntaxError, UnsupportedError: a text that is not understood.
        InvalidInputError: types that do not compare.
    """
    names = frozenset(column.name for column in columns)
    if given is None:
        return Condition(None, ANYTHING, frozenset())
    if isinstance(given, pc.Expression):
        check_expression(given, columns)
        mentioned = frozenset(name for name in names if mentions(given, name))
        return Condition(given, ANYTHING, mentioned)
    kinds = {column.name: column.type for column in columns}
    if not isinstance(given, str):
        return Condition(None, typed(given, kinds), frozenset())
    tree = _parsed(given, names, table)
    expression = expression_of(tree, kinds)
    if expression is not None:
        check_expression(expression, columns)
    return Condition(expression, typed(tree, kinds), columns_of(tree))


def _parsed(text: str, names: frozenset[str], table: TableName | None) -> Predicate:
    unknown: list[str] = []
    qualifiers = [()] if table is None else [(), (table.table,), (table.database, table.table)]

    def column_of(parts: tuple[str, ...]) -> str | None:
        *qualifier, name = (part.lower() for part in parts)
        if tuple(qualifier) in qualifiers and name in names:
            return name
        unknown.append(".".join(parts))
        return None

    try:
        return parse_condition(text, column_of, strict=True)
    except UnsupportedError as error:
        if unknown and not re.search(rf"\b{re.escape(unknown[-1])}\s*\(", text):
            raise NotFoundError(f"no column {unknown[-1]!r}", column=unknown[-1]) from error
        raise


def chosen_expression(
    given: PartitionChoice, columns: Sequence[Column], *, table: TableName | None = None
) -> pc.Expression | None:
    """What the user's choice of partitions means.

    Raises:
        NotFoundError: a column that is no partition column.
        InvalidInputError: a value that is none of the column's.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return condition_of(given, columns, table=table).expression
    specs = [given] if isinstance(given, Mapping) else list(given)
    tests = [_spec_expression(spec, columns) for spec in specs]
    return functools.reduce(operator.or_, tests, pc.scalar(False))


def _spec_expression(spec: Mapping[str, object], columns: Sequence[Column]) -> pc.Expression:
    kinds = {column.name: column.type for column in columns}
    tests: list[pc.Expression] = []
    for name, value in spec.items():
        key = name.lower()
        if key not in kinds:
            known = ", ".join(kinds) or "none"
            raise NotFoundError(f"no partition column {name!r}; there are {known}", column=name)
        if value is None:
            default = default_partition_value(kinds[key])
            named = () if default is None else (Compare(key, Op.EQ, default),)
            test = expression_of(Or((IsNull(key), *named)), kinds)
            assert test is not None
            tests.append(test)
            continue
        try:
            test = expression_of(Compare(key, Op.EQ, _constant(value, kinds[key])), kinds)
        except (pa.ArrowException, TypeError, InvalidInputError) as error:
            raise InvalidInputError(
                f"{value!r} is no value of partition column {name} of type {kinds[key]}",
                column=name,
            ) from error
        assert test is not None
        tests.append(test)
    return functools.reduce(operator.and_, tests, pc.scalar(True))


def _constant(value: object, kind: HiveType) -> Constant:
    """The value as SQL text would say it: 1.5 is a decimal; numpy's scalars are plain ones."""
    plain = value if isinstance(value, Constant) else pa.scalar(value).as_py()
    if isinstance(plain, date) and kind == STRING:
        return str(plain)
    if isinstance(plain, float) and math.isfinite(plain):
        return Decimal(repr(float(plain)))
    if not isinstance(plain, Constant):
        raise TypeError(value)
    return plain
