"""ORC's Java reader (through Spark) reads files of ours: rows, identities, types, user metadata."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FS = Files().at("/")[0]
COLUMNS = tuple(
    Column(f"c{i}", parse_type(text))
    for i, text in enumerate(
        (
            "int",
            "string",
            "date",
            "timestamp",
            "decimal(12,2)",
            "char(5)",
            "varchar(5)",
            "struct<a:int,b:array<string>>",
            "map<string,double>",
        )
    )
)
# the always-true filter on the system columns that makes the ORC library read all six root columns
PIN = (
    "operation >= 0 and originalTransaction >= 0 and bucket >= 0 and rowId >= 0"
    " and currentTransaction >= 0"
)


def rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "c0": i,
            "c1": f"text é {i}",
            "c2": date(1500, 1, 1 + i % 20),
            "c3": datetime(2024, 2, 29, 1, 2, 3, i),
            "c4": Decimal(i) / 4,
            "c5": "ab   ",
            "c6": "xyz",
            "c7": None if i % 3 == 0 else {"a": i, "b": [None, str(i)]},
            "c8": [("k", i / 2)],
        }
        for i in range(count)
    ]


def write(path: Path, count: int) -> None:
    table = pa.Table.from_pylist(
        rows(count),
        schema=pa.schema(
            [
                ("c0", pa.int32()),
                ("c1", pa.string()),
                ("c2", pa.date32()),
                ("c3", pa.timestamp("us")),
                ("c4", pa.decimal128(12, 2)),
                ("c5", pa.string()),
                ("c6", pa.string()),
                ("c7", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
                ("c8", pa.map_(pa.string(), pa.float64())),
            ]
        ),
    )
    with BucketFileWriter(
        FS,
        str(path),
        columns=COLUMNS,
        kind=FileKind.INSERT,
        write_id=4,
        bucket_property=536870912,
        properties={"orc.stripe.size": "400000"},
    ) as writer:
        for batch in table.to_batches(max_chunksize=1000):
            writer.write_rows(batch)


@pytest.mark.long("storage", "model")
def test_rows_types_and_identities(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, 5000)
    frame = spark.read.orc(str(path)).where(PIN)
    found = (
        frame.selectExpr(
            "operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row.*"
        )
        .orderBy("rowId")
        .collect()
    )
    expected = rows(5000)
    assert len(found) == 5000
    for place in (0, 1, 3, 2500, 4999):
        got = found[place].asDict(recursive=True)
        assert [got.pop(name) for name in found[place].__fields__[:5]] == [
            0,
            4,
            536870912,
            place,
            4,
        ]
        want = dict(expected[place])
        want["c8"] = dict(want["c8"])  # type: ignore[call-overload]
        assert got == want


def test_deletes_have_null_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    with BucketFileWriter(
        FS, str(path), columns=COLUMNS, kind=FileKind.DELETE, write_id=9
    ) as writer:
        writer.write_deletes(
            pa.array(np.full(20_000, 4)),
            pa.array(np.full(20_000, 536870912, dtype=np.int32)),
            pa.array(np.arange(20_000)),
        )
    frame = spark.read.orc(str(path)).where(f"{PIN} and (row.c0 is null or row.c0 is not null)")
    (counts,) = frame.selectExpr(
        "count(*)", "count(row)", "sum(rowId)", "max(currentTransaction)", "min(operation)"
    ).collect()
    assert tuple(counts) == (20_000, 0, 20_000 * 19_999 // 2, 9, 2)


@pytest.mark.jvm
def test_hive_metadata_and_types_are_in_the_footer(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    write(path, 5000)
    jvm = spark._jvm  # type: ignore[attr-defined]  # a test may; the data path never does
    reader = jvm.org.apache.orc.OrcFile.createReader(
        jvm.org.apache.hadoop.fs.Path(str(path)),
        jvm.org.apache.orc.OrcFile.readerOptions(jvm.org.apache.hadoop.conf.Configuration()),
    )
    assert reader.getNumberOfRows() == 5000
    assert "c5:char(5),c6:varchar(5)" in reader.getSchema().toString()
    utf8 = jvm.java.nio.charset.StandardCharsets.UTF_8

    def value(key: str) -> str:
        return str(utf8.decode(reader.getMetadataValue(key)).toString())

    assert value("hive.acid.stats") == "5000,0,0"
    assert value("hive.acid.version") == "2"
    stripes = reader.getStripes()
    ends = np.cumsum([stripe.getNumberOfRows() for stripe in stripes]) - 1
    assert value("hive.acid.key.index") == "".join(f"4,536870912,{end};" for end in ends)
    assert reader.getCompressionKind().toString() == "ZLIB"
