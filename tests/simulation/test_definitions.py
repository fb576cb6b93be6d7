"""Definitions that change under writers, readers and compactors; bugs that this has to find."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.sampling import sampled
from tests.simulation import definitions
from tests.simulation.run import Place
from tests.simulation.scheduler import Killed
from tests.simulation.test_simulation import _fresh_snapshots
from tests.simulation.world import World

from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.tables import Table, TableName
from hiveacid.statements import context as statement_context
from hiveacid.statements import handlers
from hiveacid.statements.context import Bound, DdlPlanner
from hiveacid.txn.view import Look
from hiveacid.txn.waiting import wait_for_lock as wait

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "statements", "storage", "txn"
)

ROOMS = ("txn", "metastore", "statements", "compaction")


@pytest.mark.parametrize("seed", sampled(range(1, 25), *ROOMS, group=lambda seed: seed % 3))
def test_nothing_is_lost(seed: int, here: Place) -> None:
    here.definitions(seed).run()


def test_a_seed_gives_the_same_history_again(here: Place) -> None:
    assert here.definitions(5).run() == here.definitions(5).run()


def _stale_for_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a statement looked up before its locks is what it writes to."""
    monkeypatch.setattr(Look, "under_locks", lambda self, _: self)


def _stale_for_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition is changed from what it was before the locks."""
    mine = threading.local()
    real = SqlMetastore.alter_table

    def alter_table(
        self: Any, name: TableName, make: Callable[[Table], Table], **more: Any
    ) -> Table:
        return real(self, name, lambda now: make(mine.table or now), **more)

    def define(context: Any, bound: Bound, plan: DdlPlanner) -> Any:
        planned = plan(context, bound.value, bound.look)
        name = getattr(bound.value, "name", None)
        mine.table = bound.look.table(name) if isinstance(name, TableName) else None
        return statement_context.define(context, bound, lambda *_: planned)

    monkeypatch.setattr(definitions, "MOVED", ("a", "b"))  # so that they meet
    monkeypatch.setattr(SqlMetastore, "alter_table", alter_table)
    monkeypatch.setattr(handlers, "define", define)


def _killed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody undoes what a definition that was killed had begun; many are, with files moved."""
    real = World.after

    def after(self: World, operation: str, subject: str) -> None:
        is_moved = operation == "rename" and self.client.name.startswith("define")
        if is_moved and self.random.random() < 0.5:
            self.kill(self.client)
            raise Killed
        real(self, operation, subject)

    monkeypatch.setattr(World, "after", after)
    monkeypatch.setattr(statement_context, "undo_killed", lambda *_: False)
    monkeypatch.setattr(definitions, "CALM", 0)


def _names_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write id that was given out before the locks is the table's, whatever was renamed since."""

    def wait_for_lock(*args: Any, **more: Any) -> Any:
        return replace(wait(*args, **more), newer_overwrite=())

    monkeypatch.setattr("hiveacid.txn.transaction.wait_for_lock", wait_for_lock)


def _definitions_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions change while others write and read."""
    real = statement_context.define

    def define(context: Any, bound: Bound, plan: DdlPlanner) -> Any:
        def planned(*given: Any) -> Any:
            made = plan(*given)
            return made if made is None else replace(made, locks=())

        return real(context, bound, planned)

    monkeypatch.setattr(handlers, "define", define)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_stale_for_writers, 2),
        (_stale_for_definitions, 6),
        (_killed_stays, 9),
        (_names_come_back, 137),
        (_fresh_snapshots, 36),
        (_definitions_without_locks, 16),
    ],
)
@pytest.mark.long(*ROOMS)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    first: int,
    here: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within 200 seeds; ``first`` lies shortly before one that did it last, to save time."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(first, first + 200):
            here.definitions(seed).run()
