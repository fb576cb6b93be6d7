"""What changed between two versions, told by files alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hiveacid import read_changes
from hiveacid.errors import InvalidInputError, SnapshotExpiredError
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.session import Session
from hiveacid.table import AcidTable

pytestmark = pytest.mark.slow
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


def test_bounds_say_which_ends_belong_to_it(plain: AcidTable) -> None:
    assert {one[0] for one in events(plain, since=2, until=3)} == {3}
    assert {one[0] for one in events(plain, since=2, until=3, bounds="[]")} == {2, 3}
    assert {one[0] for one in events(plain, since=2, until=4, bounds="()")} == {3}
    assert {one[0] for one in events(plain, since=1, until=4, bounds="[)")} == {1, 2, 3}
    assert events(plain, since=4) == []


def test_versions_follow_the_order_of_commits(acid: Session, plain: AcidTable) -> None:
    """Write id 5 commits after 6: a reader who has 6 gets 5 later, and 7 with both."""
    other = acid.over(None)
    other.sql("start transaction")
    other.table("p").write_arrow([{"id": 5, "v": "late"}])
    plain.write_arrow([{"id": 6, "v": "early"}])
    assert events(plain, since=4) == [(6, "insert", 6, "early")]
    other.sql("commit")
    assert events(plain, since=4, until=6) == [(6, "insert", 6, "early")]
    assert events(plain, since=6) == [(5, "insert", 5, "late")]
    assert events(plain, since=5) == events(plain, since=5, until=5) == []
    assert events(plain, since=6, until=5) == [(5, "insert", 5, "late")]
    assert {one[0] for one in events(plain, since=5, bounds="[]")} == {5}
    assert {one[0] for one in events(plain, since=6, bounds="[]")} == {5, 6}
    with pytest.raises(InvalidInputError, match="committed before version 5"):
        events(plain, since=5, until=6)


def test_a_write_id_of_no_recorded_commit_hides_none_that_is_recorded(
    acid: Session, plain: AcidTable, tmp_path: Path
) -> None:
    """Write id 5 is Hive's, or of a transaction that is forgotten; 6 commits after 7."""
    metastore = acid.client.metastore
    (txn,) = metastore.open_txns(1, user="u", host="h")
    metastore.allocate_write_ids((txn,), plain.name)
    metastore.abort_txn(txn)
    other = acid.over(None)
    other.sql("start transaction")
    other.table("p").write_arrow([{"id": 6, "v": "late"}])
    plain.write_arrow([{"id": 7, "v": "early"}])
    other.sql("commit")
    with closing(sqlite3.connect(tmp_path / "metastore.db")) as database, database:
        database.execute("UPDATE TXNS SET TXN_STATE = 'c' WHERE TXN_ID = ?", (int(txn),))
    assert metastore.valid_write_ids((plain.name,))[0].is_valid(5)

    both = [(6, "insert", 6, "late"), (7, "insert", 7, "early")]
    assert events(plain, since=4) == both
    assert events(plain, since=7) == both[:1]
    assert events(plain, since=6) == []


def test_an_overwrite_that_nobody_recorded_comes_before_what_follows(
    acid: Session, plain: AcidTable, tmp_path: Path
) -> None:
    """Write id 5 is Hive's; 6 is ours, and 7 commits after 8."""
    plain.write_arrow([{"id": 5, "v": "all"}], overwrite=True)
    plain.write_arrow([{"id": 6, "v": "next"}])
    other = acid.over(None)
    other.sql("start transaction")
    other.table("p").write_arrow([{"id": 7, "v": "late"}])
    plain.write_arrow([{"id": 8, "v": "early"}])
    other.sql("commit")
    with closing(sqlite3.connect(tmp_path / "metastore.db")) as database, database:
        database.execute("DELETE FROM HIVEACID_COMMITS WHERE HC_WRITEID <= 5")
    assert [one for one in events(plain, since=3) if one[0] >= 5] == [
        (5, "delete", 2, "BB"),
        (5, "delete", 3, "c"),
        (5, "delete", 4, "d"),
        (5, "insert", 5, "all"),
        (6, "insert", 6, "next"),
        (7, "insert", 7, "late"),
        (8, "insert", 8, "early"),
    ]


def test_the_write_ids_that_a_converted_table_never_had_are_not_gone_through(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("create table c (id int, v string) stored as orc")
    acid.sql("alter table c set tblproperties ('transactional'='true')")
    table, asked = acid.table("c"), 0
    table.write_arrow([{"id": 1, "v": "a"}])
    table.write_arrow([{"id": 2, "v": "b"}], overwrite=True)
    other = acid.over(None)
    other.sql("start transaction")
    other.table("c").write_arrow([{"id": 3, "v": "late"}])
    table.write_arrow([{"id": 4, "v": "early"}])
    other.sql("commit")
    original = ValidWriteIdList.is_valid

    def counted(self: ValidWriteIdList, write_id: int) -> bool:
        nonlocal asked
        asked += 1
        return original(self, write_id)

    monkeypatch.setattr(ValidWriteIdList, "is_valid", counted)
    found = [(number - 10_000_000, *rest) for number, *rest in events(table, since=0)]
    assert found == [
        (1, "insert", 1, "a"),
        (2, "delete", 1, "a"),
        (2, "insert", 2, "b"),
        (3, "insert", 3, "late"),
        (4, "insert", 4, "early"),
    ]
    assert asked < 1_000


def test_times_are_those_of_the_commits(acid: Session, plain: AcidTable) -> None:
    found = read_changes(plain, since=0).read_all()
    (first, *_) = acid.client.own.commits(plain.name)
    times = dict(zip(found["_write_id"].to_pylist(), found["_commit_timestamp"], strict=True))
    assert times[1].as_py().timestamp() == first.committed_ms / 1000


def test_the_modes_leave_out_what_they_say(acid: Session, plain: AcidTable) -> None:
    acid.sql("start transaction")
    plain.write_arrow([{"id": 9, "v": "brief"}])
    plain.delete_arrow("id = 9")
    plain.merge_arrow([{"id": 3, "v": "C"}], on="id")
    plain.merge_arrow([{"id": 3, "v": "CC"}], on="id")
    acid.sql("commit")
    assert events(plain, since=4, key="id") == [
        (5, "update_postimage", 3, "CC"),
        (5, "update_preimage", 3, "c"),
    ]
    all_of = events(plain, since=4, deduplication="none")
    assert (5, "delete", 9, "brief") in all_of
    assert (5, "delete", 3, "C") in all_of
    assert events(plain, since=1, key="id", deduplication="netchanges") == [
        (2, "insert", 4, "d"),
        (3, "delete", 1, "a"),
        (4, "update_postimage", 2, "BB"),
        (4, "update_preimage", 2, "b"),
        (5, "update_postimage", 3, "CC"),
        (5, "update_preimage", 3, "c"),
    ]


def test_a_primary_key_pairs_images_unless_asked_not_to(acid: Session) -> None:
    acid.sql(f"create table k (id int, v string, primary key (id) disable novalidate) {ACID}")
    table = acid.table("k")
    table.write_arrow([{"id": 1, "v": "a"}])
    table.merge_arrow([{"id": 1, "v": "b"}], on="id")
    kinds = [one[1] for one in events(table, since=1)]
    assert kinds == ["update_postimage", "update_preimage"]
    assert [one[1] for one in events(table, since=1, updates=False)] == ["delete", "insert"]


def test_what_is_cleaned_is_an_error_that_names_the_oldest_version(
    acid: Session, plain: AcidTable
) -> None:
    plain.compact("major", wait=True)
    whole = events(plain, since=1)
    for path in Path(plain.definition.location).glob("*delta_*"):
        shutil.rmtree(path)
    plain.write_arrow([{"id": 7, "v": "new"}])
    with pytest.raises(SnapshotExpiredError, match="told since 4") as raised:
        events(plain, since=1)
    assert raised.value.context["write_id"] == 4
    assert len(whole) == 6
    assert events(plain, since=4) == [(5, "insert", 7, "new")]


def test_wrong_versions_are_refused(acid: Session, plain: AcidTable) -> None:
    for asked in ({"since": 9}, {"since": 0, "until": 9}, {"since": 3, "until": 2}, {"since": -1}):
        with pytest.raises(InvalidInputError):
            events(plain, **asked)
    with pytest.raises(InvalidInputError, match="deduplicationMode is one of none"):
        events(plain, since=1, deduplication="some")
    acid.sql("create table flat (id int) stored as orc tblproperties ('transactional'='false')")
    with pytest.raises(InvalidInputError, match="not transactional"):
        read_changes(acid.table("flat"), since=1)


def test_a_table_with_a_column_of_the_feed_tells_no_changes(acid: Session) -> None:
    acid.sql(f"create table own (id int, _change_type string) {ACID}")
    acid.table("own").write_arrow([{"id": 1, "_change_type": "mine"}])
    with pytest.raises(InvalidInputError, match="has a column _change_type of its own"):
        read_changes(acid.table("own"), since=0)
    acid.sql("alter table own change column _change_type kind string")
    assert read_changes(acid.table("own"), since=0).read_all()["kind"].to_pylist() == ["mine"]


def test_deletes_name_rows_by_the_ids_of_their_time(acid: Session) -> None:
    """A rebalance gives rows other ids, and some of those were other rows' before."""
    acid.sql(f"create table r (id int, v string) {ACID}")
    table = acid.table("r")
    table.write_arrow([{"id": n, "v": "first"} for n in range(3)])
    table.delete_arrow("id = 0")
    table.write_arrow([{"id": n, "v": "second"} for n in range(3, 6)])
    table.compact("rebalance", wait=True)
    table.delete_arrow("id in (2, 4)")  # their row ids were those of 1 and 5
    expected = [(4, "delete", 2, "first"), (4, "delete", 4, "second")]
    assert events(table, since=3) == expected
    assert events(table, since=1)[-2:] == events(table, since=0)[-2:] == expected
    table.write_arrow([{"id": 9, "v": "third"}], overwrite=True)
    overwritten = [(5, "delete", n, v) for n, v in ((1, "first"), (3, "second"), (5, "second"))]
    assert events(table, since=1)[-4:] == [*overwritten, (5, "insert", 9, "third")]


def test_an_ordinary_compaction_between_an_insert_and_its_delete_tells_no_less(
    plain: AcidTable,
) -> None:
    plain.compact("major", wait=True)
    plain.delete_arrow("id = 3")
    net = {"deduplication": "netChanges"}
    assert events(plain, since=0, **net) == [(2, "insert", 4, "d"), (4, "insert", 2, "BB")]
