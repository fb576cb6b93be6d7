"""Write one bucket file from Arrow batches: system columns, Hive's metadata, Hive's settings.

User columns are not copied (but chars, to pad them, and decimals, to drop their zeros); the
six-column event (format.md 4.1) is put around them. The key index is exact: for each stripe the
identity of its last row. Rows have consecutive row ids, so it follows from the stripes in the
footer; for events the identities are remembered where a stripe may end: the ORC writer looks
whether it is full once in so many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.errors import InternalError, InvalidInputError, UnsupportedError
from hiveacid.layout.events import (
    EVENT_FIELDS,
    FIRST_USER_COLUMN_ID,
    KEY_INDEX_KEY,
    STATS_KEY,
    AcidStats,
    Operation,
    file_metadata,
    format_key_index,
)
from hiveacid.model.ids import RowId
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    HiveType,
    ListType,
    MapType,
    StructType,
    UnionType,
)
from hiveacid.storage.arrow_types import arrow_type, conform, struct_of
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.decimal_digits import fits, least_schema
from hiveacid.storage.orc.early_times import holds_postponed, postponed
from hiveacid.storage.orc.output import Destination, OrcOutput, writer_settings
from hiveacid.storage.orc.streams import FRACTION, MICROS, is_with_fraction
from hiveacid.storage.orc.tail import OrcTail
from hiveacid.storage.target import FileKind

_EVENT_BATCH_ROWS: Final = 8192
_ROW_BATCH_ROWS: Final = 1024
_TELLING_ROWS: Final = 100
_READ_AT_ONCE: Final = 1 << 30
"""Bytes of a stripe's rows in memory. Texts of a dictionary take few in the file, so that a stripe
may hold more than the 2 GiB that a column of Arrow's can have, and Arrow reads stripes whole.
"""
_FIRST_PLAIN_COLUMN_ID: Final = 1


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A finished file."""

    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FinishedStripes:
    """Stripes of a file that has no tail yet: ``tail`` is what would be one, were they alone in the
    file; ``last_rows`` has one identity a stripe.
    """

    tail: OrcTail
    last_rows: tuple[RowId, ...]
    hive_types: Mapping[int, HiveType]


class BucketFileWriter(AbstractContextManager["BucketFileWriter"]):
    """Writes one file. Nothing is created before the first row: no rows, no file.

    As a context manager it closes on success and aborts on an exception. One kind of ``write_``
    method is used per file: ``write_rows`` for INSERT, BASE and PLAIN, ``write_deletes`` for
    DELETE, ``write_events`` for events whose identities exist already (compaction).
    """

    def __init__(
        self,
        fs: Destination,
        path: str,
        *,
        columns: Sequence[Column],
        kind: FileKind,
        write_id: int = 0,
        bucket_property: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; opens no file.

        ``columns`` are the table's without partition columns. ``write_id`` goes into
        originalTransaction and currentTransaction of rows, and into currentTransaction of deletes.
        ``properties`` are the table's.

        Raises:
            InvalidInputError: a property of the table is not valid (UnsupportedError: LZO, BROTLI;
            a type).
        """
        self._path = path
        self._columns = tuple(columns)
        self._kind = kind
        self._write_id = write_id
        self._bucket_property = bucket_property
        self._names = [column.name for column in self._columns]
        self._row_type = _absent_row(self._columns)
        self._has_times = any("timestamp" in str(c.type) for c in self._columns)
        self._batch_rows = _EVENT_BATCH_ROWS if kind is FileKind.DELETE else _ROW_BATCH_ROWS
        self._output = OrcOutput(
            fs,
            path,
            settings=writer_settings(kind, properties=properties or {}),
            batch_rows=self._batch_rows,
        )
        first = _FIRST_PLAIN_COLUMN_ID if kind is FileKind.PLAIN else FIRST_USER_COLUMN_ID
        self._numbers, self._hive_types = _numbered(self._columns, first=first)
        self._fractions: dict[int, list[npt.NDArray[np.int16]]] = {}
        self._next_fractions: dict[int, npt.NDArray[np.int16]] = {}
        self._has_fractions = False
        self._schema: pa.Schema | None = None
        self._least_schema: pa.Schema | None = None
        self._part_bytes = 0
        self._rows = 0
        self._operations = np.zeros(3, dtype=np.int64)
        self._ends: list[tuple[npt.NDArray[np.int64], ...]] = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows: ``batch`` has the table's columns in order; names are not compared.

        Raises:
            ConversionError: a value does not fit its column.
            InvalidInputError: another number of columns.
            StorageError: writing failed.
        """
        assert self._kind is not FileKind.DELETE and not self._ends
        count = batch.num_rows
        user = self._conformed(batch.columns)
        if count == 0:
            return
        if self._kind is FileKind.PLAIN:
            self._write(pa.Table.from_arrays(user, names=self._names))
        else:
            first = self._rows
            write_id = _constant(self._write_id, pa.int64(), count)
            self._write(
                _event_table(
                    _constant(Operation.INSERT, pa.int32(), count),
                    write_id,
                    _constant(self._bucket_property, pa.int32(), count),
                    pa.array(np.arange(first, first + count, dtype=np.int64)),
                    write_id,
                    self._row_struct(user, count, mask=None),
                )
            )
        self._operations[Operation.INSERT] += count
        self._rows += count

    def write_deletes(
        self, original_write_id: pa.Array, bucket: pa.Array, row_id: pa.Array
    ) -> None:
        """Append delete events, sorted by (write id, bucket property, row id) already (format.md
        4.5).

        The arrays are int64, int32 (bucket properties, one decoded bucket per file) and int64,
        without nulls.

        Raises:
            StorageError: writing failed.
        """
        assert self._kind is FileKind.DELETE
        count = len(row_id)
        if count == 0:
            return
        self._write_keyed(
            _event_table(
                _constant(Operation.DELETE, pa.int32(), count),
                original_write_id,
                bucket,
                row_id,
                _constant(self._write_id, pa.int64(), count),
                pa.nulls(count, self._row_type),
            )
        )
        self._operations[Operation.DELETE] += count

    def write_events(self, batch: pa.RecordBatch) -> None:
        """Append events as they are: the six columns of format.md 4.1 in order, sorted as 4.5 says.

        Raises:
            ConversionError: a value does not fit its column.
            StorageError: writing failed.
        """
        assert self._kind is not FileKind.PLAIN
        if batch.num_rows == 0:
            return
        self._write_keyed(_event_table(*batch.columns[:5], self._event_rows(batch.column(5))))
        operation = batch.column(0).to_numpy(zero_copy_only=False)
        self._operations += np.bincount(operation, minlength=3)

    def close(self) -> BucketFile | None:
        """Finish the file; None (and no file) where nothing was written.

        Raises:
            StorageError: writing failed; the file is removed.
        """
        if not self._output.is_open:
            return None
        plain = self._kind is FileKind.PLAIN
        tail, size = self._output.close(
            user_metadata=(lambda _: {}) if plain else self._metadata,
            hive_types=self._hive_types,
            fractions=self._all_fractions(),
        )
        if tail.rows != self._rows:
            raise InternalError("rows written and rows in the footer differ", path=self._path)
        return BucketFile(path=self._path, rows=self._rows, size_bytes=size)

    def end_stripes(self) -> FinishedStripes | None:
        """Finish the rows without a tail, for a file that goes on; None where nothing was written.

        Raises:
            StorageError: writing failed.
        """
        if not self._output.is_open:
            return None
        tail = self._output.end_stripes(fractions=self._all_fractions())
        ends = np.array([stripe.first_row + stripe.rows for stripe in tail.stripes])
        return FinishedStripes(tail, tuple(self._rows_before(ends)), self._hive_types)

    def abort(self) -> None:
        """Give up and remove the file; does nothing after ``close``."""
        self._output.abort()

    def _all_fractions(self) -> dict[int, npt.NDArray[np.int16]]:
        return {number: np.concatenate(found) for number, found in self._fractions.items()}

    def _conformed(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        if len(arrays) != len(self._columns):
            raise InvalidInputError(
                f"{len(arrays)} columns given for {len(self._columns)}: {', '.join(self._names)}",
                path=self._path,
            )
        return [
            postponed(conform(self._whole_micros(array, number), column.type))
            for array, column, number in zip(arrays, self._columns, self._numbers, strict=True)
        ]

    def _whole_micros(self, array: pa.Array, number: int) -> pa.Array:
        """Timestamps without the nanoseconds beside them, which are kept for the end."""
        if not is_with_fraction(array.type):
            return array
        fraction = array.field(FRACTION).drop_null().to_numpy()
        self._next_fractions[number] = fraction
        self._has_fractions |= bool(fraction.any())
        return array.field(MICROS)

    def _event_rows(self, row: pa.StructArray) -> pa.Array:
        """The rows of some events, conformed; null where an event has none."""
        if row.null_count == len(row):
            return pa.nulls(len(row), self._row_type)
        if row.null_count and any(isinstance(c.type, UnionType) for c in self._columns):
            raise UnsupportedError(
                "events without rows among rows with unions cannot be written", path=self._path
            )
        mask = row.is_null() if row.null_count else None
        return self._row_struct(self._conformed(row.flatten()), len(row), mask=mask)

    def _row_struct(
        self, user: Sequence[pa.Array], count: int, *, mask: pa.Array | None
    ) -> pa.Array:
        if not user:
            return pa.array([{}] * count, type=self._row_type)
        return struct_of(user, self._names, mask=mask)

    def _write(self, table: pa.Table) -> None:
        """Write with the first batch's schema (timestamps of any unit are as good, but one per
        file).
        """
        if self._schema is None:
            self._schema = table.schema
        elif table.schema != self._schema:
            try:
                table = table.cast(self._schema)
            except pa.ArrowInvalid as error:
                raise UnsupportedError(
                    f"timestamps of several units in one file: {error}", path=self._path
                ) from error
        postponed = self._has_fractions or (
            self._has_times
            and any(holds_postponed(chunk) for column in table.columns for chunk in column.chunks)
        )
        table = self._with_least_digits(table)
        if self._part_bytes and self._part_bytes + table.nbytes > _READ_AT_ONCE:
            self._begin_again()
        self._part_bytes += table.nbytes
        self._output.write(table, postponed=postponed)
        for number, fraction in self._next_fractions.items():
            self._fractions.setdefault(number, []).append(fraction)
        self._next_fractions = {}

    def _with_least_digits(self, table: pa.Table) -> pa.Table:
        """Decimals as ``decimal_digits`` says, as long as they fit what the first batch needed;
        few rows tell little.
        """
        if self._least_schema is None:
            tells = len(table) >= _TELLING_ROWS
            self._least_schema = least_schema(table) if tells else table.schema
        elif not fits(table, self._least_schema):
            self._begin_again()
            self._least_schema = table.schema
        return table if table.schema == self._least_schema else table.cast(self._least_schema)

    def _begin_again(self) -> None:
        self._output.begin_again(fractions=self._all_fractions())
        self._fractions, self._part_bytes = {}, 0

    def _write_keyed(self, table: pa.Table) -> None:
        """Write events and remember the identities where a stripe may end."""
        self._write(table)
        ends = np.append(np.arange(self._batch_rows, len(table), self._batch_rows), len(table))
        keys = [table.column(i).take(pa.array(ends - 1)).to_numpy() for i in (1, 2, 3)]
        self._ends.append((ends + self._rows, *keys))
        self._rows += len(table)

    def _metadata(self, tail: OrcTail) -> Mapping[str, bytes]:
        ends = np.array([stripe.first_row + stripe.rows for stripe in tail.stripes])
        stats = AcidStats(*(int(count) for count in self._operations))
        return file_metadata(format_key_index(self._rows_before(ends)), stats)

    def _rows_before(self, ends: npt.NDArray[np.int64]) -> list[RowId]:
        """The identities of the last of the first ``ends`` rows."""
        if not self._ends:
            own = (self._write_id, self._bucket_property)
            return [RowId(*own, int(end) - 1) for end in ends]
        known, *keys = (np.concatenate(arrays) for arrays in zip(*self._ends, strict=True))
        places = np.searchsorted(known, ends)
        if (known[places] != ends).any():
            raise InternalError("a stripe ends inside a batch of events", path=self._path)
        return [RowId(*(int(key[place]) for key in keys)) for place in places]


def write_empty_file(
    fs: FileSystem, path: str, *, columns: Sequence[Column], properties: Mapping[str, str]
) -> BucketFile:
    """A file of row events with no events, as an overwrite without rows leaves in Hive 4.1, which
    fails on any other schema when it looks for rows to change; it has no version.

    Raises:
        StorageError: writing failed.
    """
    settings = writer_settings(FileKind.BASE, properties=properties)
    output = OrcOutput(fs, path, settings=settings)
    kinds = (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), _absent_row(columns))
    output.write(_event_table(*(pa.array([], kind) for kind in kinds)))
    _, size = output.close(
        user_metadata=lambda _: {KEY_INDEX_KEY: b"", STATS_KEY: b"0,0,0"},
        hive_types=_numbered(columns, first=FIRST_USER_COLUMN_ID)[1],
    )
    return BucketFile(path=path, rows=0, size_bytes=size)


def _constant(value: int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.array(np.full(count, value, kind.to_pandas_dtype()), kind)


def _event_table(*arrays: pa.Array) -> pa.Table:
    return pa.Table.from_arrays(list(arrays), names=list(EVENT_FIELDS))


def _numbered(columns: Sequence[Column], *, first: int) -> tuple[list[int], dict[int, HiveType]]:
    """ORC column numbers (preorder) of the columns; and the types by number, at any depth."""
    found: dict[int, HiveType] = {}
    numbers, number = [], first
    for column in columns:
        numbers.append(number)
        number = _number_types(column.type, number, found)
    return numbers, found


def _number_types(kind: HiveType, number: int, found: dict[int, HiveType]) -> int:
    found[number] = kind
    number += 1
    for child in kind.children:
        number = _number_types(child, number, found)
    return number


def _absent_row(columns: Iterable[Column]) -> pa.DataType:
    """The type of rows that are not there. Arrow has no null unions, so those are structs of as
    many ORC columns.
    """
    return pa.struct([(c.name, arrow_type(_without_unions(c.type))) for c in columns])


def _without_unions(kind: HiveType) -> HiveType:
    if isinstance(kind, ListType):
        return ListType(_without_unions(kind.element))
    if isinstance(kind, MapType):
        return MapType(_without_unions(kind.key), _without_unions(kind.value))
    if isinstance(kind, StructType):
        return StructType(tuple((name, _without_unions(child)) for name, child in kind.fields))
    if isinstance(kind, UnionType):
        _, *alternatives = kind.as_struct.fields  # ORC has no column of the tag
        return _without_unions(StructType(tuple(alternatives)))
    return kind
