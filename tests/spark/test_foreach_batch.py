"""Micro-batches of Structured Streaming: each once, whatever its checkpoint says."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.streamed import ACID, set_back

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import (
    AcidError,
    CardinalityError,
    ConversionError,
    InvalidInputError,
    NotFoundError,
    TransactionError,
)
from hiveacid.session import Session
from hiveacid.transaction import AcidTransaction

pytestmark = pytest.mark.long(
    "connectors", "metastore", "session", "spark", "statements", "streams", "table"
)


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Any:
    url, root = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    off = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(spark, url, warehouse=root, settings=off) as session:
        session.sql(f"create table emp (id int, pay int) {ACID}")
        session.sql(f"create table log (batch bigint, n bigint) {ACID}")
        yield session


def rows(acid: Session, table: str) -> list[tuple[Any, ...]]:
    found = read_arrow(acid.table(table)).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def rows_of(acid: Session, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in read_arrow(acid.table(table)).read_all().to_pylist()]


def source(tmp_path: Path, *batches: list[dict[str, Any]]) -> Path:
    directory = tmp_path / "in"
    directory.mkdir(exist_ok=True)
    for batch in batches:
        number = len(list(directory.iterdir()))
        text = "".join(json.dumps(row) + "\n" for row in batch)
        (directory / f"{number:03d}.json").write_text(text)
    return directory


def stream(
    spark: SparkSession, tmp_path: Path, write: Callable[[DataFrame, int], None], schema: str
) -> None:
    """All that lies in the source, a file a batch."""
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    query = (
        read.json(str(tmp_path / "in"))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.jvm
def test_a_batch_that_comes_again_is_left_out(
    acid: Session, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source(tmp_path, [{"id": 1, "pay": 1}], [{"id": 2, "pay": 2}])
    write = hiveacid.foreach_batch(acid, "emp")
    stream(spark, tmp_path, write, "id int, pay int")
    assert rows(acid, "emp") == [(1, 1), (2, 2)]
    set_back(tmp_path / "checkpoint")
    source(tmp_path, [{"id": 3, "pay": 3}])
    stream(spark, tmp_path, write, "id int, pay int")
    assert rows(acid, "emp") == [(1, 1), (2, 2), (3, 3)]
    assert "is in default.emp already" in caplog.text


def test_upsert_and_its_log_are_one_transaction(
    acid: Session, spark: SparkSession, tmp_path: Path
) -> None:
    def also(txn: AcidTransaction, batch: DataFrame, number: int) -> None:
        count = batch.count()
        txn.sql(f"insert into log values ({number}, {count})")
        if count == 3:
            raise ZeroDivisionError

    write = hiveacid.foreach_batch(acid, "emp", mode="upsert", on="id", app_id="a", also=also)
    first = spark.createDataFrame([(1, 1), (2, 2)], "id int, pay int")
    write(first, 0)
    write(first, 0)
    write(spark.createDataFrame([(2, 20)], "id int, pay int"), 1)
    with pytest.raises(ZeroDivisionError):
        write(spark.createDataFrame([(7, 7), (8, 8), (9, 9)], "id int, pay int"), 2)
    assert rows(acid, "emp") == [(1, 1), (2, 20)]
    assert rows(acid, "log") == [(0, 2), (1, 1)]
    write(spark.createDataFrame([(7, 7)], "id int, pay int"), 2)
    assert rows(acid, "emp") == [(1, 1), (2, 20), (7, 7)]


def test_changes_delete_update_and_insert(acid: Session, spark: SparkSession) -> None:
    acid.sql("insert into emp values (1, 1), (2, 2), (3, 3)")
    write = hiveacid.foreach_batch(
        acid, "emp", mode="cdc", on="id", delete_where="s.op = 'd'", app_id="a"
    )
    changes = [(1, 0, "d"), (2, 20, None), (4, 4, "i"), (5, 5, "d")]
    write(spark.createDataFrame(changes, "id int, pay int, op string"), 0)
    assert rows(acid, "emp") == [(2, 20), (3, 3), (4, 4)]


def test_of_several_rows_of_a_key_the_newest_is_written(acid: Session, spark: SparkSession) -> None:
    schema = "id int, pay int, op string, at int, offset int"
    for number, columns in enumerate(("at", ["at", "offset"])):
        write = hiveacid.foreach_batch(
            acid,
            "emp",
            mode="cdc",
            on="id",
            delete_where="s.op = 'd'",
            order_by=columns,
            app_id="a",
        )
        changes = [
            (1, 10, "i", 1, 7),
            (1, 11, "u", 3, 5),
            (1, 12, "u", 2, 9),
            (2, 20, "i", 1, 1),
            (2, 0, "d", 2, 1),
            (3, 30, "d", None, 1),
            (3, 31, "u", 1, 1),
            (None, 40, "i", 1, 1),
            (None, 41, "i", 1, 1),
        ]
        frame = spark.createDataFrame(changes, schema)
        write(frame.drop("offset") if columns == "at" else frame, number)
        new = [(1, 11), (3, 31), (None, 40), (None, 41)]
        found = rows_of(acid, "emp")
        assert {one: found.count(one) for one in new} == {
            one: 1 if one[0] else number + 1 for one in new
        }
        assert len(found) == 4 + 2 * number
    tied = [(5, 50, "i", 1, 1), (5, 51, "i", 1, 1)]
    with pytest.raises(CardinalityError, match=r'which of several rows .*"id":5'):
        write(spark.createDataFrame(tied, schema), 2)


def test_a_column_that_orders_may_be_called_like_a_part_of_the_condition(
    acid: Session, spark: SparkSession
) -> None:
    write = hiveacid.foreach_batch(
        acid, "emp", mode="cdc", on="id", delete_where="s.state = 'd'", order_by="at", app_id="a"
    )
    changes = [(1, 10, "i", 1), (1, 11, "u", 2)]
    write(spark.createDataFrame(changes, "id int, pay int, state string, at int"), 0)
    assert [row for row in rows_of(acid, "emp") if row[0] == 1] == [(1, 11)]


def test_several_rows_of_a_new_key_are_refused(acid: Session, spark: SparkSession) -> None:
    write = hiveacid.foreach_batch(acid, "emp", mode="upsert", on=["id"], app_id="a")
    with pytest.raises(CardinalityError, match=r'"id":1'):
        write(spark.createDataFrame([(1, 1), (1, 2), (2, 2)], "id int, pay int"), 0)
    assert rows(acid, "emp") == []
    twice = hiveacid.foreach_batch(acid, "emp", mode="upsert", on=["id", "pay"], app_id="a")
    twice(spark.createDataFrame([(1, 1), (1, 2), (2, 2)], "id int, pay int"), 0)
    assert rows(acid, "emp") == [(1, 1), (1, 2), (2, 2)]


def test_the_settings_of_the_session_go_where_the_function_goes(
    acid: Session, spark: SparkSession
) -> None:
    write = hiveacid.foreach_batch(acid, "emp", app_id="a")
    acid.sql("set hiveacid.conflict.retries=7")
    there = pickle.loads(pickle.dumps(write))
    there(spark.createDataFrame([(1, 1)], "id int, pay int"), 0)
    assert there.session.settings == acid.settings
    assert there.session.settings.conflict_retries == 7
    there.session.close()


def test_each_stream_and_table_counts_by_itself(acid: Session, spark: SparkSession) -> None:
    acid.sql(f"create table other (id int, pay int) {ACID}")
    frame = spark.createDataFrame([(1, 1)], "id int, pay int")
    for table, app in (("emp", "a"), ("emp", "b"), ("other", "a"), ("emp", "a")):
        hiveacid.foreach_batch(acid, table, app_id=app)(frame, 0)
    assert (rows(acid, "emp"), rows(acid, "other")) == ([(1, 1)] * 2, [(1, 1)])
    acid.sql("alter table other rename to renamed")
    hiveacid.foreach_batch(acid, "renamed", app_id="a")(frame, 0)
    assert rows(acid, "renamed") == [(1, 1)]
    acid.sql("drop table renamed")
    acid.sql(f"create table renamed (id int, pay int) {ACID}")
    hiveacid.foreach_batch(acid, "renamed", app_id="a")(frame, 0)
    assert rows(acid, "renamed") == [(1, 1)]


def test_a_checkpoint_of_another_table(acid: Session, spark: SparkSession, tmp_path: Path) -> None:
    """The rows before would be missing, and nobody would know."""
    acid.sql(f"create table other (id int, pay int) {ACID}")
    source(tmp_path, [{"id": 1, "pay": 1}])
    first = hiveacid.foreach_batch(acid, "emp", app_id="a")
    stream(spark, tmp_path, first, "id int, pay int")
    source(tmp_path, [{"id": 2, "pay": 2}])
    second = hiveacid.foreach_batch(acid, "other", app_id="a")
    with pytest.raises(StreamingQueryException, match=r"default.emp \(up to 0\)"):
        stream(spark, tmp_path, second, "id int, pay int")
    assert (rows(acid, "emp"), rows(acid, "other")) == ([(1, 1)], [])
    hiveacid.foreach_batch(acid, "other", app_id="b")(
        spark.createDataFrame([(2, 2)], "id int, pay int"), 1
    )
    assert rows(acid, "other") == [(2, 2)]


def test_of_two_drivers_with_one_batch_one_writes(acid: Session, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 1)], "id int, pay int")
    write = hiveacid.foreach_batch(acid, "emp", app_id="a")

    def quicker(txn: AcidTransaction, batch: DataFrame, number: int) -> None:
        write(batch, number)

    hiveacid.foreach_batch(acid, "emp", app_id="a", also=quicker)(frame, 3)
    assert rows(acid, "emp") == [(1, 1)]


def test_of_two_streams_with_one_name_the_later_one_ends(
    acid: Session, spark: SparkSession
) -> None:
    mine, its = (spark.createDataFrame([(1, pay)], "id int, pay int") for pay in (1, 2))
    first, second = (hiveacid.foreach_batch(acid, "emp", app_id="a") for _ in range(2))
    first(mine, 0)
    second(its, 0)  # it may have come again, by another process
    first(mine, 1)
    for _ in range(2):
        first(mine, 1)
    with pytest.raises(InvalidInputError, match="another one writes under the name") as caught:
        second(its, 1)
    assert "app_id of its own" in caught.value.__notes__[0]
    assert rows(acid, "emp") == [(1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("isolation", "expected"), [("snapshot", [(7, 1), (7, 2)]), ("serializable", [(7, 1)])]
)
def test_two_streams_with_one_new_key(
    acid: Session, spark: SparkSession, isolation: str, expected: list[Any]
) -> None:
    """What docs/streaming.md says of them, and to do."""
    acid.sql(f"alter table emp set tblproperties ('hiveacid.isolation'='{isolation}')")
    mine, its = (spark.createDataFrame([(7, pay)], "id int, pay int") for pay in (1, 2))
    other = hiveacid.foreach_batch(acid, "emp", mode="upsert", on="id", app_id="b")
    tries: list[int] = []

    def meanwhile(txn: AcidTransaction, batch: DataFrame, number: int) -> None:
        tries.append(number)
        if len(tries) == 1:
            other(its, 0)

    write = hiveacid.foreach_batch(acid, "emp", mode="upsert", on="id", app_id="a", also=meanwhile)
    write(mine, 0)
    assert rows(acid, "emp") == expected
    assert len(tries) == (1 if isolation == "snapshot" else 2)


def test_it_pickles_without_its_session(acid: Session, spark: SparkSession) -> None:
    write = pickle.loads(pickle.dumps(hiveacid.foreach_batch(acid, "emp", app_id="a")))
    write(spark.createDataFrame([(1, 1)], "id int, pay int"), 0)
    assert rows(acid, "emp") == [(1, 1)]
    write.session.close()


WRONG: list[tuple[dict[str, Any], type[AcidError]]] = [
    ({"table": "none"}, NotFoundError),
    ({"table": "emp", "mode": "merge"}, InvalidInputError),
    ({"table": "emp", "mode": "upsert"}, InvalidInputError),
    ({"table": "emp", "on": "id"}, InvalidInputError),
    ({"table": "emp", "mode": "cdc", "on": "id"}, InvalidInputError),
    ({"table": "emp", "mode": "upsert", "on": "id", "delete_where": "x"}, InvalidInputError),
]


@pytest.mark.parametrize(("arguments", "error"), WRONG)
def test_arguments_that_do_not_fit(
    acid: Session, arguments: dict[str, Any], error: type[AcidError]
) -> None:
    with pytest.raises(error):
        hiveacid.foreach_batch(acid, **arguments)


def test_a_stream_without_a_name(acid: Session, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 1)], "id int, pay int")
    with pytest.raises(InvalidInputError, match="not known here"):
        hiveacid.foreach_batch(acid, "emp")(frame, 0)


def frame_of(
    spark: SparkSession, schema: str = "id int, pay int", *rows: tuple[Any, ...]
) -> DataFrame:
    return spark.createDataFrame(list(rows) or [(1, 1)], schema)


@pytest.mark.parametrize("statement", ["drop table emp", "alter table emp rename to moved"])
def test_a_table_that_goes_under_the_stream(
    acid: Session, spark: SparkSession, tmp_path: Path, statement: str
) -> None:
    write = hiveacid.foreach_batch(acid, "emp", mode="upsert", on="id", app_id="a")
    write(frame_of(spark), 0)
    acid.sql(statement)
    with pytest.raises(NotFoundError, match=r"Table not found default\.emp"):
        write(frame_of(spark), 1)
    assert not (tmp_path / "wh" / "emp").exists()
    assert is_at_rest(acid)


def is_at_rest(acid: Session) -> bool:
    store = acid.client.own
    return store.show_locks() == () and store.get_open_txns().open == ()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_that_is_altered_under_the_stream(
    acid: Session, spark: SparkSession, mode: str
) -> None:
    on = None if mode == "append" else "id"
    write = hiveacid.foreach_batch(acid, "emp", mode=mode, on=on, app_id="a")
    write(frame_of(spark), 0)
    acid.sql("alter table emp add columns (more int)")
    with pytest.raises(InvalidInputError, match="more"):
        write(frame_of(spark), 1)
    write(frame_of(spark, "id int, pay int, more int", (2, 3, 7)), 1)
    assert rows(acid, "emp") == [(1, 1, None), (2, 3, 7)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_row_that_does_not_fit_fails_the_batch(
    acid: Session, spark: SparkSession, mode: str
) -> None:
    on = None if mode == "append" else "id"
    write = hiveacid.foreach_batch(acid, "emp", mode=mode, on=on, app_id="a")
    wrong = frame_of(spark, "id int, pay bigint", (1, 1), (2, 1 << 40))
    with pytest.raises(ConversionError, match="pay"):
        write(wrong, 0)
    assert rows(acid, "emp") == []
    assert is_at_rest(acid)
    write(frame_of(spark), 0)
    assert rows(acid, "emp") == [(1, 1)]


def test_a_transaction_that_somebody_aborted_writes_nothing(
    acid: Session, spark: SparkSession
) -> None:
    def abort(txn: AcidTransaction, batch: DataFrame, number: int) -> None:
        with hiveacid.connect(None, acid.client.metastore.url) as other:
            (mine,) = other.client.own.get_open_txns().open
            other.sql(f"abort transactions {mine}")

    with pytest.raises(TransactionError):
        hiveacid.foreach_batch(acid, "emp", app_id="a", also=abort)(frame_of(spark), 0)
    assert rows(acid, "emp") == []
    hiveacid.foreach_batch(acid, "emp", app_id="a")(frame_of(spark), 0)
    assert rows(acid, "emp") == [(1, 1)]


def test_a_view_takes_no_stream(acid: Session, spark: SparkSession) -> None:
    acid.sql("create view v as select * from emp")
    with pytest.raises(InvalidInputError, match="view"):
        hiveacid.foreach_batch(acid, "v", app_id="a")(frame_of(spark), 0)
    assert is_at_rest(acid)
