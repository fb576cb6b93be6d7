"""Read the row events of one file as Arrow batches, one batch a stripe.

A file holds events (the six root columns of format.md 4.1, in any case) or is raw: user columns
only, whose identities follow from its name and place (format.md 6). Only the columns asked for are
read; identities only where somebody needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import orc

from hiveacid.errors import FormatError, UnsupportedError
from hiveacid.layout.directories import BUCKET_PREFIX, looks_acid
from hiveacid.layout.events import (
    ROW,
    STATS_KEY,
    SYSTEM_FIELDS,
    Operation,
    OriginalRows,
    is_event_schema,
    is_positional_row,
)
from hiveacid.model.tables import Column
from hiveacid.model.types import HiveType, StructType, is_text
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type
from hiveacid.storage.evolution import evolve_column, from_julian
from hiveacid.storage.orc.damage import check_columns, is_checkable
from hiveacid.storage.orc.statistics import RowRun, integer_range, only_inserts, run_of
from hiveacid.storage.orc.streams import (
    UTC_NAMES,
    StripeStreams,
    as_seconds,
    depends_on_zone,
    exact_times,
    timestamps_of,
)
from hiveacid.storage.orc.tail import OrcTail, read_tail_of
from hiveacid.storage.orc.texts_at import Dictionaries, texts_at
from hiveacid.storage.ranged import FileReader, Opener, Prefix


@dataclass(frozen=True, slots=True)
class Identities:
    """The system columns of some events: int32, int64, int32, int64, int64 arrays."""

    operation: pa.Array
    original_write_id: pa.Array
    bucket: pa.Array
    row_id: pa.Array
    current_write_id: pa.Array

    def numbers(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Original write ids, bucket properties and row ids, as numpy arrays."""
        arrays = (self.original_write_id, self.bucket, self.row_id)
        write_id, bucket, row_id = (array.to_numpy(zero_copy_only=False) for array in arrays)
        return write_id, bucket, row_id


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events of one file.

    ``first_row`` is the position in the file. ``columns`` holds one array per column asked for, of
    the table's type. ``identities`` is None where they were not asked for, or ``run`` tells them.
    ``row_is_null`` marks events without a row (deletes); None where every event has one, or no
    column was read.
    """

    first_row: int
    rows: int
    columns: tuple[pa.Array, ...]
    identities: Identities | None
    row_is_null: pa.Array | None
    run: RowRun | None = None

    @property
    def ids(self) -> Identities:
        """The identities, which were asked for."""
        assert self.identities is not None
        return self.identities

    def numbers_at(self, at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
        """Original write ids, bucket properties and row ids of the rows at some places."""
        if self.run is None:
            return tuple(numbers[at] for numbers in self.ids.numbers())
        run, rows = self.run, len(at)
        return np.full(rows, run.write_id), np.full(rows, run.bucket), at + run.first_row_id


class BucketFileReader(FileReader):
    """One file of row events.

    A file of 0 bytes (or of logical length 0) is one with no rows and no columns.
    """

    holds = "ORC data"

    def __init__(
        self,
        fs: Opener,
        path: str,
        *,
        logical_bytes: int | None = None,
        tail: OrcTail | None = None,
    ) -> None:
        """Open the file and read its tail; ``logical_bytes`` as in ``DataFile``. ``tail`` is given
        where it was read already.

        Raises:
            FormatError: not an ORC file, or a truncated one.
            MissingFileError: no such file.
            StorageError: reading failed.
        """
        super().__init__(fs, path)
        try:
            whole = self._source.size()
            self._size_bytes = size = whole if logical_bytes is None else logical_bytes
            self._limited = size != whole
            self.tail: OrcTail | None = (
                tail or read_tail_of(self._source, size_bytes=size, path=path) if size else None
            )
        except BaseException:
            self._source.close()
            raise
        root = self.tail.root if self.tail is not None else StructType(())
        self.is_acid = is_event_schema(name for name, _ in root.fields)
        self._root = {name.lower(): (i, name) for i, (name, _) in enumerate(root.fields)}
        row = root.fields[self._root[ROW][0]][1] if self.is_acid else root
        self.fields: tuple[tuple[str, HiveType], ...] = (
            row.fields if isinstance(row, StructType) else ()
        )
        """The user columns in the file, in order."""
        self._numbers = self._column_numbers()
        self._as_events: orc.ORCFile | None = None
        self._as_seconds: orc.ORCFile | None = None
        self._statistics: tuple[tuple[Any, ...], ...] | None = None
        self._dictionaries: Dictionaries = {}
        if not self.is_acid and self.rows and self._should_hold_events():
            self.close()
            raise FormatError(
                f"{path} should hold row events by its name and metadata, and does not",
                path=path,
                expected=", ".join((*SYSTEM_FIELDS, ROW)),
                found=", ".join(name for name, _ in root.fields),
            )

    @property
    def rows(self) -> int:
        """Rows or events in the file."""
        return self.tail.rows if self.tail is not None else 0

    @property
    def stripes(self) -> int:
        """How many stripes the file has."""
        return len(self.tail.stripes) if self.tail is not None else 0

    @property
    def has_positional_names(self) -> bool:
        """Whether the column names are ``_col0, _col1, ...`` of old Hive writers (format.md
        4.1).
        """
        return is_positional_row([name for name, _ in self.fields])

    def holds_only_inserts(self) -> bool:
        """As ``only_inserts``."""
        return self.tail is None or only_inserts(self.tail)

    def statistics_range(self, name: str) -> tuple[int, int] | None:
        """Least and greatest value of a system column in the file, None where the file does not
        say.

        ``name`` is one of ``layout.events.SYSTEM_FIELDS``.
        """
        if self.tail is None or not self.is_acid:
            return None
        return integer_range(self.tail, self.tail.types[0].children[self._root[name.lower()][0]])

    def batches(
        self,
        *,
        table_columns: Sequence[Column],
        wanted: Sequence[int],
        identities: bool,
        raw: OriginalRows | None = None,
        stripes: Sequence[int] | None = None,
        unit: str = MICROSECONDS,
        exact: bool = False,
    ) -> Iterator[EventBatch]:
        """The events, stripe by stripe.

        ``wanted`` are places in ``table_columns``; the file's columns are matched by position and
        those it lacks are null. ``identities`` asks for the five identity arrays; of a raw file
        they start at ``raw``. ``stripes`` selects stripes by number; ``unit`` is that of
        timestamps. ``exact`` gives timestamps of microseconds with their nanoseconds beside
        (``with_fraction``).

        Raises:
            FormatError: damaged data, or a type that cannot be read as the table's.
            UnsupportedError: a timestamp outside 1677..2262 inside a union; one inside
            another type that would be cut.
            StorageError: reading failed.
        """
        if self.tail is None or self.tail.rows == 0:
            return
        present = [i for i in wanted if i < len(self.fields)]
        prefix = f"{self._root[ROW][1]}." if self.is_acid else ""
        system = SYSTEM_FIELDS if identities and self.is_acid else ()
        names = [self._root[name.lower()][1] for name in system]
        names += [prefix + self.fields[i][0] for i in present]
        reader, whole = self._open_as_events() if names else None, len(present) == len(self.fields)
        for number in range(len(self.tail.stripes)) if stripes is None else stripes:
            stripe = self.tail.stripes[number]
            batch, streams = None, None
            if reader is not None:
                self._all_next(stripe.offset, stripe.size_bytes if whole else 0)
                batch, streams = self._read_times(reader, number, names, exact=exact)
            self._check_stripe(batch, number, names)
            yield EventBatch(
                first_row=stripe.first_row,
                rows=stripe.rows,
                columns=self._user_columns(
                    batch, table_columns, wanted, stripe.rows, streams, unit, exact
                ),
                identities=self._identities(batch, stripe.first_row, stripe.rows, raw)
                if identities
                else None,
                row_is_null=self._row_is_null(batch),
            )
            batch = None  # or two stripes would be in memory while the next is read

    def run_of(self, number: int) -> EventBatch | None:
        """A stripe without columns, row ids by its statistics; None where they do not tell."""
        if self.tail is None or not self.is_acid or not is_checkable(self.tail.footer):
            return None
        stripe, known = self.tail.stripes[number], self._statistics_of(number)
        if known is None:
            return None
        numbers, root = self.tail.types[0].children, self._root
        system = [known[numbers[root[name.lower()][0]]] for name in SYSTEM_FIELDS]
        run, place = run_of(system, stripe.rows), (stripe.first_row, stripe.rows)
        return None if run is None else EventBatch(*place, (), None, None, run)

    def columns_at(
        self,
        number: int,
        at: npt.NDArray[np.int64],
        *,
        table_columns: Sequence[Column],
        wanted: Sequence[int],
        unit: str,
        few: bool,
    ) -> list[pa.Array]:
        """The columns of a stripe's rows at some places; where there are ``few`` of them texts of
        dictionaries are not all decoded. Errors as ``batches``.
        """
        texts = self._texts_at(number, at, wanted) if few else {}
        others = [i for i in wanted if i not in texts]
        read = partial(self.batches, table_columns=table_columns, identities=False, unit=unit)
        (batch,) = read(wanted=others, stripes=(number,))
        taken = (column.take(pa.array(at)) for column in batch.columns)
        found = dict(zip(others, taken, strict=True))
        found |= {i: self._evolved(one, i, table_columns[i], unit) for i, one in texts.items()}
        return [found[i] for i in wanted]

    def _texts_at(
        self, number: int, at: npt.NDArray[np.int64], wanted: Sequence[int]
    ) -> dict[int, pa.Array]:
        assert self.tail is not None
        names = [i for i in wanted if i < len(self.fields) and is_text(self.fields[i][1])]
        if not names:
            return {}
        above = (0, self.tail.types[0].children[self._root[ROW][0]])
        try:
            streams = StripeStreams(self._source, self.tail, number)
            read = partial(texts_at, streams, above=above, last=self._dictionaries)
            rows = self.tail.stripes[number].rows
            found = {i: read(self._numbers[i], rows, at) for i in names}
        except FormatError as error:
            raise self._damaged(error) from error
        return {i: texts for i, texts in found.items() if texts is not None}

    def identities(self, raw: OriginalRows | None = None) -> Iterator[Identities]:
        """Those of all events, stripe by stripe; ``raw`` and errors as in ``batches``."""
        for batch in self.batches(table_columns=(), wanted=(), identities=True, raw=raw):
            yield batch.ids

    def _read_times(
        self, reader: orc.ORCFile, number: int, names: Sequence[str], *, exact: bool
    ) -> tuple[pa.RecordBatch, StripeStreams | None]:
        """One stripe; with its streams, and seconds for timestamps, where Arrow's reader refuses
        its timestamps or reads them otherwise than Hive.
        """
        assert self.tail is not None
        try:
            batch = self._read_stripe(reader, number, names)
            if not any(depends_on_zone(column) for column in batch.columns):
                return batch, None
        except _WideTimestampsError:
            batch = None
        streams = StripeStreams(self._source, self.tail, number, exact=exact)
        if batch is None or streams.writer_zone not in UTC_NAMES:
            batch = self._read_stripe(self._open_as_seconds(), number, names)
            return batch, streams
        return batch, None

    def _check_stripe(
        self, batch: pa.RecordBatch | None, number: int, names: Sequence[str]
    ) -> None:
        """The data are what the stripe's statistics say; else they are damaged."""
        if batch is None or self.tail is None or not is_checkable(self.tail.footer):
            return
        root = self.tail.types[0].children
        found = {
            root[i]: batch.column(name)
            for i, name in self._root.values()
            if name in names and name in batch.schema.names
        }
        if self.is_acid and self._root[ROW][1] in batch.schema.names:
            row = batch.column(self._root[ROW][1])
            places = {name: i for i, (name, _) in enumerate(self.fields)}
            for field, array in zip(row.type, row.flatten(), strict=True):
                found[self._numbers[places[field.name]]] = array
        kinds = [node.kind for node in self.tail.footer.types]
        known = self._statistics_of(number)
        try:
            if known is not None:
                check_columns(found, known, kinds)
        except FormatError as error:
            raise self._damaged(error) from error

    def _statistics_of(self, number: int) -> Sequence[Any] | None:
        """Those of a stripe's columns; None where the file does not have them."""
        assert self.tail is not None
        if self._statistics is None:
            try:
                self._statistics = self.tail.stripe_statistics()
            except FormatError as error:
                raise self._damaged(error) from error
        are_there = len(self._statistics) == len(self.tail.stripes)
        return self._statistics[number] if are_there else None

    def _should_hold_events(self) -> bool:
        """Raw rows have other names (``000000_0``) in bases and deltas, and no such metadata."""
        assert self.tail is not None
        directory, _, name = self.path.rpartition("/")
        in_acid = looks_acid(directory.rpartition("/")[2])
        return STATS_KEY in self.tail.user_metadata or (in_acid and name.startswith(BUCKET_PREFIX))

    def _column_numbers(self) -> tuple[int, ...]:
        """The ORC column number of each user column."""
        if self.tail is None:
            return ()
        root = self.tail.types[0]
        return (
            self.tail.types[root.children[self._root[ROW][0]]].children
            if self.is_acid
            else (root.children)
        )

    def _user_columns(
        self,
        batch: pa.RecordBatch | None,
        table_columns: Sequence[Column],
        wanted: Sequence[int],
        rows: int,
        streams: StripeStreams | None,
        unit: str,
        exact: bool,
    ) -> tuple[pa.Array, ...]:
        found: dict[str, pa.Array] = {}
        if batch is not None:
            if not self.is_acid:
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
            elif self._root[ROW][1] in batch.schema.names:
                row = batch.column(self._root[ROW][1])
                found = dict(zip((f.name for f in row.type), row.flatten(), strict=True))
        arrays: list[pa.Array] = []
        for i in wanted:
            if i >= len(self.fields):
                array = pa.nulls(rows, arrow_type(table_columns[i].type, unit=unit))
                if exact and unit == MICROSECONDS:
                    array = exact_times(array, array, -1, None)
                arrays.append(array)
                continue
            array = read = found[self.fields[i][0]]
            array = self._evolved(array, i, table_columns[i], unit, streams)
            if exact and unit == MICROSECONDS:
                array = exact_times(array, read, self._numbers[i], streams)
            arrays.append(array)
        return tuple(arrays)

    def _evolved(
        self,
        array: pa.Array,
        place: int,
        column: Column,
        unit: str,
        streams: StripeStreams | None = None,
    ) -> pa.Array:
        """A column as it was read, as the table's."""
        assert self.tail is not None
        try:
            if streams is not None:
                array = timestamps_of(array, self._numbers[place], self.tail, streams)
            if self.tail.has_julian_dates:
                array = from_julian(array)
            return evolve_column(array, self.fields[place][1], column.type, unit=unit)
        except FormatError as error:
            raise FormatError(
                f"{self.path}: column {column.name}: {error.message}",
                path=self.path,
                expected=error.context["expected"],
                found=error.context["found"],
            ) from error

    def _identities(
        self, batch: pa.RecordBatch | None, first: int, rows: int, raw: OriginalRows | None
    ) -> Identities:
        if self.is_acid:
            assert batch is not None
            arrays = [batch.column(self._root[name.lower()][1]) for name in SYSTEM_FIELDS]
        else:
            if raw is None or raw.bucket is None:
                raise FormatError(
                    f"{self.path} holds no row events, and its rows have no ids",
                    path=self.path,
                    expected="the six columns of row events, or a number in the name",
                    found=", ".join(name for name, _ in self.fields),
                )
            write_id = pa.repeat(pa.scalar(raw.write_id, pa.int64()), rows)
            arrays = [
                pa.repeat(pa.scalar(Operation.INSERT, pa.int32()), rows),
                write_id,
                pa.repeat(pa.scalar(raw.bucket, pa.int32()), rows),
                pa.array(raw.first_row_id + first + np.arange(rows, dtype=np.int64)),
                write_id,
            ]
        return Identities(*arrays)

    def _row_is_null(self, batch: pa.RecordBatch | None) -> pa.Array | None:
        if not self.is_acid or batch is None or self._root[ROW][1] not in batch.schema.names:
            return None
        row = batch.column(self._root[ROW][1])
        return row.is_null() if row.null_count else None

    def _open_as_events(self) -> orc.ORCFile:
        """The file, up to its logical length."""
        if self._as_events is None:
            source = self._source
            if self._limited:
                source = pa.PythonFile(Prefix(self._source, self._size_bytes), mode="r")
            self._as_events = self._opened(source)
        return self._as_events

    def _open_as_seconds(self) -> orc.ORCFile:
        """The file with its timestamps declared numbers."""
        if self._as_seconds is None:
            assert self.tail is not None
            length, end = self._size_bytes - self.tail.tail_bytes, as_seconds(self.tail)
            file = pa.PythonFile(Prefix(self._source, length, end=end), mode="r")
            self._as_seconds = self._opened(file)
        return self._as_seconds

    def _opened(self, source: pa.NativeFile) -> orc.ORCFile:
        try:
            return orc.ORCFile(source)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _read_stripe(
        self, reader: orc.ORCFile, number: int, names: Sequence[str]
    ) -> pa.RecordBatch:
        try:
            return reader.read_stripe(number, columns=list(names))
        except pa.ArrowCapacityError as error:
            raise UnsupportedError(
                f"{self.path}: stripe {number} has more than 2 GiB of texts in a column",
                path=self.path,
                note="Spark reads it: INSERT OVERWRITE writes the table in smaller stripes.",
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            if _TOO_WIDE in str(error):
                raise _WideTimestampsError from error
            raise self._damaged(error) from error


_TOO_WIDE: Final = "nanosecond resolution"
"""In the message of Arrow's ORC reader for timestamps outside 1677..2262."""


class _WideTimestampsError(Exception):
    """A stripe that Arrow's ORC reader refuses for its timestamps."""
