"""Delete events by how many there are: a hash table in memory, or sorted and merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.mark.parametrize(
    ("at_most", "join"), [(2, "SortMergeJoin"), (3, "BroadcastHashJoin")], ids=["merged", "hashed"]
)
def test_more_than_memory_should_hold_are_never_broadcast(
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
    monkeypatch.setattr("hiveacid.spark.deletes.BROADCAST_EVENTS_MAX", at_most)
    acid.sql("select id from t").explain()
    assert join in capsys.readouterr().out
    assert rows("select id from t") == [(1,), (3,)]
