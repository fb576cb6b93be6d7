"""What a cleaner would do now: which directory goes, and by today's state why another stays."""

from __future__ import annotations

from functools import partial

from tests.compaction.test_cleaner import preview, reasons, two_deltas
from tests.compaction.world import MAJOR, MINOR, World

from hiveacid.compaction.compactor import Compactor
from hiveacid.compaction.rewrites import rewrite
from hiveacid.layout.compaction import Kept
from hiveacid.model.compactions import CompactionState


def test_a_preview_names_who_keeps_what_and_since_when(world: World) -> None:
    two_deltas(world)
    reader = world.connect().transactions.begin(read_only=True)
    world.compact(MAJOR)
    world.clock.advance_ms(2_000)
    found = preview(world)
    assert found.remove == ()
    base = next(one for one in found.keep if one.path.startswith("base"))
    assert base.why is Kept.CURRENT
    deltas = [one for one in found.keep if one.path.startswith("delta")]
    assert [one.why for one in deltas] == [Kept.READERS, Kept.READERS]
    assert [one.id for one in deltas[0].holders] == [reader.id]
    assert deltas[0].holders[0].user == "hiveacid"
    reader.close()
    world.clock.advance_ms(2_000)
    assert len(preview(world).remove) == 2
    assert len(world.clean()[0].removed) == 2


def test_a_preview_judges_by_today_where_several_compactions_wait(world: World) -> None:
    """Not by what the first of them saw: a later one may have replaced its result."""
    two_deltas(world)
    reader = world.connect().transactions.begin(read_only=True)
    world.compact(MINOR)
    world.insert(4)
    world.compact(MAJOR)
    world.insert(5)
    world.clock.advance_ms(2_000)
    found = reasons(preview(world))
    assert sorted(path for path, why in found.items() if why is Kept.CURRENT) == [
        next(path for path in world.directories() if path.startswith("base_0000003")),
        "delta_0000004_0000004_0000",
    ]
    assert len([why for why in found.values() if why is Kept.READERS]) == 4
    assert len(found) == 6
    reader.close()
    world.clock.advance_ms(2_000)
    told = preview(world).remove
    assert len(told) == 4
    definition = world.acid.table("t").definition
    compactor = Compactor(world.connect(), partial(rewrite, settings=world.settings), version="0")
    gone = compactor.clean_tables([definition], dry_run=False)
    assert sorted(one.path.rpartition("/")[2] for one in gone) == sorted(told)
    assert world.states() == [CompactionState.SUCCEEDED] * 2
    assert world.ids() == [1, 2, 3, 4, 5]
