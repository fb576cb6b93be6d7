"""What the command line reads: ``export``, a stream of rows into one file (Parquet, Arrow IPC or
CSV), and ``dump``, the row events of one file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from hiveacid.errors import InvalidInputError, StorageError
from hiveacid.layout.events import SYSTEM_FIELDS
from hiveacid.model.tables import Column
from hiveacid.storage.arrow_types import readable
from hiveacid.storage.filesystem import Files
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
        if fs.exists(name):
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


# -------------------------------------------------------------------- values for JSON
# Arrow values as values that ``json.dumps`` takes.


def json_values(array: pa.Array) -> list[Any]:
    """One value per element: numbers and text as they are, structs and maps as dicts, the rest as
    text.

    Decimals, dates and timestamps are text (nanoseconds kept), binary is hexadecimal text, and the
    floats that JSON lacks are ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [json_values(child) for child in array.flatten()]
        rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        whole = rows or [{} for _ in range(len(array))]
        valid = array.is_valid().to_pylist()
        return [row if is_valid else None for row, is_valid in zip(whole, valid, strict=True)]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return [None if not one.is_valid else _collection(one) for one in array]
    return _leaves(array)


def _collection(one: pa.Scalar) -> Any:
    values = one.values
    if not pa.types.is_map(one.type):
        return json_values(values)
    keys, items = json_values(values.field(0)), json_values(values.field(1))
    return {
        key if isinstance(key, str) else str(key): item
        for key, item in zip(keys, items, strict=True)
    }


def _leaves(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    if pa.types.is_temporal(kind):
        return list(array.cast(pa.string()).to_pylist())
    if pa.types.is_float32(kind):
        array = array.cast(pa.string()).cast(pa.float64())  # the shortest text that means the same
    values = list(array.to_pylist())
    if pa.types.is_floating(kind):
        return [_json_float(value) for value in values]
    return values


def _json_float(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
