"""MERGE of a small source: the driver's join gives what Spark's gives, and shuffles nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import AcidError, CardinalityError
from hiveacid.session import Session
from hiveacid.spark.session import driver_memory

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 gives no Arrow tables"
)
ACID = "stored as orc tblproperties ('transactional'='true')"
Rows = Callable[[str], list[tuple[Any, ...]]]
COLUMNS = "k bigint, line int, v string, x decimal(9,2), d date, at timestamp"
SOURCE = """
    select {key} k, cast(({key}) % 3 as int) line, if(id % 7 = 0, null, concat('new ', id)) v,
        cast(id * 1.5 as decimal(9,2)) x, date_add(date '2020-01-01', cast(id as int)) d,
        timestamp '2020-01-01 10:00:00.123456' + make_interval(0, 0, 0, 0, cast(id as int)) at,
        if(id % 4 = 0, 'D', if(id % 4 = 1, 'I', 'U')) op, cast(id % 2 as int) p
    from range(0, 60)
"""
HERE = [
    "when matched then update set * when not matched then insert *",
    "when matched then delete",
    "when matched and s.op = 'D' then delete when matched and s.op <> 'I' then update set v = s.v,"
    " at = s.at when not matched and s.op in ('I', 'U') then insert (k, line, v) values (s.k,"
    " s.line, s.v)",
    "when not matched then insert values (s.k, s.line, s.v, s.x, s.d, s.at)",
    "when matched and s.v is null then update set x = s.x",
]
BY_SPARK = [
    "when matched then update set v = upper(s.v)",
    "when matched and t.v = 'old' then delete",
    "when matched then update set line = s.k",
    "when not matched by source then delete",
    "when matched and length(s.v) > 2 then delete",
]


@pytest.fixture(autouse=True)
def small_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiveacid.statements.few_rows.TARGET_LEAST_BYTES", 0)


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each MERGE that Spark joins."""
    from hiveacid.spark.write import write_events

    found: list[str] = []

    def spy(*arguments: Any, **names: Any) -> Any:
        found.append("write_events")
        return write_events(*arguments, **names)

    monkeypatch.setattr("hiveacid.statements.merge.write_events", spy)
    return found


def make(acid: Session, name: str, clauses: str = "") -> None:
    acid.sql(f"create table {name} ({COLUMNS}) {clauses} {ACID}")
    keys = "partition (p)" if "partitioned" in clauses else ""
    part = ", cast(id % 2 as int)" if keys else ""
    acid.sql(
        f"insert into {name} {keys} select id, cast(id % 3 as int), 'old', 0.5, date '2019-01-01',"
        f" timestamp '2019-01-01 00:00:00' {part} from range(0, 40, 1, 2)"
    )


def merged(acid: Session, name: str, clauses: str, source: str) -> Any:
    return acid.sql(
        f"merge into {name} t using ({source}) s on t.k = s.k and s.line = t.line {clauses}"
    )


def both(acid: Session, clauses: str, source: str, joins: list[str], how: str = "") -> int:
    """Do it both ways; the counts and rows are equal. How many of the two Spark joined."""
    joins.clear()
    answers: list[object] = []
    for name, limit in (("here", "64000000"), ("there", "0")):
        acid.sql(f"drop table if exists {name}")
        make(acid, name, how)
        acid.sql(f"set hiveacid.merge.local_bytes={limit}")
        try:
            result = merged(acid, name, clauses, source)
            answers.append((result.updated, result.inserted, result.deleted))
        except AcidError as error:
            answers.append((type(error), error.context.get("code"), 0))
        found = acid.sql(f"select * from {name} order by k, line, v").collect()
        answers.append(found)
    assert answers[0] == answers[2], clauses
    assert answers[1] == answers[3], clauses
    acid.sql("set hiveacid.merge.local_bytes=64000000")
    return len(joins)


def taking(columns: str, clauses: str, how: str = "") -> str:
    """The source with no column that a clause with * would lose."""
    wanted = f"{columns}{', p' * ('partitioned' in how)}{', op' * ('s.op' in clauses)}"
    return f"select {wanted} from ({SOURCE.format(key='id + 20')})"


LONG = pytest.mark.long("statements", "spark", "storage")


@pytest.mark.parametrize(
    ("how", "each"),
    [
        ("", HERE[1:4]),
        pytest.param("", [HERE[0], HERE[4]], marks=LONG),  # HERE[0]: see the times below
        pytest.param("clustered by (k) into 3 buckets", HERE, marks=LONG),
        pytest.param("partitioned by (p int)", HERE, marks=LONG),
    ],
)
def test_the_driver_and_spark_give_the_same_rows(
    acid: Session, joins: list[str], how: str, each: list[str]
) -> None:
    for clauses in each:
        if "insert" in clauses and "*" not in clauses and "partitioned" in how:
            continue  # the partition has no value
        source = taking("k, line, v, x, d, at", clauses, how)
        assert both(acid, clauses, source, joins, how) == 1, clauses


@LONG
def test_what_the_driver_cannot_know_is_sparks(acid: Session, joins: list[str]) -> None:
    for clauses in BY_SPARK:
        source = taking("k, line, v, x, d, at", clauses)
        assert both(acid, clauses, source, joins) == 2, clauses


def test_null_keys_and_repeated_keys(acid: Session, joins: list[str]) -> None:
    insert = (
        "when matched then update set v = s.v when not matched then insert (k, v) values (s.k, s.v)"
    )
    source = f"select if(k % 5 = 0, null, k) k, line, v from ({SOURCE.format(key='id + 20')})"
    assert both(acid, insert, source, joins) == 1
    twice = f"select cast(k div 2 as bigint) k, 0 line, v from ({SOURCE.format(key='id')})"
    assert both(acid, insert, twice, joins) == 1
    with pytest.raises(CardinalityError):
        merged(acid, "here", insert, twice)


@pytest.mark.long("spark", "statements")
def test_a_match_that_would_move_a_row_is_an_error(acid: Session, joins: list[str]) -> None:
    update = "when matched then update set *"
    source = taking("k, line, v, x, d, at, 7 p", update)
    assert both(acid, update, source, joins, "partitioned by (p int)") == 1


@pytest.mark.jvm
def test_a_driver_of_little_memory_takes_no_source(
    acid: Session, joins: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(acid, "t")
    monkeypatch.setattr("hiveacid.statements.few_rows.driver_share", lambda _: 1)
    merged(acid, "t", "when matched then delete", SOURCE.format(key="id + 20"))
    assert len(joins) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("1g", 1 << 30), ("512", 512 << 20), ("2048K", 2 << 20), ("100b", 100), ("1gb", 1 << 30)],
)
def test_the_heap_of_the_driver_is_what_sparks_setting_says(text: str, size: int) -> None:
    session: Any = SimpleNamespace(conf={"spark.driver.memory": text})
    assert driver_memory(session) == size


@pytest.mark.jvm
def test_the_source_is_one_job(acid: Session, spark: SparkSession) -> None:
    make(acid, "one")
    acid.sql("set hiveacid.merge.local_bytes=64000000")
    source = f"select k, line, v, x, d, at from ({SOURCE.format(key='id + 20')})"
    clauses = "when matched then update set * when not matched then insert *"
    context = spark.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "one merge")
    result = merged(acid, "one", clauses, source)
    context.setLocalProperty("spark.jobGroup.id", None)
    context._jsc.sc().listenerBus().waitUntilEmpty(300_000)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("one merge")]
    assert [len(job.stageIds) for job in jobs if job is not None] == [1]
    assert (result.updated, result.inserted) == (20, 40)


@pytest.mark.parametrize("zone", ["America/New_York", pytest.param("+05:30", marks=LONG)])
def test_times_are_wall_clocks_of_the_session(
    acid: Session, spark: SparkSession, joins: list[str], zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        source = taking("k, line, v, x, d, at", HERE[0])
        assert both(acid, HERE[0], source, joins) == 1
        made = acid.sql("select string(at) from here where k = 20").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert made == [("2020-01-01 10:00:00.123456",)]


@pytest.mark.long("spark", "statements")
def test_a_condition_that_fails_for_a_row_that_spark_would_not_ask(
    acid: Session, spark: SparkSession, joins: list[str]
) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    insert = "insert (k, v) values (s.k, s.v)"
    try:
        for clauses in (
            f"when not matched and s.v = s.line then {insert}",  # a text that is no number
            f"when not matched and s.line > 'x' then {insert}",
            "when matched and s.line in ('1', '2') then delete",
        ):
            source = "select id + 20 k, 0 line, if(id < 20, 'x', '0') v from range(0, 60)"
            both(acid, clauses, f"select k, cast(line as int) line, v from ({source})", joins)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


def test_a_source_that_fails_is_evaluated_once(
    acid: Session, spark: SparkSession, joins: list[str]
) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        make(acid, "here")
        source = "select id k, 0 line, string(1 / if(id < 50, 1, 0)) v from range(0, 60)"
        with pytest.raises(AcidError, match="DIVIDE_BY_ZERO"):
            merged(acid, "here", "when matched then update set v = s.v", source)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    assert joins == []
