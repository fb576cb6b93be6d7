"""A client that sleeps while its transaction is aborted and its table replaced harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.compaction.world import World

from hiveacid.errors import TransactionError
from hiveacid.session import Session


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
