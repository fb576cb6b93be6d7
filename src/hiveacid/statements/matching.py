"""Rows that have the same values in some columns as one of the rows given, without Spark.

Keys whose types allow it become numbers, sorted once: each batch of the table is looked up in them.
Arrow's join, which other types need, builds a hash table of all keys for each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError

Places = npt.NDArray[np.int64]
_TARGET, _SOURCE = "__hiveacid_t", "__hiveacid_s"
_NUMBERS: Final = (pa.types.is_integer, pa.types.is_date32)
_LISTED: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)


class Keys:
    """The rows of ``keys`` by the values of all columns ``on``; NULL equals nothing."""

    def __init__(self, keys: pa.Table, on: Sequence[str]) -> None:
        self._keys, self._on = keys, list(on)
        kinds = [keys.schema.field(name).type for name in self._on]
        self._index: _Index | None = None
        if kinds and all(any(test(kind) for test in (*_NUMBERS, *_LISTED)) for kind in kinds):
            self._index = _Index(keys.select(self._on))

    def matches(self, rows: pa.Table) -> tuple[Places, Places]:
        """Places in ``rows`` and in the keys of all pairs that are equal.

        Raises:
            InvalidInputError: columns that Arrow cannot join by.
        """
        if self._index is not None and rows.select(self._on).schema.types == self._index.types:
            return self._index.matches(rows.select(self._on))
        return self._joined(rows)

    def _joined(self, rows: pa.Table) -> tuple[Places, Places]:
        left, right = (_without_sign_of_zero(one.select(self._on)) for one in (rows, self._keys))
        left = left.append_column(_TARGET, pa.array(np.arange(rows.num_rows)))
        right = right.append_column(_SOURCE, pa.array(np.arange(right.num_rows)))
        try:
            pairs = left.join(right, keys=self._on, join_type="inner").select([_TARGET, _SOURCE])
        except pa.ArrowException as error:
            names = ", ".join(self._on)
            raise InvalidInputError(f"rows cannot be matched by {names}: {error}") from error
        return pairs.column(_TARGET).to_numpy(), pairs.column(_SOURCE).to_numpy()


def _without_sign_of_zero(rows: pa.Table) -> pa.Table:
    """-0.0 is 0.0, as for Spark; Arrow's join tells them apart."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, pc.add(rows.column(place), 0.0).cast(field.type))
    return rows


class _Index:
    """Each combination of values that occurs has a code; rows of keys are sorted by it."""

    def __init__(self, keys: pa.Table) -> None:
        self.types = keys.schema.types
        self._columns = [_Column.of(column) for column in keys.columns]
        places = _without_null(keys)
        codes = np.zeros(len(places), dtype=np.int64)
        self._steps: list[Places] = []
        for column, values in zip(self._columns, keys.columns, strict=True):
            codes = codes * column.count + column.codes(values)[places]
            # dense after each column, so that they stay small
            known = _distinct(codes)
            self._steps.append(known)
            codes = np.searchsorted(known, codes)
        order = np.argsort(codes, kind="stable")
        self._places = places[order]
        self._first = np.searchsorted(codes[order], np.arange(_size(self._steps) + 1))

    def matches(self, rows: pa.Table) -> tuple[Places, Places]:
        """As ``Keys.matches``."""
        at = _without_null(rows)
        codes = np.zeros(len(at), dtype=np.int64)
        for column, known, values in zip(self._columns, self._steps, rows.columns, strict=True):
            found = column.codes(values)[at]
            at, codes, found = at[found >= 0], codes[found >= 0], found[found >= 0]
            codes = _places_of(codes * column.count + found, known)
            at, codes = at[codes >= 0], codes[codes >= 0]
        first, counts = self._first[codes], self._first[codes + 1] - self._first[codes]
        if (counts == 1).all():
            return at, self._places[first]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(at, counts), self._places[np.repeat(first, counts) + within]


@dataclass(frozen=True, slots=True)
class _Column:
    """The distinct values of a column: numbers, sorted, or a list that Arrow looks up."""

    numbers: Places | None
    listed: pa.Array | None
    count: int

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> _Column:
        if any(test(values.type) for test in _NUMBERS):
            numbers = _distinct(_numbers(values.drop_null()))
            return cls(numbers, None, len(numbers))
        listed = values.drop_null().unique()
        return cls(None, listed, len(listed))

    def codes(self, values: pa.ChunkedArray) -> Places:
        """The number of each value, -1 where it does not occur; of NULL any."""
        if self.numbers is not None:
            return _places_of(_numbers(values), self.numbers)
        found = pc.fill_null(pc.index_in(values, value_set=self.listed), -1)
        codes: Places = found.to_numpy().astype(np.int64)
        return codes


def _numbers(values: pa.ChunkedArray) -> Places:
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    numbers: Places = pc.fill_null(whole.cast(pa.int64()), 0).to_numpy()
    return numbers


def _without_null(rows: pa.Table) -> Places:
    there = np.ones(rows.num_rows, dtype=np.bool_)
    for column in rows.columns:
        if column.null_count:
            there &= column.is_valid().to_numpy()
    return np.flatnonzero(there)


def _distinct(values: Places) -> Places:
    """Sorted; ``numpy.unique`` hashes integers, which takes longer."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _places_of(values: Places, known: Places) -> Places:
    """Where each value is in ``known``, which is sorted; -1 where it is not."""
    if not len(known):
        return np.full(len(values), -1, dtype=np.int64)
    near = np.searchsorted(known, values)
    near[near == len(known)] = 0
    return np.where(known[near] == values, near, -1)


def _size(steps: Sequence[Places]) -> int:
    return len(steps[-1]) if steps else 0
