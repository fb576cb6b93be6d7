"""A rebalance gives rows new ids: it waits for writers, nobody changes rows by their old ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.compaction.world import World, rows_of

from hiveacid.compaction.worker import Outcome, Step
from hiveacid.errors import ConflictError, LockError
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.session import Session
from hiveacid.settings import Settings

UNITS = pytest.mark.parametrize("unit", ["row", "partition"])
REBALANCE = CompactionType.REBALANCE


def world_of(tmp_path: Path, unit: str) -> World:
    settings = Settings(retention_s=0, lock_timeout_s=0.2, conflict_unit=unit, conflict_retries=0)
    world = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh", settings)
    world.make()
    world.insert(1, 2, 3)
    world.insert(4, 5)
    world.delete(2)
    return world


@pytest.fixture
def row(tmp_path: Path) -> World:
    return world_of(tmp_path, "row")


def data(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": ["changed"] * len(ids)})


def test_rows_stay_through_a_rebalance_and_later_changes(row: World) -> None:
    before = row.rows()
    assert row.compact(REBALANCE).outcome is Outcome.COMPACTED
    assert row.rows() == before
    row.clean()
    assert row.rows() == before
    assert len(row.directories()) == 1
    row.delete(4)
    row.insert(6)
    assert row.ids() == [1, 3, 5, 6]
    row.close()


@UNITS
def test_a_write_whose_snapshot_is_older_conflicts(tmp_path: Path, unit: str) -> None:
    world = world_of(tmp_path, unit)
    client = Session(world.connect())
    with pytest.raises(ConflictError), client.transaction() as txn:
        assert len(rows_of(txn)) == 4  # so that it sees the old row ids
        assert world.compact(REBALANCE).outcome is Outcome.COMPACTED
        txn.table("t").delete_arrow("id = 1")
    assert world.ids() == [1, 3, 4, 5]
    world.clean()
    world.delete(1)
    assert world.ids() == [3, 4, 5]
    world.close()


@UNITS
def test_a_rebalance_waits_for_a_writer_and_fails_where_that_takes_too_long(
    tmp_path: Path, unit: str
) -> None:
    world = world_of(tmp_path, unit)
    client = Session(world.connect())
    with client.transaction() as txn:
        txn.table("t").delete_arrow("id = 1")
        failed = world.compact(REBALANCE)
        assert failed.outcome is Outcome.FAILED
    assert world.ids() == [3, 4, 5]
    assert world.compact(REBALANCE).outcome is Outcome.COMPACTED
    assert world.ids() == [3, 4, 5]
    assert world.states() == [CompactionState.FAILED, CompactionState.READY_FOR_CLEANING]
    world.close()


def test_writers_wait_for_a_rebalance_and_then_see_the_new_ids(row: World) -> None:
    client = Session(row.connect())
    tried = []

    def write(step: Step) -> None:
        if step is Step.REWRITTEN:
            with pytest.raises(LockError):
                client.table("t").delete_arrow("id = 1")
            tried.append(step)

    assert row.compact(REBALANCE, reached=write).outcome is Outcome.COMPACTED
    assert tried
    assert client.table("t").delete_arrow("id = 1").rows == 1
    assert row.ids() == [3, 4, 5]
    assert row.client.metastore.show_locks() == ()
    row.close()


def test_a_rebalance_keeps_away_from_changes_above_an_open_write_id(row: World) -> None:
    """A writer has its write id before its lock; what committed above it names old row ids."""
    manager = row.connect().transactions
    early = manager.begin()
    early.write_id(row.acid.table("t").definition.name)
    row.delete(5)
    failed = row.compact(REBALANCE)
    assert failed.outcome is Outcome.FAILED
    assert failed.message is not None
    assert "write id 4 is open" in failed.message
    early.abort("")
    assert row.compact(REBALANCE).outcome is Outcome.COMPACTED
    assert row.ids() == [1, 3, 4]
    row.close()
