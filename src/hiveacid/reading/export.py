"""A stream of rows into one file: Parquet, Arrow IPC or CSV, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from hiveacid.errors import InvalidInputError, StorageError
from hiveacid.storage.filesystem import Files

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
