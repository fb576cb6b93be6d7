"""Writing without Spark, for small jobs: Arrow data inserted, deleted by, merged into a table.

The data is held in memory, and the statement runs in one transaction like any other: locks,
conflict check, again where another transaction won. ``data`` is a ``pyarrow.Table``, anything
with ``__arrow_c_stream__`` (a reader, a Polars or pandas frame, a DuckDB relation), or a list of
dicts. So is what the other calls take (``frame_or_table``); DataFrames of Spark stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from numbers import Number
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.model.predicates import ANYTHING
from hiveacid.model.tables import Column, Table
from hiveacid.model.types import (
    HiveType,
    ListType,
    MapType,
    StructType,
    is_text,
)
from hiveacid.reading.rows import condition_of
from hiveacid.reading.source import SessionTable
from hiveacid.statements.arguments import checked, wrong_argument
from hiveacid.statements.arrow_rows import lower_names, typed_column
from hiveacid.statements.checks import EVOLVE, check_has_partition_columns, check_row_changes
from hiveacid.statements.context import OpenSession
from hiveacid.statements.driver_merge import ArrowDelete, ArrowMerge, WhenMatched
from hiveacid.statements.evolve import added_columns, given_by_arrow, is_frame
from hiveacid.statements.partition_values import partition_texts
from hiveacid.statements.values import DeleteResult, Insert, InsertResult, MergeResult, with_columns
from hiveacid.storage.arrow_plain import plain_table
from hiveacid.storage.arrow_types import LOCAL_ZONED, column_type, texts_of
from hiveacid.storage.plan.arrow_conditions import Condition
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@checked
def write_arrow(
    table: SessionTable,
    data: object,
    *,
    overwrite: bool = False,
    partition: Mapping[str, object] | None = None,
    evolve: bool = False,
) -> InsertResult:
    """Insert the rows of ``data``, its columns found by name; those it lacks get their default or
    NULL.

    ``partition`` gives values of partition columns that ``data`` does not have. ``overwrite``
    replaces the table, the partition ``partition``, or the partitions that get rows. Casts are
    safe: what would overflow, be rounded or be cut is an error (a double in a float column becomes
    the nearest float). With ``evolve`` columns that the table lacks are added to it, by the same
    commit.

    Raises:
        InvalidInputError: a column that the table does not have.
        ConversionError: a value does not fit its column, or is NULL in a NOT NULL column.
        UnsupportedError: a CHECK, or a default that is no literal.
    """
    rows = _given(table, data)
    static = dict(partition_texts(partition))

    def statement(look: Look) -> Insert:
        definition = look.definition(table.name)
        if not evolve:
            known = set(definition.column_names)
            _refuse_unknown(rows, known, definition, note=f"{EVOLVE} adds it.")
        open_keys = [c.name for c in definition.partition_columns if c.name not in static]
        check_has_partition_columns(rows.schema.names, definition, static=static)
        return Insert(
            definition.name,
            rows,
            columns=tuple(rows.schema.names),
            partition=static,
            dynamic_partition=tuple(open_keys),
            overwrite=overwrite,
            by_name=True,
            evolve=evolve,
        )

    return cast(InsertResult, table.session.execute(statement))


@checked
def delete_arrow(table: SessionTable, keys_or_filter: object) -> DeleteResult:
    """Delete the rows that meet a filter, or that equal a row of ``data`` in all its columns.

    A filter is SQL text or an Arrow expression, as in ``read_arrow``. NULL equals nothing.

    Raises:
        NotFoundError: a column that the table does not have.
        InvalidInputError: 10297, 10414 as Hive; a filter that does not fit.
    """
    return deleted(table, keys_or_filter)


def deleted(table: SessionTable, keys_or_filter: object, *, purges: bool = False) -> DeleteResult:
    """``delete_arrow``; ``purges`` says that it is part of a PURGE.

    Raises:
        NotFoundError, InvalidInputError: as there.
    """
    is_filter = isinstance(keys_or_filter, str | pc.Expression)
    rows = None
    if not is_filter:
        rows = _given(table, keys_or_filter)

    def statement(look: Look) -> ArrowDelete:
        definition = look.definition(table.name)
        check_row_changes(definition)
        columns = definition.all_columns
        if rows is None:
            condition = condition_of(keys_or_filter, columns, table=definition.name)
            return ArrowDelete(definition.name, condition, purges=purges)
        _refuse_unknown(rows, {column.name for column in columns}, definition)
        if not rows.schema.names:
            raise InvalidInputError("the keys of the rows to delete have no columns")
        keys = _typed(rows, rows.schema.names, definition)
        return ArrowDelete(definition.name, Condition(None, ANYTHING, frozenset()), keys)

    return cast(DeleteResult, table.session.execute(statement))


@checked
def merge_arrow(
    table: SessionTable,
    data: object,
    *,
    on: str | Sequence[str],
    when_matched: str | None = "update",
    when_not_matched: str | None = "insert",
    delete_where: str | None = None,
    evolve: bool = False,
) -> MergeResult:
    """MERGE the rows of ``data`` into the table; a row matches where all columns of ``on`` (a
    text is one name) are equal.

    ``when_matched``: ``update`` sets the columns that ``data`` has, ``delete`` deletes, None leaves
    the row. ``when_not_matched``: ``insert``, or None. ``delete_where`` is SQL text over the
    columns of ``data``: such rows delete what they match and are never inserted; it may name
    columns that the table does not have, and these are not written. With ``evolve`` all other
    columns that the table lacks are added to it.

    Raises:
        CardinalityError: two rows of ``data`` match one row.
        NotFoundError, InvalidInputError, ConversionError, UnsupportedError: as ``write_arrow``;
        10292, 10302 where a match would move a row to another partition or bucket.
    """
    chosen = _when_matched(when_matched)
    if when_not_matched not in ("insert", None):
        raise InvalidInputError(f"when_not_matched is 'insert' or None, not {when_not_matched!r}")
    rows = _given(table, data)
    keys = tuple(name.lower() for name in ([on] if isinstance(on, str) else on))

    def statement(look: Look) -> ArrowMerge:
        definition = look.definition(table.name)
        changes = chosen is not WhenMatched.NOTHING or delete_where is not None
        check_row_changes(definition, rows=changes)
        known = set(definition.column_names)
        _check_keys(keys, rows, known, definition)
        deletes, extra = _marked(rows, delete_where)
        added: tuple[Column, ...] = ()
        if evolve:
            others = set(rows.schema.names) - extra
            added = added_columns(given_by_arrow(rows), definition, wanted=others)
            definition = with_columns(definition, added)
        else:
            _refuse_unknown(rows, known | extra, definition, note=f"{EVOLVE} adds it.")
        known.update(column.name for column in added)
        names = [name for name in rows.schema.names if name in known]
        return ArrowMerge(
            definition.name,
            _typed(rows, names, definition),
            on=keys,
            when_matched=chosen,
            inserts=when_not_matched is not None,
            deletes=deletes,
            added=added,
        )

    return cast(MergeResult, table.session.execute(statement))


def _when_matched(given: str | None) -> WhenMatched:
    if given is None:
        return WhenMatched.NOTHING
    if given not in (WhenMatched.UPDATE.value, WhenMatched.DELETE.value):
        raise InvalidInputError(f"when_matched is 'update', 'delete' or None, not {given!r}")
    return WhenMatched(given)


def _refuse_unknown(
    rows: pa.Table, known: set[str], table: Table, *, note: str | None = None
) -> None:
    unknown = [name for name in rows.schema.names if name not in known]
    if unknown:
        raise NotFoundError(
            f"{table.name} has no column {', '.join(unknown)}",
            table=str(table.name),
            column=unknown[0],
            note=note,
        )


def _check_keys(keys: Sequence[str], rows: pa.Table, known: set[str], table: Table) -> None:
    if not keys:
        raise InvalidInputError("on names no column")
    for key in keys:
        if key not in rows.schema.names or key not in known:
            where = table.name if key not in known else "the data"
            raise NotFoundError(f"{where} has no column {key}", column=key)


def _typed(rows: pa.Table, names: Sequence[str], table: Table) -> pa.Table:
    kinds = {column.name: column for column in table.all_columns}
    return pa.table({name: typed_column(rows, kinds[name]) for name in names})


def _marked(rows: pa.Table, delete_where: str | None) -> tuple[np.ndarray, set[str]]:
    """Which rows meet the condition, and the columns that it names."""
    if delete_where is None:
        return np.zeros(rows.num_rows, dtype=np.bool_), set()
    columns = [Column(field.name, column_type(field)) for field in rows.schema]
    condition = condition_of(delete_where, columns)
    place = pa.array(np.arange(rows.num_rows))
    names = [*condition.columns, ""]
    table = pa.table([*(rows.column(name) for name in condition.columns), place], names=names)
    if condition.expression is not None:
        table = table.filter(condition.expression)
    found = np.zeros(rows.num_rows, dtype=np.bool_)
    found[table.column(len(names) - 1).to_numpy()] = True
    return found, set(condition.columns)


_WANTED = "rows of Spark, Arrow, pandas or Polars, or a list of dicts"


Columns = Callable[[], Sequence[Column]]
"""The columns that rows are for: a dict among Python's values may be a map or a struct."""


def _given(table: SessionTable, data: object) -> pa.Table:
    def columns() -> Sequence[Column]:
        return table.definition.all_columns

    return in_session_zone(arrow_table(data, columns=columns), table.session, columns)


def in_session_zone(
    rows: DataFrame | pa.Table, session: OpenSession, columns: Columns
) -> DataFrame | pa.Table:
    """Moments of Arrow as the wall clocks that the zone of the session's Spark shows, and its wall
    clocks as the moments that they are there, as in its DataFrames; without Spark those of the
    zones that the values come with, and of UTC.
    """
    if not isinstance(rows, pa.Table) or "timestamp" not in str(rows.schema.types):
        return rows
    spark = session.reading_context().spark
    if spark is None:
        return rows
    from hiveacid.spark.wall_clock import shown_by

    moments = {column.name for column in columns() if str(column.type) == LOCAL_ZONED}
    return shown_by(spark, rows, moments=moments)


def frame_or_table(
    data: object, *, argument: str, columns: Columns = lambda: ()
) -> DataFrame | pa.Table:
    """A DataFrame of Spark as it is (of pandas on Spark: its DataFrame), all else as Arrow.

    Raises:
        InvalidInputError: it is neither.
    """
    if is_frame(data):  # first: a frame of Spark Connect has every attribute, as a column
        return data
    if hasattr(data, "to_spark"):
        frame: DataFrame = data.to_spark()
        return frame
    return arrow_table(data, argument=argument, columns=columns)


def arrow_table(data: Any, *, argument: str = "data", columns: Columns = lambda: ()) -> pa.Table:
    """The data as an Arrow table with column names in lower case; a pandas index is no column.

    Raises:
        InvalidInputError: it is no such data, or columns have one name.
    """
    try:
        if isinstance(data, pa.Table):
            rows = data
        elif isinstance(data, pa.RecordBatch):
            rows = pa.Table.from_batches([data])
        elif type(data).__module__.startswith("pandas.") and hasattr(data, "columns"):
            data = data.copy(deep=False)  # whose notes Arrow would keep, which those of Connect say
            data.attrs = {}  # cannot be: a warning
            rows = pa.Table.from_pandas(data, preserve_index=False)
        elif hasattr(data, "collect_schema"):  # of Polars; in its stream are types without a cast
            rows = data.lazy().collect().to_arrow()
        elif hasattr(data, "__arrow_c_stream__"):
            rows = pa.RecordBatchReader.from_stream(data).read_all()
        elif isinstance(data, list | tuple) and data and all(map(is_row, data)):
            rows = _from_dicts([as_dict(row) for row in data], columns)
        elif isinstance(data, list | tuple) and not data:
            raise InvalidInputError(
                f"{argument} is an empty list, which tells no columns: leave the call out, or give"
                " Arrow data without rows",
                argument=argument,
            )
        else:
            raise wrong_argument(argument, _WANTED, data)
        return lower_names(plain_table(rows))
    except InvalidInputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{argument} cannot be read as Arrow: {error}") from error


def is_tabular(data: object) -> bool:
    """Whether it is data with columns that have names and types (Arrow, pandas, Polars)."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "collect_schema")
        or (type(data).__module__.startswith("pandas.") and hasattr(data, "columns"))
    )


def is_row(row: object) -> bool:
    """Whether it is a row with names: a mapping, a Row of Spark, a named tuple."""
    return isinstance(row, Mapping) or hasattr(row, "asDict") or hasattr(row, "_asdict")


def as_dict(row: Any) -> Mapping[str, object]:
    """Such a row by name."""
    if isinstance(row, Mapping):
        return row
    found: Mapping[str, object] = row.asDict() if hasattr(row, "asDict") else row._asdict()
    return found


def _from_dicts(rows: Sequence[Mapping[str, object]], columns: Columns) -> pa.Table:
    """NULL where a row lacks a column that another one has; maps are lists of keys and values.

    Arrow tells the type of a column from its values together: a date beside a datetime makes dates
    of both, a number beside a date another date. So values of several types, and those with a zone,
    are first made what their column has.

    Raises:
        InvalidInputError: a value is a number where a time belongs, or the other way.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    given = {name: [row.get(name) for row in rows] for name in names}
    types = {name: set(map(type, values)) - {NoneType} for name, values in given.items()}
    several = [name for name in names if _is_read_by_others(types[name])]
    kinds = {column.name: column.type for column in (columns() if several else ())}
    for name in several:
        kind = kinds.get(str(name).lower())
        if str(kind) == "date" and len(types[name]) == 1:  # all datetimes, or of another column
            continue
        if kind is None and len(types[name]) > 1 and any(map(_is_moment, types[name])):
            told = ", ".join(sorted(one.__name__ for one in types[name]))
            raise InvalidInputError(f"column {name} has values of several types: {told}")
        try:
            given[name] = [_fitted(value, kind) for value in given[name]]
        except TypeError as error:
            raise InvalidInputError(f"column {name}: {error}", column=str(name)) from error
    return pa.table({str(name): _arrow_column(name, values) for name, values in given.items()})


def _arrow_column(name: object, values: list[object]) -> pa.Array:
    try:
        try:
            return pa.array(values)
        except OverflowError:
            return pa.array([_wide(value) for value in values])
    except (pa.ArrowException, TypeError, UnicodeError, OverflowError) as error:
        raise InvalidInputError(f"column {name}: {error}", column=str(name)) from error


def _wide(value: object) -> object:
    """The value with its whole numbers, at any depth, as Decimals: Arrow's end at 64 bits."""
    if isinstance(value, dict):
        return {name: _wide(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_wide(item) for item in value]
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return Decimal(value) if is_whole else value  # type: ignore[arg-type]


def _is_read_by_others(types: set[type]) -> bool:
    return len(types) > 1 or any(issubclass(one, dict | list | datetime | Decimal) for one in types)


def _is_moment(kind: type) -> bool:
    return issubclass(kind, date | time | timedelta)


def _fitted(value: object, kind: HiveType | None) -> object:
    """The value as its column has it, at any depth; maps, which are dicts, or lists of pairs as
    Arrow gives them, as lists of entries.
    """
    if isinstance(value, dict | list) and isinstance(kind, MapType):
        pairs = list(value.items()) if isinstance(value, dict) else value
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return [
                {"key": _fitted(key, kind.key), "value": _fitted(item, kind.value)}
                for key, item in pairs
            ]
    if isinstance(value, dict) and isinstance(kind, StructType):
        kinds = {name.lower(): one for name, one in kind.fields}
        given = {name: _fitted(item, kinds.get(str(name).lower())) for name, item in value.items()}
        lacking = kinds.keys() - {str(name).lower() for name in given}
        if len(given) + len(lacking) == len(kinds):  # else one is unknown: an error, later
            given |= dict.fromkeys(lacking)  # NULL, as where another row has them
        return given
    if isinstance(value, list) and isinstance(kind, ListType):
        return [_fitted(item, kind.element) for item in value]
    return value if value is None or kind is None else _leaf(value, kind)


def _leaf(value: object, kind: HiveType) -> object:
    """A value as Arrow converts it where it is alone.

    Raises:
        TypeError: a number where a time belongs, or the other way.
    """
    name = str(kind)
    if is_text(kind):
        is_written = isinstance(value, str | list | dict)
        return value if is_written else texts_of(_arrow_column(kind, [value]))[0].as_py()
    if name in ("timestamp", LOCAL_ZONED) and isinstance(value, date):
        zone = None if name == "timestamp" else timezone.utc
        if not isinstance(value, datetime):
            return datetime.combine(value, time(), zone)
        return value if zone and value.tzinfo else value.replace(tzinfo=zone)
    if name == "date" and isinstance(value, datetime):
        if value.tzinfo is None and value.time() == time():
            return value.date()
    elif _is_moment(type(value)) is (name in ("date", "timestamp", LOCAL_ZONED)):
        return value
    elif not (_is_moment(type(value)) or isinstance(value, Number)):
        return value  # a text, say, beside which Arrow takes no others
    raise TypeError(f"{value!r} is no {kind}")
