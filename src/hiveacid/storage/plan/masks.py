"""Predicates over Arrow columns: which rows may meet one."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.model.predicates import (
    And,
    Anything,
    Compare,
    Constant,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
)

_KERNELS = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def mask(predicate: Predicate, columns: Mapping[str, pa.Array], *, rows: int) -> pa.Array:
    """For each of ``rows`` rows whether it may meet the predicate: booleans without nulls.

    A column that ``columns`` does not have, and a comparison that Arrow cannot do, hold back
    nothing; nor do timestamps: Spark moves a wall clock that the session's time zone skips.
    """
    if isinstance(predicate, And):
        return reduce(pc.and_, (mask(part, columns, rows=rows) for part in predicate.parts))
    if isinstance(predicate, Or):
        none: pa.Array = pa.repeat(pa.scalar(False), rows)
        return reduce(pc.or_, (mask(part, columns, rows=rows) for part in predicate.parts), none)
    if isinstance(predicate, Anything) or predicate.column not in columns:
        return pa.repeat(pa.scalar(True), rows)
    array = columns[predicate.column]
    if isinstance(predicate, IsNull):
        return array.is_valid() if predicate.negated else array.is_null()
    if isinstance(predicate, In):
        leaves = (_compare(array, Op.EQ, value) for value in sorted(predicate.values, key=repr))
        return reduce(pc.or_, leaves)
    assert isinstance(predicate, Compare)
    return _compare(array, predicate.op, predicate.value)


def _compare(array: pa.Array, op: Op, value: Constant) -> pa.Array:
    if pa.types.is_timestamp(array.type):
        return pa.repeat(pa.scalar(True), len(array))
    try:
        if pa.types.is_integer(array.type) and isinstance(value, int):
            low, high = _span(array.type)
            if not low <= value <= high:  # no value of the type: Arrow would refuse the constant
                above = value > high
                always = op is Op.NE or (op in (Op.LT, Op.LE) if above else op in (Op.GT, Op.GE))
                return array.is_valid() if always else pa.repeat(pa.scalar(False), len(array))
        if pa.types.is_floating(array.type):
            array = array.cast(pa.float64())
        kind = None if isinstance(value, Decimal) else array.type
        if pa.types.is_decimal(array.type) and isinstance(value, int):
            value, kind = Decimal(value), None
        found = _KERNELS[op](array, pa.scalar(value, kind))
    except (pa.ArrowException, OverflowError):
        return pa.repeat(pa.scalar(True), len(array))
    return pc.fill_null(found, False)


def _span(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width - 1
    return -(1 << bits), (1 << bits) - 1
