"""What Hive wrote, read by every reader of ours: ``read_arrow``, ``hiveacid ls``, Spark's scan."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.interop.answers import ROW_ID, HiveAnswer, Rows, Shape, differences, our_rows

import hiveacid
from hiveacid.cli.files import ls
from hiveacid.errors import AcidError
from hiveacid.layout.directories import (
    BaseName,
    DeltaName,
    looks_acid,
    parse_directory,
    parse_partition_name,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import BucketSpec, Column, FileFormat, Partition, Table, TableName
from hiveacid.spark.read import read
from hiveacid.spark.session import ROW_ID_COLUMN
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import read_snapshot
from hiveacid.storage.plan.planning import plan_scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_read_arrow(answer: HiveAnswer) -> Iterator[str]:
    """How ``read_arrow`` differs from Hive's answer; nothing where it does not."""
    meta = answer.meta
    try:
        table = hiveacid.read_arrow(
            str(answer.data),
            valid_write_ids=meta["valid_write_id_list"],
            valid_txns=meta["valid_txn_list"],
            row_ids=meta["acid"],
        ).read_all()
    except AcidError as error:
        yield f"{type(error).__name__}: {error}"
        return
    if not table.num_rows and not answer.rows():
        return
    shape = answer.shape
    is_parquet = "parquet" in meta["input_format"].lower()  # has no char
    hive = answer.rows(as_spark=is_parquet)
    yield from differences(our_rows(_with_columns(table, shape), shape), hive)


def _with_columns(table: pa.Table, shape: Shape) -> pa.Table:
    """Under the catalog's names, by position; a column that no file has yet is null."""
    names = [name for name, _ in shape.columns]
    keys = [name for name, _ in shape.partition_columns]
    in_files = [name for name in table.schema.names if name not in (*keys, ROW_ID)]
    renamed = dict(zip(in_files, names, strict=False))
    table = table.rename_columns([renamed.get(name, name) for name in table.schema.names])
    for name in names[len(in_files) :]:
        table = table.append_column(name, pa.nulls(table.num_rows))
    return table


def check_scan(spark: SparkSession, answer: HiveAnswer) -> Iterator[str]:
    """How Spark's scan of a snapshot with Hive's valid lists differs from Hive's answer."""
    meta = answer.meta
    try:
        snapshot = read_snapshot(
            _table(answer),
            _partitions(answer),
            files=Files(),
            valid=ValidWriteIdList.parse(meta["valid_write_id_list"]),
            valid_txns=ValidTxnList.parse(meta["valid_txn_list"]),
        )
        frame = read(
            spark,
            plan_scan(snapshot, files=Files()),
            virtual=(ROW_ID_COLUMN,) if meta["acid"] else (),
        ).frame
        got = frame_rows(frame, answer.shape)
    except AcidError as error:
        yield f"{type(error).__name__}: {error}"
        return
    yield from differences(got, answer.rows(as_spark=True))


def frame_rows(frame: DataFrame, shape: Shape) -> Rows:
    """The rows of a DataFrame; a column ``ROW__ID`` is the row id."""
    table = frame.toArrow()
    names = [ROW_ID if name == ROW_ID_COLUMN else name for name in table.schema.names]
    return our_rows(table.rename_columns(names), shape)


def _table(answer: HiveAnswer) -> Table:
    meta, shape = answer.meta, answer.shape
    bucket = None
    if meta["num_buckets"] > 0 and meta["bucket_columns"]:
        bucket = BucketSpec(tuple(meta["bucket_columns"]), meta["num_buckets"])
    database, _, name = meta["table"].partition(".")
    return Table(
        TableName(database, name),
        tuple(Column(*column) for column in shape.columns),
        str(answer.data),
        partition_columns=tuple(Column(*column) for column in shape.partition_columns),
        bucket=bucket,
        format=_format(meta["input_format"]),
        properties=meta["parameters"],
    )


def _format(input_format: str) -> FileFormat:
    names = {"parquet": FileFormat.PARQUET, "text": FileFormat.TEXT}
    found = [kind for name, kind in names.items() if name in input_format.lower()]
    return found[0] if found else FileFormat.ORC


def _partitions(answer: HiveAnswer) -> list[Partition]:
    if not answer.shape.partition_columns:
        return [Partition((), str(answer.data))]
    found = []
    for name in answer.meta["partitions"]:
        parsed = parse_partition_name(name)
        assert parsed is not None, name
        found.append(Partition(tuple(value for _, value in parsed), str(answer.data / name)))
    return found


def check_ls(answer: HiveAnswer) -> Iterator[str]:
    """Whether ``ls --json`` names every directory once, and chose those that Hive's rows lie in."""
    meta = answer.meta
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            assert ls.callback is not None
            ls.callback(
                str(answer.data),
                valid_write_ids=meta["valid_write_id_list"],
                valid_txns=meta["valid_txn_list"],
                url=None,
                as_json=True,
            )
    except AcidError as error:
        yield f"{type(error).__name__}: {error}"
        return
    found = json.loads(printed.getvalue())
    parts = found if isinstance(found, list) else [found]
    for part in parts:
        yield from _named_once(answer.data / part.get("partition", ""), part, meta)
    if meta["acid"]:
        yield from _rows_lie_in_chosen(answer, parts)


def _named_once(folder: Path, part: dict[str, Any], meta: dict[str, Any]) -> Iterator[str]:
    """What open transactions write is not named: neither read nor of the past."""
    chosen = [part["base"], *part["deltas"]] if part["base"] else part["deltas"]
    named = [*chosen, *part["obsolete"], *part["aborted"]]
    if len(named) != len(set(named)):
        yield f"{part.get('partition', '')}: a directory stands in two places: {sorted(named)}"
    valid = ValidWriteIdList.parse(meta["valid_write_id_list"])
    for name in sorted({name for name in os.listdir(folder) if looks_acid(name)} - set(named)):
        found = parse_directory(name)
        last = found.write_id if isinstance(found, BaseName) else found.max_write_id if found else 0
        if last <= valid.hwm and last not in valid.open:
            yield f"not named: {name}"


def _rows_lie_in_chosen(answer: HiveAnswer, parts: list[dict[str, Any]]) -> Iterator[str]:
    names = [parse_directory(name) for part in parts for name in part["deltas"]]
    ranges = [
        (int(name.min_write_id), int(name.max_write_id))
        for name in names
        if isinstance(name, DeltaName) and not name.is_delete
    ]
    named = [parse_directory(part["base"]) for part in parts if part["base"]]
    bases = [name.write_id for name in named if isinstance(name, BaseName)]
    if bases:
        ranges.append((0, max(0, *bases)))  # that of originals alone is the lowest number
    if any(part["originals"] for part in parts):
        ranges.append((0, 0))
    for write_id in sorted({int(row[0]) for row in answer.rows()}):
        if not any(low <= write_id <= high for low, high in ranges):
            yield f"Hive returned rows of write id {write_id}, which no chosen directory has"


def check_projection(answer: HiveAnswer) -> Iterator[str]:
    """Whether one column and a filter give what all columns give."""
    meta, shape = answer.meta, answer.shape
    name = shape.columns[0][0]
    lists = {"valid_write_ids": meta["valid_write_id_list"], "valid_txns": meta["valid_txn_list"]}
    try:
        whole = hiveacid.read_arrow(str(answer.data), **lists).read_all()
        if not whole.schema.names:
            return  # there is no file to know columns from
        part = hiveacid.read_arrow(
            str(answer.data), columns=[name], filter=pc.field(name).is_valid(), **lists
        ).read_all()
    except AcidError as error:
        yield f"{type(error).__name__}: {error}"
        return
    want = [value for value in whole[name].to_pylist() if value is not None]
    if part[name].to_pylist() != want:
        yield f"column {name} alone: {part.num_rows} values, {len(want)} expected"
