"""Who waits for a compaction hears how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.compaction.world import World

from hiveacid.errors import CompactionError, MetastoreError
from hiveacid.model.compactions import CompactionState


def _two_deltas(world: World) -> None:
    world.insert(1, 2, 3)
    world.delete(2)


def test_who_waits_hears_of_a_failure_that_the_metastore_cannot_be_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _two_deltas(world)
    before = world.rows()
    full = [True]

    def unless_full(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if full:
                raise MetastoreError("disk is full")
            return step(*given, **named)

        return run

    metastore = type(world.client.metastore)
    for name in ("open_txns", "mark_failed"):
        monkeypatch.setattr(metastore, name, unless_full(getattr(metastore, name)))
    with pytest.raises(CompactionError, match="has failed: disk is full"):
        world.acid.table("t").compact("major", wait=True)
    assert world.states() == [CompactionState.WORKING]
    full.clear()
    (entry,) = world.acid.table("t").compact("major", wait=True)
    assert world.states() == [CompactionState.FAILED, CompactionState.READY_FOR_CLEANING]
    assert (entry.state, world.rows()) == (CompactionState.READY_FOR_CLEANING, before)


def test_who_waits_goes_on_where_another_worker_has_taken_what_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _two_deltas(world)
    before = world.rows()
    metastore, clock = world.client.metastore, world.clock
    begin, sleep = metastore.open_txns, clock.sleep_s
    seen: list[str | None] = []

    def taken(*given: Any, **named: Any) -> Any:
        if seen:
            return begin(*given, **named)
        sleep(50)
        metastore.revoke_workers(older_than_ms=0)
        found = metastore.find_next_compaction("other-1", version="x")
        seen.append(None if found is None else found.worker)
        raise MetastoreError("connection lost")

    def given_back(seconds: float) -> None:
        metastore.revoke_workers(host="other")
        sleep(seconds)

    monkeypatch.setattr(metastore, "open_txns", taken)
    monkeypatch.setattr(clock, "sleep_s", given_back)
    (entry,) = world.acid.table("t").compact("major", wait=True)
    assert (seen, entry.state) == (["other-1"], CompactionState.READY_FOR_CLEANING)
    assert world.rows() == before
