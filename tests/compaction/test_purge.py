"""PURGE: what was deleted is in no file any more, and nothing else is touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compaction.world import MINOR, World

import hiveacid
from hiveacid import purging
from hiveacid.compaction.purge import PurgeReport, View
from hiveacid.errors import (
    AcidError,
    ConflictError,
    InvalidInputError,
    LockError,
    MissingFileError,
    SparkNeededError,
    SqlSyntaxError,
    TransactionError,
)
from hiveacid.session import Session
from hiveacid.settings import Settings

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "purging", "storage", "txn"
)

PLAIN = (
    "stored as orc tblproperties ('transactional'='true','orc.compress'='NONE',"
    "'hiveacid.retention'='7d')"
)
"""Whatever a row holds stands in its file."""


@pytest.fixture
def world(world_with: Callable[..., World]) -> World:
    """With ``t`` in two deltas: 1 and 2 are to be erased, 3 and 4 stay."""
    made = world_with(Settings(lock_timeout_s=1))
    made.make(what=PLAIN)
    write(made, {1: "secretA", 3: "stays"})
    write(made, {2: "secretB", 4: "stays"})
    return made


def write(world: World, rows: dict[int, str], table: str = "t", **values: str) -> None:
    """One transaction that inserts rows."""
    data = [{"id": key, "v": text} for key, text in rows.items()]
    hiveacid.write_arrow(world.acid.table(table), _arrow(data), partition=values)


def _arrow(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, pa.schema([("id", pa.int32()), ("v", pa.string())]))


def holding(world: World, text: str = "secret") -> list[str]:
    """The files of the warehouse, and of a metastore that is a file, in which a text stands."""
    database = Path(world.url.partition("///")[2])
    files = [path for path in Path(world.warehouse).rglob("*") if path.is_file()]
    files += [database] if world.url.startswith("sqlite") else []
    return [str(path) for path in files if text.encode() in path.read_bytes()]


def purge(world: World, where: str | None = None, **options: Any) -> PurgeReport:
    found = world.acid.table("t").purge(where=where, **options)
    assert isinstance(found, PurgeReport)
    return found


def test_rows_that_where_names_are_in_no_file_any_more(world: World) -> None:
    before = {str(path) for path in Path(world.warehouse).rglob("bucket_*")}
    found = purge(world, "v in ('secretA', 'secretB')")
    assert world.ids() == [3, 4]
    assert holding(world) == []
    assert (found.rows_deleted, found.rows_sought) == (2, 2)
    assert (found.rows_decoded, found.rows_found) == (2, 0)
    assert before < set(found.removed)
    assert {one.path for one in found.files_before} == set(found.removed)
    (left,) = found.files_after
    assert Path(left.path).stat().st_size == left.size_bytes


def test_its_delete_is_committed_where_autocommit_is_off(world: World) -> None:
    world.acid.sql("set autocommit = false")
    world.acid.sql("purge table t where id in (1, 2)")
    assert not world.acid.in_transaction
    assert (world.ids(), holding(world)) == ([3, 4], [])


def test_the_report_is_kept_as_json_without_what_was_erased(world: World) -> None:
    found = purge(world, "v = 'secretA' or id in (2, 7, 8)")
    kept = json.loads(Path(found.report).read_text())
    assert kept["where"] == "v = ? or id in ( ?, ... )"
    assert (kept["rows_found"], kept["ended_ms"]) == (0, found.ended_ms)
    assert [one["sha256"] for one in kept["files_after"]] == [
        one.sha256 for one in found.files_after
    ]
    assert holding(world) == []


def test_values_before_an_update_go_too_also_out_of_what_compactions_replaced(
    world: World,
) -> None:
    hiveacid.merge_arrow(world.acid.table("t"), _arrow([{"id": 1, "v": "known"}]), on="id")
    world.compact()
    assert holding(world) != []
    found = purge(world, "id in (1, 2)")
    assert found.rows_deleted == 2
    assert world.ids() == [3, 4]
    assert holding(world) == []


def test_without_where_only_what_is_deleted_goes(world: World) -> None:
    world.delete(1)
    rows = world.rows()
    found = purge(world)
    assert world.rows() == rows
    assert (found.rows_deleted, found.rows_sought, found.rows_found) == (0, 1, 0)
    assert holding(world, "secretA") == []
    again = purge(world)
    assert (again.removed, again.files_before, again.rows_decoded) == ((), (), 0)


def test_other_partitions_and_their_retention_are_left_alone(world: World) -> None:
    world.make("p", "partitioned by (k string) " + PLAIN)
    for number in (1, 2):
        write(world, {number: "secret"}, "p", k="a")
        write(world, {number: "kept"}, "p", k="b")
    world.compact(table="p", partition="k=b")
    world.delete(1, table="p")
    before = world.directories("p", "k=b")
    table = world.acid.table("p")
    found = table.purge("k = 'a' and id = 2")
    assert found.partitions == ("k=a",)
    assert world.directories("p", "k=b") == before
    assert holding(world, "kept") != []
    assert table.purge(where="k = 'a'").named == ()
    emptied = table.purge(where="k = 'b'")
    assert [("k=b" in one, "empty" in one) for one in emptied.named] == [(True, True)]


def test_what_aborted_transactions_and_killed_writers_left_goes(world: World) -> None:
    with pytest.raises(RuntimeError, match="changed my mind"), world.acid.transaction() as txn:
        txn.table("t").write_arrow(_arrow([{"id": 9, "v": "secretC"}]))
        raise RuntimeError("changed my mind")
    staged = Path(world.acid.table("t").definition.location, "_hiveacid_staging_1_x")
    staged.mkdir()
    (staged / "rows").write_bytes(b"secretD")
    purge(world, "v in ('secretA', 'secretB')")
    assert holding(world) == []


def test_open_transactions_are_named_and_nothing_is_done(world: World) -> None:
    store = world.client.metastore
    (txn,) = store.open_txns(1, user="ann", host="here")
    with pytest.raises(LockError, match=rf"transaction {txn} of ann@here") as caught:
        purge(world, "id = 1")
    assert caught.value.context["transactions"] == (txn,)
    assert f"ABORT TRANSACTIONS {txn}" in caught.value.__notes__
    assert world.ids() == [1, 2, 3, 4]
    store.abort_txn(txn)
    assert purge(world, "id = 1").rows_found == 0


def test_tags_are_named_and_nothing_is_done_unless_they_are_dropped(world: World) -> None:
    world.acid.sql("create tag q3 on t")
    world.acid.sql("create tag lately on t retain 1 minutes")
    world.clock.advance_ms(60_000)
    for wait in (None, 5):
        with pytest.raises(LockError, match=r"needed by tag q3 \(version 2\)") as caught:
            purge(world, "id = 1", wait=wait)
        assert caught.value.context["pins"] == ("tag q3",)
        assert any("DROP PINS" in note for note in caught.value.__notes__)
    assert world.ids() == [1, 2, 3, 4]
    for wrong in ("nme = 1", "id = ", "upper(v) = 'X'"):
        with pytest.raises(AcidError):
            world.acid.table("t").purge(where=wrong, drop_pins=True)
        assert [one.name for one in world.acid.tags()] == ["lately", "q3"], wrong
    world.delete(2)
    found = world.acid.sql("purge table t where id = 1 drop pins")
    assert (found.rows_found, found.rows_sought) == (0, 2)
    assert "tag q3, which kept version 2" in found.cleaned
    assert holding(world) == []
    assert [one.name for one in world.acid.tags()] == ["lately"]


def test_who_waits_goes_on_when_a_reader_has_ended(world: World) -> None:
    store = world.client.metastore
    (txn,) = store.open_txns(1, user="ann", host="here")
    with pytest.raises(LockError, match="waits for readers") as caught:
        purge(world, "id = 1", wait=20)
    assert caught.value.context["files"]
    assert world.ids() == [2, 3, 4]
    assert holding(world, "secretA") != []
    assert purge(world, "id = 1", wait=400).rows_found == 0  # its heartbeat is lost by then
    assert store.txn_info(txn) is None or store.txn_info(txn).state.name == "ABORTED"
    assert holding(world, "secretA") == []


def test_rows_that_others_insert_meanwhile_are_erased_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase = purging._Purge._erase
    left = [1]

    def inserting(self: Any) -> None:
        erase(self)
        if left and left.pop():
            write(world, {1: "secretA"})

    monkeypatch.setattr(purging._Purge, "_erase", inserting)
    assert purge(world, "id = 1").rows_deleted == 2
    assert holding(world, "secretA") == []
    left.extend([1] * 9)
    with pytest.raises(ConflictError, match="again and again"):
        purge(world, "id in (1, 2)")


def test_statistics_of_columns_are_forgotten_and_said(world: World) -> None:
    world.acid.sql(
        "alter table t set tblproperties ('spark.sql.statistics.colStats.v.max'='secretB')"
    )
    found = purge(world, "v in ('secretA', 'secretB')")
    assert any("spark.sql.statistics.colStats.v.max" in one for one in found.cleaned)
    assert "spark.sql.statistics.colStats.v.max" not in world.acid.table("t").definition.properties


def test_insert_only_tables_lose_what_was_overwritten(world: World) -> None:
    insert_only = PLAIN.replace("'hive", "'transactional_properties'='insert_only','hive")
    world.make("i", insert_only)
    write(world, {1: "gone"}, "i")
    hiveacid.write_arrow(world.acid.table("i"), _arrow([{"id": 2, "v": "stays"}]), overwrite=True)
    found = world.acid.table("i").purge()
    assert len(found.removed) == 1
    assert holding(world, "gone") == []
    assert world.ids("i") == [2]
    with pytest.raises(InvalidInputError, match="10414"):
        world.acid.table("i").purge(where="id = 2")


def test_what_was_replaced_after_a_compaction_that_waits_to_be_cleaned_goes(world: World) -> None:
    world.compact(MINOR)
    world.clock.advance_ms(2_000)
    world.acid.sql("truncate table t")
    write(world, {5: "stays"})
    assert holding(world) != []
    purge(world)
    assert holding(world) == []
    assert world.ids() == [5]


def test_what_an_aborted_write_left_in_a_partition_that_never_was_goes(world: World) -> None:
    world.make("p", f"partitioned by (k string) {PLAIN}")
    write(world, {3: "stays"}, "p", k="here")
    with world.acid.transaction() as txn:
        txn.table("p").write_arrow([{"id": 1, "v": "secretC", "k": "gone"}])
        Session(world.connect()).abort_transactions(txn.id)
        with pytest.raises(TransactionError):
            txn.commit()
    assert holding(world, "secretC") != []
    world.acid.table("p").purge(where="id = 9")
    assert holding(world, "secretC") == []
    assert world.ids("p") == [3]


def test_sql_says_the_same(world: World) -> None:
    world.acid.sql("insert into t values (7, 'secretE'), (8, 'stays')")
    found = world.acid.sql("purge table t where t.id = 1 or v in ('secretB', 'secretE') wait 5")
    assert isinstance(found, PurgeReport)
    assert (found.rows_deleted, found.rows_found) == (3, 0)
    assert holding(world) == []
    for words in ("", "drop pins", "wait 1 drop pins", "drop pins wait 1"):
        assert world.acid.sql(f"purge table default.t {words}").rows_deleted == 0
    with pytest.raises(SqlSyntaxError):
        world.acid.sql("purge table t drop pins wait 1 drop pins")
    world.make("wait", PLAIN, "wait int, id int")
    assert world.acid.sql("purge table wait where wait = 3 wait 1").rows_deleted == 0


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("(id int) stored as orc", "10286"),
        (
            "(id int) stored as orc tblproperties ('transactional'='true','no_cleanup'='true')",
            "no_cleanup",
        ),
    ],
)
def test_what_cannot_be_purged_is_refused(world: World, definition: str, message: str) -> None:
    world.acid.sql(f"create table n {definition}")
    with pytest.raises((InvalidInputError, LockError), match=message):
        world.acid.sql("purge table n")


def test_it_commits_at_once_and_needs_spark_for_what_arrow_cannot_tell(world: World) -> None:
    with world.acid.transaction() as txn, pytest.raises(InvalidInputError, match="transaction"):
        txn.sql("purge table t where id = 1")
    with pytest.raises(SparkNeededError):
        world.acid.sql("purge table t as x where x.id = 1")
    with pytest.raises(SparkNeededError):
        purge(world, "substr(v, 1, 6) = 'secret'")
    assert world.ids() == [1, 2, 3, 4]


def test_what_streams_refused_is_named(world: World) -> None:
    """Their records are texts in a table of its own, with columns of its own."""
    assert not any("rejected" in one for one in purge(world, "id = 1").named)
    with world.acid.stream("t", strict=False) as stream, stream.transaction():
        stream.write({"id": "x", "v": "secretC"})
    named = purge(world, "id = 2").named
    assert any(one.startswith("default.t_rejected") for one in named), named
    (record,) = hiveacid.read_arrow(world.acid.table("t_rejected")).read_all().to_pylist()
    assert "secretC" in record["record"]
    found = world.acid.table("t_rejected").purge(where="record = '" + record["record"] + "'")
    assert (found.rows_deleted, holding(world)) == (1, [])


@pytest.mark.parametrize("step", ["files", "deleted", "count"])
def test_files_that_a_cleaner_beside_it_removes_are_no_error(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was replaced is listed, and gone before it is read."""
    real, left = getattr(View, step), [1]

    def too_late(view: View, *given: Any) -> Any:
        if left and left.pop():
            raise MissingFileError("a replaced file is gone")
        return real(view, *given)

    hiveacid.delete_arrow(world.acid.table("t"), "id = 1")
    before = world.rows()
    monkeypatch.setattr(View, step, too_late)
    report = world.acid.table("t").purge(where="id = 2", wait=5)
    assert not left
    assert (report.rows_sought, report.rows_found) == (2, 0)
    assert world.rows() == [row for row in before if row[0] != 2]
