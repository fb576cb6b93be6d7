"""Read a partition directory of a table without row ids: the rows of all its files, in order.

What ``merge_read`` is for tables with row events. Every file of the chosen base and deltas counts,
whatever its name, and so do those outside them in a table without transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from hiveacid.layout.snapshot import DataFile
from hiveacid.model.row_format import RowFormat
from hiveacid.model.tables import Column, FileFormat
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.expiry import noticing_cleaning
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.merge_read import record_batch
from hiveacid.storage.plain.readers import open_plain_reader


def plain_read(
    fs: FileSystem,
    location: str,
    files: Iterable[DataFile],
    *,
    table_columns: Sequence[Column],
    columns: Sequence[str] | None = None,
    format: FileFormat | None,
    row_format: RowFormat,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``files``, whose paths are below ``location``; those of 0 bytes have none.

    ``columns`` selects by name, in the order given; None is all. Without a ``format`` each file's
    first bytes tell.

    Raises:
        FormatError: a damaged file, one of another format, or a type that cannot be read as the
        table's.
        MissingFileError: a file is not there.
        SnapshotExpiredError: it was cleaned.
        StorageError: reading failed.
    """
    names = [column.name for column in table_columns]
    wanted = [names.index(name) for name in (names if columns is None else columns)]
    schema = pa.schema([(names[i], arrow_type(table_columns[i].type)) for i in wanted])
    for file in files:
        if not file.size_bytes:
            continue
        path = f"{location.rstrip('/')}/{file.path}"
        with (
            noticing_cleaning(fs),
            open_plain_reader(fs, path, format=format, row_format=row_format) as reader,
        ):
            for batch in reader.batches(
                table_columns=table_columns, wanted=wanted, identities=False
            ):
                arrays = [
                    array.cast(field.type) if array.type != field.type else array
                    for array, field in zip(batch.columns, schema, strict=True)
                ]
                if batch.rows:
                    yield record_batch(arrays, schema, batch.rows)
