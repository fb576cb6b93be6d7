"""A compaction from claim to commit: it keeps rows and identities, and is in nobody's way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.compaction.world import (
    ACID,
    HIVE_3,
    INSERT_ONLY,
    MAJOR,
    MINOR,
    FilesThrough,
    World,
    rows_of,
)

import hiveacid
from hiveacid.compaction.worker import NOT_ENOUGH, Outcome, Step
from hiveacid.errors import MetastoreError, StorageError
from hiveacid.layout.compaction import RewritePlan
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.model.tables import Partition, TableName
from hiveacid.model.transactions import TxnState
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import WrittenFile

KINDS = pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])
UNITS = pytest.mark.parametrize("unit", ["row", "partition"])


def _three_deltas(world: World, table: str = "t") -> None:
    world.insert(1, 2, 3, table=table)
    world.insert(4, 5, table=table)
    world.delete(2, 4, table=table)


def _with_row_ids(world: World, table: str = "t") -> list[Any]:
    found = hiveacid.read_arrow(world.acid.table(table), row_ids=True).read_all().to_pylist()
    return sorted(found, key=lambda row: row["id"])


@KINDS
def test_rows_and_their_identities_stay_through_compaction_and_cleaning(
    any_world: World, kind: CompactionType
) -> None:
    world = any_world
    _three_deltas(world)
    before = _with_row_ids(world)
    result = world.compact(kind)
    assert result.outcome is Outcome.COMPACTED
    assert _with_row_ids(world) == before
    txn = world.entries()[0].txn
    expected = {
        MAJOR: [f"base_0000003_v{txn:07d}"],
        MINOR: [f"delete_delta_0000001_0000003_v{txn:07d}", f"delta_0000001_0000003_v{txn:07d}"],
    }[kind]
    assert sorted(result.directories) == expected
    assert set(expected) < set(world.directories())
    (cleaned,) = world.clean()
    assert world.directories() == expected, cleaned
    assert world.states() == [CompactionState.SUCCEEDED]
    assert _with_row_ids(world) == before


def test_a_result_says_which_version_of_the_format_it_is(world: World) -> None:
    _three_deltas(world)
    (base,) = world.compact(MAJOR).directories
    root = Path(world.acid.table("t").definition.location)
    assert (root / base / "_orc_acid_version").read_text() == "2"


@KINDS
def test_what_is_interrupted_once_it_is_committed_stays(world: World, kind: CompactionType) -> None:
    """The cleaner may have been there already: the result is all there is."""
    _three_deltas(world)
    before = _with_row_ids(world)

    def interrupt(step: Step) -> None:
        if step is Step.COMMITTED:
            world.clean()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.compact(kind, reached=interrupt)
    assert _with_row_ids(world) == before
    assert world.states() == [CompactionState.SUCCEEDED]


@pytest.mark.parametrize("step", [Step.REWRITTEN, Step.PUBLISHED, Step.MARKED])
def test_what_is_interrupted_before_its_commit_leaves_nothing(world: World, step: Step) -> None:
    _three_deltas(world)
    before = world.directories()

    def interrupt(reached: Step) -> None:
        if reached is step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.compact(MAJOR, reached=interrupt)
    assert world.directories() == before
    assert world.states() == [CompactionState.FAILED]


@KINDS
@UNITS
def test_an_update_begun_before_a_compaction_commits_after_it(
    tmp_path: Path, kind: CompactionType, unit: str
) -> None:
    settings = Settings(retention_s=0, lock_timeout_s=1, conflict_unit=unit, conflict_retries=0)
    world = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh", settings)
    world.make()
    _three_deltas(world)
    client = Session(world.connect())
    with client.transaction() as txn:
        change = pa.table({"id": pa.array([1, 5], pa.int32()), "v": ["changed", "changed"]})
        assert txn.table("t").merge_arrow(change, on=["id"]).updated == 2
        assert world.compact(kind).outcome is Outcome.COMPACTED
        assert world.clean() == ()
        assert rows_of(txn) == [(1, "changed"), (3, "new"), (5, "changed")]
    assert world.rows() == [(1, "changed"), (3, "new"), (5, "changed")]
    world.clean()
    assert world.rows() == [(1, "changed"), (3, "new"), (5, "changed")]
    assert world.states() == [CompactionState.SUCCEEDED]


@KINDS
def test_a_compaction_of_rows_that_are_being_updated_neither_waits_nor_aborts(
    world: World, kind: CompactionType
) -> None:
    _three_deltas(world)
    client = Session(world.connect())

    def update_and_commit(step: Step) -> None:
        if step is not Step.REWRITTEN:
            return
        change = pa.table({"id": pa.array([1, 5], pa.int32()), "v": ["changed", "changed"]})
        assert client.table("t").merge_arrow(change, on=["id"]).updated == 2

    assert world.compact(kind, reached=update_and_commit).outcome is Outcome.COMPACTED
    assert world.rows() == [(1, "changed"), (3, "new"), (5, "changed")]
    world.clean()
    assert world.rows() == [(1, "changed"), (3, "new"), (5, "changed")]
    assert world.compact(MAJOR).outcome is Outcome.COMPACTED
    world.clean()
    assert world.rows() == [(1, "changed"), (3, "new"), (5, "changed")]


def test_writers_of_a_row_still_conflict_over_a_compaction_of_the_winners_events(
    tmp_path: Path,
) -> None:
    settings = Settings(retention_s=0, conflict_unit="row", conflict_retries=0)
    world = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh", settings)
    world.make()
    _three_deltas(world)
    client = Session(world.connect())
    with client.transaction() as txn:
        txn.table("t").delete_arrow("id = 1")
        world.delete(5)
        world.compact(MAJOR)
        world.clean()
    assert world.ids() == [3]
    with pytest.raises(hiveacid.errors.ConflictError), client.transaction() as txn:
        txn.table("t").delete_arrow("id = 3")
        world.delete(3)
        world.insert(9)
        world.compact(MAJOR)
        world.clean()
    assert world.ids() == [9]


@KINDS
def test_a_compaction_ends_below_the_first_open_write(world: World, kind: CompactionType) -> None:
    _three_deltas(world)
    client = Session(world.connect())
    with client.transaction() as txn:
        txn.table("t").write_arrow(pa.table({"id": pa.array([8], pa.int32()), "v": ["late"]}))
        world.insert(9)
        result = world.compact(kind)
        assert result.outcome is Outcome.COMPACTED
        assert all("0000003" in name for name in result.directories)
        assert world.ids() == [1, 3, 5, 9]
    assert world.ids() == [1, 3, 5, 8, 9]
    world.clean()
    assert world.ids() == [1, 3, 5, 8, 9]


def test_an_overwrite_in_flight_wins_over_the_compaction_of_what_it_replaces(world: World) -> None:
    _three_deltas(world)
    client = Session(world.connect())
    with client.transaction() as txn:
        one = pa.table({"id": pa.array([7], pa.int32()), "v": ["only"]})
        txn.table("t").write_arrow(one, overwrite=True)
        txn.table("t").delete_arrow("id = 7")  # makes its base anew
        txn.table("t").write_arrow(one)
        assert world.compact(MAJOR).outcome is Outcome.COMPACTED
        assert world.ids() == [1, 3, 5]
    assert world.ids() == [7]
    world.clean()
    assert world.ids() == [7]


def test_what_aborted_transactions_wrote_is_left_out_and_removed(world: World) -> None:
    _three_deltas(world)
    client = Session(world.connect())
    txn = client.transaction()
    txn.__enter__()
    txn.table("t").write_arrow(pa.table({"id": pa.array([99], pa.int32()), "v": ["never"]}))
    txn.__exit__(ValueError, ValueError("no"), None)
    world.insert(6)
    world.compact(MAJOR)
    world.clean()
    assert world.ids() == [1, 3, 5, 6]
    assert [name[:12] for name in world.directories()] == ["base_0000005"]


def test_partitions_are_compacted_one_by_one_wherever_they_lie(
    world: World, tmp_path: Path
) -> None:
    world.make("p", f"partitioned by (k string) {ACID}")
    elsewhere = tmp_path / "elsewhere"
    world.client.metastore.add_partitions(
        TableName("default", "p"), [Partition(("away",), str(elsewhere))]
    )
    for ids in ((1, 2), (3,)):
        world.insert(*ids, table="p", k="here")
        world.insert(*ids, table="p", k="away")
    assert world.compact(MAJOR, "p", "k=away").outcome is Outcome.COMPACTED
    world.clean()
    assert [name.name[:4] for name in elsewhere.iterdir()] == ["base"]
    assert [name[:5] for name in world.directories("p", "k=here")] == ["delta", "delta"]
    assert world.compact(MINOR, "p", "k=here").outcome is Outcome.COMPACTED
    world.clean()
    assert len(world.directories("p", "k=here")) == 1
    assert world.ids("p") == [1, 1, 2, 2, 3, 3]


@KINDS
def test_insert_only_tables_are_compacted(world: World, kind: CompactionType) -> None:
    world.make("m", INSERT_ONLY)
    world.insert(1, 2, table="m")
    world.insert(3, table="m")
    assert world.compact(kind, "m").outcome is Outcome.COMPACTED
    world.clean()
    assert world.ids("m") == [1, 2, 3]
    assert len(world.directories("m")) == 1


def test_a_table_emptied_by_deletes_is_one_empty_base(world: World) -> None:
    world.insert(1, 2)
    world.delete(1, 2)
    world.compact(MAJOR)
    world.clean()
    assert world.ids() == []
    assert [name[:4] for name in world.directories()] == ["base"]


# ------------------------------------------------------------------------------- refusals


def test_nothing_to_do_is_refused_in_hives_words(world: World) -> None:
    world.insert(1)
    result = world.compact(MAJOR)
    assert (result.outcome, result.message) == (Outcome.REFUSED, NOT_ENOUGH)
    assert world.states() == [CompactionState.REFUSED]
    assert all(one.state is not TxnState.OPEN for one in world.client.metastore.show_txns())


def test_where_there_is_only_something_to_clean_the_cleaner_gets_it(world: World) -> None:
    world.insert(1)
    world.insert(2)
    one = pa.table({"id": pa.array([7], pa.int32()), "v": ["only"]})
    hiveacid.write_arrow(world.acid.table("t"), one, overwrite=True)
    assert world.compact(MAJOR).outcome is Outcome.NOTHING_TO_REWRITE
    world.clean()
    assert world.directories() == ["base_0000003"]
    assert world.states() == [CompactionState.SUCCEEDED]


def test_tables_with_names_of_hive_3_are_refused(world: World) -> None:
    world.make("h", HIVE_3)
    _three_deltas(world, "h")
    result = world.compact(MAJOR, "h")
    assert result.outcome is Outcome.REFUSED
    assert result.message is not None
    assert "hiveacid.compat" in result.message


def test_a_partition_dropped_meanwhile_is_refused(world: World) -> None:
    world.make("p", f"partitioned by (k string) {ACID}")
    world.insert(1, table="p", k="a")
    world.insert(2, table="p", k="a")

    def drop(step: Step) -> None:
        if step is Step.CLAIMED:
            world.client.metastore.drop_partitions(TableName("default", "p"), [("a",)])

    result = world.compact(MAJOR, "p", "k=a", reached=drop)
    assert result.outcome is Outcome.REFUSED


@pytest.mark.parametrize("moment", [Step.CLAIMED, Step.REWRITTEN, Step.PUBLISHED])
def test_a_table_dropped_meanwhile_leaves_nothing_behind(
    world: World, moment: Step, caplog: pytest.LogCaptureFixture
) -> None:
    _three_deltas(world)
    root = Path(world.acid.table("t").definition.location)

    def drop(step: Step) -> None:
        if step is moment:  # past the locks, as somebody else's client may do
            world.client.metastore.drop_table(TableName("default", "t"))
            for path in sorted(root.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    result = world.compact(MAJOR, reached=drop)
    assert result.outcome in (Outcome.REFUSED, Outcome.FAILED)
    assert world.entries() == []
    assert [path for path in root.rglob("*") if path.is_file()] == []
    assert all(one.state is not TxnState.OPEN for one in world.client.metastore.show_txns())
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def test_drop_table_waits_for_a_compaction_in_progress(world: World) -> None:
    _three_deltas(world)
    seen = []

    def drop(step: Step) -> None:
        if step is Step.REWRITTEN:
            with pytest.raises(hiveacid.errors.LockError):
                Session(world.connect()).sql("drop table t")
            seen.append(step)

    assert world.compact(MAJOR, reached=drop).outcome is Outcome.COMPACTED
    assert seen


# ------------------------------------------------------------------------------- failures


class _Full(FileSystem):
    """No space is left for new files."""

    def open_output(self, path: str) -> Any:
        raise StorageError(f"no space left while writing {path}", path=path, detail="no-space")


def test_a_full_disk_fails_the_entry_and_changes_nothing(world: World) -> None:
    _three_deltas(world)
    rows, before = world.rows(), world.directories()
    result = world.compact(MAJOR, files=FilesThrough(_Full(world.warehouse)))
    assert result.outcome is Outcome.FAILED
    (entry,) = world.entries()
    assert entry.state is CompactionState.FAILED
    assert entry.error is not None
    assert "no space left" in entry.error
    assert (world.rows(), world.directories()) == (rows, before)
    assert world.compact(MAJOR).outcome is Outcome.COMPACTED
    world.clean()
    assert world.rows() == rows


def test_a_damaged_input_fails_the_entry_and_is_named(world: World) -> None:
    _three_deltas(world)
    world.insert(6)
    root = Path(world.acid.table("t").definition.location)
    (damaged,) = root.glob("delta_0000002_*/bucket_*")
    damaged.write_bytes(b"ORC nonsense")
    before = world.directories()
    result = world.compact(MAJOR)
    assert result.outcome is Outcome.FAILED
    (entry,) = world.entries()
    assert entry.error is not None
    assert str(damaged) in entry.error
    assert world.directories() == before


@pytest.mark.parametrize("text", ["3", "x"])
def test_a_directory_of_an_unknown_version_is_not_rewritten(world: World, text: str) -> None:
    _three_deltas(world)
    world.compact(MAJOR)
    world.insert(6)
    root = Path(world.acid.table("t").definition.location)
    (version,) = root.glob("base_*/_orc_acid_version")
    version.write_text(text)
    rows, before = world.rows(), world.directories()  # readers do not look, as Hive's do not
    result = world.compact(MAJOR)
    assert result.outcome is Outcome.FAILED
    assert result.message is not None
    assert str(version) in result.message
    assert (world.rows(), world.directories()) == (rows, before)


def test_a_compaction_whose_transaction_timed_out_is_undone_and_done_again(world: World) -> None:
    _three_deltas(world)
    rows, before = world.rows(), world.directories()

    def sleep(step: Step) -> None:
        if step is Step.REWRITTEN:  # a clock that jumps, or a machine that slept
            world.clock.advance_ms(24 * 3_600_000)
            world.client.metastore.perform_timeouts()

    assert world.compact(MAJOR, reached=sleep).outcome is Outcome.FAILED
    assert (world.rows(), world.directories()) == (rows, before)
    assert world.states() == [CompactionState.INITIATED]
    again = world.worker().run_next()
    assert again is not None
    assert again.outcome is Outcome.COMPACTED
    world.clean()
    assert world.rows() == rows


def test_what_is_no_error_of_ours_is_reported_and_raised(world: World) -> None:
    _three_deltas(world)
    before = world.directories()

    def broken(fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
        staging = fs.path_of(plan.staging)
        fs.create_directory(staging)
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        world.compact(MAJOR, rewriting=broken)
    assert world.directories() == before
    (entry,) = world.entries()
    assert (entry.state, entry.error) == (CompactionState.FAILED, "ZeroDivisionError: a bug")


def test_a_metastore_that_fails_just_after_the_claim_fails_the_entry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _three_deltas(world)
    metastore = type(world.client.metastore)
    found = metastore.get_table

    def fail_once(*_: object) -> None:
        monkeypatch.setattr(metastore, "get_table", found)
        raise MetastoreError("canceling statement due to statement timeout")

    def break_it(step: Step) -> None:
        if step is Step.CLAIMED:
            monkeypatch.setattr(metastore, "get_table", fail_once)

    assert world.compact(MAJOR, reached=break_it).outcome is Outcome.FAILED
    assert world.states() == [CompactionState.FAILED]
    assert world.compact(MAJOR).outcome is Outcome.COMPACTED


def test_nothing_to_claim_is_none(world: World) -> None:
    assert world.worker().run_next() is None
