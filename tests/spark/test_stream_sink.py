"""``writeStream.format("hiveacid")``: each micro-batch once, whatever its checkpoint says."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType
from tests.sampling import sampled
from tests.spark.streamed import ACID, INSERT_ONLY, set_back

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import ConflictError, InvalidInputError, NotFoundError, UnsupportedError
from hiveacid.session import Session

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)


class Stream:
    """Files of rows, each a micro-batch, into a table; AvailableNow."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        (root / "in").mkdir()

    def feed(self, *batches: list[tuple[int, int]]) -> None:
        for batch in batches:
            number = len(list((self._root / "in").iterdir()))
            rows = (json.dumps({"id": id, "p": p}) + "\n" for id, p in batch)
            (self._root / "in" / f"{number:03d}.json").write_text("".join(rows))

    def run(self, table: str, *, id: str = "id") -> list[int]:
        """The numbers of the batches that were run."""
        read = self._spark.readStream.schema("id int, p int").option("maxFilesPerTrigger", 1)
        query = (
            read.json(str(self._root / "in"))
            .selectExpr(f"{id} as id", "p")
            .writeStream.format("hiveacid")
            .options(table=table, metastore=f"sqlite:///{self._root}/metastore.db")
            .option("checkpointLocation", str(self._root / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [one["batchId"] for one in query.recentProgress]

    def set_back(self) -> None:
        set_back(self._root / "checkpoint")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.mark.parametrize(
    "more",
    sampled(
        [
            ACID,
            f"partitioned by (p int) clustered by (id) into 2 buckets {ACID}",
            f"partitioned by (p int) {INSERT_ONLY}",
        ],
        *("connectors", "statements", "storage"),
        group=type,
    ),
)
def test_a_batch_that_comes_again_is_left_out(
    acid: Session, stream: Stream, rows: Callable[[str], list[Any]], tmp_path: Path, more: str
) -> None:
    columns = "id int" if "partitioned" in more else "id int, p int"
    acid.sql(f"create table t ({columns}) {more}")
    stream.feed([(1, 1), (2, 2)], [(3, 1)])
    assert stream.run("t") == [0, 1]
    stream.set_back()
    stream.feed([(4, 2)])
    assert stream.run("t") == [1, 2]
    assert rows("select id, p from t") == [(1, 1), (2, 2), (3, 1), (4, 2)]
    assert "OPEN" not in str(acid.sql("show transactions").collect())
    assert not list((tmp_path / "wh").rglob("*staging*"))


def test_a_checkpoint_that_was_restored_from_an_older_copy_loses_no_rows(
    acid: Session, stream: Stream, rows: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int, p int) {ACID}")
    stream.feed([(1, 1)])
    assert stream.run("t") == [0]
    copytree(tmp_path / "checkpoint", tmp_path / "copy")
    stream.feed([(2, 2)], [(3, 3)])
    assert stream.run("t") == [1, 2]
    rmtree(tmp_path / "checkpoint")
    copytree(tmp_path / "copy", tmp_path / "checkpoint")
    stream.feed([(4, 4)])
    with pytest.raises(Exception, match=r"Batch 1 of .* is older than the last one in .*t, 2"):
        stream.run("t")
    assert rows("select id from t") == [(1,), (2,), (3,)]


@pytest.mark.long("connectors", "statements", "txn")
def test_a_table_that_changes_under_the_stream(
    acid: Session, stream: Stream, rows: Callable[[str], list[Any]]
) -> None:
    acid.sql(f"create table t (id int, p int) {ACID}")
    stream.feed([(1, 1)])
    assert stream.run("t") == [0]
    acid.sql("alter table t add columns (more string)")
    stream.feed([(2, 2)])
    assert stream.run("t") == [1]
    assert rows("select * from t") == [(1, 1, None), (2, 2, None)]
    acid.sql("alter table t rename to u")
    stream.feed([(3, 3)])
    with pytest.raises(Exception, match=r"Table not found default\.t"):
        stream.run("t")
    acid.sql("alter table u rename to t")
    assert stream.run("t") == [2]
    assert len(rows("select * from t")) == 3


@pytest.mark.long("connectors", "spark", "streaming")
def test_a_table_that_is_gone_is_not_made_anew_in_an_enabled_session(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "wh"))

    def run(table: str, *, by: str, **given: str) -> None:
        read = spark.readStream.schema("id int, p int").json(str(tmp_path / "in"))
        write = read.writeStream.trigger(availableNow=True)
        if by == "queryName":
            write = write.queryName("orders")
        else:
            given["checkpointLocation"] = str(tmp_path / "checkpoints" / "orders")
        write.toTable(table, **given).awaitTermination()

    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
    try:
        spark.sql("create table t (id int, p int) using hiveacid")
        stream.feed([(1, 1)])
        run("t", by="queryName")
        spark.sql("alter table t rename to u")
        stream.feed([(2, 2)])
        for by in ("queryName", "checkpointLocation"):
            with pytest.raises(NotFoundError, match=r"wrote to default\.u \(up to batch 0\)"):
                run("t", by=by)
        run("u", by="checkpointLocation")
        spark.sql("drop table u")
        with pytest.raises(NotFoundError, match=r"wrote to default\.u \(up to batch 1\)"):
            run("u", by="checkpointLocation", format="hiveacid")
        assert not spark.catalog.tableExists("t") and not spark.catalog.tableExists("u")
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
        hiveacid.disable(spark)


def test_a_batch_whose_tasks_all_fail_leaves_nothing_open(
    acid: Session, stream: Stream, rows: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int, p int) {ACID}")
    stream.feed([(1, 1)], [(2, 2)])
    with pytest.raises(Exception, match="no id is good"):
        stream.run("t", id="if(p < 0, id, int(raise_error('no id is good')))")
    assert "OPEN" not in str(acid.sql("show transactions").collect())
    assert not list((tmp_path / "wh").rglob("*staging*"))
    assert stream.run("t") == [0, 1]
    assert rows("select id from t") == [(1,), (2,)]


def test_an_abort_of_which_no_task_tells_ends_what_the_checkpoint_began(tmp_path: Path) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table t (id int) {ACID}")
        schema = StructType([StructField("id", IntegerType())])

        def writer(checkpoint: str | None) -> Any:
            given = {} if checkpoint is None else {"checkpointLocation": checkpoint}
            source = HiveAcidDataSource({"table": "t", "metastore": url, **given})
            return source.streamWriter(schema, overwrite=False)

        begun = {one: pickle.loads(pickle.dumps(writer(one))) for one in ("a", "b", None)}
        txns = {one: writer._work.handed.txn for one, writer in begun.items()}

        def open_txns() -> set[int]:
            return set(acid.client.metastore.get_open_txns().open)

        writer(None).abort([None], 0)
        assert open_txns() == set(txns.values())
        writer("a").abort([None, None], 0)
        assert open_txns() == {txns["b"], txns[None]}
        writer("b").abort([], 0)
        assert open_txns() == {txns[None]}
    (left,) = (tmp_path / "wh").rglob("*staging*")
    assert f"_{txns[None]}_" in left.name


def test_a_stream_that_would_replace_the_table_is_refused() -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    with pytest.raises(UnsupportedError, match="no output mode complete"):
        HiveAcidDataSource({"table": "t"}).streamWriter(StructType([]), overwrite=True)


def test_two_drivers_with_one_batch(tmp_path: Path) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource
    from hiveacid.connectors.write import _LASTING, Written, stage

    _LASTING.clear()
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table t (id int) {ACID}")
        source = HiveAcidDataSource({"table": "t", "metastore": url})
        schema = StructType([StructField("id", IntegerType())])
        both = []
        for number in (1, 2):
            writer = pickle.loads(pickle.dumps(source.streamWriter(schema, overwrite=False)))
            rows = pa.RecordBatch.from_pydict({"id": [number]})
            done = stage(writer._work, iter([rows]))
            both.append(Written(done.work, done.files, done.chunks, "query", 0))
        for one in both:
            source.streamWriter(schema, overwrite=False).commit([one, None], 0)
        assert len(_LASTING) == 1  # one session makes them all
        _LASTING.popitem()[1].close()
        assert read_arrow(acid.table("t")).read_all().to_pylist() == [{"id": 1}]
        source.streamWriter(schema, overwrite=False).abort([None], 1)
        assert "OPEN" not in str(acid.sql("show transactions").rows)
    assert not list((tmp_path / "wh").rglob("*staging*"))


def test_a_checkpoint_of_another_table(tmp_path: Path) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource
    from hiveacid.connectors.write import _LASTING, Written, stage

    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        schema = StructType([StructField("id", IntegerType())])

        def write(table: str, number: int) -> None:
            source = HiveAcidDataSource({"table": table, "metastore": url})
            writer = pickle.loads(pickle.dumps(source.streamWriter(schema, overwrite=False)))
            done = stage(writer._work, iter([pa.RecordBatch.from_pydict({"id": [number]})]))
            message = Written(done.work, done.files, done.chunks, "query", number)
            source.streamWriter(schema, overwrite=False).commit([message], number)

        for table in ("t", "u"):
            acid.sql(f"create table {table} (id int) {ACID}")
        write("t", 0)
        with pytest.raises(InvalidInputError, match=r"those before went to default\.t"):
            write("u", 1)
        write("t", 1)
        assert read_arrow(acid.table("t")).read_all().num_rows == 2
        assert "OPEN" not in str(acid.sql("show transactions").rows)
        while _LASTING:
            _LASTING.popitem()[1].close()
    assert not list((tmp_path / "wh").rglob("*staging*"))


BUCKETED = ["", "clustered by (id) into 2 buckets"]
SCHEMA = StructType([StructField("id", IntegerType())])


def _begun(**options: str) -> tuple[Callable[[], Any], Any]:
    """What makes the driver's side of a batch's writer, and one as a task has it."""
    from hiveacid.connectors.data_source import HiveAcidDataSource

    source = HiveAcidDataSource({"table": "t", **options})
    make = partial(source.streamWriter, SCHEMA, overwrite=False)
    return make, pickle.loads(pickle.dumps(make()))


@pytest.mark.parametrize("kind", BUCKETED)
@pytest.mark.parametrize(
    "change",
    [
        ["drop table t", "create table t (id int) {more}"],
        ["alter table t rename to u", "alter table other rename to t"],
    ],
)
def test_a_batch_that_was_begun_for_another_table_of_the_name_is_refused(
    tmp_path: Path, kind: str, change: list[str]
) -> None:
    from hiveacid.connectors.write import _LASTING, Written, stage

    url, more = f"sqlite:///{tmp_path}/metastore.db", f"{kind} {ACID}"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table t (id int) {more}")
        acid.table("t").write_arrow([{"id": 1}])  # write id 2 is the next one
        acid.sql(f"create table other (id int) {more}")
        make, writer = _begun(metastore=url)
        done = stage(writer._work, iter([pa.RecordBatch.from_pydict({"id": [2]})]))
        for text in change:
            acid.sql(text.format(more=more))
        message = Written(done.work, done.files, done.chunks, "query", 0)
        with pytest.raises(ConflictError, match=r"default\.t was altered, or made anew"):
            make().commit([message], 0)
        _LASTING.popitem()[1].close()
        assert read_arrow(acid.table("t")).read_all().num_rows == 0
        assert "OPEN" not in str(acid.sql("show transactions").rows)


@pytest.mark.parametrize("kind", BUCKETED)
@pytest.mark.parametrize(
    "change",
    [
        ["drop table t"],
        ["drop table t", "create table t (id int) {more}"],
        ["alter table t rename to u", "create table t (id int) {more}"],
    ],
)
def test_tasks_that_begin_when_the_table_is_gone_say_so(
    tmp_path: Path, kind: str, change: list[str]
) -> None:
    from hiveacid.connectors.write import stage

    url, more = f"sqlite:///{tmp_path}/metastore.db", f"{kind} {ACID}"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table t (id int) {more}")
        make, writer = _begun(metastore=url, checkpointLocation="/c")
        for text in change:
            acid.sql(text.format(more=more))
        with pytest.raises(ConflictError, match=r"default\.t was dropped, renamed or made anew"):
            stage(writer._work, iter([pa.RecordBatch.from_pydict({"id": [2]})]))
        make().abort([None], 0)
        assert "OPEN" not in str(acid.sql("show transactions").rows)
