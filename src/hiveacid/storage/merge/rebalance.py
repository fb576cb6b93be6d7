"""Rebalance a partition: its rows in as many files as wanted, of as many rows each, with new ids.

    all identities, sorted  ->  N ranges of as many each  ->  a file for each range

Row ids count over the whole partition, the write id stays (format.md 10.3); so an identity is used
once although bucket numbers change. Sorted by columns, all rows are in memory and get the greatest
write id, so that files stay sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.layout.compaction import Rebalance
from hiveacid.layout.events import Operation
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import Column
from hiveacid.storage.merge.bucket_rewrite import RewriterBasis
from hiveacid.storage.merge.event_merge import Events, What, joined, live_rows
from hiveacid.storage.merge.sources import Key
from hiveacid.storage.target import WrittenFile

_PIECE_ROWS: Final = 1 << 17
_SORT_ITEM: Final = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))"
    r"(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of one new file: those with identities from ``low`` up to ``high`` (excluded; None
    for no end). ``first_row`` is the first one's new row id.
    """

    bucket: int
    first_row: int
    low: Key
    high: Key | None


class Rebalancer(RewriterBasis):
    """Writes the files of one rebalance, each by itself."""

    @property
    def _compaction(self) -> Rebalance:
        assert isinstance(self._plan.compaction, Rebalance)
        return self._plan.compaction

    @property
    def _buckets(self) -> tuple[int, ...]:
        return tuple(sorted({file.bucket for file in self._plan.directory.row_files}))

    def works(self) -> tuple[RowRange, ...]:
        """The ranges to write; needs 20 bytes for each row of the partition.

        Raises:
            FormatError, MissingFileError, StorageError: a file cannot be read.
        """
        keys = self._identities()
        total = len(keys[0])
        size = -(-total // self._compaction.buckets)
        order = np.lexsort(tuple(reversed(keys)))
        starts = range(0, total, size) if total else ()
        lows: list[Key] = []
        for start in starts:
            write_id, bucket, row_id = (int(key[order[start]]) for key in keys)
            lows.append((write_id, bucket, row_id))
        ends = [*lows[1:], None]
        return tuple(
            RowRange(bucket, bucket * size, low, high)
            for bucket, (low, high) in enumerate(zip(lows, ends, strict=False))
        )

    def rewrite(self, work: object) -> tuple[WrittenFile, ...]:
        """Stage the file of one of ``works``.

        Raises:
            FormatError, MissingFileError, StorageError, UnsupportedError: as ``BucketRewriter``.
        """
        assert isinstance(work, RowRange)
        events = partial(self._renumbered, work)
        file = self._written(self._compaction.output, work.bucket, events)
        return () if file is None else (file,)

    def rewrite_sorted(self, order_by: str) -> tuple[WrittenFile, ...]:
        """Stage all files, sorted by columns; all rows are in memory.

        Raises:
            InvalidInputError: an unknown column.
            UnsupportedError: a sort item that is not a column.
            FormatError, MissingFileError, StorageError: as ``rewrite``.
        """
        columns = self._plan.table.columns
        items = _sort_items(order_by, columns)
        parts = [part for part in live_rows(self._sources, self._what(columns)) if len(part)]
        if not parts:
            return ()
        rows = joined(parts)
        del parts
        rows = rows.take(_order(rows, items))
        size = -(-len(rows) // self._compaction.buckets)
        write_id = int(rows.system[1].max())
        files = []
        for bucket, start in enumerate(range(0, len(rows), size)):
            part = rows.slice(start, start + size)
            pieces = partial(_pieces, part, bucket, first_row=start, write_id=write_id)
            files.append(self._written(self._compaction.output, bucket, pieces))
        return tuple(file for file in files if file is not None)

    def _what(
        self, columns: tuple[Column, ...], low: Key | None = None, high: Key | None = None
    ) -> What:
        return What(self._buckets, columns, self._plan.valid, self._unit, low, high)

    def _identities(self) -> tuple[npt.NDArray[Any], ...]:
        found: list[tuple[npt.NDArray[Any], ...]] = [
            events.system[1:4] for events in live_rows(self._sources, self._what(()))
        ]
        if not found:
            return tuple(np.zeros(0, dtype=np.int64) for _ in range(3))
        return tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))

    def _renumbered(self, work: RowRange) -> Iterator[Events]:
        what = self._what(self._plan.table.columns, work.low, work.high)
        row = work.first_row
        for events in live_rows(self._sources, what):
            yield _with_ids(events, work.bucket, row, events.system[1])
            row += len(events)
            del events


def _pieces(rows: Events, bucket: int, *, first_row: int, write_id: int) -> Iterator[Events]:
    for start in range(0, len(rows), _PIECE_ROWS):
        part = rows.slice(start, min(start + _PIECE_ROWS, len(rows)))
        write_ids = np.full(len(part), write_id, dtype=np.int64)
        yield _with_ids(part, bucket, first_row + start, write_ids)


def _with_ids(events: Events, bucket: int, first_row: int, write_ids: npt.NDArray[Any]) -> Events:
    count = len(events)
    system = (
        np.full(count, Operation.INSERT, dtype=np.int32),
        write_ids,
        np.full(count, encode_bucket(bucket), dtype=np.int32),
        np.arange(first_row, first_row + count, dtype=np.int64),
        write_ids,
    )
    return Events(system, events.statement, events.columns, None)


@dataclass(frozen=True, slots=True)
class _SortItem:
    column: int
    descending: bool
    nulls_first: bool


def _sort_items(text: str, columns: Sequence[Column]) -> tuple[_SortItem, ...]:
    """Columns with order and null order; Hive puts nulls last ascending, first descending."""
    names = [column.name for column in columns]
    items = []
    for part in text.split(","):
        found = _SORT_ITEM.fullmatch(part)
        if found is None:
            raise UnsupportedError(
                f"a rebalance is ordered by columns only, not by {part.strip()!r}", order_by=text
            )
        name = (found["quoted"] or found["name"]).replace("``", "`").lower()
        if name not in names:
            raise InvalidInputError(f"there is no column {name} to order by", order_by=text)
        descending = (found["order"] or "asc").lower() == "desc"
        nulls = found["nulls"].lower() == "first" if found["nulls"] else descending
        items.append(_SortItem(names.index(name), descending, nulls))
    return tuple(items)


def _order(rows: Events, items: Sequence[_SortItem]) -> npt.NDArray[np.int64]:
    """Places in order; equal ones stay in the order of their old ids."""
    arrays: list[pa.Array] = []
    keys: list[tuple[str, str]] = []
    for item in items:
        column = rows.columns[item.column]
        for array, descending in (
            (column.is_null().cast(pa.int8()), item.nulls_first),
            (column, item.descending),
        ):
            keys.append((str(len(arrays)), "descending" if descending else "ascending"))
            arrays.append(array)
    keys.append((str(len(arrays)), "ascending"))
    arrays.append(pa.array(np.arange(len(rows))))
    table = pa.table(arrays, names=[name for name, _ in keys])
    try:
        places: npt.NDArray[np.int64] = pc.sort_indices(table, sort_keys=keys).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise UnsupportedError(f"a rebalance cannot be ordered so: {error}") from error
    return places.astype(np.int64)
