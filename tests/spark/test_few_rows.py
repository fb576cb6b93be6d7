"""UPDATE and DELETE of few rows by a condition that says all: by the driver, with Spark's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.running import jobs_begun

from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
Rows = Callable[[str], list[tuple[Any, ...]]]
CONDITIONS = [
    "k = 77", "k in (3, 5, -1)", "not k = 4 and k < 6", "k between 10 and 12 and v = 1",
    "v is null", "v <> 1 and k < 20", "s = 's7' or s >= 's95'", "s = 'S7'", "d = '2020-01-05'",
    "d < date '2020-01-03' and p = 1", "k = null", "k > 2.5 and k < 4.5", "s = 7",
    "p = 2 and k < 9",
]  # fmt: skip


def make(acid: Session, name: str) -> None:
    acid.sql(
        f"create table {name} (k bigint, v int, s string, d date, c char(4), w int)"
        f" partitioned by (p int) clustered by (k) into 2 buckets {ACID}"
    )
    acid.sql(
        f"insert into {name} select id, if(id % 9 = 0, null, cast(id % 4 as int)), concat('s', id),"
        " date_add(date '2020-01-01', cast(id % 30 as int)), concat('c', id % 5),"
        " null, cast(id % 3 as int) from range(0, 100, 1, 2)"
    )


@pytest.fixture
def spark_writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each write that Spark plans."""
    from hiveacid.spark.write import write_events

    found: list[str] = []

    def spy(*arguments: Any, **names: Any) -> Any:
        found.append("write_events")
        return write_events(*arguments, **names)

    monkeypatch.setattr("hiveacid.statements.update.write_events", spy)
    return found


@pytest.mark.long("statements", "spark", "storage")
def test_rows_are_those_that_spark_would_change(acid: Session, rows: Rows) -> None:
    make(acid, "t")
    flags = ", ".join(f"coalesce({condition}, false)" for condition in CONDITIONS)
    meets = {key: met for key, *met in rows(f"select k, {flags} from t")}
    last: dict[int, int] = {}
    for number, condition in enumerate(CONDITIONS):
        done = acid.sql(f"update t set w = {number}, c = 'ab' where {condition}")
        chosen = [key for key, met in meets.items() if met[number]]
        assert done.rows == len(chosen), condition
        last.update(dict.fromkeys(chosen, number))
    changed = "select k, w from t where rtrim(c) = 'ab'"
    assert rows(changed) == sorted(last.items(), key=str)
    for number, condition in enumerate(CONDITIONS):
        chosen = [key for key, met in meets.items() if met[number]]
        assert acid.sql(f"delete from t where {condition}").rows == len(chosen), condition
        for key in chosen:
            del meets[key]
    assert rows("select k from t") == sorted(((key,) for key in meets), key=str)


def test_a_key_is_changed_without_spark(acid: Session, rows: Rows, spark_writes: list[str]) -> None:
    make(acid, "t")
    assert acid.sql("update t set v = 7, s = null where k = 5").rows == 1
    assert acid.sql("delete from t x where x.k = 6 and p = 0").rows == 1
    assert acid.sql("delete from t where k = 1000").rows == 0
    assert rows("select k, v, s, p from t where k in (5, 6)") == [(5, 7, None, 2)]
    assert spark_writes == []
    assert acid.sql("update t set v = v + 1 where k = 5").rows == 1
    assert acid.sql("update t set v = 1 where k + 0 = 5").rows == 1
    assert acid.sql("delete from t where exists (select 1 from t y where y.k = t.k + 95)").rows > 0
    assert len(spark_writes) == 3


@pytest.mark.jvm
def test_it_starts_no_job(acid: Session) -> None:
    make(acid, "t")
    before = jobs_begun(acid.spark)
    acid.sql("update t set v = 7 where k = 5")
    acid.sql("delete from t where k = 6")
    assert jobs_begun(acid.spark) == before


def test_what_a_table_demands_of_its_rows_is_sparks(acid: Session, spark_writes: list[str]) -> None:
    acid.sql(f"create table n (k int, v int not null enable) {ACID}")
    acid.sql("insert into n values (1, 1), (2, 2)")
    with pytest.raises(Exception, match="NOT NULL"):
        acid.sql("update n set v = null where k = 1")
    assert len(spark_writes) == 1


@pytest.mark.parametrize(
    ("query", "writers"),
    [
        ("select k from few", 1),
        ("select k from few where k > 0", 1),
        ("select max(k) from few group by k % 3", 1),
        ("select r.id from range(0, 100, 1, 2) r join few on k = r.id % 4", 2),
        ("select y from few lateral view explode(array(k, k + 1)) x as y", 2),
    ],
)
def test_few_rows_have_one_writer_as_in_hive_and_hold_no_others_back(
    acid: Session, rows: Rows, query: str, writers: int
) -> None:
    acid.sql("set hiveacid.reads.local_bytes = 262144")
    acid.sql(f"create table few (k int) {ACID}")
    acid.sql("insert into few values (0), (1), (2), (3)")
    acid.sql(f"create table t (k bigint) {ACID}")
    acid.sql(f"insert into t {query}")
    assert rows("select count(distinct row__id.bucketid) from t") == [(writers,)]
