"""Small writes by the driver itself: Arrow in, staged bucket files out, no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from hiveacid.layout.names import partition_name
from hiveacid.layout.target import (
    FileKind,
    WriteResult,
    WriteTarget,
    WrittenFile,
    file_place,
    insert_kind,
    partition_values,
)
from hiveacid.model.bucket import BucketCodec
from hiveacid.model.ids import StatementId
from hiveacid.model.tables import Table
from hiveacid.storage.bucket_writer import BucketFileWriter, write_empty_file
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.hashing import bucket_ids
from hiveacid.storage.publish import empty_plain

_Place = tuple[tuple[str | None, ...], int]


def write_arrow(arrays: Sequence[pa.Array], *, target: WriteTarget) -> WriteResult:
    """Write rows: data columns, then the dynamic partition columns; order of rows is kept within a
    bucket.

    Raises:
        ConversionError: a value does not fit its column.
        StorageError: a file could not be written.
    """
    table = target.table
    kind = insert_kind(target)
    places = _places(arrays, target)
    data = pa.RecordBatch.from_arrays(
        list(arrays[: len(table.columns)]), names=[c.name for c in table.columns]
    )
    fs, staging = file_system_for(target.staging)
    fs.create_directory(staging)
    files: list[WrittenFile] = []
    statement = target.insert_statement or StatementId(0)
    for number, (place, rows) in enumerate(places.items()):
        partition, bucket = place
        directory, name = file_place(target, kind=kind, statement=statement, bucket=bucket)
        path = f"{staging}/driver-{number:06d}"
        with BucketFileWriter(
            fs,
            path,
            columns=table.columns,
            kind=kind,
            write_id=int(target.write_id),
            bucket_property=BucketCodec.V1.encode(bucket, int(statement)),
            properties=table.properties,
        ) as writer:
            writer.write_rows(data if len(places) == 1 else data.take(pa.array(rows)))
            file = writer.close()
        assert file is not None
        files.append(
            WrittenFile(partition, directory, name, path, kind, file.rows, file.size_bytes)
        )
    return WriteResult(tuple(files), sum(file.rows for file in files), 0, 0)


def _places(arrays: Sequence[pa.Array], target: WriteTarget) -> dict[_Place, list[int]]:
    """Row numbers by partition and bucket, in order of first appearance."""
    table = target.table
    count = len(arrays[0])
    dynamic = [c for c in table.partition_columns if c.name not in target.static_partition]
    texts = [_texts(array) for array in arrays[len(table.columns) :]]
    buckets = np.zeros(count, dtype=np.int32)
    if table.bucket is not None:
        by_name = {c.name: i for i, c in enumerate(table.columns)}
        keys = [by_name[name.lower()] for name in table.bucket.columns]
        buckets = bucket_ids(
            [arrays[i] for i in keys],
            [table.columns[i].type for i in keys],
            n=table.bucket.count,
            version=table.bucket.version,
        ).to_numpy()
    places: dict[_Place, list[int]] = {}
    for row in range(count):
        values = {c.name: text[row] for c, text in zip(dynamic, texts, strict=True)}
        place = (partition_values(target, values), int(buckets[row]))
        places.setdefault(place, []).append(row)
    return places


def _texts(array: pa.Array) -> list[str | None]:
    """Partition values as the texts of directory names; NULL and '' are the default partition."""
    return [_text(value) if value not in (None, "") else None for value in array.to_pylist()]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_empty_base(target: WriteTarget) -> WriteResult:
    """The base of an overwrite without rows: one file with no rows (real-hive.md 4)."""
    table = target.table
    fs, staging = file_system_for(target.staging)
    fs.create_directory(staging)
    path = f"{staging}/empty"
    file = write_empty_file(fs, path, columns=table.columns, properties=table.properties)
    directory, name = file_place(target, kind=FileKind.BASE, statement=StatementId(0), bucket=0)
    written = WrittenFile(
        partition_values(target, {}), directory, name, path, FileKind.BASE, 0, file.size_bytes
    )
    return WriteResult((written,), 0, 0, 0)


def empty_for_overwrite(
    table: Table, static: Mapping[str, str | None], written: WriteResult
) -> None:
    """Make room for an overwrite of a table without transactions: the old files go, then the new
    come.
    """
    keys = [c.name for c in table.partition_columns]
    partitions = {file.partition for file in written.files}
    if all(key in static for key in keys):
        partitions.add(tuple(static[key] for key in keys))
    fs, root = file_system_for(table.location)
    for partition in partitions:
        empty_plain(fs, f"{root}/{partition_name(keys, partition)}" if keys else root)
