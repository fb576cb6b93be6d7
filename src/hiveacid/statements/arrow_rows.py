"""Rows given as Arrow data, made to fit a table: columns by name, defaults, casts, constraints.

Casts lose nothing: what would overflow, be rounded, be cut or not be read as the type is an error
that names the column. Only doubles become the nearest float, and decimals the nearest of either;
chars are padded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import pyarrow as pa

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column, Table
from hiveacid.model.types import DecimalType, HiveType, UnionType
from hiveacid.statements.arrow_casts import by_field_name, check_kept
from hiveacid.statements.constraints import checks, column_default, not_null_columns
from hiveacid.storage.arrow_types import arrow_type, conform

_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
_BIGINT_SCALE: Final = 19
"""Decimals of 38 digits hold every bigint with so many digits after the point."""
_PLAIN_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def what_needs_spark(table: Table, given: Collection[str]) -> str:
    """What only Spark evaluates where rows with the columns ``given`` are written: a CHECK, or the
    default of another column; '' for nothing.
    """
    if checks(table):
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
    array = chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)
    if isinstance(array, pa.ChunkedArray):  # before pyarrow 20 a column without chunks stays one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    try:
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
        raise ConversionError(f"column {column.name}: {text}", column=column.name) from error


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


def _default(table: Table, column: Column, rows: pa.Table) -> pa.Array:
    target = arrow_type(column.type)
    text = (column_default(table, column.name) or "null").strip()
    if text.lower() == "null":
        return pa.nulls(rows.num_rows, target)
    plain = _PLAIN_TEXT.fullmatch(text)
    value = text if plain is None else plain.group(1) or plain.group(2) or ""
    one = pa.table({column.name: pa.array([value], pa.string())})
    return pa.repeat(typed_column(one, column)[0], rows.num_rows)
