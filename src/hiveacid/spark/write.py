"""A DataFrame of rows or row events to staged bucket files, in one action.

INSERT: no shuffle for an unbucketed table (a task is a writer); one for a bucketed one. Dynamic
partitions are sorted within the task, as Spark's own writer does, so that one file is open at a
time. UPDATE, DELETE, MERGE: one shuffle by partition and bucket number of the old row: a delete
file must exist once per bucket (format.md 1.3) and be sorted by identity, and the sort shows a row
that is taken twice.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.model.tables import MAX_BUCKET_ID, BucketSpec, Column
from hiveacid.model.types import (
    BINARY,
    INTEGER_BITS,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
)
from hiveacid.spark.assign import partition_text
from hiveacid.spark.failures import Reach, done_by_spark
from hiveacid.spark.jobs import (
    RESULT_SCHEMA,
    TOO_MANY_WRITERS_MARK,
    StageTask,
    explained,
    jobs_end_with,
)
from hiveacid.spark.parquet_rows import ParquetRows, ReadingTask, parquet_rows
from hiveacid.spark.session import check_names, driver_share, quoted, session_conf
from hiveacid.spark.workers import make_ready
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.stage import (
    DELETE,
    INSERT,
    UPDATE,
    EventStage,
    RowStage,
    make_staging,
    staged_here,
)
from hiveacid.storage.target import WriteResult, WriteTarget, write_result

if TYPE_CHECKING:
    import pandas as pd


ACTION: Final = "__hiveacid_action"
IDENTITY: Final = ("__hiveacid_write_id", "__hiveacid_bucket", "__hiveacid_row_id")
"""Columns of an event DataFrame besides the table's: what to do (an action of storage's stages),
and to which row.
"""

_BUCKET: Final = "__hiveacid_n"
WRITERS_MAX = MAX_BUCKET_ID + 1
"""Tasks that write at once: a task is a bucket number, which has 12 bits (format.md 4.4)."""
_NEW_BUCKET: Final = "__hiveacid_new_n"
_TEXT: Final = "__hiveacid_p"
_BUCKET_BITS: Final = 0x0FFF0000
"""Of a bucket property (format.md 4.4)."""
_TOO_LARGE: Final = "spark.driver.maxResultSize"
_DATA_EXCEPTION: Final = "SQLSTATE: 22"
"""What Spark says of a value that cannot be converted, or computed, starts so."""
_ZEROS: Final = ("0L", "0", "0L")
_LONG_TYPES: Final = ("string", "char", "varchar", "binary")
_SHORT_TYPES: Final = (
    *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("boolean", "date", "timestamp"),
)
_IS_LONG: Final = "__hiveacid_is_long"
_TRANSFER: Final = {
    # without this limit Spark would add up the sizes of all Arrow buffers for each row: 40 % of the
    # write
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}


def write_rows(spark: SparkSession, rows: DataFrame, *, target: WriteTarget) -> WriteResult:
    """Write ``rows`` (data columns, then the dynamic partition columns, as ``assign`` made them).

    Raises:
        ConversionError: a value cannot be stored (``store_assignment=ansi``).
        StorageError: a file could not be written.
        UnsupportedError: the name of a column cannot be told to Spark.
        AcidError: whatever else failed in Spark, as it was.
    """
    table = target.table
    check_names(spark, table.all_columns)
    dynamic = [c for c in table.partition_columns if c.name not in target.static_partition]
    data = [quoted(c.name) for c in table.columns]
    names = [f"{_TEXT}{i}" for i in range(len(dynamic))]
    texts = [f"{partition_text(c)} as {name}" for c, name in zip(dynamic, names, strict=True)]
    if table.bucket is not None:
        rows = rows.withColumn(_BUCKET, bucket_number(table.bucket, table.columns))
        frame = rows.selectExpr(*data, *texts, _BUCKET)
        tasks = min(table.bucket.count, _task_limit(spark))
        frame = frame.repartition(tasks, F.expr(to_task(_BUCKET, tasks=tasks)))
        order = [F.expr(quoted(column.name)) for column in table.sort_columns]
        order = [
            key.desc() if column.is_descending else key.asc()
            for key, column in zip(order, table.sort_columns, strict=True)
        ]
        frame = frame.sortWithinPartitions(*names, _BUCKET, *order)
    else:
        frame = rows.selectExpr(*data, *texts)
        if names:
            frame = frame.sortWithinPartitions(*names)
    as_they_are = table.bucket is None and not names
    stage = RowStage(
        target,
        dynamic=tuple(c.name for c in dynamic),
        bucketed=table.bucket is not None,
        statement=target.insert_statement,
    )
    return _run(spark, frame, stage, parquet_rows(frame, table.columns) if as_they_are else None)


def write_events(
    spark: SparkSession,
    events: DataFrame,
    *,
    target: WriteTarget,
    places: int,
    are_here: bool = False,
) -> WriteResult:
    """Write row events: ``ACTION``, ``IDENTITY`` (NULL for new rows), partition columns, data
    columns.

    The data columns may be absent where nothing but deletes is written. ``places`` is how many
    pairs of partition and bucket number the snapshot has: more tasks than that would have nothing
    to do. Events that ``are_here`` are few, and none is a new row: the driver writes them.

    Raises:
        CardinalityError: two events for one row.
        ConversionError, StorageError, AcidError: as ``write_rows``.
    """
    table = target.table
    data = [c for c in table.columns if c.name in events.columns]
    names = [f"{_TEXT}{i}" for i in range(len(table.partition_columns))]
    texts = [
        f"{partition_text(c)} as {name}"
        for c, name in zip(table.partition_columns, names, strict=True)
    ]
    new = "null"
    if table.bucket is not None and data and target.insert_statement is not None:
        events = events.withColumn(_NEW_BUCKET, bucket_number(table.bucket, table.columns))
        new = _NEW_BUCKET
    decoded = f"shiftright({IDENTITY[1]} & {_BUCKET_BITS}, 16)"
    number = f"cast(case when {ACTION} <> {INSERT} then {decoded} else {new} end as int)"
    frame = events.selectExpr(
        ACTION,
        *[
            f"coalesce({name}, {zero}) as {name}"
            for name, zero in zip(IDENTITY, _ZEROS, strict=True)
        ],
        f"{number} as {_BUCKET}",
        *texts,
        *[quoted(c.name) for c in data],
    )
    stage = EventStage(target)
    if are_here:
        return _run_here(frame, stage, (*names, _BUCKET, *IDENTITY))
    tasks = max(1, min(max(places, 2), _task_limit(spark)))
    spread = _spread(data) if target.insert_statement is not None else "0L"
    place = f"coalesce(cast({_BUCKET} as bigint), {spread})"
    if names:
        place = f"{place} + cast(hash({', '.join(names)}) as bigint)"
    frame = frame.repartition(tasks, F.expr(to_task(place, tasks=tasks)))
    frame = frame.sortWithinPartitions(*names, _BUCKET, *IDENTITY)
    return _run(spark, frame, stage)


def _spread(data: Sequence[Column]) -> str:
    """Where new rows of an unbucketed table go: by their content, so that a task that runs again
    gets them again.
    """
    hashable = [quoted(c.name) for c in data if not re.search("(map|array)<", str(c.type))]
    return f"pmod(xxhash64({', '.join(hashable[:4])}), 1048576L)" if hashable else "0L"


def _task_limit(spark: SparkSession) -> int:
    text = spark.conf.get("spark.sql.shuffle.partitions")
    return max(1, min(int(text or 200), WRITERS_MAX))


def _run(
    spark: SparkSession,
    frame: DataFrame,
    stage: RowStage | EventStage,
    parquet: ParquetRows | None = None,
) -> WriteResult:
    begun = stage.target.in_place
    fs, _ = stage.target.files.at(stage.target.table.location)
    target = replace(
        stage.target, in_place=None, sends=begun is not None and fs.uploads is not None
    )
    stage = replace(stage, target=target)
    make_staging(target)
    by_task = isinstance(stage, RowStage) and not stage.bucketed
    task = StageTask(stage, tasks_max=WRITERS_MAX if by_task else None)
    if any(letter in column.name for column in target.table.columns for letter in ".`"):
        # mapInArrow does not quote the names of its columns; the tasks go by position
        frame = frame.toDF(*[f"_{number}" for number in range(len(frame.columns))])
    with session_conf(spark, _TRANSFER), jobs_end_with(spark):
        try:
            files = []
            if parquet is not None and not target.sends:
                numbers = spark.range(0, len(parquet.parts), 1, len(parquet.parts))
                reading = ReadingTask(parquet, task)
                files = staged_by_spark(spark, numbers, reading, at=target.files.at)
            if not files or None in files:
                files = staged_by_spark(spark, frame, task, at=target.files.at)
        except _TooManyWriters:
            fewer = frame.coalesce(WRITERS_MAX)
            files = staged_by_spark(spark, fewer, task, at=target.files.at)
    if begun is not None:
        begun.extend(file.staged_path for file in files if file.upload)
    return write_result(target, files)


def estimated_bytes(spark: SparkSession, frame: DataFrame) -> int | None:
    """What Spark takes a DataFrame for, as EXPLAIN COST says; None where it does not say."""
    text = explained(spark, frame, "cost")
    found = re.search(r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([KMGTPE]i)?B", text)
    if found is None or "Generate " in text:  # how many rows come of one, Spark does not know
        return None
    return int(float(found.group(1)) * 1024 ** "_KMGTPE".index((found.group(2) or "_")[0]))


def collected(
    spark: SparkSession, frame: DataFrame, *, asks_more: bool, at: Reach
) -> pa.Table | None:
    """The rows, here; None where they are more than Spark hands to a driver. One job. ``at`` as in
    ``statement_error``.

    ``asks_more`` says that values are computed of rows of which a statement by Spark might not ask
    for them: then None, too, where one cannot be converted or computed.

    Raises:
        AcidError: whatever failed in Spark, as it was.
    """
    with session_conf(spark, _TRANSFER):
        return _collected(spark, frame, asks_more=asks_more, at=at)


def few_collected(
    spark: SparkSession, frame: DataFrame, few: int, *, asks_more: bool = True, at: Reach
) -> pa.Table | None:
    """The rows where they are no more than ``few`` and none is so long that as many would be more
    than a part of the driver's memory, else None, as ``collected``. Of what is more this process
    never has but a row, of what is longer nothing, and Spark stops there.

    Raises:
        AcidError: whatever failed in Spark, as it was.
    """
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    is_known = all(kind.startswith(_SHORT_TYPES + _LONG_TYPES) for kind in kinds)
    if not is_known or not hasattr(frame, "toArrow"):  # PySpark 3.5
        return None
    short = frame.limit(few + 1)
    columns = [F.col(quoted(name)) for name in frame.columns]
    lengths = [
        F.coalesce(F.octet_length(column), F.lit(0)).cast("bigint")
        for column, kind in zip(columns, kinds, strict=True)
        if kind.startswith(_LONG_TYPES)
    ]
    if lengths:
        is_long = sum(lengths[1:], lengths[0]) > driver_share(spark) // few
        cut = [
            F.when(~is_long, column).alias(name) if kind.startswith(_LONG_TYPES) else column
            for name, column, kind in zip(frame.columns, columns, kinds, strict=True)
        ]
        short = short.select(*cut, is_long.alias(_IS_LONG))
    found = _collected(spark, short, asks_more=asks_more, at=at)
    if found is None or found.num_rows > few:
        return None
    if not lengths:
        return found
    return None if pc.any(found.column(_IS_LONG)).as_py() else found.drop_columns([_IS_LONG])


def _collected(
    spark: SparkSession, frame: DataFrame, *, asks_more: bool, at: Reach
) -> pa.Table | None:
    def job() -> pa.Table | None:
        try:
            return frame.toArrow()
        except Exception as error:  # PySpark's, or py4j's: see failures
            text = str(error)
            if _TOO_LARGE in text or (asks_more and _DATA_EXCEPTION in text):
                return None
            raise

    with jobs_end_with(spark):
        return done_by_spark(job, at=at)


def _run_here(frame: DataFrame, stage: EventStage, order: Sequence[str]) -> WriteResult:
    """What a job would do, in this process."""
    rows = done_by_spark(frame.toArrow, at=stage.target.files.at)
    places = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in order])
    return staged_here(stage, rows.take(places).combine_chunks().to_batches(), name="events")


class _TooManyWriters(Exception):
    """More tasks than there are bucket numbers."""


def staged_by_spark(
    spark: SparkSession, frame: DataFrame, task: StageTask | ReadingTask, *, at: Reach
) -> list[Any]:
    """What the stage of a task says of the files that it wrote in Spark's workers; one job. ``at``
    as in ``statement_error``.

    Raises:
        AcidError: as the stage does in a task; whatever else failed in Spark, as it was.
    """
    make_ready(spark)

    def job() -> list[Any]:
        try:
            return frame.mapInArrow(task, RESULT_SCHEMA).collect()
        except Exception as error:  # PySpark's, or py4j's: see failures
            if TOO_MANY_WRITERS_MARK in str(error):
                raise _TooManyWriters from error
            raise

    return [pickle.loads(row["file"]) for row in done_by_spark(job, at=at)]


__all__ = [
    "ACTION",
    "DELETE",
    "IDENTITY",
    "INSERT",
    "UPDATE",
    "staged_by_spark",
    "write_events",
    "write_rows",
]


# -------------------------------------------------------------------- which task writes a row
# Which task writes a row: Hive's bucket number, and a shuffle that puts row ``n`` into task
# ``n``.


_SPARK_SEED: Final = 42
"""Of Spark's ``hash``."""


def bucket_number(spec: BucketSpec, columns: Sequence[Column]) -> SparkColumn:
    """The bucket (format.md 8.8) of a row with the data columns ``columns`` (as the writer gets
    them).

    Only the key columns go through Python. pandas knows no integer NULL, so integers cross as a
    value and a flag, everything else as text (nested values as JSON): no digit is lost.
    """
    by_name = {column.name: column for column in columns}
    keys = [by_name[name.lower()] for name in spec.columns]
    arguments: list[SparkColumn] = []
    for key in keys:
        value = F.col(quoted(key.name))
        if _is_integer(key):
            arguments += [F.coalesce(value.cast("bigint"), F.lit(0).cast("bigint")), value.isNull()]
        elif isinstance(key.type, _NESTED):
            arguments += [F.to_json(F.struct(value.alias(_KEY)), _JSON)]
        else:
            arguments += [F.hex(value) if key.type == BINARY else value.cast("string")]
    buckets = F.pandas_udf(_bucket_function(spec, keys), "int")  # type: ignore[attr-defined]
    number: SparkColumn = buckets(*arguments)
    return number


def _is_integer(column: Column) -> bool:
    return isinstance(column.type, PrimitiveType) and column.type.name in INTEGER_BITS


def _bucket_function(spec: BucketSpec, keys: Sequence[Column]) -> Callable[..., Any]:
    integer = [_is_integer(key) for key in keys]
    types = [key.type for key in keys]

    def buckets(*series: pd.Series) -> pd.Series:
        import pandas

        from hiveacid.storage.merge.column_hashing import bucket_ids

        given = iter(series)
        arrays: list[pa.Array] = []
        for kind, whole in zip(types, integer, strict=True):
            target = arrow_type(kind)
            if whole:
                values, null = next(given), next(given)
                arrays.append(
                    pa.array(values.to_numpy(), mask=null.to_numpy(dtype=bool)).cast(target)
                )
            else:
                text = pa.array(next(given), type=pa.string(), from_pandas=True)
                arrays.append(_key_values(text, kind, target))
        ids = bucket_ids(arrays, types, n=spec.count, version=spec.version)
        return pandas.Series(ids.to_numpy(zero_copy_only=False))

    # pandas_udf reads the annotations, which are text here and name a type-checking import
    buckets.__annotations__ = {}
    return buckets


def _key_values(text: pa.Array, kind: HiveType, target: pa.DataType) -> pa.Array:
    if isinstance(kind, _NESTED):
        rows = (json.loads(row, parse_float=Decimal)[_KEY] for row in text.to_pylist())
        return pa.array([_value(row, kind) for row in rows], target)
    if kind == BINARY:
        return pa.array([None if v is None else bytes.fromhex(v) for v in text.to_pylist()], target)
    return text if target == pa.string() else text.cast(target)


def _value(found: Any, kind: HiveType) -> Any:
    """A value of Spark's JSON as Arrow takes it."""
    if found is None:
        return None
    if isinstance(kind, ListType):
        return [_value(item, kind.element) for item in found]
    if isinstance(kind, MapType):
        items = found.items()
        return [(_value(key, kind.key), _value(item, kind.value)) for key, item in items]
    if isinstance(kind, StructType):
        return {name: _value(found.get(name), child) for name, child in kind.fields}
    convert = _FROM_JSON.get(str(kind), str)
    return Decimal(found) if isinstance(kind, DecimalType) else convert(found)


_KEY: Final = "k"
_NESTED: Final = (ListType, MapType, StructType)
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_FROM_JSON: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(INTEGER_BITS, int),
    "boolean": lambda found: found in (True, "true"),
    "float": float,
    "double": float,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "binary": base64.b64decode,
}


def to_task(place: str, *, tasks: int) -> str:
    """A key whose hash partitioning into ``tasks`` puts the row with ``place`` = n into partition n
    modulo ``tasks``.

    Spark partitions by murmur3 of the key; the table of keys is the inverse of that, so that a few
    buckets do not collide in one task (``repartitionById`` of Spark 4.1 does it too, 3.5 and 4.0
    have nothing).
    """
    keys = ", ".join(str(key) for key in _keys_by_partition(tasks))
    return f"element_at(array({keys}), cast(pmod({place}, {tasks}) as int) + 1)"


def _keys_by_partition(tasks: int) -> list[int]:
    from hiveacid.storage.merge.column_hashing import murmur_of_integers

    found: dict[int, int] = {}
    first = 0
    while len(found) < tasks:
        keys = np.arange(first, first + 4 * tasks, dtype=np.int32)
        places = murmur_of_integers(keys, seed=_SPARK_SEED) % tasks
        for place, key in zip(places.tolist(), keys.tolist(), strict=True):
            found.setdefault(place, key)
        first += len(keys)
    return [found[n] for n in range(tasks)]
