"""A compactor killed anywhere: its work is done again, no row and no directory is lost."""

from __future__ import annotations

from functools import partial

import pytest
from tests.compaction import dying
from tests.compaction.dying import EXIT_CODE, POINTS
from tests.compaction.world import MAJOR, MINOR, Rows, World
from tests.forked import exit_status
from tests.sampling import sampled

import hiveacid
from hiveacid.compaction.compactor import Compactor, run_once
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Step
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.model.transactions import TxnState

pytestmark = pytest.mark.long("compaction", "layout", "metastore", "model", "storage", "txn")


def die(world: World, point: str) -> None:
    """Let a process of its own die at that point."""
    now_ms = world.clock.now_ms()
    assert exit_status(dying.main, world.url, world.warehouse, now_ms, point) == EXIT_CODE


def later(world: World) -> None:
    """Everything that anybody does on his own after a while."""
    world.clock.advance_ms(400_000)
    store = world.client.metastore
    store.perform_timeouts()
    store.revoke_workers(without_txn_ms=300_000)
    world.clock.advance_ms(5_000)
    store.clean_txn_to_write_id()
    store.clean_empty_txns()


def buckets(world: World) -> None:
    """A table of two buckets, so that there is more than one file to write."""
    world.make(
        "b",
        "clustered by (id) into 2 buckets stored as orc tblproperties ('transactional'='true')",
    )
    world.insert(1, 2, 3, table="b")
    world.insert(4, 5, 6, table="b")
    world.delete(2, 5, table="b")


def by_path(world: World) -> Rows:
    """What a reader sees to whom all counts as committed, half of a compaction apart."""
    read = hiveacid.read_arrow(world.acid.table("b").definition.location).read_all()
    return sorted(tuple(row.values()) for row in read.to_pylist())


@pytest.mark.parametrize("kind", sampled([MAJOR, MINOR], "compaction", "txn", group=type))
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_point_is_followed_by_another(
    world: World, point: str, kind: CompactionType
) -> None:
    buckets(world)
    rows = world.rows("b")
    before = set(world.directories("b"))
    world.request(kind, "b")
    die(world, point)
    assert world.rows("b") == rows
    assert by_path(world) == rows
    later(world)
    assert world.rows("b") == rows
    assert before <= set(world.directories("b"))
    if point == Step.COMMITTED.value:
        assert world.states("b") == [CompactionState.READY_FOR_CLEANING]
    else:
        assert world.states("b") == [CompactionState.INITIATED]
        done = world.worker().run_next()
        assert done is not None
        assert done.outcome is Outcome.COMPACTED
    assert world.rows("b") == rows
    world.clean()
    world.cleaner().sweep()
    assert world.rows("b") == rows
    assert world.states("b") == [CompactionState.SUCCEEDED]
    assert by_path(world) == rows
    assert len(world.directories("b")) == (1 if kind is MAJOR else 2)
    later(world)
    assert world.rows("b") == rows
    assert all(one.state is not TxnState.OPEN for one in world.client.metastore.show_txns())


@pytest.mark.parametrize(
    "point", [step.value for step in (Step.CLAIMED, Step.REWRITTEN, Step.MARKED)]
)
def test_who_waits_all_alone_takes_up_what_a_killed_worker_left(world: World, point: str) -> None:
    buckets(world)
    rows = world.rows("b")
    world.request(MAJOR, "b")
    die(world, point)
    (entry,) = world.acid.table("b").compact("major", wait=True)
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert entry.committed_ms is not None
    world.clock.advance_ms(2_000)
    world.clean()
    world.cleaner().sweep()
    assert (world.rows("b"), len(world.directories("b"))) == (rows, 1)


def test_one_round_takes_up_what_a_killed_worker_left_where_nobody_writes(world: World) -> None:
    buckets(world)
    rows = world.rows("b")
    world.request(MAJOR, "b")
    die(world, Step.PUBLISHED.value)
    world.clock.advance_ms(400_000)
    compactor = Compactor(world.connect(), partial(rewrite, settings=world.settings), version="1")
    (result,) = run_once(compactor, pool=None, clock=world.clock)
    assert result.outcome is Outcome.COMPACTED
    assert world.states("b") == [CompactionState.SUCCEEDED]
    assert (world.rows("b"), len(world.directories("b"))) == (rows, 1)


def test_a_cleaner_killed_half_way_is_followed_by_another(world: World) -> None:
    buckets(world)
    rows = world.rows("b")
    world.compact(MAJOR, "b")
    world.clock.advance_ms(2_000)
    die(world, "mid-clean")
    assert world.rows("b") == rows
    world.clean()
    assert world.rows("b") == rows
    assert len(world.directories("b")) == 1
    assert world.states("b") == [CompactionState.SUCCEEDED]


def test_a_worker_killed_for_good_leaves_nothing_that_ever_counts(any_world: World) -> None:
    """Its entry is taken out of the queue: only the cleaning of aborts comes by."""
    world = any_world
    buckets(world)
    rows, before = world.rows("b"), world.directories("b")
    world.request(MAJOR, "b")
    die(world, Step.PUBLISHED.value)
    assert len(world.directories("b")) == len(before) + 1
    later(world)
    (entry,) = world.entries("b")
    world.client.metastore.abort_compactions([entry.id])
    for _ in range(3):
        later(world)
        assert world.rows("b") == rows
    world.clock.advance_ms(3_700_000)
    world.clean()
    assert world.directories("b") == before
    later(world)
    assert world.rows("b") == rows
