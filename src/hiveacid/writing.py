"""Writing without Spark, for small jobs: Arrow data inserted, deleted by, merged into a table.

The data is held in memory, and the statement runs in one transaction like any other: locks,
conflict check, again where another transaction won. ``data`` is a ``pyarrow.Table``, anything
with ``__arrow_c_stream__`` (a reader, a Polars or pandas frame, a DuckDB relation), or a list of
dicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.model.predicates import ANYTHING
from hiveacid.model.tables import Column, Table
from hiveacid.reading.rows import condition_of
from hiveacid.reading.source import SessionTable
from hiveacid.statements.arguments import checked
from hiveacid.statements.arrow_changes import ArrowDelete, ArrowMerge, WhenMatched
from hiveacid.statements.arrow_rows import typed_column
from hiveacid.statements.checks import EVOLVE, check_has_partition_columns, check_row_changes
from hiveacid.statements.evolve import added_columns, given_by_arrow, with_columns
from hiveacid.statements.partition_values import partition_texts
from hiveacid.statements.values import DeleteResult, Insert, InsertResult, MergeResult
from hiveacid.storage.arrow_types import hive_type
from hiveacid.storage.plan.arrow_conditions import Condition
from hiveacid.tabular import arrow_table
from hiveacid.txn.view import Look


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
    rows = arrow_table(data, columns=lambda: table.definition.all_columns)
    static = dict(partition_texts(partition))

    def statement(look: Look) -> Insert:
        definition = look.definition(table.name)
        known = {column.name for column in definition.all_columns}
        if not evolve:
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
    rows = None if is_filter else arrow_table(keys_or_filter)

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
    rows = arrow_table(data, columns=lambda: table.definition.all_columns)
    keys = tuple(name.lower() for name in ([on] if isinstance(on, str) else on))

    def statement(look: Look) -> ArrowMerge:
        definition = look.definition(table.name)
        changes = chosen is not WhenMatched.NOTHING or delete_where is not None
        check_row_changes(definition, rows=changes)
        known = {column.name for column in definition.all_columns}
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
    columns = [Column(field.name, hive_type(field.type)) for field in rows.schema]
    condition = condition_of(delete_where, columns)
    place = pa.array(np.arange(rows.num_rows))
    names = [*condition.columns, ""]
    table = pa.table([*(rows.column(name) for name in condition.columns), place], names=names)
    if condition.expression is not None:
        table = table.filter(condition.expression)
    found = np.zeros(rows.num_rows, dtype=np.bool_)
    found[table.column(len(names) - 1).to_numpy()] = True
    return found, set(condition.columns)
