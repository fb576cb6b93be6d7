"""The one Arrow reader of a table: the live rows of a partition, with its partition columns.

Run by the driver (reading without Spark, few rows, Arrow statements) and by Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hiveacid.layout.snapshot import AcidDirectory, DataFile
from hiveacid.model.properties import RowFormat, row_format
from hiveacid.model.tables import AcidMode, Column, FileFormat, Partition, Table
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import noticing_cleaning
from hiveacid.storage.merge.merge_read import ROW_ID_NAME, merge_read, record_batch
from hiveacid.storage.plain.readers import open_plain_reader
from hiveacid.storage.plan.arrow_conditions import partition_arrays
from hiveacid.storage.plan.scan_plan import Selection


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads partitions of a table: the ``columns`` named, in the table's order, partition columns
    last; then ``row__id`` where ``row_ids`` is set. ``unit`` is that of timestamps.

    ``key_texts`` gives partition columns as the texts of directory names (NULL is the default
    partition) instead of values. ``any_format`` lets each file of a table without row ids tell its
    format. ``threads`` read stripes of row events side by side.
    """

    files: Files
    table: Table
    columns: frozenset[str]
    valid: ValidWriteIdList
    row_ids: bool = False
    unit: str = MICROSECONDS
    key_texts: bool = False
    any_format: bool = False
    threads: int = 1

    @property
    def data(self) -> tuple[Column, ...]:
        """The data columns read."""
        return tuple(c for c in self.table.columns if c.name in self.columns)

    @property
    def keys(self) -> tuple[Column, ...]:
        """The partition columns read."""
        return tuple(c for c in self.table.partition_columns if c.name in self.columns)

    def rows(
        self, partition: Partition, directory: AcidDirectory, selection: Selection | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; ``selection`` leaves out some that nobody wants.

        Raises:
            FormatError, MissingFileError, SnapshotExpiredError, StorageError, UnsupportedError: as
            ``merge_read`` and ``plain_read``.
        """
        if self.table.acid_mode is not AcidMode.FULL and not self.row_ids:
            yield from self._plain_rows(partition, directory, selection)
            return
        fs, path = self.files.at(partition.location)
        batches = merge_read(
            fs,
            path,
            directory,
            table_columns=self.table.columns,
            columns=[column.name for column in self.data],
            valid=self.valid,
            row_ids=self.row_ids,
            selection=selection,
            unit=self.unit,
            threads=self.threads,
        )
        yield from self._with_keys(partition, batches)

    def _plain_rows(
        self, partition: Partition, directory: AcidDirectory, selection: Selection | None
    ) -> Iterator[pa.RecordBatch]:
        files: Iterable[DataFile] = directory.row_files
        if selection is not None:
            files = (file for file in files if file.path in selection.files)
        fs, path = self.files.at(partition.location)
        batches = plain_read(
            fs,
            path,
            files,
            table_columns=self.table.columns,
            columns=[column.name for column in self.data],
            format=None if self.any_format else self.table.format,
            row_format=row_format(self.table.properties),
        )
        yield from self._with_keys(partition, batches)

    def _with_keys(
        self, partition: Partition, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        width, names = len(self.data), [column.name for column in (*self.data, *self.keys)]
        if self.row_ids:
            names.append(ROW_ID_NAME)
        constants = self.constants(partition)
        for batch in batches:
            if not constants:
                yield batch
                continue
            keys = [pa.repeat(value, batch.num_rows) for value in constants]
            arrays = [*batch.columns[:width], *keys, *batch.columns[width:]]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def constants(self, partition: Partition) -> list[pa.Scalar]:
        """What the partition columns are in all rows of a partition."""
        wanted = set(self.keys)
        columns = self.table.partition_columns
        if self.key_texts:
            found = [pa.scalar(text, pa.string()) for text in partition.values]
        else:
            found = [array[0] for array in partition_arrays([partition], columns)]
        return [value for value, column in zip(found, columns, strict=True) if column in wanted]


# -------------------------------------------------------------------- files without row events
# Read a partition directory of a table without row ids: the rows of all its files, in order.
#
# What ``merge_read`` is for tables with row events. Every file of the chosen base and deltas
# counts,
# whatever its name, and so do those outside them in a table without transactions.


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
