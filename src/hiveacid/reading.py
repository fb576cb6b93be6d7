"""Read a table directory with no Spark and no metastore: ``read_arrow``; look into one file:
``dump``.

Without a metastore nobody knows which transactions committed: every write id found counts as
committed unless valid lists in Hive's text form are given. The columns come from the newest file,
partition columns from directory names (as strings).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import NotFoundError
from hiveacid.layout.events import SYSTEM_FIELDS
from hiveacid.layout.names import BUCKET_PREFIX, is_hidden, is_marker, looks_acid
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.layout.snapshot import AcidDirectory, DataFile
from hiveacid.model.tables import AcidMode, Column
from hiveacid.model.valid import ValidTxnList, ValidWriteIdList
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.bucket_reader import BucketFileReader, EventBatch
from hiveacid.storage.filesystem import FileSystem, file_system_for
from hiveacid.storage.json_values import json_values
from hiveacid.storage.listing import (
    FoundPartition,
    discover_partitions,
    list_partition,
    with_logical_lengths,
)
from hiveacid.storage.merge import ROW_ID_NAME, ROW_ID_TYPE, merge_read, record_batch

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    partition: FoundPartition
    directory: AcidDirectory


def read_arrow(
    path: str,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    valid_write_ids: str | ValidWriteIdList | None = None,
    valid_txns: str | ValidTxnList | None = None,
    row_ids: bool = False,
) -> pa.RecordBatchReader:
    """The rows of the transactional ORC table in a directory, lazily.

    ``path`` is an absolute path or a URI. ``columns`` selects by name (case ignored), partition
    columns included; None is all. ``filter`` keeps the rows for which the expression is true.
    ``valid_write_ids`` (``db.t:hwm:minOpen:open:aborted``) and ``valid_txns`` say what is
    committed; None counts all as committed, which is logged. ``row_ids`` adds ``row__id``
    struct<writeid, bucketid, rowid> last.

    Raises:
        FormatError: a damaged or foreign file, or a list that is not one; also while reading
        batches. MissingFileError: the directory, or a file found in it, is not there.
        NotFoundError: no such column.
        SnapshotExpiredError: what these lists need was compacted away.
        StorageError: the file system failed.
        UnsupportedError: update events of Hive before 3, or a timestamp outside 1677..2262.
    """
    fs, root = file_system_for(path)
    write_ids = _write_ids(valid_write_ids, root)
    txns = ValidTxnList.parse(valid_txns) if isinstance(valid_txns, str) else valid_txns
    parts = tuple(_parts(fs, root, write_ids, txns))
    table_columns = _table_columns(fs, parts)
    names = parts[0].partition.names
    schema = pa.schema(
        [(column.name, arrow_type(column.type)) for column in table_columns]
        + [(name, pa.string()) for name in names]
    )
    output = schema if columns is None else pa.schema([_field(schema, name) for name in columns])
    needed = [
        field.name
        for field in schema
        if field.name in output.names or _mentions(filter, field.name)
    ]
    if row_ids:
        output = output.append(pa.field(ROW_ID_NAME, ROW_ID_TYPE))

    def rows() -> Iterator[pa.RecordBatch]:
        for part in parts:
            constants = dict(zip(names, part.partition.values, strict=True))
            for batch in merge_read(
                fs,
                part.partition.path,
                part.directory,
                table_columns=table_columns,
                columns=[name for name in needed if name not in constants],
                valid=write_ids,
                row_ids=row_ids,
            ):
                yield from _finished(batch, constants, filter, output)

    return pa.RecordBatchReader.from_batches(output, rows())


def dump(path: str, *, logical_bytes: int | None = None) -> Iterator[dict[str, Any]]:
    """The row events of one file, in order, as values that ``json.dumps`` takes.

    Each has ``operation``, ``originalTransaction``, ``bucket``, ``rowId``, ``currentTransaction``
    and ``row`` (None for a delete event); a raw file's rows have ``row`` only. ``logical_bytes``
    reads only the file's beginning (format.md 9).

    Raises:
        FormatError: not a complete ORC file.
        MissingFileError: no such file.
        StorageError: reading failed.
        UnsupportedError: a timestamp outside 1677..2262.
    """
    fs, name = file_system_for(path)
    with BucketFileReader(fs, name, logical_bytes=logical_bytes) as reader:
        file_columns = [Column(field, kind) for field, kind in reader.fields]
        for batch in reader.batches(
            table_columns=file_columns, wanted=range(len(file_columns)), identities=reader.is_acid
        ):
            yield from _events(batch, file_columns)


def _events(batch: EventBatch, file_columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    values = [json_values(array) for array in batch.columns]
    names = [column.name for column in file_columns]
    ids = batch.identities
    system = (
        ()
        if ids is None
        else (ids.operation, ids.original_write_id, ids.bucket, ids.row_id, ids.current_write_id)
    )
    numbers = [array.to_pylist() for array in system]
    gone = batch.row_is_null.to_pylist() if batch.row_is_null is not None else None
    for i in range(batch.rows):
        event: dict[str, Any] = {
            name: array[i] for name, array in zip(SYSTEM_FIELDS, numbers, strict=False)
        }
        row = {name: array[i] for name, array in zip(names, values, strict=True)}
        event["row"] = None if gone is not None and gone[i] else row
        yield event


def _write_ids(given: str | ValidWriteIdList | None, root: str) -> ValidWriteIdList:
    if given is None:
        _log.info("Every write id counts as committed", extra={"table": root})
        return ValidWriteIdList.everything()
    return ValidWriteIdList.parse(given) if isinstance(given, str) else given


def _parts(
    fs: FileSystem, root: str, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> Iterator[_Part]:
    for partition in discover_partitions(fs, root):
        entries = list_partition(fs, partition.path)
        directory = resolve(entries, write_ids, txns, mode=_mode(entries))
        yield _Part(partition, with_logical_lengths(fs, partition.path, directory, entries=entries))


def _mode(entries: Sequence[Entry]) -> AcidMode:
    """Insert-only where no file may hold row events and none lies outside bases and deltas."""
    for entry in entries:
        first, _, rest = entry.path.partition("/")
        name = entry.path.rpartition("/")[2]
        if entry.is_directory or is_hidden(name) or is_marker(name):
            continue
        if not rest or not looks_acid(first) or name.startswith(BUCKET_PREFIX):
            return AcidMode.FULL
    return AcidMode.INSERT_ONLY


def _table_columns(fs: FileSystem, parts: Sequence[_Part]) -> tuple[Column, ...]:
    """The columns of the newest file of the partition that has most of them."""
    best: tuple[bool, int, int] = (False, -1, -1)
    found: tuple[Column, ...] = ()
    for part in parts:
        for write_id, files in _newest_first(part.directory):
            file = next((file for file in files if file.size_bytes or file.logical_bytes), None)
            if file is None:
                continue
            path = f"{part.partition.path}/{file.path}"
            with BucketFileReader(fs, path, logical_bytes=file.logical_bytes) as reader:
                if not reader.fields:
                    continue
                rank = (not reader.has_positional_names, len(reader.fields), write_id)
                if rank > best:
                    best = rank
                    found = tuple(Column(name.lower(), kind) for name, kind in reader.fields)
            break
    return found


def _newest_first(directory: AcidDirectory) -> list[tuple[int, tuple[DataFile, ...]]]:
    places: list[tuple[int, tuple[DataFile, ...]]] = [(0, directory.originals)]
    if directory.base is not None:
        places.append((directory.base.name.write_id, directory.base.files))
    places += [(delta.name.max_write_id, delta.files) for delta in directory.insert_deltas]
    return sorted(places, key=lambda place: -place[0])


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name.lower() not in schema.names:
        raise NotFoundError(f"no column {name!r}; there are {', '.join(schema.names)}", column=name)
    return schema.field(name.lower())


def _mentions(expression: pc.Expression | None, name: str) -> bool:
    """Whether an expression may refer to a column: its text holds the name, or a place instead."""
    if expression is None:
        return False
    text = str(expression)
    return name in text or "FieldPath" in text


def _finished(
    batch: pa.RecordBatch,
    constants: Mapping[str, str | None],
    filter: pc.Expression | None,
    output: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The batch with partition columns, filtered, in the order asked for."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, value in constants.items():
        arrays[name] = pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)
    if not arrays:
        yield batch
        return
    table = pa.table(arrays)
    if filter is not None:
        table = table.filter(filter)
    if not output.names:
        yield record_batch((), output, table.num_rows)
        return
    yield from table.select(output.names).cast(output).to_batches()
