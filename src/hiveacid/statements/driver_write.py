"""Small writes by the driver itself: Arrow in, staged bucket files out, no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.layout.target import (
    FileKind,
    WriteResult,
    WriteTarget,
    WrittenFile,
    file_place,
    insert_kind,
    partition_values,
)
from hiveacid.metastore.api import Catalog
from hiveacid.model.bucket import BucketCodec
from hiveacid.model.ids import StatementId
from hiveacid.model.tables import Column, Table
from hiveacid.statements.partition_values import normal_text
from hiveacid.statements.placement import Placement
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.merge.column_hashing import bucket_ids
from hiveacid.storage.merge.sources import bucket_numbers
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.plain.writers import open_row_writer, write_no_rows
from hiveacid.storage.publish import empty_plain

_Place = tuple[tuple[str | None, ...], int]


def write_arrow(
    arrays: Sequence[pa.Array],
    *,
    target: WriteTarget,
    statement: StatementId | None = None,
) -> WriteResult:
    """Write rows: data columns, then the dynamic partition columns; order of rows is kept within a
    bucket. ``statement`` is the target's insert statement where none is given.

    Raises:
        ConversionError: a value does not fit its column.
        StorageError: a file could not be written.
    """
    table = target.table
    kind = insert_kind(target)
    if table.sort_columns:
        arrays = _sorted(arrays, table)
    places = _places(arrays, target)
    data = pa.RecordBatch.from_arrays(
        list(arrays[: len(table.columns)]), names=[c.name for c in table.columns]
    )
    fs, staging = file_system_for(target.staging)
    fs.create_directory(staging)
    files: list[WrittenFile] = []
    if statement is None:
        statement = target.insert_statement or StatementId(0)
    for number, ((partition, bucket), rows) in enumerate(places):
        directory, name = file_place(target, kind=kind, statement=statement, bucket=bucket)
        path = f"{staging}/driver-{statement}-{number:06d}"
        writer = open_row_writer(
            fs,
            path,
            format=table.format,
            columns=table.columns,
            kind=kind,
            write_id=int(target.write_id),
            bucket_property=0
            if kind is FileKind.PLAIN
            else BucketCodec.V1.encode(bucket, int(statement)),
            properties=table.properties,
        )
        try:
            writer.write_rows(data if len(places) == 1 else data.take(rows))
            file = writer.close()
        except BaseException:
            writer.abort()
            raise
        assert file is not None
        files.append(
            WrittenFile(partition, directory, name, path, kind, file.rows, file.size_bytes)
        )
    return WriteResult(tuple(files), sum(file.rows for file in files), 0, 0)


def _sorted(arrays: Sequence[pa.Array], table: Table) -> list[pa.Array]:
    """The rows in the order that SORTED BY says, NULL first."""
    by_name = {c.name: arrays[i] for i, c in enumerate(table.columns)}
    keys: dict[str, pa.Array] = {}
    for number, name in enumerate(table.sort_columns):
        keys[f"valid{number}"], keys[f"value{number}"] = by_name[name].is_valid(), by_name[name]
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    return [array.take(order) for array in arrays]


def _places(arrays: Sequence[pa.Array], target: WriteTarget) -> list[tuple[_Place, pa.Array]]:
    """Row numbers by partition and bucket, in order of first appearance."""
    table = target.table
    dynamic = [c for c in table.partition_columns if c.name not in target.static_partition]
    texts = [
        _texts(array, column)
        for array, column in zip(arrays[len(table.columns) :], dynamic, strict=True)
    ]
    buckets = _buckets(arrays, table)
    codes = buckets.astype(np.int64)
    for names, indices in texts:  # dense after each column, so that they stay small
        codes = np.unique(codes * len(names) + indices, return_inverse=True)[1]
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(len(firsts) + 1))
    places: list[tuple[_Place, pa.Array]] = []
    for group in np.argsort(firsts):
        first = int(firsts[group])
        values = {
            c.name: names[indices[first]]
            for c, (names, indices) in zip(dynamic, texts, strict=True)
        }
        place = (partition_values(target, values), int(buckets[first]))
        places.append((place, pa.array(order[bounds[group] : bounds[group + 1]])))
    return places


def _buckets(arrays: Sequence[pa.Array], table: Table) -> npt.NDArray[np.int32]:
    """The bucket number of each row; 0 in a table without buckets."""
    if table.bucket is None:
        return np.zeros(len(arrays[0]), dtype=np.int32)
    by_name = {c.name: i for i, c in enumerate(table.columns)}
    keys = [by_name[name.lower()] for name in table.bucket.columns]
    found: npt.NDArray[np.int32] = bucket_ids(
        [arrays[i] for i in keys],
        [table.columns[i].type for i in keys],
        n=table.bucket.count,
        version=table.bucket.version,
    ).to_numpy()
    return found


def _texts(array: pa.Array, column: Column) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Partition values as the texts of directory names, and for each row the place of its text;
    NULL and '' are the default partition.
    """
    encoded = array.dictionary_encode()
    values = [
        None if value is None else normal_text(str(value), column)
        for value in encoded.dictionary.to_pylist()
    ]
    names = {name: place for place, name in enumerate(dict.fromkeys([None, *values]))}
    places = np.array([names[value] for value in [*values, None]], dtype=np.int64)
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(values)).to_numpy()
    return list(names), places[indices]


DeleteKeys = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Write ids, bucket properties and row ids of rows that go."""


def write_deletes(
    parts: Iterable[tuple[tuple[str | None, ...], DeleteKeys]],
    *,
    target: WriteTarget,
    statement: StatementId,
) -> WriteResult:
    """Write delete events of each partition, in any order: one file for each bucket number.

    Raises:
        StorageError: a file could not be written.
    """
    table = target.table
    fs, staging = file_system_for(target.staging)
    fs.create_directory(staging)
    files: list[WrittenFile] = []
    for partition, keys in parts:
        order = np.lexsort((keys[2], keys[1], keys[0]))
        write_ids, properties, row_ids = keys[0][order], keys[1][order], keys[2][order]
        numbers = bucket_numbers(properties)
        for bucket in np.unique(numbers):
            chosen = numbers == bucket
            directory, name = file_place(
                target, kind=FileKind.DELETE, statement=statement, bucket=int(bucket)
            )
            path = f"{staging}/driver-{statement}-{len(files):06d}"
            with BucketFileWriter(
                fs,
                path,
                columns=table.columns,
                kind=FileKind.DELETE,
                write_id=int(target.write_id),
                properties=table.properties,
            ) as writer:
                writer.write_deletes(
                    *(pa.array(key[chosen]) for key in (write_ids, properties, row_ids))
                )
                file = writer.close()
            assert file is not None
            kind = FileKind.DELETE
            files.append(
                WrittenFile(partition, directory, name, path, kind, file.rows, file.size_bytes)
            )
    return WriteResult(tuple(files), 0, 0, sum(file.rows for file in files))


def write_empty_base(target: WriteTarget) -> WriteResult:
    """The base of an overwrite without rows: one file with no rows (real-hive.md 4)."""
    table = target.table
    kind = insert_kind(target)
    fs, staging = file_system_for(target.staging)
    fs.create_directory(staging)
    path = f"{staging}/empty"
    file = write_no_rows(
        fs,
        path,
        format=table.format,
        columns=table.columns,
        properties=table.properties,
        events=kind is FileKind.BASE,
    )
    directory, name = file_place(target, kind=kind, statement=StatementId(0), bucket=0)
    written = WrittenFile(
        partition_values(target, {}), directory, name, path, kind, 0, file.size_bytes
    )
    return WriteResult((written,), 0, 0, 0)


def empty_for_overwrite(
    table: Table, static: Mapping[str, str | None], written: WriteResult, *, catalog: Catalog
) -> None:
    """Make room for an overwrite of a table without transactions: the old files go, then the new
    come.
    """
    keys = [c.name for c in table.partition_columns]
    partitions = {file.partition for file in written.files}
    if all(key in static for key in keys):
        partitions.add(tuple(static[key] for key in keys))
    known = catalog.list_partitions(table.name) if keys else ()
    placement = Placement.of(table, partitions, known=known)
    for partition in partitions:
        empty_plain(*file_system_for(placement.location(partition)))
