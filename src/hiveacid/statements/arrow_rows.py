"""Store assignment without Spark: rows given as Arrow data, and rows of literals, made to fit a
table. ``spark/assign.py`` is that with Spark.

Columns and fields of Arrow data go by name; defaults, casts, constraints. Casts lose nothing: what
would overflow, be rounded, be cut or not be read as the type is an error that names the column.
Only doubles become the nearest float, and decimals the nearest of either; chars are padded. Arrow's
safe casts refuse most of what would be lost; left over are decimals rounded from floats, floats
that become infinite, numbers other than 0 and 1 that become booleans, times that a date does not
have, and texts that are cut to their column's length. Literals are converted as Hive does.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError
from hiveacid.model.moment_texts import day_of, wall_clock_of
from hiveacid.model.readable import decimal_text
from hiveacid.model.tables import Column, Table
from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.statements.constraints import check_conditions, column_default, not_null_columns
from hiveacid.storage.arrow_plain import list_offsets, pairs_of, plain
from hiveacid.storage.arrow_types import (
    are_texts,
    arrow_type,
    cast_numbers,
    conform,
    is_number,
    texts_of,
)

_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_BIGINT_SCALE: Final = 19
"""Decimals of 38 digits hold every bigint with so many digits after the point."""
_PLAIN_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def what_needs_spark(table: Table, given: Collection[str]) -> str:
    """What only Spark evaluates where rows with the columns ``given`` are written: a CHECK, or the
    default of another column; '' for nothing.
    """
    if check_conditions(table):
        return "CHECK constraints"
    for column in table.all_columns:
        if column.name not in given and not _is_literal(column_default(table, column.name)):
            return f"a default of column {column.name} that is no literal"
    return ""


def refuse_what_needs_spark(table: Table, given: Collection[str]) -> None:
    """Rows with these columns can be written without Spark.

    Raises:
        UnsupportedError: something of the table needs Spark.
    """
    need = what_needs_spark(table, given)
    if need:
        raise UnsupportedError(
            f"{table.name} has {need}: Spark evaluates it, Arrow does not",
            table=str(table.name),
            note="Write to it with insert(), merge() or SQL in a session with Spark.",
        )


def lower_names(rows: pa.Table) -> pa.Table:
    """The rows with column names in lower case.

    Raises:
        InvalidInputError: two columns of one name.
    """
    names = [name.lower() for name in rows.schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"columns given twice: {', '.join(twice)}", column=twice[0])
    return rows.rename_columns(names)


def typed_column(rows: pa.Table, column: Column) -> pa.Array:
    """A column of the rows as the table's type, chars padded as the reader gives them.

    Raises:
        ConversionError: a value does not fit.
    """
    chunks = rows.column(column.name)
    try:
        array = chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # before pyarrow 20 a column without chunks is one
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
        if pa.types.is_integer(array.type) and isinstance(column.type, DecimalType):
            array = array.cast(pa.decimal128(38, min(column.type.scale, _BIGINT_SCALE)))
        kind: HiveType = column.type
        array = by_field_name(array, kind)
        found = conform(array, kind)
        if isinstance(kind, UnionType):  # a struct until it is written
            kind = kind.as_struct
            found = conform(array, kind)
        check_kept(array, found, kind)
        target = arrow_type(column.type)
        return found if found.type == target else found.cast(target)
    except (ConversionError, pa.ArrowException) as error:
        text = error.message if isinstance(error, ConversionError) else str(error)
        note = None
        if pa.types.is_timestamp(chunks.type) and chunks.type.unit == "ns":
            note = (
                "Timestamps are kept in microseconds here. Round first: of pandas "
                f"frame[{column.name!r}] = frame[{column.name!r}].dt.floor('us')."
            )
        raise ConversionError(
            f"column {column.name}: {text}", note=note, column=column.name
        ) from error


def stored_arrays(table: Table, rows: pa.Table, columns: Sequence[Column]) -> list[pa.Array]:
    """One array of the table's type for each of ``columns``; those that the rows lack get their
    default.

    Raises:
        ConversionError: a value does not fit, or breaks NOT NULL.
        UnsupportedError: something of the table needs Spark.
    """
    refuse_what_needs_spark(table, rows.schema.names)
    given = set(rows.schema.names)
    arrays = [
        typed_column(rows, column) if column.name in given else _default(table, column, rows)
        for column in columns
    ]
    check_not_null(table, zip((column.name for column in columns), arrays, strict=True))
    return arrays


def check_not_null(table: Table, arrays: Iterable[tuple[str, pa.Array]]) -> None:
    """NOT NULL holds.

    Raises:
        ConversionError: it does not.
    """
    required = set(not_null_columns(table))
    for name, array in arrays:
        if name in required and array.null_count:
            raise ConversionError(
                f"Either CHECK or NOT NULL constraint violated! Column {name} is NULL in"
                f" {array.null_count} rows",
                table=str(table.name),
                column=name,
            )


def _is_literal(default: str | None) -> bool:
    text = "null" if default is None else default.strip().lower()
    known = text in ("null", "true", "false") or _NUMBER.fullmatch(text)
    return bool(known or _PLAIN_TEXT.fullmatch(text))


def literal_default(table: Table, column: Column) -> pa.Scalar | None:
    """What a row without the column gets; None where only Spark can tell."""
    text = column_default(table, column.name)
    if not _is_literal(text):
        return None
    if text is None or text.strip().lower() == "null":
        return pa.scalar(None, arrow_type(column.type))
    plain = _PLAIN_TEXT.fullmatch(text.strip())
    value = text.strip() if plain is None else plain.group(1) or plain.group(2) or ""
    return typed_column(pa.table({column.name: pa.array([value], pa.string())}), column)[0]


def _default(table: Table, column: Column, rows: pa.Table) -> pa.Array:
    value = literal_default(table, column)
    assert value is not None
    if not value.is_valid:
        return pa.nulls(rows.num_rows, value.type)
    return pa.repeat(value, rows.num_rows)


def by_field_name(given: pa.Array, kind: HiveType) -> pa.Array:
    """``given`` with the fields of its structs, at any depth, in the order that ``kind`` has them.

    Raises:
        ConversionError: a struct has fields of other names.
    """
    if isinstance(kind, StructType) and pa.types.is_struct(given.type):
        return _struct_by_field_name(given, kind)
    if isinstance(kind, ListType) and _is_list(given.type):
        values = given.flatten()
        ordered = by_field_name(values, kind.element)
        if ordered is values:
            return given
        return pa.ListArray.from_arrays(list_offsets(given), ordered)
    if isinstance(kind, MapType) and pa.types.is_map(given.type):
        pairs = pairs_of(given)
        keys, items = pairs.flatten().flatten()
        ordered_keys, ordered = by_field_name(keys, kind.key), by_field_name(items, kind.value)
        if ordered_keys is keys and ordered is items:
            return given
        return pa.MapArray.from_arrays(list_offsets(pairs), ordered_keys, ordered)
    if isinstance(kind, MapType) and _is_list(given.type):
        return _map_of_entries(given, kind)
    return given


def _map_of_entries(given: pa.Array, kind: MapType) -> pa.Array:
    """The map that a list of its entries (``key``, ``value``) stands for; another list as it is."""
    entry = given.type.value_type
    if pa.types.is_null(entry):  # none of them has an entry
        fields = [("key", arrow_type(kind.key)), ("value", arrow_type(kind.value))]
        given = given.cast(pa.list_(pa.struct(fields)))
    elif not pa.types.is_struct(entry) or [f.name for f in entry] != ["key", "value"]:
        return given
    keys, items = given.flatten().flatten()
    keys, items = by_field_name(keys, kind.key), by_field_name(items, kind.value)
    return pa.MapArray.from_arrays(list_offsets(given), keys, items)


def _struct_by_field_name(given: pa.StructArray, kind: StructType) -> pa.StructArray:
    names = [given.type.field(i).name.lower() for i in range(given.type.num_fields)]
    wanted = [name.lower() for name, _ in kind.fields]
    if sorted(names) != sorted(wanted):
        raise ConversionError(
            f"a struct of the fields {', '.join(names)} does not fit {kind}", type=str(kind)
        )
    children = given.flatten()
    given_in_order = [children[names.index(name)] for name in wanted]
    ordered = [
        by_field_name(child, child_kind)
        for child, (_, child_kind) in zip(given_in_order, kind.fields, strict=True)
    ]
    same = all(one is other for one, other in zip(ordered, given_in_order, strict=True))
    if same and names == wanted:
        return given
    return pa.StructArray.from_arrays(ordered, names=wanted, mask=given.is_null())


def _is_list(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    )


def check_kept(given: pa.Array, found: pa.Array, kind: HiveType) -> None:
    """``found``, which is ``given`` cast to ``kind``, holds the same values.

    Raises:
        ConversionError: a value was changed; the first one is in the message.
    """
    if given is found or pa.types.is_null(given.type):
        return
    given = plain(given)
    if isinstance(kind, StructType | ListType | MapType):
        for before, after, child in _children(given, found, kind):
            check_kept(before, after, child)
        return
    lost = _lost(given, found, kind)
    if lost is not None and pc.any(lost).as_py():
        first = given[pc.index(lost, True).as_py()]
        raise ConversionError(f"{first} does not fit {kind}", type=str(kind), found=str(given.type))


def _children(
    given: pa.Array, found: pa.Array, kind: StructType | ListType | MapType
) -> Iterable[tuple[pa.Array, pa.Array, HiveType]]:
    if isinstance(kind, StructType):
        kinds = [child for _, child in kind.fields]
        return list(zip(given.flatten(), found.flatten(), kinds, strict=True))
    if isinstance(kind, ListType):
        return [(given.flatten(), found.flatten(), kind.element)]
    (keys, items), (new_keys, new_items) = (
        pairs_of(one).flatten().flatten() for one in (given, found)
    )
    return [(keys, new_keys, kind.key), (items, new_items, kind.value)]


def _lost(given: pa.Array, found: pa.Array, kind: HiveType) -> pa.Array | None:
    """For each value whether it was changed; None where Arrow's cast had told."""
    before = given.type
    if isinstance(kind, CharType | VarcharType):
        text = given if are_texts(before) else texts_of(given)
        if isinstance(kind, CharType):  # blanks at the end do not count
            text = pc.utf8_rtrim(text, " ")
        return pc.greater(pc.utf8_length(text), kind.length)
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if pa.types.is_temporal(before) != pa.types.is_temporal(found.type) and is_number(
        before
    ) != is_number(found.type):
        return given.is_valid()  # Arrow counts in the unit of its type, which nobody has said
    if pa.types.is_floating(before) and isinstance(kind, DecimalType):
        return pc.not_equal(cast_numbers(found, found.type, before), given)
    if name in ("float", "double") and not pa.types.is_integer(before):
        return pc.and_(pc.is_inf(found), _finite(given))
    if name == "boolean" and (pa.types.is_integer(before) or pa.types.is_floating(before)):
        return pc.not_equal(found.cast(before), given)
    if name == "date" and pa.types.is_timestamp(before):
        clock = given if before.tz is None else pc.local_timestamp(given)
        return pc.not_equal(found.cast(clock.type), clock)
    return None


def _finite(given: pa.Array) -> pa.Array:
    """Whether a value is none of the infinite ones."""
    if pa.types.is_floating(given.type):
        return pc.is_finite(given)
    if are_texts(given.type):
        return pc.invert(pc.match_substring(given, "inf", ignore_case=True))
    return given.is_valid()


# -------------------------------------------------------------------- rows of literals
# Rows of plain literals as Arrow columns, converted as Hive does: INSERT ... VALUES without a
# Spark job. Only what is beyond doubt is converted: for any other cell ``literal_columns`` answers
# None, and the statement takes the way through Spark.


_LONG: Final = 2**63


class _Doubtful(Exception):
    """The cell is not converted here."""


def literal_columns(
    rows: Sequence[Sequence[object]], columns: Sequence[Column]
) -> list[pa.Array] | None:
    """One array per column, or None where a cell needs Spark's casts."""
    rows = of_one_type(rows)
    try:
        converters = [_converter(column.type) for column in columns]
        return [
            pa.array(
                [None if row[i] is None else convert(row[i]) for row in rows],
                arrow_type(column.type),
            )
            for i, (column, convert) in enumerate(zip(columns, converters, strict=True))
        ]
    except (_Doubtful, pa.ArrowException):
        return None


def _converter(kind: HiveType) -> Callable[[object], object]:
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind)
    if isinstance(kind, CharType | VarcharType):
        return lambda value: _text(value)[: kind.length]
    if isinstance(kind, PrimitiveType):
        if kind.name in INTEGER_BITS:
            return lambda value: _integer(value, INTEGER_BITS[kind.name])
        if kind.name in _SIMPLE:
            return _SIMPLE[kind.name]
    return _doubtful


def _doubtful(value: object) -> object:
    raise _Doubtful(value)


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise _Doubtful(value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise _Doubtful(value)
    return Decimal(value)


def _integer(value: object, bits: int) -> int | None:
    """An integer keeps its lowest bits, as Java narrows it; a text or decimal that is out of range
    is NULL (real-hive.md 9).
    """
    number, half = int(_number(value)), 1 << (bits - 1)
    if -half <= number < half:
        return number
    if isinstance(value, int) and -_LONG <= value < _LONG:
        return (number + half) % (2 * half) - half
    return None


def _float(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value) + 0.0  # no decimal is -0
    return value if isinstance(value, float) else float(_number(value))


def _decimal(value: object, kind: DecimalType) -> Decimal | None:
    """Rounds half up; NULL where the digits before the point do not fit (real-hive.md 9)."""
    if isinstance(value, float):
        raise _Doubtful(value)
    with localcontext() as context:
        context.prec = 80
        try:
            rounded = _number(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
        except InvalidOperation as error:
            raise _Doubtful(value) from error
    return rounded if len(rounded.as_tuple().digits) <= kind.precision else None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _Doubtful(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _Doubtful(value)


def _date(value: object) -> datetime.date | None:
    if isinstance(value, str):
        return day_of(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise _Doubtful(value)


def _timestamp(value: object) -> datetime.datetime | None:
    if isinstance(value, str):
        return wall_clock_of(value)
    if isinstance(value, datetime.datetime):
        return value
    raise _Doubtful(value)


_SIMPLE: Final[dict[str, Callable[[object], object]]] = {
    "string": _text,
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "date": _date,
    "timestamp": _timestamp,
}


def literal_query(rows: Sequence[Sequence[object]]) -> str:
    """The rows as a VALUES query of Spark's SQL, for the way through Spark."""
    return "select * from values " + ", ".join(
        "(" + ", ".join(_spark_literal(cell) for cell in row) + ")" for row in of_one_type(rows)
    )


def of_one_type(rows: Sequence[Sequence[object]]) -> Sequence[Sequence[object]]:
    """The rows, all of one length; what stands in a column of texts is a text, as in Hive."""
    columns = [
        [_hive_text(cell) for cell in column] if str in set(map(type, column)) else column
        for column in zip(*rows, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _hive_text(cell: object) -> object:
    if isinstance(cell, Decimal):
        return decimal_text(cell)
    return cell if isinstance(cell, str | None) else texts_of(pa.array([cell]))[0].as_py()


def _spark_literal(cell: object) -> str:
    if cell is None:
        return "null"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str):
        return "'" + cell.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(cell, Decimal):
        return f"{cell:f}BD"
    if isinstance(cell, float):
        return f"double('{cell!r}')"  # an infinity, too: 1e400
    if isinstance(cell, datetime.datetime):
        return f"timestamp_ntz'{cell.isoformat(sep=' ')}'"
    if isinstance(cell, datetime.date):
        return f"date'{cell.isoformat()}'"
    return str(cell)
