"""UPDATE and DELETE of few rows by a condition that says all: by the driver, with Spark's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
        f"create table {name} (k bigint, v int, s string, d date, c char(4)) partitioned by (p int)"
        f" clustered by (k) into 2 buckets {ACID}"
    )
    acid.sql(
        f"insert into {name} select id, if(id % 9 = 0, null, cast(id % 4 as int)), concat('s', id),"
        " date_add(date '2020-01-01', cast(id % 30 as int)), concat('c', id % 5),"
        " cast(id % 3 as int) from range(0, 100, 1, 2)"
    )


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Runs something with the driver's way closed."""

    def run(work: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr("hiveacid.statements.update.delete_here", lambda *_, **__: None)
            patch.setattr("hiveacid.statements.update.update_here", lambda *_, **__: None)
            return work()

    return run


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


def test_rows_are_those_that_spark_would_change(
    acid: Session, rows: Rows, by_spark: Callable[[Callable[[], Any]], Any]
) -> None:
    make(acid, "a")
    make(acid, "b")
    for number, condition in enumerate(CONDITIONS):
        update = f"update {{}} set v = {number + 100}, c = 'ab' where {condition}"
        here = acid.sql(update.format("a"))
        there = by_spark(lambda text=update: acid.sql(text.format("b")))  # type: ignore[misc]
        assert here.rows == there.rows, condition
    assert rows("select * from a") == rows("select * from b")
    for condition in CONDITIONS:
        delete = f"delete from {{}} where {condition}"
        here = acid.sql(delete.format("a"))
        there = by_spark(lambda text=delete: acid.sql(text.format("b")))  # type: ignore[misc]
        assert here.rows == there.rows, condition
    assert rows("select * from a") == rows("select * from b")
    assert rows("select count(*) from a") == rows("select count(k) from a")


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
    store = acid.spark._jsc.sc().statusStore()  # type: ignore[attr-defined, union-attr]
    bus = acid.spark._jsc.sc().listenerBus()  # type: ignore[attr-defined, union-attr]
    bus.waitUntilEmpty()
    before = store.jobsList(None).size()
    acid.sql("update t set v = 7 where k = 5")
    acid.sql("delete from t where k = 6")
    bus.waitUntilEmpty()
    assert store.jobsList(None).size() == before


def test_what_a_table_demands_of_its_rows_is_sparks(acid: Session, spark_writes: list[str]) -> None:
    acid.sql(f"create table n (k int, v int not null enable) {ACID}")
    acid.sql("insert into n values (1, 1), (2, 2)")
    with pytest.raises(Exception, match="NOT NULL"):
        acid.sql("update n set v = null where k = 1")
    assert len(spark_writes) == 1
