"""Rows that have the same values in some columns as one of the rows given, without Spark.

Keys whose types allow it become numbers, sorted once: each batch of the table is looked up in them.
Arrow's join, which other types need, builds a hash table of all keys for each batch.

And of several rows of one key the newest: by Spark, or of rows that the driver has. Both give the
same; a key with a NULL is equal to none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import CardinalityError, InvalidInputError
from hiveacid.spark.session import quoted
from hiveacid.statements.values import Newest
from hiveacid.storage.python_values import python_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        left, right = (_spelled_alike(one.select(self._on)) for one in (rows, self._keys))
        left = left.append_column(_TARGET, pa.array(np.arange(rows.num_rows)))
        right = right.append_column(_SOURCE, pa.array(np.arange(right.num_rows)))
        try:
            pairs = left.join(right, keys=self._on, join_type="inner").select([_TARGET, _SOURCE])
        except pa.ArrowException as error:
            names = ", ".join(self._on)
            raise InvalidInputError(f"rows cannot be matched by {names}: {error}") from error
        return pairs.column(_TARGET).to_numpy(), pairs.column(_SOURCE).to_numpy()


def _spelled_alike(rows: pa.Table) -> pa.Table:
    """-0.0 is 0.0, and a NaN is a NaN whatever its bits are, as for Spark; Arrow's join goes by the
    bits.
    """
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            column = rows.column(place)
            nan = pa.scalar(math.nan, field.type)
            same = pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, field.type)))
            rows = rows.set_column(place, field, same)
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
        count = len(self._steps[-1]) if self._steps else 0
        self._first = np.searchsorted(codes[order], np.arange(count + 1))

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


SEVERAL: Final = (
    "order_by does not say which of several rows of one key in a micro-batch is the newest"
)
_IS_NEWEST: Final = "__hiveacid_is_newest"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_PARTS: Final = 8
"""A micro-batch is small; in streaming queries Spark does not join partitions that are."""

Codes = npt.NDArray[np.int64]


def newest_frame(rows: DataFrame, newest: Newest) -> DataFrame:
    """One row of each key, without what is dropped. A tie fails in Spark, with ``SEVERAL`` as an
    ``InvalidInputError``.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [F.col(quoted(name)) for name in newest.keys]
    order = [F.col(quoted(name)).desc_nulls_last() for name in newest.order_by]
    within = Window.partitionBy(*keys).orderBy(*order or [F.lit(0)])
    text = F.concat(
        F.lit(f"hiveacid.errors.InvalidInputError: {SEVERAL}: "), F.to_json(F.struct(*keys))
    )
    is_tied = (F.rank().over(within) == 1) & (F.row_number().over(within) > 1)
    is_newest = (
        F.when(reduce(or_, (key.isNull() for key in keys)), True)
        .when(is_tied, F.raise_error(text).cast("boolean"))
        .otherwise(F.rank().over(within) == 1)
    )
    placed = rows.repartition(_parts(rows), *keys).withColumn(_IS_NEWEST, is_newest)
    return placed.where(_IS_NEWEST).drop(_IS_NEWEST, *newest.dropped)


def _parts(rows: DataFrame) -> int:
    """How many partitions rows are parted into by their keys: as many as Spark has cores."""
    context = getattr(rows.sparkSession, "_sc", None)
    cores = 0 if context is None else context.defaultParallelism
    return min(int(str(rows.sparkSession.conf.get(_PARTITIONS))), max(cores, _PARTS))


def newest_rows(rows: pa.Table, keys: Sequence[str], order_by: Sequence[str]) -> pa.Table:
    """One row of each key, in the order in which they come.

    Raises:
        CardinalityError: two rows of a key are equal in all of ``order_by``, and none is higher.
    """
    codes = [_ranks(rows.column(name.lower())) for name in keys]
    has_key = np.logical_and.reduce([column > 0 for column in codes])
    order = [_ranks(rows.column(name)) for name in order_by]
    places = np.lexsort([*reversed(order), *codes])
    places = places[has_key[places]]
    ends = np.ones(len(places), dtype=np.bool_)
    ends[:-1] = _differ(codes, places)
    tied = ends[1:] & ~ends[:-1] & ~_differ(order, places)
    if tied.any():
        row = rows.select([name.lower() for name in keys]).slice(places[1:][tied][0], 1)
        key = dict(zip(keys, python_rows(row)[0].values(), strict=True))
        text = json.dumps(key, separators=(",", ":"), default=str)
        raise CardinalityError(f"{SEVERAL}: {text}")
    if ends.all():
        return rows
    chosen = np.concatenate([places[ends], np.flatnonzero(~has_key)])
    return rows.take(pa.array(np.sort(chosen)))


def _ranks(column: pa.ChunkedArray) -> Codes:
    """A number for each value, in the order of the values; 0 is NULL."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    ranks = np.empty(len(encoded.dictionary), dtype=np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(1, len(ranks) + 1)
    valid = encoded.indices.is_valid().to_numpy(zero_copy_only=False)
    found = np.zeros(len(valid), dtype=np.int64)
    found[valid] = ranks[pc.drop_null(encoded.indices).to_numpy()]
    return found


def _differ(columns: Sequence[Codes], places: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Whether each place but the last differs from the next one in any column."""
    found = np.zeros(max(len(places) - 1, 0), dtype=np.bool_)
    for column in columns:
        values = column[places]
        found |= values[1:] != values[:-1]
    return found
