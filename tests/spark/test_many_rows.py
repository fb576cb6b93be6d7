"""What becomes one hash table in memory: by its rows, not by the bytes of its files, which compress
well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.session import Session
from hiveacid.spark.write import write_events

pytestmark = pytest.mark.long("spark", "storage", "statements")
ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.mark.parametrize(
    ("at_most", "join"), [(2, "SortMergeJoin"), (3, "BroadcastHashJoin")], ids=["merged", "hashed"]
)
def test_more_delete_events_than_memory_should_hold_are_never_broadcast(
    at_most: int,
    join: str,
    acid: Session,
    rows: Callable[[str], list[tuple[Any, ...]]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1), (2), (3), (4), (5)")
    acid.sql("delete from t where id in (2, 4, 5)")
    monkeypatch.setattr("hiveacid.spark.delete_filter.EVENTS_HERE_MAX", 0)
    monkeypatch.setattr("hiveacid.spark.delete_filter.BROADCAST_EVENTS_MAX", at_most)
    acid.sql("select id from t").explain()
    assert join in capsys.readouterr().out
    assert rows("select id from t") == [(1,), (3,)]


@pytest.mark.jvm
@pytest.mark.parametrize(("size", "is_broadcast"), [(400_000, False), (1_000, True)])
def test_a_target_is_broadcast_where_its_rows_are_few(
    size: int,
    is_broadcast: bool,
    acid: Session,
    rows: Callable[[str], list[tuple[Any, ...]]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(spark: Any, events: Any, **names: Any) -> Any:
        events.explain()
        return write_events(spark, events, **names)

    monkeypatch.setattr("hiveacid.statements.merge.write_events", shown)
    acid.sql(f"create table t (id bigint, v int) {ACID}")
    acid.table("t").insert(acid.spark.range(size).selectExpr("id", "1 as v"))
    source = acid.spark.range(size - 1, size + 1).selectExpr("id", "2 as v")
    merge = acid.table("t").merge(source, on="t.id = s.id").when_matched_update({"v": "s.v"})
    merge.when_not_matched_insert_all().run()
    assert ("BroadcastHashJoin" in capsys.readouterr().out) is is_broadcast
    assert rows("select count(*), sum(v) from t") == [(size + 1, size + 3)]
