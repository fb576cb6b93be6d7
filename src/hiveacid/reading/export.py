"""What the command line reads: ``export``, a stream of rows into one file (Parquet, Arrow IPC or
CSV), and ``dump``, the row events of one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from hiveacid.errors import InvalidInputError, StorageError
from hiveacid.layout.events import SYSTEM_FIELDS
from hiveacid.model.tables import Column
from hiveacid.storage.arrow_types import readable
from hiveacid.storage.filesystem import Files
from hiveacid.storage.json_values import json_values
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch

_WRITERS: Final[Mapping[str, Callable[[Any, pa.Schema], Any]]] = {
    "parquet": parquet.ParquetWriter,
    "arrow": pa.ipc.new_file,
    "csv": csv.CSVWriter,
}


def export(rows: pa.RecordBatchReader, path: str) -> int:
    """Write the rows to a file whose name ends in ``.parquet``, ``.arrow`` or ``.csv``; returns
    their number.

    A file that is there is replaced; where reading fails the new one is removed.

    Raises:
        InvalidInputError: another ending, or a type that the format does not have.
        StorageError: writing failed.
        AcidError: reading failed.
    """
    open_writer = _WRITERS.get(path.rpartition(".")[2].lower())
    if open_writer is None:
        raise InvalidInputError(
            f"{path} ends in none of {', '.join('.' + name for name in _WRITERS)}", path=path
        )
    fs, name = Files().at(path)
    count = 0
    try:
        with fs.open_output(name) as sink, open_writer(sink, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
                count += batch.num_rows
    except BaseException as error:
        fs.delete_file(name)
        if isinstance(error, pa.ArrowInvalid | pa.ArrowNotImplementedError | pa.ArrowTypeError):
            raise InvalidInputError(f"{path}: {error}", path=path) from error
        if isinstance(error, OSError):
            raise StorageError(f"{path} cannot be written: {error}", path=path) from error
        raise
    return count


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
    fs, name = Files().at(path)
    with BucketFileReader(fs, name, logical_bytes=logical_bytes) as reader:
        file_columns = [Column(field, kind) for field, kind in reader.fields]
        for batch in reader.batches(
            table_columns=file_columns, wanted=range(len(file_columns)), identities=reader.is_acid
        ):
            yield from _events(batch, file_columns)


def _events(batch: EventBatch, file_columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    values = [json_values(readable(array)) for array in batch.columns]
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
