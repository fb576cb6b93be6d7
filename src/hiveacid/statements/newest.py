"""Of several rows of one key the newest: by Spark, or of rows that the driver has. Both give the
same; a key with a NULL is equal to none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import CardinalityError
from hiveacid.spark.text import quoted
from hiveacid.statements.values import Newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        key = dict(zip(keys, row.to_pylist()[0].values(), strict=True))
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
