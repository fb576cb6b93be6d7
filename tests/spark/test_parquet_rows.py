"""INSERT of Parquet files: the tasks that write read them, too, and never tell anything else than
Spark would.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import types as t
from tests.connect import OVER_CONNECT
from tests.sampling import sampled
from tests.spark.running import jobs_begun

from hiveacid.errors import AcidError
from hiveacid.spark import parquet_rows, write
from hiveacid.spark.session import session_conf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.session import Session

pytestmark = pytest.mark.long("layout", "model", "spark", "storage")

ACID = "stored as orc tblproperties ('transactional'='true')"
BY_TASKS, BY_PLAN, AFTER_ALL = "read by the tasks", "left by the plan", "left by a task"
"""Who reads: the tasks that write; Spark, as the plan tells; Spark, as a file tells."""
UTC = datetime.timezone.utc
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [-128, None, 127]),
    "small": (pa.int16(), [-32768, None, 32767]),
    "id": (pa.int32(), [1, None, 3]),
    "big": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "real": (pa.float32(), [0.5, None, float("inf")]),
    "wide": (pa.float64(), [-0.0, None, 1e300]),
    "text": (pa.string(), ["", None, "żółw\u0000"]),
    "raw": (pa.binary(), [b"", None, b"\xff\x00"]),
    "day": (pa.date32(), [datetime.date(1582, 10, 15), None, datetime.date(9999, 12, 31)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1900, 1, 1, tzinfo=UTC),
            None,
            datetime.datetime.max.replace(tzinfo=UTC),
        ],
    ),
    "few": (pa.decimal128(9, 2), [Decimal("-0.01"), None, Decimal("9999999.99")]),
    "many": (pa.decimal128(38, 10), [Decimal("-0.0000000001"), None, Decimal(10**27)]),
}
HIVE = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
}
HIVE |= {"double": "double", "date32[day]": "date", "timestamp[us, tz=UTC]": "timestamp"}


def hive(kind: pa.DataType) -> str:
    """A type's name in DDL."""
    text = str(kind).replace("decimal128", "decimal").replace(" ", "")
    return HIVE.get(str(kind), text)


class Case(NamedTuple):
    """Rows, how they lie in a file, what is made of the frame, and who reads them."""

    columns: dict[str, tuple[pa.DataType, list[Any]]]
    expected: str = BY_TASKS
    written: dict[str, Any] = {}
    frame: Callable[[DataFrame], DataFrame] = lambda frame: frame
    schema: str = ""
    table: str = ""
    kind: str = "orc tblproperties ('transactional'='true')"


def column(kind: pa.DataType, *values: Any) -> dict[str, tuple[pa.DataType, list[Any]]]:
    """Beside a column of numbers, column v."""
    return {"id": (pa.int32(), list(range(len(values)))), "v": (kind, list(values))}


TEXTS = column(pa.string(), "a", "b", None)
CASES = {
    "all types": Case(VALUES),
    "small row groups": Case(VALUES, written={"row_group_size": 1}),
    "dictionaries": Case(TEXTS, written={"use_dictionary": True, "compression": "zstd"}),
    "large texts": Case(column(pa.large_string(), "a", None)),
    "milliseconds": Case(
        column(pa.timestamp("ms", "UTC"), datetime.datetime(2020, 1, 1, tzinfo=UTC)),
        table="id int, v timestamp",
    ),
    "other names": Case(
        TEXTS, frame=lambda f: f.selectExpr("v as x", "id as y"), table="x string, y int"
    ),
    "some columns": Case(
        VALUES, frame=lambda f: f.select("text", "id"), table="text string, id int"
    ),
    "many columns": Case({f"c{n}": (pa.int32(), [n]) for n in range(60)}),
    "a plain table": Case(VALUES, kind="orc"),
    "a text table": Case(TEXTS, kind="textfile"),
    "no rows": Case(column(pa.string())),
    "a day of the old calendar": Case(
        column(pa.date32(), datetime.date(1582, 10, 4)), AFTER_ALL, schema="id int, v date"
    ),
    "a time before 1900": Case(
        column(pa.timestamp("us", "UTC"), datetime.datetime(1899, 12, 31, 23, tzinfo=UTC)),
        AFTER_ALL,
    ),
    "int96": Case(
        column(pa.timestamp("us", "UTC"), datetime.datetime(2020, 1, 1, tzinfo=UTC)),
        AFTER_ALL,
        written={"use_deprecated_int96_timestamps": True},
        table="id int, v timestamp",
    ),
    "names in capitals": Case(
        {name.upper(): column for name, column in TEXTS.items()},
        AFTER_ALL,
        schema="id int, v string",
        table="id int, v string",
    ),
    "a column that the file lacks": Case(
        TEXTS, AFTER_ALL, schema="id int, v string, w int", table="id int, v string, w int"
    ),
    "times without a zone": Case(
        column(pa.timestamp("us"), datetime.datetime(2020, 1, 1)),
        BY_PLAN,
        table="id int, v timestamp",
    ),
    "unsigned": Case(column(pa.uint32(), 7, 2**32 - 1), AFTER_ALL, table="id int, v bigint"),
    "another type": Case(TEXTS, BY_PLAN, table="id bigint, v string"),
    "a condition": Case(TEXTS, BY_PLAN, frame=lambda f: f.where("id > 0")),
    "a limit": Case(TEXTS, BY_PLAN, frame=lambda f: f.limit(2)),
    "an expression": Case(TEXTS, BY_PLAN, frame=lambda f: f.selectExpr("id + 1 id", "v")),
    "a cache": Case(TEXTS, BY_PLAN, frame=lambda f: f.cache()),
    "a name of the file": Case(
        TEXTS, BY_PLAN, frame=lambda f: f.selectExpr("id", "_metadata.file_name v")
    ),
    "chars": Case(TEXTS, BY_PLAN, table="id int, v varchar(1)"),
    "arrays": Case(column(pa.list_(pa.int32()), [1], None), BY_PLAN, table="id int, v array<int>"),
    "a constraint": Case(
        column(pa.string(), "a"), BY_PLAN, table="id int not null enforced, v string"
    ),
}


class Reads:
    """Inserts a frame, and tells who read it."""

    def __init__(self, acid: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acid, self._spark, self._patch = acid, spark, monkeypatch

    def by_whom(self, insert: Callable[[], object]) -> str:
        """Who reads the rows of an INSERT."""
        plans: list[bool] = []
        find = write.parquet_rows

        def asked(*given: Any) -> Any:
            found = find(*given)
            plans.append(found is not None)
            return found

        with self._patch.context() as patched:
            patched.setattr(write, "parquet_rows", asked)
            before = 0 if OVER_CONNECT else jobs_begun(self._spark)
            insert()
        if not any(plans):
            return BY_PLAN
        return BY_TASKS if jobs_begun(self._spark) == before + 1 else AFTER_ALL

    def by_spark(self, insert: Callable[[], object]) -> None:
        """Let Spark read them."""
        with self._patch.context() as patched:
            patched.setattr(write, "parquet_rows", lambda *_: None)
            insert()


@pytest.fixture
def reads(acid: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Of the session."""
    return Reads(acid, spark, monkeypatch)


@pytest.mark.parametrize(
    "name",
    sampled(CASES, "spark", "storage", group=lambda name: (CASES[name].expected, CASES[name].kind)),
)
def test_the_rows_are_those_that_spark_reads(
    reads: Reads,
    spark: SparkSession,
    rows: Callable[[str], list[tuple[Any, ...]]],
    tmp_path: Path,
    name: str,
) -> None:
    case = CASES[name]
    arrays = {key: pa.array(values, kind) for key, (kind, values) in case.columns.items()}
    parquet.write_table(pa.table(arrays), tmp_path / "rows.parquet", **case.written)
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED")  # Spark 3.5 asks
    reader = reader.schema(case.schema) if case.schema else reader
    frame = case.frame(reader.parquet(str(tmp_path / "rows.parquet")))
    columns = case.table or ", ".join(f"{key} {hive(a.type)}" for key, a in arrays.items())
    columns = columns.replace("large_string", "string")
    for table in ("t", "u"):
        reads.acid.sql(f"create table {table} ({columns}) stored as {case.kind}")
    expected = BY_PLAN if OVER_CONNECT else case.expected
    # of no rows nobody has written a file, and Spark is asked whether that is right
    expected = AFTER_ALL if name == "no rows" and expected == BY_TASKS else expected
    assert reads.by_whom(lambda: reads.acid.table("t").insert(frame)) == expected
    reads.by_spark(lambda: reads.acid.table("u").insert(frame))
    assert rows("select * from t") == rows("select * from u")
    assert len(rows("select * from t")) == frame.count()


def test_each_part_of_each_file_is_read_once(
    reads: Reads, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    for number in range(5):
        ids = pa.array(range(number * 1000, (number + 1) * 1000), pa.int32())
        texts = pa.array([f"text {n}" * 9 for n in range(1000)])
        parquet.write_table(
            pa.table({"id": ids, "v": texts}),
            tmp_path / "rows" / f"a b%20{number}.parquet",
            row_group_size=70,
        )
    reads.acid.sql(f"create table t (id int, v string) partitioned by (p int) {ACID}")
    frame = spark.read.parquet(str(tmp_path / "rows"))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
    try:
        assert frame.rdd.getNumPartitions() > 5 if not OVER_CONNECT else True
        by_whom = reads.by_whom(lambda: reads.acid.table("t").insert(frame, partition={"p": 1}))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert by_whom == (BY_PLAN if OVER_CONNECT else BY_TASKS)
    found = reads.acid.sql("select count(*), count(distinct id), sum(id), min(p) from t").collect()
    assert [tuple(row) for row in found] == [(5000, 5000, 12_497_500, 1)]


@pytest.mark.parametrize(
    "clause", ["clustered by (id) into 2 buckets", "partitioned by (v string)"]
)
def test_rows_that_go_to_different_files_are_left_to_spark(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path, clause: str
) -> None:
    parquet.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), tmp_path / "rows.parquet")
    columns = "id bigint" if "partitioned" in clause else "id bigint, v string"
    reads.acid.sql(f"create table t ({columns}) {clause} {ACID}")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    assert reads.by_whom(lambda: reads.acid.table("t").insert(frame)) == BY_PLAN
    assert rows("select id, v from t") == [(1, "a"), (2, "b")]


def test_partitions_that_directories_tell_are_left_to_spark(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path
) -> None:
    (tmp_path / "files" / "p=7").mkdir(parents=True)
    parquet.write_table(pa.table({"id": [1, 2]}), tmp_path / "files" / "p=7" / "rows.parquet")
    reads.acid.sql(f"create table t (id bigint, p int) {ACID}")
    frame = spark.read.parquet(str(tmp_path / "files"))
    assert reads.by_whom(lambda: reads.acid.table("t").insert(frame)) == BY_PLAN
    assert rows("select id, p from t") == [(1, 7), (2, 7)]


@pytest.mark.parametrize("kind", ["orc tblproperties ('transactional'='true')", "orc", "parquet"])
def test_what_a_task_has_written_when_it_leaves_the_rest_to_spark_is_not_there(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path, kind: str
) -> None:
    days = [*[datetime.date(2020, 1, 1)] * 25_000, datetime.date(1500, 1, 1)]
    parquet.write_table(pa.table({"id": range(25_001), "v": days}), tmp_path / "rows.parquet")
    reads.acid.sql(f"create table t (id bigint, v date) stored as {kind}")
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED").schema("id bigint, v date")
    frame = reader.parquet(str(tmp_path / "rows.parquet"))
    expected = BY_PLAN if OVER_CONNECT else AFTER_ALL
    assert reads.by_whom(lambda: reads.acid.table("t").insert(frame)) == expected
    assert rows("select count(*), count(distinct id), max(v) from t") == [
        (25_001, 25_001, datetime.date(2020, 1, 1))
    ]


def test_a_file_that_is_named_twice_is_left_to_spark(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(tmp_path / "rows.parquet")
    parquet.write_table(pa.table({"id": [1, 2]}), path)
    reads.acid.sql(f"create table t (id bigint) {ACID}")
    frame = spark.read.parquet(path, path)
    assert reads.by_whom(lambda: reads.acid.table("t").insert(frame)) == BY_PLAN
    assert rows("select id from t") == sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_what_cannot_be_read_is_the_error_that_spark_has_for_it(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path, damage: str
) -> None:
    (tmp_path / "rows").mkdir()
    for number in range(2):
        parquet.write_table(pa.table({"id": [number]}), tmp_path / "rows" / f"rows{number}.parquet")
    reads.acid.sql(f"create table t (id bigint) {ACID}")
    frame = spark.read.parquet(str(tmp_path / "rows"))
    path = tmp_path / "rows" / "rows1.parquet"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100] + bytes(path.stat().st_size - 100))
    if OVER_CONNECT and damage == "gone":  # there Spark lists the files when the frame runs
        reads.acid.table("t").insert(frame)
        assert rows("select * from t") == [tuple(row) for row in frame.collect()] == [(0,)]
    else:
        with pytest.raises(AcidError, match=r"rows1\.parquet"):
            reads.acid.table("t").insert(frame)
        assert rows("select * from t") == []
    assert reads.acid.sql("show locks").collect() == []


def test_a_query_of_files_is_read_so_too(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), tmp_path / "rows.parquet")
    reads.acid.sql(f"create table t (id bigint, v string) {ACID}")
    spark.read.parquet(str(tmp_path / "rows.parquet")).createOrReplaceTempView("staged")
    texts = ("insert into t select id, v from staged", "insert overwrite t select * from staged")
    for text in texts:
        whom = reads.by_whom(lambda text=text: reads.acid.sql(text))
        assert whom == (BY_PLAN if OVER_CONNECT else BY_TASKS)
        assert rows("select * from t") == [(1, "a"), (2, "b")]


def test_a_table_of_sparks_catalog_is_read_so_too(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path
) -> None:
    place = (tmp_path / "files").as_uri()
    spark.sql(f"create table of_spark (id int, v string) using parquet location '{place}'")
    try:
        spark.sql("insert into of_spark values (1, 'a'), (2, 'b')")
        reads.acid.sql(f"create table t (id int, v string) {ACID}")
        frame = spark.table("of_spark")
        whom = reads.by_whom(lambda: reads.acid.table("t").insert(frame))
    finally:
        spark.sql("drop table of_spark")
    assert whom == (BY_PLAN if OVER_CONNECT else BY_TASKS)
    assert rows("select * from t") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("ids", [(), (1, 2), (2, 1)])
def test_columns_that_are_found_by_their_ids_are_left_to_spark(
    reads: Reads,
    spark: SparkSession,
    rows: Callable[[str], Any],
    tmp_path: Path,
    ids: tuple[int, ...],
) -> None:
    fields = [
        pa.field(name, pa.string(), metadata={"PARQUET:field_id": str(number)})
        for number, name in enumerate("ab", 1)
    ]
    table = pa.table([["of a"], ["of b"]], schema=pa.schema(fields))
    parquet.write_table(table, tmp_path / "rows.parquet")
    schema = t.StructType([t.StructField(name, t.StringType()) for name in "ab"])
    for field, number in zip(schema.fields, ids, strict=False):
        field.metadata = {"parquet.field.id": number}
    reads.acid.sql(f"create table t (a string, b string) {ACID}")
    frame = spark.read.schema(schema).parquet(str(tmp_path / "rows.parquet"))
    with session_conf(spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        whom = reads.by_whom(lambda: reads.acid.table("t").insert(frame))
    assert whom == (BY_PLAN if ids or OVER_CONNECT else BY_TASKS)
    assert rows("select * from t") == [("of b", "of a") if ids == (2, 1) else ("of a", "of b")]


def test_of_files_that_are_not_parquet_spark_is_not_asked_for_a_plan(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of our tables would wait for EXPLAIN for nothing."""
    for table in ("t", "u"):
        reads.acid.sql(f"create table {table} (id int) {ACID}")
    reads.acid.sql("insert into t values (1), (2)")
    monkeypatch.setattr(parquet_rows, "explained", None)
    text = "insert into u select a.id + 1 from t a join t b on a.id = b.id"
    assert reads.by_whom(lambda: reads.acid.sql(text)) == BY_PLAN
    assert rows("select * from u") == [(2,), (3,)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_in_another_time_zone_times_are_left_to_spark(
    reads: Reads, spark: SparkSession, rows: Callable[[str], Any], tmp_path: Path, zone: str
) -> None:
    """A wall clock there is not the one of the file."""
    at = datetime.datetime(2020, 7, 1, 12, tzinfo=UTC)
    table = pa.table({"id": [1], "v": pa.array([at], pa.timestamp("us", "UTC"))})
    parquet.write_table(table, tmp_path / "rows.parquet")
    reads.acid.sql(f"create table t (id bigint, v timestamp) {ACID}")
    with session_conf(spark, {"spark.sql.session.timeZone": zone}):
        frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
        whom = reads.by_whom(lambda: reads.acid.table("t").insert(frame))
    assert whom == (BY_TASKS if zone == "UTC" and not OVER_CONNECT else BY_PLAN)
    hour = 12 if zone == "UTC" else 14
    assert rows("select cast(v as string) from t") == [(f"2020-07-01 {hour}:00:00",)]
