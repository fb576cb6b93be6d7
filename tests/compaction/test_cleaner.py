"""Nothing goes that somebody may need, all else does; each directory says why it stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.compaction.world import ACID, DAY_MS, INSERT_ONLY, MAJOR, MINOR, FilesThrough, World

import hiveacid
from hiveacid.compaction.cleaner import Cleaner, CleaningOutcome
from hiveacid.compaction.cleaning_report import CleaningPreview, preview_cleaning
from hiveacid.compaction.worker import Outcome, Step
from hiveacid.errors import InvalidInputError, StorageError
from hiveacid.layout.compaction import Kept
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.model.tables import Partition, TableName, TxnId, WriteId
from hiveacid.session import Session
from hiveacid.storage.filesystem import FileSystem

KINDS = pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])


@contextmanager
def open_write(world: World, *ids: int, table: str = "t", **values: str) -> Iterator[Session]:
    """A transaction that has inserted rows and is aborted in the end."""
    client = Session(world.connect())
    txn = client.transaction()
    txn.__enter__()
    data = pa.table({"id": pa.array(ids, pa.int32()), "v": ["never"] * len(ids)})
    txn.table(table).write_arrow(data, partition=values)
    yield client
    txn.__exit__(ValueError, ValueError("rolled back"), None)


def aborted_write(world: World, *ids: int, table: str = "t", **values: str) -> None:
    with open_write(world, *ids, table=table, **values):
        pass


def killed_write(world: World, *ids: int) -> None:
    """A writer that dies after it has published, and is timed out."""
    client = Session(world.connect())
    txn = client.transaction()
    txn.__enter__()
    txn.table("t").write_arrow(pa.table({"id": pa.array(ids, pa.int32()), "v": ["x"] * len(ids)}))
    world.clock.advance_ms(301_000)
    assert world.client.metastore.perform_timeouts()


def two_deltas(world: World, table: str = "t") -> None:
    world.insert(1, 2, table=table)
    world.insert(3, table=table)


def housekeeping(world: World) -> None:
    """All that forgets, some time later."""
    world.clock.advance_ms(5_000)
    store = world.client.metastore
    store.write_set_gc()
    store.clean_txn_to_write_id()
    store.clean_empty_txns()


def preview(world: World, table: str = "t") -> CleaningPreview:
    definition = world.acid.table(table).definition
    (found,) = preview_cleaning(world.client, [definition])
    return found


def reasons(found: CleaningPreview) -> dict[str, Kept]:
    return {one.path: one.why for one in found.keep}


# ------------------------------------------------------------------------------- readers


@KINDS
def test_a_reader_with_a_lease_from_before_a_compaction_ends_correctly_after_it(
    any_world: World, kind: CompactionType
) -> None:
    world = any_world
    two_deltas(world)
    reader = hiveacid.read_arrow(Session(world.connect()).table("t"))
    world.compact(kind)
    assert world.clean() == ()
    assert world.states() == [CompactionState.READY_FOR_CLEANING]
    assert sorted(reader.read_all()["id"].to_pylist()) == [1, 2, 3]  # and so ends its lease
    (cleaned,) = world.clean()
    assert cleaned.outcome is CleaningOutcome.CLEANED
    assert world.ids() == [1, 2, 3]


def test_a_reader_that_began_while_an_older_one_was_open_keeps_files_too(world: World) -> None:
    two_deltas(world)
    manager = world.connect().transactions
    writer = manager.begin()
    world.compact(MAJOR)
    world.clock.advance_ms(2_000)
    late = manager.begin(read_only=True)
    assert late.valid_txns.is_valid(TxnId(1))
    writer.abort("done")
    world.clean()
    assert world.ids() == [1, 2, 3]
    late.close()
    world.clean()
    assert world.states() == [CompactionState.SUCCEEDED]


# ------------------------------------------------------------------------------- retention


@KINDS
def test_what_a_compaction_replaced_stays_for_the_retention(
    world: World, kind: CompactionType
) -> None:
    world.make(
        "r", "stored as orc tblproperties ('transactional'='true','hiveacid.retention'='2d')"
    )
    two_deltas(world, "r")
    world.compact(kind, "r")
    (waiting,) = world.clean()
    assert (waiting.outcome, waiting.message) == (CleaningOutcome.WAITING, "kept by its retention")
    found = preview(world, "r")
    deltas = [one for one in found.keep if one.why is Kept.RETENTION]
    assert len(deltas) == 2
    committed_ms = world.entries("r")[0].committed_ms
    assert committed_ms is not None
    assert deltas[0].until_ms == committed_ms + 2 * DAY_MS
    world.clock.advance_ms(2 * DAY_MS)
    (cleaned,) = world.clean()
    assert len(cleaned.removed) == 2
    assert world.ids("r") == [1, 2, 3]


def test_compactions_of_one_table_within_the_retention_are_cleaned_one_after_the_other(
    world: World,
) -> None:
    world.make(
        "r", "stored as orc tblproperties ('transactional'='true','hiveacid.retention'='1d')"
    )
    two_deltas(world, "r")
    world.compact(MINOR, "r")
    world.clock.advance_ms(DAY_MS // 2)
    world.insert(4, table="r")
    world.insert(5, table="r")
    world.compact(MAJOR, "r")
    world.clock.advance_ms(DAY_MS // 2 + 1)
    world.clean()
    assert world.states("r") == [CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING]
    assert world.ids("r") == [1, 2, 3, 4, 5]
    assert [name[:21] for name in world.directories("r")] == [
        "base_0000004_v0000008",
        "delta_0000001_0000002",
        "delta_0000003_0000003",
        "delta_0000004_0000004",
    ]
    world.clock.advance_ms(DAY_MS)
    world.clean()
    assert world.directories("r") == ["base_0000004_v0000008"]


def test_a_day_is_the_default(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/m.db", tmp_path / "wh", hiveacid.settings.Settings())
    world.make()
    two_deltas(world)
    world.compact(MAJOR)
    world.clock.advance_ms(DAY_MS - 10_000)
    assert world.clean()[0].outcome is CleaningOutcome.WAITING
    world.clock.advance_ms(10_000)
    assert world.clean()[0].outcome is CleaningOutcome.CLEANED
    world.close()


@pytest.mark.parametrize("text", ["soon", "-1d", "7 weeks", "", "nan", "inf"])
def test_a_retention_that_is_no_length_of_time_is_refused(world: World, text: str) -> None:
    with pytest.raises(InvalidInputError, match="is a length of time"):
        world.acid.sql(f"alter table t set tblproperties ('hiveacid.Retention'='{text}')")
    with pytest.raises(InvalidInputError, match="is a length of time"):
        world.make("r", f"stored as orc tblproperties ('hiveacid.retention'='{text}')")


def test_no_cleanup_keeps_all(world: World) -> None:
    world.make("n", "stored as orc tblproperties ('transactional'='true','NO_CLEANUP'='true')")
    two_deltas(world, "n")
    world.compact(MAJOR, "n")
    world.clock.advance_ms(2_000)
    assert set(reasons(preview(world, "n")).values()) == {Kept.CURRENT, Kept.NO_CLEANUP}
    assert world.clean()[0].outcome is CleaningOutcome.REFUSED
    assert len(world.directories("n")) == 3


# ------------------------------------------------------------------------------- aborts


def test_files_of_aborted_transactions_go_without_a_compaction(any_world: World) -> None:
    world = any_world
    world.insert(1)
    aborted_write(world, 7)
    killed_write(world, 8)
    world.insert(2)
    assert world.clean() == ()
    assert Kept.ABORTED_LATELY in reasons(preview(world)).values()
    housekeeping(world)
    world.clock.advance_ms(3_600_000)
    (cleaned,) = world.clean()
    assert cleaned.outcome is CleaningOutcome.CLEANED
    assert world.ids() == [1, 2]
    assert len(world.directories()) == 2
    housekeeping(world)
    assert world.client.metastore.show_txns() == ()
    assert world.ids() == [1, 2]


def test_files_of_aborted_transactions_go_where_no_committed_one_is_remembered(
    any_world: World,
) -> None:
    """A reader's list ends at the first of them then: what is above is not known to be aborted."""
    world = any_world
    two_deltas(world)
    world.compact()
    assert [one.outcome for one in world.clean()] == [CleaningOutcome.CLEANED]
    world.clock.advance_ms(301_000)
    housekeeping(world)
    for number in (7, 8, 9):
        killed_write(world, number)
    (valid,) = world.client.metastore.valid_write_ids([world.acid.table("t").definition.name])
    assert (valid.hwm, valid.aborted) == (3, (3,))
    assert set(reasons(preview(world)).values()) == {Kept.CURRENT, Kept.ABORTED_LATELY}
    world.clock.advance_ms(3_600_000)
    (cleaned,) = world.clean()
    assert len(cleaned.removed) == 3
    housekeeping(world)
    assert len(world.directories()) == 1
    assert world.ids() == [1, 2, 3]
    world.insert(4)
    assert world.ids() == [1, 2, 3, 4]


def test_a_writer_that_lost_its_heartbeat_has_time_to_notice(world: World) -> None:
    """It began long ago and was alive until a moment ago: it may publish yet."""
    world.insert(1)
    client = Session(world.connect())
    txn = client.transaction()
    txn.__enter__()
    txn.table("t").write_arrow(pa.table({"id": pa.array([7], pa.int32()), "v": ["x"]}))
    for _ in range(30):
        world.clock.advance_ms(250_000)
        client.client.transactions.heartbeat.beat()
    world.clock.advance_ms(301_000)
    assert world.client.metastore.perform_timeouts()
    world.clean()
    housekeeping(world)
    assert set(reasons(preview(world)).values()) == {Kept.CURRENT, Kept.ABORTED_LATELY}
    assert len(world.directories()) == 2
    world.clock.advance_ms(3_600_000)
    world.clean()
    assert len(world.directories()) == 1


def test_the_staging_directory_of_a_killed_writer_goes_with_its_files(world: World) -> None:
    world.insert(1)
    killed_write(world, 8)
    (dead,) = world.client.metastore.show_txns()
    (Path(world.warehouse) / "t" / f"_hiveacid_staging_{dead.id}_2").mkdir()
    world.clock.advance_ms(3_600_000)
    world.clean()
    assert len(world.directories()) == 1


def test_a_cleaning_of_aborts_that_failed_is_not_held_up_by_the_retention(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/m.db", tmp_path / "wh", hiveacid.settings.Settings())
    world.make()
    world.insert(1)
    killed_write(world, 8)
    world.clock.advance_ms(3_600_000)
    assert world.clean(files=FilesThrough(_Undeletable("/")))[0].outcome is CleaningOutcome.FAILED
    world.clock.advance_ms(301_000)
    assert world.clean()[0].outcome is CleaningOutcome.CLEANED
    assert len(world.directories()) == 1
    world.close()


def test_what_an_aborted_write_left_in_partitions_it_did_not_name_goes(
    world: World, tmp_path: Path
) -> None:
    world.make("p", f"partitioned by (k string) {ACID}")
    elsewhere = tmp_path / "elsewhere"
    world.client.metastore.add_partitions(
        TableName("default", "p"), [Partition(("away",), str(elsewhere))]
    )
    for key in ("away", "here"):
        world.insert(1, table="p", k=key)
    client = Session(world.connect())
    txn = client.transaction()
    txn.__enter__()
    data = pa.table({"id": pa.array([8, 9], pa.int32()), "v": ["x", "x"], "k": ["away", "here"]})
    txn.table("p").write_arrow(data)
    world.clock.advance_ms(3_700_000)
    world.client.metastore.perform_timeouts()
    world.clean()
    assert world.ids("p") == [1, 1]
    assert len(list(elsewhere.iterdir())) == len(world.directories("p", "k=here")) == 1
    housekeeping(world)
    assert world.ids("p") == [1, 1]


def test_an_open_write_is_left_alone(world: World) -> None:
    world.insert(1)
    aborted_write(world, 7)
    client = Session(world.connect())
    with client.transaction() as txn:
        txn.table("t").write_arrow(pa.table({"id": pa.array([2], pa.int32()), "v": ["x"]}))
        world.clock.advance_ms(100_000)
        Cleaner(world.client).sweep()
        world.client.use_settings(_at_once(world))
        Cleaner(world.client).run()
    assert world.ids() == [1, 2]


def _at_once(world: World) -> hiveacid.settings.Settings:
    return replace(world.settings, compactor_aborts_age_s=0.0)


def test_the_result_of_a_compaction_that_failed_to_take_it_back_never_counts(
    world: World,
) -> None:
    two_deltas(world)
    dying = _Dying()

    def stop(step: Step) -> None:
        if step is Step.PUBLISHED:
            raise dying

    rows = world.rows()
    with pytest.raises(_Dying):
        world.compact(MAJOR, reached=stop, files=FilesThrough(_Undeletable("/")))
    assert len(world.directories()) == 3
    for _ in range(3):
        housekeeping(world)
        assert world.rows() == rows
    world.clock.advance_ms(3_700_000)
    world.clean()
    assert len(world.directories()) == 2
    housekeeping(world)
    assert world.rows() == rows
    assert world.client.metastore.show_txns() == ()


class _Dying(BaseException):
    """A worker that ends half way."""


class _Undeletable(FileSystem):
    """Nobody may delete what is published."""

    def delete_directory(self, path: str) -> None:
        if "_staging_" not in path:
            raise StorageError(f"no permission for {path}", path=path, detail="no-permission")
        super().delete_directory(path)


# ------------------------------------------------------------------------------- the rest


def test_loose_files_of_an_insert_only_table_are_nobodys_business(world: World) -> None:
    world.make("m", INSERT_ONLY)
    two_deltas(world, "m")
    root = Path(world.acid.table("m").definition.location)
    (root / "000000_0").write_text("not ours")
    world.compact(MAJOR, "m")
    world.clean()
    assert (root / "000000_0").exists()


def test_a_failed_deletion_is_tried_again_later(world: World) -> None:
    two_deltas(world)
    world.compact(MAJOR)
    (failed,) = world.clean(files=FilesThrough(_Undeletable("/")))
    assert failed.outcome is CleaningOutcome.FAILED
    (entry,) = world.entries()
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert entry.error is not None
    assert "no permission" in entry.error
    assert world.clean() == ()
    assert world.ids() == [1, 2, 3]
    world.clock.advance_ms(301_000)
    assert world.clean()[0].outcome is CleaningOutcome.CLEANED


def test_a_cleaner_that_dies_half_way_is_followed_by_one_that_ends(world: World) -> None:
    two_deltas(world)
    world.delete(2)
    world.compact(MAJOR)
    gone: list[str] = []

    def die(path: str) -> None:
        if gone:
            raise _Dying
        gone.append(path)

    with pytest.raises(_Dying):
        world.clean(removing=die)
    assert len(world.directories()) == 3
    assert world.ids() == [1, 3]
    (cleaned,) = world.clean()
    assert cleaned.outcome is CleaningOutcome.CLEANED
    assert len(world.directories()) == 1


def test_two_cleaners_at_once_do_no_harm(world: World) -> None:
    two_deltas(world)
    world.compact(MAJOR)
    inner: list[CleaningOutcome] = []

    def meanwhile(path: str) -> None:
        del path
        if not inner:
            inner.append(CleaningOutcome.WAITING)
            inner.extend(one.outcome for one in Cleaner(world.connect()).run())

    (outer,) = world.clean(removing=meanwhile)
    assert outer.outcome is CleaningOutcome.CLEANED
    assert CleaningOutcome.CLEANED in inner
    assert world.states() == [CompactionState.SUCCEEDED]
    assert world.ids() == [1, 2, 3]


def test_the_table_or_partition_may_be_gone(world: World) -> None:
    world.make("p", f"partitioned by (k string) {ACID}")
    world.insert(1, table="p", k="a")
    world.insert(2, table="p", k="a")
    assert world.compact(MINOR, "p", "k=a").outcome is Outcome.COMPACTED
    world.client.metastore.drop_partitions(TableName("default", "p"), [("a",)])
    world.clean()
    assert CompactionState.READY_FOR_CLEANING not in world.states("p")


def test_a_lasting_damage_of_a_marker_is_reported(world: World) -> None:
    two_deltas(world)
    world.compact(MAJOR)
    root = Path(world.acid.table("t").definition.location)
    (root / "base_0000001").mkdir()
    (root / "base_0000001" / "_metadata_acid").write_text('{"thisFileVersion":"9"}')
    (failed,) = world.clean()
    assert failed.outcome is CleaningOutcome.FAILED
    assert failed.message is not None
    assert "_metadata_acid" in failed.message
    assert len(world.directories()) == 4


def test_an_attempt_whose_entry_was_taken_away_is_forgotten_in_the_end(any_world: World) -> None:
    world = any_world
    world.insert(1)
    world.insert(2)
    world.request(MAJOR)
    store = world.client.metastore
    entry = store.find_next_compaction("host-9")
    assert entry is not None
    txn = world.client.transactions.begin_compaction(rebalance=False)
    store.set_compactor_txn(entry.id, txn.id, highest_write_id=WriteId(2))
    txn.abort("worker gone")
    store.abort_compactions([entry.id])
    world.clock.advance_ms(2 * 3_600_000)
    (cleaned,) = world.clean()
    assert cleaned.outcome is CleaningOutcome.CLEANED
    assert world.clean() == ()
    assert world.ids() == [1, 2]
