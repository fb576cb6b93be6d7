"""Each operation on files of a compaction and a cleaning fails once, in each way."""

from __future__ import annotations

import pytest
from tests.compaction.world import MAJOR, MINOR, World
from tests.sampling import sampled

from hiveacid.compaction.worker import Outcome
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.testing import Fault, FaultyFiles, ScriptedFaults

pytestmark = pytest.mark.long("compaction", "layout", "metastore", "model", "storage", "txn")

FAULTS = pytest.mark.parametrize("fault", list(Fault), ids=lambda one: one.value)


_STATES = {
    Outcome.COMPACTED: CompactionState.READY_FOR_CLEANING,
    Outcome.FAILED: CompactionState.FAILED,
}


def fill(world: World, table: str) -> None:
    world.make(table)
    world.insert(1, 2, table=table)
    world.insert(3, table=table)
    world.delete(2, table=table)


def settle(world: World) -> None:
    """What happens by itself after an hour."""
    world.clock.advance_ms(3_700_000)
    store = world.client.metastore
    store.perform_timeouts()
    store.clean_txn_to_write_id()
    store.clean_empty_txns()


def finish(world: World, table: str) -> None:
    """Compact what failed, clean what is left to clean."""
    if world.states(table) != [CompactionState.READY_FOR_CLEANING]:
        world.compact(MAJOR, table)
    settle(world)
    world.clean()
    world.clean()


@FAULTS
@pytest.mark.parametrize(
    "kind", sampled([MAJOR, MINOR], "compaction", "storage", "txn", group=type)
)
def test_a_compaction_survives_each_fault(world: World, fault: Fault, kind: CompactionType) -> None:
    count = 0
    while True:
        table = f"t{count}"
        fill(world, table)
        faults = ScriptedFaults(at=count, fault=fault)
        outcome = world.compact(kind, table, files=FaultyFiles(faults)).outcome
        assert world.ids(table) == [1, 3], faults.seen[count:][:1]
        expected = _STATES[outcome]
        assert world.states(table) == [expected], faults.seen[count:][:1]
        settle(world)
        assert world.ids(table) == [1, 3], faults.seen[count:][:1]
        finish(world, table)
        assert world.ids(table) == [1, 3], faults.seen[count:][:1]
        left = [name.partition("_")[0] for name in world.directories(table)]
        assert left in (["base"], ["delete", "delta"]), (faults.seen[count:][:1], left)
        if len(faults.seen) <= count:
            break
        count += 3  # every third: a few seconds
    assert count > 20


@FAULTS
def test_a_cleaning_survives_each_fault(world: World, fault: Fault) -> None:
    count = 0
    while True:
        table = f"t{count}"
        fill(world, table)
        world.compact(MAJOR, table)
        faults = ScriptedFaults(at=count, fault=fault)
        world.clean(files=FaultyFiles(faults))
        assert world.ids(table) == [1, 3], faults.seen[count:][:1]
        settle(world)
        world.clean()
        assert world.ids(table) == [1, 3], faults.seen[count:][:1]
        assert [name[:4] for name in world.directories(table)] == ["base"]
        assert world.states(table) == [CompactionState.SUCCEEDED]
        if len(faults.seen) <= count:
            break
        count += 1
    assert count >= 5
