"""A client that sleeps while its transaction is aborted and its table replaced harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.compaction.world import ACID, World

from hiveacid.compaction.worker import Outcome, Step
from hiveacid.errors import TransactionError
from hiveacid.session import Session
from hiveacid.statements import run


def _savepoint(txn: Any) -> None:
    txn.savepoint("before")
    txn.table("t").write_arrow([{"id": 1, "v": "zombie"}])


@pytest.mark.parametrize(
    "wakes",
    [
        lambda txn: txn.commit(),
        lambda txn: txn.rollback(),
        lambda txn: txn.rollback_to("before"),
        lambda txn: txn.sql("truncate table t"),
    ],
    ids=["commit", "rollback", "savepoint", "statement"],
)
def test_files_of_a_table_that_came_since_stay(world: World, wakes: Callable[[Any], None]) -> None:
    sleeper = Session(world.connect())
    txn = sleeper.transaction()
    _savepoint(txn)
    world.clock.advance_ms(600_000)
    assert len(world.client.own.perform_timeouts()) == 1
    world.acid.sql("drop table t")
    world.make()
    world.insert(7)
    assert world.directories() == ["delta_0000001_0000001_0000"]
    with suppress(TransactionError):
        wakes(txn)
    if txn.is_open:
        with pytest.raises(TransactionError):
            txn.commit()
    assert world.rows() == [(7, "new")]
    sleeper.close()
    assert world.rows() == [(7, "new")]


@pytest.mark.parametrize("wakes", ["commit", "abort", "close"])
def test_a_stream_that_slept_writes_nothing_into_a_table_that_came_since(
    world: World, wakes: str
) -> None:
    stream = Session(world.connect()).stream("t", transactions_per_batch=2)
    stream.begin()
    stream.write({"id": 1, "v": "zombie"})
    world.clock.advance_ms(600_000)
    assert len(world.client.own.perform_timeouts()) == 2
    world.acid.sql("drop table t")
    world.make()
    for number in (7, 8, 9):
        world.insert(number)
    with suppress(TransactionError):
        getattr(stream, wakes)()
    stream.close()
    assert world.ids() == [7, 8, 9]
    assert len(world.directories()) == 3


def _slept(world: World) -> None:
    """All that was open is aborted; and forgotten, where nobody remembers what it has written."""
    world.clock.advance_ms(600_000)
    assert world.client.own.perform_timeouts()


def _forgotten(world: World) -> None:
    world.clock.advance_ms(10_000)
    world.client.own.run_housekeeping(interval_s=0)


def test_a_statement_that_slept_publishes_nothing_once_it_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others compact and clean meanwhile makes its write id one of the committed."""
    publish = run._publish

    def late(*args: Any) -> None:
        monkeypatch.setattr(run, "_publish", publish)
        _slept(world)
        world.compact()
        world.clean()
        _forgotten(world)
        publish(*args)

    world.insert(6)
    world.insert(7)
    monkeypatch.setattr(run, "_publish", late)
    with Session(world.connect()) as sleeper, pytest.raises(TransactionError):
        sleeper.table("t").write_arrow([{"id": 1, "v": "zombie"}])
    assert world.ids() == [6, 7]
    world.insert(8)
    assert world.ids() == [6, 7, 8]


def test_a_worker_that_slept_publishes_nothing_into_a_partition_that_came_since(
    world: World,
) -> None:
    world.make("p", f"partitioned by (k int) {ACID}")
    for number in (1, 2):
        world.insert(number, table="p", k="1")

    def late(step: Step) -> None:
        if step is Step.REWRITTEN:
            _slept(world)
            world.acid.sql("alter table p drop partition (k=1)")
            world.insert(7, table="p", k="1")
            _forgotten(world)

    done = world.compact(table="p", partition="k=1", reached=late)
    assert done.outcome is Outcome.FAILED
    assert world.ids("p") == [7]
