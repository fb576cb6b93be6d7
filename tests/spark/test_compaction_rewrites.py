"""The Spark rewrite gives what the Arrow rewrite gives, and Java's ORC reads what either wrote."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.golden.compacting import FS, PLANS, compact, seen_after, table_of
from tests.golden.tables import golden_meta
from tests.recorded import golden_path
from tests.sampling import sampled

from hiveacid.compaction.rewrites import Method, rewrite
from hiveacid.errors import FormatError
from hiveacid.layout.compaction import plan_rebalance
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.reading.rows import read_arrow
from hiveacid.settings import Settings
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

_PLANS = {**PLANS, "rebalance": partial(plan_rebalance, buckets=3)}
TABLES = ("a03_merge", "c_int", "d06_bucketed", "h01_aborted", "j01_add_columns", "i12_big")


def rows_after(
    name: str, root: Path, *, kind: str, method: Method, spark: SparkSession | None
) -> pa.Table:
    """The rows with their ids, compacted by one method."""
    shutil.copytree(golden_path(name) / "data", root)
    meta = golden_meta(name)
    txns = ValidTxnList.parse(meta["valid_txn_list"])
    done = compact(
        table_of(root, meta),
        write_ids=ValidWriteIdList.parse(meta["valid_write_id_list"]),
        txns=txns,
        plan=_PLANS[kind],
        rewrite=partial(rewrite, FS, settings=Settings(), method=method, spark=spark),
    )
    assert done.plans or kind == "minor"
    found = read_arrow(
        str(root),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=seen_after(txns, done.txn),
        row_ids=True,
    ).read_all()
    ids = found["row__id"].combine_chunks().flatten()
    keys = pa.table(ids, names=["w", "b", "r"])
    order = pa.compute.sort_indices(keys, sort_keys=[(n, "ascending") for n in keys.column_names])
    return found.take(order)


@pytest.mark.parametrize("kind", sorted(_PLANS))
@pytest.mark.parametrize(
    "name", sampled(TABLES, "spark", "compaction", "storage", group=lambda name: "bucketed" in name)
)
def test_spark_and_arrow_give_the_same(
    name: str, kind: str, tmp_path: Path, spark: SparkSession
) -> None:
    here = rows_after(name, tmp_path / "here", kind=kind, method=Method.ARROW, spark=None)
    there = rows_after(name, tmp_path / "there", kind=kind, method=Method.SPARK, spark=spark)
    assert there.equals(here) and here.num_rows > 0


@pytest.mark.parametrize("method", [Method.SPARK, Method.ARROW])
def test_a_corrupt_file_is_named_and_the_table_stays(
    method: Method, tmp_path: Path, spark: SparkSession
) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden_path("a03_merge") / "data", root)
    meta = golden_meta("a03_merge")
    victim = next(root.glob("delta_*/bucket_*"))
    victim.write_bytes(victim.read_bytes()[:-20])
    before = sorted(path for path in root.rglob("*") if path.is_file())
    with pytest.raises(FormatError, match=str(victim)):
        compact(
            table_of(root, meta),
            write_ids=ValidWriteIdList.parse(meta["valid_write_id_list"]),
            txns=ValidTxnList.parse(meta["valid_txn_list"]),
            plan=_PLANS["major"],
            rewrite=partial(rewrite, FS, settings=Settings(), method=method, spark=spark),
        )
    left = {path for path in root.rglob("*") if path.is_file() and "_staging" not in str(path)}
    assert sorted(left) == before


def test_java_reads_timestamps_whose_nanoseconds_were_added(
    tmp_path: Path, spark: SparkSession
) -> None:
    """In every group of the row index; Spark has microseconds only."""
    count = 25_000
    spread = np.random.default_rng(3)
    micros = spread.integers(-8_000_000_000, 253_000_000_000, count) * 1_000_000
    micros += spread.integers(0, 1_000_000, count)
    null = spread.random(count) < 0.2
    times = pa.array(micros, mask=null).cast(pa.timestamp("us"))
    nanos = pa.array(spread.integers(0, 1000, count).astype(np.int16), mask=null)
    column = pa.StructArray.from_arrays([times, nanos], ["micros", "nanos"])
    path = str(tmp_path / "plain.orc")
    columns = (Column("n", parse_type("int")), Column("t", parse_type("timestamp")))
    with BucketFileWriter(FS, path, columns=columns, kind=FileKind.PLAIN) as writer:
        numbers = pa.array(range(count), pa.int32())
        writer.write_rows(pa.record_batch([numbers, column], ["n", "t"]))
    whole = spark.read.orc(path).selectExpr("unix_micros(cast(t as timestamp)) as m", "n")
    for frame, places in ((whole, range(count)), (whole.where("n > 21000"), range(21_001, count))):
        found = [row["m"] for row in frame.orderBy("n").collect()]
        assert found == [None if null[i] else int(micros[i]) for i in places]
