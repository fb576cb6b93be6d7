"""Small writes by the driver itself: Arrow in, staged bucket files out, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ConversionError
from hiveacid.model.tables import Column, StatementId, Table
from hiveacid.statements.partition_values import normal_text
from hiveacid.storage.merge.column_hashing import bucket_ids
from hiveacid.storage.merge.sources import DeleteKeys, bucket_numbers
from hiveacid.storage.stage import DELETE, EventStage, RowStage, runs, staged_here
from hiveacid.storage.target import WriteResult, WriteTarget

_PART_BYTES: Final = 1 << 30


def write_arrow(
    arrays: Sequence[pa.Array],
    *,
    target: WriteTarget,
    statement: StatementId | None = None,
    bucket: int = 0,
) -> WriteResult:
    """Write rows: data columns, then the dynamic partition columns; order of rows is kept within a
    bucket. ``statement`` is the target's insert statement where none is given, ``bucket`` the
    number of the file of a table without buckets.

    Raises:
        ConversionError: a value does not fit its column.
        StorageError: a file could not be written.
    """
    return write_parts([arrays], target=target, statement=statement, bucket=bucket)


def in_parts(rows: pa.Table, table: Table) -> list[pa.Table]:
    """The rows, some at a time, so that each column of a part is one array of Arrow's, whose texts
    have 2 GiB at most; sorted tables get theirs at once.
    """
    if table.sort_columns or rows.nbytes <= _PART_BYTES or rows.num_rows < 2:
        return [rows]
    half = rows.num_rows // 2
    return in_parts(rows.slice(0, half), table) + in_parts(rows.slice(half), table)


def write_parts(
    parts: Iterable[Sequence[pa.Array]],
    *,
    target: WriteTarget,
    statement: StatementId | None = None,
    bucket: int = 0,
) -> WriteResult:
    """``write_arrow`` of rows that come in parts.

    Raises:
        ConversionError, StorageError: as there.
    """
    table = target.table
    dynamic: tuple[str, ...] = ()
    batches: list[pa.RecordBatch] = []
    for arrays in parts:
        rows, dynamic = in_places(arrays, table, static=target.static_partition, bucket=bucket)
        batches.append(rows)
    if len(batches) > 1:
        batches = _place_by_place(batches, len(table.columns))
    statement = target.insert_statement if statement is None else statement
    stage = RowStage(target, dynamic, bucketed=True, statement=statement)
    return staged_here(stage, batches, name=f"rows-{statement}-{bucket}")


def _place_by_place(parts: Sequence[pa.RecordBatch], width: int) -> list[pa.RecordBatch]:
    """What goes to one place, behind the ``width`` data columns, together across the parts."""
    found: dict[tuple[object, ...], list[pa.RecordBatch]] = {}
    for rows in parts:
        for start, stop in runs(rows.columns[width:], rows.num_rows):
            place = tuple(column[start].as_py() for column in rows.columns[width:])
            found.setdefault(place, []).append(rows.slice(start, stop - start))
    return [rows for pieces in found.values() for rows in pieces]


def in_places(
    arrays: Sequence[pa.Array], table: Table, *, static: Collection[str], bucket: int = 0
) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    """The rows with their places behind the data columns, those of one place together: a text for
    each dynamic partition column (their names come second), then the bucket number.
    """
    if table.sort_columns:
        arrays = _sorted(arrays, table)
    data, keys = list(arrays[: len(table.columns)]), arrays[len(table.columns) :]
    dynamic = [c for c in table.partition_columns if c.name not in static]
    texts = [_texts(array, column) for array, column in zip(keys, dynamic, strict=True)]
    buckets = _buckets(arrays, table, bucket)
    names = [c.name for c in table.columns]
    places = [f"_{n}" for n in range(len(texts) + 1)]
    rows = pa.RecordBatch.from_arrays([*data, *texts, pa.array(buckets)], names=[*names, *places])
    if texts or table.bucket is not None:
        rows = _by_place(rows, rows.columns[len(names) :])
    return rows, tuple(column.name for column in dynamic)


def _by_place(rows: pa.RecordBatch, places: Sequence[pa.Array]) -> pa.RecordBatch:
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in places:  # dense after each column, so that they stay small
        found = column.dictionary_encode(null_encoding="encode")
        codes = codes * (len(found.dictionary) + 1) + found.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    if len(codes) and codes.max():
        rows = rows.take(pa.array(np.argsort(codes, kind="stable")))
    return rows


def _sorted(arrays: Sequence[pa.Array], table: Table) -> list[pa.Array]:
    """The rows in the order that SORTED BY says."""
    by_name = {c.name: arrays[i] for i, c in enumerate(table.columns)}
    keys: dict[str, pa.Array] = {}
    wanted = []
    for number, column in enumerate(table.sort_columns):
        valid, value = f"valid{number}", f"value{number}"
        keys[valid], keys[value] = by_name[column.name].is_valid(), by_name[column.name]
        order = "descending" if column.is_descending else "ascending"
        wanted += [(valid, order), (value, order)]
    places = pc.sort_indices(pa.table(keys), sort_keys=wanted)
    return [array.take(places) for array in arrays]


def _buckets(arrays: Sequence[pa.Array], table: Table, bucket: int) -> npt.NDArray[np.int32]:
    """The bucket number of each row; ``bucket`` in a table without buckets."""
    if table.bucket is None:
        return np.full(len(arrays[0]), bucket, dtype=np.int32)
    by_name = {c.name: i for i, c in enumerate(table.columns)}
    keys = [by_name[name.lower()] for name in table.bucket.columns]
    found: npt.NDArray[np.int32] = bucket_ids(
        [arrays[i] for i in keys],
        [table.columns[i].type for i in keys],
        n=table.bucket.count,
        version=table.bucket.version,
    ).to_numpy()
    return found


def _texts(array: pa.Array, column: Column) -> pa.Array:
    """Partition values as the texts of directory names; NULL and '' are the default partition."""
    encoded = array.dictionary_encode()
    try:
        texts = [
            value.decode() if isinstance(value, bytes) else value
            for value in encoded.dictionary.to_pylist()
        ]
    except (UnicodeDecodeError, OverflowError) as error:  # no text, a year beyond 9999
        raise ConversionError(
            f"partition column {column.name}: a value has no text: {error}", column=column.name
        ) from error
    values = [None if text is None else normal_text(str(text), column) for text in texts]
    return pa.array(values, pa.string()).take(encoded.indices)


def write_deletes(
    parts: Iterable[tuple[tuple[str | None, ...], DeleteKeys]],
    *,
    target: WriteTarget,
    action: int = DELETE,
) -> WriteResult:
    """Write delete events of each partition, in any order: one file for each bucket number. Those
    of an UPDATE are for rows whose new images are written apart.

    Raises:
        StorageError: a file could not be written.
    """
    target = replace(target, update_insert_statement=None)
    batches: list[pa.RecordBatch] = []
    for partition, (write_ids, properties, row_ids) in parts:
        numbers = bucket_numbers(properties)
        order = np.lexsort((row_ids, properties, write_ids, numbers))
        arrays = [
            pa.array(np.full(len(order), action, dtype=np.int8)),
            *(pa.array(column[order]) for column in (write_ids, properties, row_ids)),
            pa.array(numbers[order]),
            *(pa.repeat(pa.scalar(value, pa.string()), len(order)) for value in partition),
        ]
        batches.append(
            pa.RecordBatch.from_arrays(arrays, names=[f"_{n}" for n in range(len(arrays))])
        )
    return staged_here(EventStage(target), batches, name=f"deletes-{action}")
