"""What changed between two versions, told by files alone."""

from __future__ import annotations

from typing import Any

import pytest

from hiveacid import read_changes
from hiveacid.session import Session
from hiveacid.table import AcidTable

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def plain(acid: Session) -> AcidTable:
    """Write ids 1 to 4: three rows; one changed, one new; one deleted; one changed."""
    acid.sql(f"create table p (id int, v string) {ACID}")
    table = acid.table("p")
    table.write_arrow([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}])
    table.merge_arrow([{"id": 2, "v": "B"}, {"id": 4, "v": "d"}], on="id")
    table.delete_arrow("id = 1")
    table.merge_arrow([{"id": 2, "v": "BB"}], on="id")
    return table


def events(table: AcidTable, **asked: Any) -> list[tuple[Any, ...]]:
    found = read_changes(table, **asked).read_all().to_pylist()
    return sorted(
        (row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in found
    )


def test_inserts_and_deletes_have_the_write_id_that_made_them(plain: AcidTable) -> None:
    assert events(plain, since=1) == [
        (2, "delete", 2, "b"),
        (2, "insert", 2, "B"),
        (2, "insert", 4, "d"),
        (3, "delete", 1, "a"),
        (4, "delete", 2, "B"),
        (4, "insert", 2, "BB"),
    ]
    assert events(plain, since=1, until=2, key="id") == [
        (2, "insert", 4, "d"),
        (2, "update_postimage", 2, "B"),
        (2, "update_preimage", 2, "b"),
    ]
