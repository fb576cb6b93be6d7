"""Conditions on rows as Arrow evaluates them, and partitions as Arrow values.

A predicate says by which places rows can be left out, an expression of Arrow tests each row.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from hiveacid.errors import InvalidInputError, NotFoundError, UnsupportedError
from hiveacid.layout.directories import default_partition_value
from hiveacid.model.predicates import (
    COMPARE,
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
from hiveacid.model.tables import Column, Partition, Table
from hiveacid.model.types import CharType, HiveType
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type, cast_numbers, is_number

_KERNELS: Final[Mapping[Op, Callable[[Any, Any], Any]]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
LONG: Final = pa.int64()
_EXACTLY: Final = Context(prec=100)
_CHAIN_MAX: Final = 64
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6}(\d{0,3}))?)?)?", re.ASCII
)
"""A date, or a wall clock; then what of a second is less than microseconds."""
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
"""Texts that are booleans, as Spark casts them."""
_NANOSECONDS_FROM: Final = datetime(1677, 9, 22)
_NANOSECONDS_TO: Final = datetime(2262, 4, 11)
_NO_FILE: Final = "there is no such file: this stands for a partition"


@dataclass(frozen=True, slots=True)
class Condition:
    """What rows must meet.

    ``expression`` tests a row, None lets all pass. ``predicate`` is as strong or weaker: by it
    places without such rows are left out. ``columns`` are those that the test needs.
    """

    expression: pc.Expression | None
    predicate: Predicate
    columns: frozenset[str]


def check_expression(expression: pc.Expression, columns: Sequence[Column]) -> None:
    """Try it on no rows: what does not fit is found before anything is read.

    Raises:
        NotFoundError, InvalidInputError: as ``filtered``.
    """
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    filtered(schema.empty_table(), expression)


def filtered(rows: pa.Table, expression: pc.Expression) -> pa.Table:
    """The rows for which the expression is true.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: it cannot be evaluated.
    """
    try:
        return rows.filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if "No match for FieldRef" in str(error):
            raise NotFoundError(
                f"filter {expression}: no such column", filter=str(expression)
            ) from (error)
        raise InvalidInputError(
            f"filter {expression} does not fit the table: {error}", filter=str(expression)
        ) from error


def mentions(expression: pc.Expression, name: str) -> bool:
    """Whether an expression may refer to a column: its text holds the name, or a place instead."""
    text = str(expression)
    return name in text or "FieldPath" in text


# -------------------------------------------------------------------- predicate -> expression


@dataclass(frozen=True, slots=True)
class _Column:
    """What is compared: ``values`` are an expression, or an array."""

    name: str
    values: Any
    kind: HiveType | pa.DataType
    whole: pa.DataType = LONG
    """the type of integers beside it"""

    @property
    def arrow(self) -> pa.DataType:
        return self.kind if isinstance(self.kind, pa.DataType) else arrow_type(self.kind)

    def never(self) -> Any:
        """No value meets it."""
        return pc.and_kleene(self.values.is_valid(), False)

    def met(self, leaf: Compare | In | IsNull) -> Any:
        """Which values meet it.

        Raises:
            InvalidInputError, UnsupportedError: as ``expression_of``.
        """
        if isinstance(leaf, IsNull):
            return self.values.is_valid() if leaf.negated else self.values.is_null()
        if isinstance(leaf, In):
            return self._among(leaf.values)
        return self._compared(leaf.op, leaf.value)

    def _among(self, values: Collection[Constant]) -> Any:
        """column IN (values): by one look where each is of the column's type, else one by one."""
        classes = set(map(type, values))
        if classes <= {int} and pa.types.is_integer(self.arrow):
            known = filter(partial(_is_held, self.whole), values)
            return pc.is_in(self.values, pa.array(sorted(known), self.whole))
        if classes <= {str} and pa.types.is_string(self.arrow):
            if not isinstance(self.kind, CharType):
                return pc.is_in(self.values, pa.array(values, pa.string()))
            texts = pa.array([str(value).rstrip(" ") for value in values])
            return pc.is_in(pc.utf8_rtrim(self.values, " "), texts)
        return joined(pc.or_kleene, [self._compared(Op.EQ, value) for value in values])

    def _compared(self, op: Op, value: Constant) -> Any:
        """With Hive's conversions: text beside a number is compared as a double."""
        try:
            found = self._converted(op, value)
        except (pa.ArrowException, InvalidOperation, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"{value!r} does not compare with column {self.name} of type {self.kind}",
                column=self.name,
            ) from error
        if found is None:
            raise UnsupportedError(
                f"{value!r} is not compared with column {self.name} of type {self.kind} here",
                column=self.name,
            )
        return found

    def _converted(self, op: Op, value: Constant) -> Any:
        """None where these are not compared."""
        field, arrow, compare = self.values, self.arrow, _KERNELS[op]
        number = None if isinstance(value, bool | str | date) else value
        if pa.types.is_string(arrow) and isinstance(value, str):
            if isinstance(self.kind, CharType):  # blanks at the end do not count
                return compare(pc.utf8_rtrim(field, " "), value.rstrip(" "))
            return compare(field, value)
        if pa.types.is_string(arrow) and number is not None:
            readable = pc.match_substring_regex(field, _NUMBER)
            text = pc.if_else(readable, field, pa.scalar(None, pa.string()))
            return compare(pc.utf8_trim_whitespace(text).cast(pa.float64()), float(number))
        if is_number(arrow) and (number is not None or isinstance(value, str)):
            plain = _number_in(value) if isinstance(value, str) else number
            assert plain is not None
            if isinstance(plain, float) or pa.types.is_floating(arrow):
                if pa.types.is_decimal(arrow):
                    field = cast_numbers(field, arrow, pa.float64())
                return _float_comparison(field.cast(pa.float64(), safe=False), op, float(plain))
            return self._exactly(op, Decimal(plain))
        if pa.types.is_date(arrow) or (pa.types.is_timestamp(arrow) and arrow.tz is None):
            return _time_comparison(field, arrow, compare, value)
        if pa.types.is_boolean(arrow) and isinstance(value, bool | str):
            truth = value if isinstance(value, bool) else _truth(value)
            return compare(field, pa.scalar(truth, pa.bool_()))
        if pa.types.is_string(arrow) and isinstance(value, bool):
            word = pc.utf8_lower(pc.utf8_trim_whitespace(field))
            read = pc.if_else(pc.is_in(word, pa.array(_TRUE)), True, pa.scalar(None, pa.bool_()))
            return compare(pc.if_else(pc.is_in(word, pa.array(_FALSE)), False, read), value)
        return None

    def _exactly(self, op: Op, value: Decimal) -> Any:
        """Of an integer or decimal column: with the value rounded down to what the column can hold.

        Arrow would look for a type that holds both, and has none beyond 76 digits.
        """
        kind = self.arrow if pa.types.is_decimal(self.arrow) else self.whole
        is_decimal = pa.types.is_decimal(kind)
        step = Decimal(1).scaleb(-kind.scale) if is_decimal else Decimal(1)
        most = Decimal(10**kind.precision - 1 if is_decimal else 2 ** (kind.bit_width - 1) - 1)
        most = most.scaleb(-kind.scale, _EXACTLY) if is_decimal else most
        least = most.copy_negate() if is_decimal else -most - 1
        if not value.is_finite():
            raise ValueError(value)
        if not least <= value <= most:
            return self.values.is_valid() if COMPARE[op](0, value) else self.never()
        lower = value.quantize(step, ROUND_FLOOR, _EXACTLY)
        if lower != value:  # between two values of the column
            if op in (Op.EQ, Op.NE):
                return self.values.is_valid() if op is Op.NE else self.never()
            op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
        return _KERNELS[op](self.values, pa.scalar(lower if is_decimal else int(lower), kind))


def expression_of(tree: Predicate, kinds: Mapping[str, HiveType]) -> pc.Expression | None:
    """The predicate as it tests rows, None where all pass; text beside a number is a number.

    Raises:
        InvalidInputError, UnsupportedError: values that do not compare with their columns.
    """

    def met(leaf: Compare | In | IsNull) -> pc.Expression:
        return _Column(leaf.column, pc.field(leaf.column), kinds[leaf.column]).met(leaf)

    return _tested(tree, met, nothing=pc.scalar(False))


def mask(predicate: Predicate, columns: Mapping[str, pa.Array], *, rows: int) -> pa.Array:
    """For each of ``rows`` rows whether it may meet the predicate: booleans without nulls.

    A column that ``columns`` does not have, and a comparison that Arrow cannot do, hold back
    nothing; nor do timestamps: Spark moves a wall clock that the session's time zone skips.
    """

    def met(leaf: Compare | In | IsNull) -> pa.Array | None:
        array = columns.get(leaf.column)
        if array is None or (pa.types.is_timestamp(array.type) and not isinstance(leaf, IsNull)):
            return None
        whole = array.type if pa.types.is_integer(array.type) else LONG
        try:
            found = _Column(leaf.column, array, array.type, whole).met(leaf)
        except (InvalidInputError, UnsupportedError):
            return None
        return pc.fill_null(found, False)

    found = _tested(predicate, met, nothing=pa.repeat(pa.scalar(False), rows))
    return pa.repeat(pa.scalar(True), rows) if found is None else found


def _tested(
    tree: Predicate, met: Callable[[Compare | In | IsNull], Any], *, nothing: Any
) -> Any | None:
    """What tests rows, of what tests each comparison; None where all pass."""
    if isinstance(tree, Anything):
        return None
    if not isinstance(tree, And | Or):
        return met(tree)
    parts = [_tested(part, met, nothing=nothing) for part in tree.parts]
    known = [part for part in parts if part is not None]
    if isinstance(tree, And):
        return joined(pc.and_kleene, known) if known else None
    if len(known) < len(parts):
        return None
    return joined(pc.or_kleene, known) if known else nothing


def joined(join: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """In groups, which Arrow does not take for one chain: down a chain it goes by recursion, and a
    process whose stack ends is gone.
    """
    while len(parts) > _CHAIN_MAX:
        groups = (parts[i : i + _CHAIN_MAX] for i in range(0, len(parts), _CHAIN_MAX))
        parts = [pc.invert(pc.invert(functools.reduce(join, group))) for group in groups]
    return functools.reduce(join, parts)


def _number_in(text: str) -> Decimal:
    if "_" in text or not text.isascii():  # Python reads more than Spark and Hive do
        raise ValueError(text)
    return Decimal(text)


def _float_comparison(field: Any, op: Op, value: float) -> Any:
    """As Spark orders numbers: NaN is equal to itself, and greater than all others."""
    if value == value:
        found = _KERNELS[op](field, value)
        return pc.or_kleene(found, pc.is_nan(field)) if op in (Op.GT, Op.GE) else found
    is_nan = pc.is_nan(field)
    if op in (Op.LE, Op.GT):
        return field.is_valid() if op is Op.LE else pc.and_kleene(field.is_valid(), False)
    return is_nan if op in (Op.EQ, Op.GE) else pc.invert(is_nan)


def _is_held(kind: pa.DataType, value: Constant) -> bool:
    """Whether an integer is one that a type can hold."""
    half = 1 << (kind.bit_width - 1)
    return isinstance(value, int) and -half <= value < half


def _time_comparison(
    field: Any, arrow: pa.DataType, compare: Callable[[Any, Any], Any], value: Constant
) -> Any:
    """Of a date or timestamp column; a date beside a timestamp is its midnight."""
    if isinstance(value, str):
        found = _TIME.fullmatch(value)
        if found is None:  # Python reads more: weeks, zones
            raise ValueError(value)
        if found[2] and found[2].rstrip("0"):
            return compare(field, pa.scalar(value).cast(pa.timestamp("ns")))
        value = datetime.fromisoformat(value) if found[1] else date.fromisoformat(value)
    if not isinstance(value, date):
        raise ValueError(value)
    if pa.types.is_date(arrow) and not isinstance(value, datetime):
        return compare(field, pa.scalar(value, pa.date32()))
    moment = datetime(value.year, value.month, value.day) if type(value) is date else value
    ticks = pa.timestamp(MICROSECONDS)
    if pa.types.is_date(arrow) or not _NANOSECONDS_FROM < moment < _NANOSECONDS_TO:
        # a column of nanoseconds cannot be compared with a moment that these cannot say; where the
        # moment lies outside all that the column holds, cut digits change nothing
        field = field.cast(ticks, safe=False)
    return compare(field, pa.scalar(moment, ticks))


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return word in _TRUE


# -------------------------------------------------------------------- partitions


def partition_arrays(
    partitions: Sequence[Partition], columns: Sequence[Column], *, by_path: bool = False
) -> list[pa.Array]:
    """The values of partition columns, one array for each column, typed.

    In the default partition they are what SQL shows, ``default_partition_value``; ``by_path``,
    where types are not known, NULL.
    """
    found: list[pa.Array] = []
    for i, column in enumerate(columns):
        default = None if by_path else default_partition_value(column.type)
        texts = (partition.values[i] for partition in partitions)
        found.append(_values([default if text is None else text for text in texts], column))
    return found


def _values(texts: Sequence[str | None], column: Column) -> pa.Array:
    """Texts of directory names as values; NULL where a text is none of the type's, as in Hive."""
    kind = arrow_type(column.type)
    plain = pa.array(texts, pa.string())
    if isinstance(column.type, CharType):  # as the reader gives chars of files
        return pc.utf8_rpad(plain, column.type.length, " ")
    if pa.types.is_string(kind):
        return plain
    try:
        return plain.cast(kind)
    except pa.ArrowException:
        return pa.concat_arrays([_value(text, kind) for text in texts])


def _value(text: str | None, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([text], pa.string()).cast(kind)
    except pa.ArrowException:
        return pa.nulls(1, kind)


def kept_partitions(
    partitions: Sequence[Partition],
    table: Table,
    *,
    chosen: pc.Expression | None,
    condition: Condition,
    by_path: bool = False,
) -> list[Partition]:
    """The partitions that were ``chosen`` and may hold rows for which the condition's expression
    is true; ``by_path`` as in ``partition_arrays``.
    """
    if not table.partition_columns:
        return list(partitions)
    arrays = partition_arrays(partitions, table.partition_columns, by_path=by_path)
    names = table.partition_keys
    if chosen is not None:
        places = pa.array(range(len(partitions)), pa.int64())
        rows = filtered(pa.table([*arrays, places], names=[*names, ""]), chosen)
        left = rows.column(len(names))
        partitions = [partitions[i] for i in left.to_pylist()]
        arrays = [array.take(left.combine_chunks()) for array in arrays]
    if condition.expression is None or not condition.columns.intersection(names):
        return list(partitions)
    return [partitions[i] for i in _satisfiable(arrays, table, condition.expression)]


def _satisfiable(arrays: Sequence[pa.Array], table: Table, expression: pc.Expression) -> list[int]:
    """The places whose values leave the expression a chance to be true; Arrow decides.

    Arrow simplifies a filter by what is guaranteed of a fragment; no file is opened. Of a zero
    nothing is: with it Arrow takes -0.0 for 0.0 in a list of values, and does not in rows.
    """
    import pyarrow.dataset as ds  # and pandas with it: a fifth of what the first query imports

    files, like = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = []
    for i in range(len(arrays[0])):
        tests = [
            pc.field(c.name) == array[i] if array[i].is_valid else pc.field(c.name).is_null()
            for c, array in zip(table.partition_columns, arrays, strict=True)
            if not (pa.types.is_floating(array.type) and array[i].as_py() == 0)
        ]
        known = functools.reduce(operator.and_, tests, pc.scalar(True))
        place = f"{_NO_FILE}/{i}"
        fragments.append(files.make_fragment(place, filesystem=like, partition_expression=known))
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in table.all_columns])
    places = ds.FileSystemDataset(fragments, schema, files, like)
    return [int(one.path.rpartition("/")[2]) for one in places.get_fragments(expression)]
