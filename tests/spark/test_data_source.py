"""``format("hiveacid")``: a table of ours as a data source of Spark's own readers and writers."""

from __future__ import annotations

import itertools
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from tests.connect import OVER_CONNECT

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import AcidError, ConversionError, InvalidInputError, StorageError
from hiveacid.model.tables import TableKind, TableName
from hiveacid.session import Session

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
ACID = "stored as orc tblproperties ('transactional'='true')"
TYPES = (
    "id int, b boolean, ti tinyint, si smallint, bi bigint, f float, d double, s string,"
    " c char(4), v varchar(9), x binary, dd date, n decimal(10,2), m map<string,int>, t timestamp,"
    " l array<struct<a:int,t:timestamp>>"
)
VALUES = (
    "select cast(id as int) id, id % 2 = 0 b, cast(id as tinyint) ti, cast(id as smallint) si,"
    " id bi, cast(id as float) f, cast(id as double) d, concat('n', id) s, 'ab' c, 'wide' v,"
    " cast('x' as binary) x, date_add(date'2024-03-30', cast(id as int)) dd,"
    " cast(id / 4 as decimal(10,2)) n,"
    " array(struct(cast(id as int) a, timestamp'2024-07-01 10:00:00' t)) l,"
    " map('k', cast(id as int)) m, timestamp'2024-10-27 00:30:00' + make_interval(0,0,0,0,id) t,"
    " if(id = 3, null, id % 3) p from range(10)"
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def load(spark: SparkSession, url: str) -> Callable[..., DataFrame]:
    def found(table: str, **options: object) -> DataFrame:
        given = {"metastore": url, **options}
        return spark.read.format("hiveacid").options(**given).load(table)  # type: ignore[arg-type]

    return found


@pytest.fixture
def save(url: str) -> Callable[..., None]:
    def done(frame: DataFrame, table: str, mode: str = "append", **options: str) -> None:
        given = {"metastore": url, "table": table, **options}
        frame.write.format("hiveacid").mode(mode).options(**given).save()

    return done


def as_text(frame: DataFrame) -> list[str]:
    """The rows as the session's time zone shows them."""
    texts = [f"cast({name} as string) as {name}" for name in frame.columns]
    return sorted(str(row) for row in frame.selectExpr(*texts).collect())


@pytest.mark.parametrize(
    ("zone", "more"),
    [
        ("UTC", f"partitioned by (p int) {ACID}"),
        pytest.param(
            *("Europe/Berlin", f"partitioned by (p int) clustered by (id) into 2 buckets {ACID}"),
            marks=pytest.mark.long("connectors", "spark", "storage"),
        ),
        pytest.param(
            "+05:30",
            "partitioned by (p int) stored as orc tblproperties"
            " ('transactional'='true','transactional_properties'='insert_only')",
            marks=pytest.mark.long("connectors", "spark", "storage"),
        ),
    ],
)
def test_all_types_go_there_and_come_back(
    acid: Session, spark: SparkSession, load: Any, save: Any, zone: str, more: str
) -> None:
    acid.sql(f"create table t ({TYPES}) {more}")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.sql(VALUES)
        save(rows.repartition(3), "t")
        rows = rows.select(*load("t").columns)
        assert as_text(load("t")) == as_text(rows)
        assert as_text(acid.sql("select * from t")) == as_text(rows)
        assert load("t").schema == acid.sql("select * from t").schema
        assert as_text(load("t", fresh="false")) == as_text(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert acid.sql("select count(*) from t").collect()[0][0] == 10
    assert "OPEN" not in str(acid.sql("show transactions").collect())


def test_overwrite_replaces_the_partitions_of_its_rows(
    acid: Session, spark: SparkSession, save: Any, rows: Any, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 2)")
    save(spark.createDataFrame([(2, 20), (2, 21)], "p int, id int"), "t", "overwrite")
    assert rows("select * from t") == [(1, 1), (20, 2), (21, 2)]
    acid.sql(f"create table b (id int) clustered by (id) into 2 buckets {ACID}")
    save(spark.range(8).selectExpr("cast(id as int) id").repartition(4), "b")
    assert len(list((tmp_path / "wh" / "b").glob("delta_*"))) == 1
    save(spark.range(4).selectExpr("cast(id as int) id").repartition(4), "b", "overwrite")
    save(spark.range(0).selectExpr("cast(id as int) id"), "b")
    assert rows("select id from b") == [(0,), (1,), (2,), (3,)]
    acid.sql("delete from b where id > 1")
    assert rows("select id from b") == [(0,), (1,)]
    save(spark.range(0).selectExpr("cast(id as int) id"), "b", "overwrite")
    assert rows("select id from b") == []


def test_a_view_is_fresh_at_each_query_and_a_large_table_stays_as_it_was(
    acid: Session, spark: SparkSession, load: Any, url: str
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    spark.sql(
        f"create or replace temporary view v using hiveacid options (table 't', metastore '{url}')"
    )
    fixed = load("t", fresh="false")
    acid.sql("insert into t values (1)")
    assert (fixed.count(), spark.sql("select * from v").count()) == (1, 1)
    acid.sql("insert into t values (2)")
    acid.sql("delete from t where id = 1")
    assert [
        row[0] for row in spark.sql("select v.id from v join v w on v.id = w.id").collect()
    ] == [2]
    assert fixed.count() == 1
    spark.catalog.dropTempView("v")


@pytest.mark.long("connectors", "spark")
def test_filters_that_spark_would_hand_down_change_no_other_query(
    acid: Session, spark: SparkSession, load: Any
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1), (2), (3)")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load("t")
        assert [frame.where("id = 1").count(), frame.count()] == [1, 3]
        assert frame.where("id = 1").join(frame.where("id > 1"), how="cross").count() == 2
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_table_that_is_altered_under_a_frame(acid: Session, load: Any) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    frame = load("t")
    acid.sql("alter table t add columns (more string)")
    if OVER_CONNECT:  # where a frame is analysed again each time that it is run
        assert frame.collect() == [(1, None)]
        return
    assert frame.collect() == [(1,)]
    acid.sql("alter table t change id id bigint")
    with pytest.raises(Exception, match="has a bigint id where int is expected"):
        frame.collect()


def test_a_value_that_does_not_fit_fails_the_write(
    acid: Session, spark: SparkSession, save: Any, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(Exception, match=r"column id: .*int"):
        save(spark.sql("select if(id = 3, 'x', '1') id from range(4)"), "t")
    assert not list((tmp_path / "wh").rglob("*staging*"))
    assert "OPEN" not in str(acid.sql("show transactions").collect())


# -------------------------------------------------------------------- without Spark's processes


@pytest.fixture
def there(tmp_path: Path, url: str) -> Iterator[Session]:
    """A metastore with tables, and a session without Spark."""
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as session:
        session.sql(f"create table t (id int not null, s string) partitioned by (p int) {ACID}")
        session.sql(f"create table u (id int) {ACID}")
        session.sql("create table plain (id int) stored as orc")
        make_view(session)
        session.sql(
            "create table c (id int check (id > 0)) stored as orc"
            " tblproperties ('transactional'='true')"
        )
        yield session


def make_view(session: Session) -> None:
    """As CREATE VIEW, which needs Spark, leaves it."""
    metastore = session.client.metastore
    table = metastore.get_table(TableName("default", "u"))
    view = replace(
        table,
        name=TableName("default", "v"),
        kind=TableKind.VIEW,
        view_text="select 1",
        view_expanded="select 1",
        properties={},
    )
    metastore.create_table(view)


WRONG_READS = {
    "no option tabel here; there are": {"tabel": "t"},
    r"Table not found default\.nosuch": {"table": "nosuch"},
    "is a view": {"table": "v"},
    "needs the name of a table": {},
    "The table is named twice": {"table": "t", "path": "t"},
    "Option fresh is true or false": {"table": "t", "fresh": "1"},
    "A password does not belong into options": {
        "table": "t",
        "metastore": "postgresql://me:secret@localhost/m",
    },
    "s3.access_key does not belong into options": {"table": "t", "hiveacid.s3.access_key": "me"},
    "its host or port cannot be read": {"table": "t", "metastore": "postgresql://h:port/secret"},
    "no metastore": {"table": "t", "metastore": "sqlite:////nowhere/m.db"},
    "hiveacid.txn.timeout_s": {"table": "t", "hiveacid.txn.timeout_s": "soon"},
}


@pytest.mark.parametrize("words", WRONG_READS)
def test_wrong_options_are_named(there: Session, url: str, words: str) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    with pytest.raises(AcidError, match=words) as failed:
        HiveAcidDataSource({"metastore": url, **WRONG_READS[words]}).schema()
    assert "secret" not in str(failed.value)


def test_the_metastore_of_the_environment(
    there: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    monkeypatch.delenv("HIVEACID_METASTORE", raising=False)
    with pytest.raises(InvalidInputError, match="does not know the metastore"):
        HiveAcidDataSource({"table": "u"}).schema()
    monkeypatch.setenv("HIVEACID_METASTORE", url)
    assert HiveAcidDataSource({"path": "u"}).schema().simpleString() == "struct<id:int>"


@pytest.mark.parametrize(
    ("option", "used"),
    [
        ("postgresql+psycopg://me:***@host/m", "postgresql://me:secret@host/m"),
        ("postgresql://me@host/m", "postgresql://me:secret@host/m"),
        ("postgresql://me:***@other/m", "postgresql://me@other/m"),
        ("sqlite:////data/m.db", "sqlite:////data/m.db"),
    ],
)
def test_a_password_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, option: str, used: str
) -> None:
    from hiveacid.connectors.options import READ, Options

    monkeypatch.setenv("HIVEACID_METASTORE", "postgresql://me:secret@host/m")
    given = Options.of({"table": "t", "metastore": option}, READ)
    assert "secret" not in str(given)
    assert given._url() == used


def writer_of(url: str, table: str, schema: str, *, overwrite: bool = False) -> Any:
    """What Spark sends to the tasks and then to the commit: the writer, pickled."""
    from hiveacid.connectors.data_source import HiveAcidDataSource

    source = HiveAcidDataSource({"metastore": url, "table": table})
    fields = [field.split() for field in schema.split(",")]
    kinds = StructType([StructField(name, _TYPES[kind]()) for name, kind in fields])
    return pickle.loads(pickle.dumps(source.writer(kinds, overwrite)))


_TYPES: dict[str, Any] = {"int": IntegerType, "string": StringType}
WRONG_WRITES = {
    "plain is not transactional": ("plain", "id int"),
    "is a view": ("v", "id int"),
    "lacks the partition columns p": ("t", "id int"),
    "columns that would be lost: other": ("t", "id int,p int,other int"),
    "CHECK constraints": ("c", "id int"),
}


@pytest.mark.parametrize("words", WRONG_WRITES)
def test_what_cannot_be_written_is_refused_before_a_task(
    there: Session, url: str, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        writer_of(url, *WRONG_WRITES[words])
    assert not there.sql("show transactions").rows


def test_a_column_that_is_missing_gets_its_default_and_not_null_holds(
    there: Session, url: str, tmp_path: Path
) -> None:
    writer = writer_of(url, "t", "p int,ID int")
    done = [writer.write(iter([batch(p=[1, None], ID=[5, 6])]))]
    writer.commit(done)
    assert read_arrow(there.table("t")).read_all().to_pylist() == [
        {"id": 5, "s": None, "p": 1},
        {"id": 6, "s": None, "p": None},
    ]
    writer = writer_of(url, "t", "p int,s string")
    with pytest.raises(ConversionError, match="Column id is NULL in 1 rows"):
        writer.write(iter([batch(p=[1], s=["x"])]))
    writer.abort([None])
    assert not list((tmp_path / "wh").rglob("*staging*"))


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


MEANWHILE = {
    "was altered, or made anew, while rows": "alter table u add columns (more int)",
    r"Table not found default\.u": "alter table u rename to w",
    "ConflictError|replaced|overw": "truncate table u",
    "is not open any more|aborted": "abort transactions {txn}",
}


@pytest.mark.parametrize("words", MEANWHILE)
def test_what_happens_to_the_table_between_the_tasks_and_the_commit(
    there: Session, url: str, tmp_path: Path, words: str
) -> None:
    writer = writer_of(url, "u", "id int")
    done = [writer.write(iter([batch(id=[1])]))]
    txn = there.sql("show transactions").rows[-1][0]
    there.sql(MEANWHILE[words].format(txn=txn))
    with pytest.raises(AcidError, match=words):
        writer.commit(done)
    assert "OPEN" not in str(there.sql("show transactions").rows)
    name = "w" if "rename" in MEANWHILE[words] else "u"
    # a rename takes them along: the cleaner's
    assert name == "w" or not list((tmp_path / "wh").rglob("*staging*"))
    assert read_arrow(there.table(name)).read_all().num_rows == 0


def test_a_task_keeps_its_transaction_alive(there: Session, url: str, tmp_path: Path) -> None:
    from hiveacid.connectors.write import _beat

    writer = writer_of(url, "u", "id int")
    with sqlite3.connect(tmp_path / "metastore.db") as database:
        database.execute("update TXNS set TXN_LAST_HEARTBEAT = 1")
    _beat(writer.write(iter([])).work)
    assert int(there.sql("show transactions").rows[-1][3]) > 1
    writer.abort([])
    assert "OPEN" not in str(there.sql("show transactions").rows)


def test_tasks_that_are_short_keep_it_alive_together(
    there: Session, url: str, tmp_path: Path
) -> None:
    from hiveacid.connectors.write import stage

    writer = writer_of(url, "u", "id int")

    def beats_of_a_task(begun_ms: int) -> bool:
        with sqlite3.connect(tmp_path / "metastore.db") as database:
            database.execute("update TXNS set TXN_LAST_HEARTBEAT = 1")
        stage(replace(writer._work, begun_ms=begun_ms), iter([]))
        return int(there.sql("show transactions").rows[-1][3]) > 1

    begun_ms = writer._work.begun_ms
    timeout_ms = int(there.settings.txn_timeout_s * 1000)
    assert not beats_of_a_task(begun_ms)
    assert beats_of_a_task(begun_ms - timeout_ms // 3)
    assert not beats_of_a_task(begun_ms - timeout_ms // 3)  # this process has just sent one
    writer.abort([])


def test_a_write_that_does_not_begin_leaves_no_transaction(
    there: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: object) -> None:
        raise StorageError("No space left")

    monkeypatch.setattr("hiveacid.connectors.write.make_staging", full)
    with pytest.raises(StorageError, match="No space left"):
        writer_of(url, "u", "id int")
    assert "OPEN" not in str(there.sql("show transactions").rows)


def test_rows_of_more_places_than_memory_holds(there: Session, url: str, tmp_path: Path) -> None:
    from hiveacid.connectors.spool import Spool

    fs, path = there.client.files.at(str(tmp_path))
    spool = Spool(fs, f"{path}/rows", width=1, bytes_max=40)
    texts = ["a", None, "b"]
    for first in range(0, 30, 10):
        numbers = list(range(first, first + 10))
        spool.add(
            pa.RecordBatch.from_pydict(
                {"id": numbers, "p": [texts[first // 10]] * 5 + ["a"] * 5, "n": [0] * 10}
            )
        )
    found = [(row["p"], row["id"]) for rows in spool.in_order() for row in rows.to_pylist()]
    assert sorted(id for _, id in found) == list(range(30))
    assert [key for key, _ in itertools.groupby(found, key=lambda row: row[0])] == ["a", None, "b"]
    assert spool.chunks
