"""Definitions that change under writers, readers and compactors; bugs that this has to find."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import sampled
from tests.simulation import definitions
from tests.simulation.definitions import DefinitionHistory, make_tables
from tests.simulation.world import World, emptied, scratch

from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.tables import Table, TableName
from hiveacid.statements import context as statement_context
from hiveacid.statements import handlers
from hiveacid.statements.context import Bound, DdlPlanner
from hiveacid.txn.view import Look

ROOMS = ("txn", "metastore", "statements", "compaction")


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    directory = scratch()
    yield directory
    emptied(directory).rmdir()


def _history(seed: int, root: Path) -> DefinitionHistory:
    emptied(root)
    url = f"sqlite:///{root}/metastore.db"
    world = World(0, root, url=url)
    with world.alive():
        make_tables(world.healthy.session, world.warehouse)
    return DefinitionHistory(seed, root, url=url)


@pytest.mark.parametrize("seed", sampled(range(1, 25), *ROOMS, group=lambda seed: seed % 3))
def test_nothing_is_lost(seed: int, root: Path) -> None:
    _history(seed, root).run()


def test_a_seed_gives_the_same_history_again(root: Path) -> None:
    assert _history(5, root).run() == _history(5, root).run()


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
        mine.table = bound.look.table(bound.value.name)
        return statement_context.define(context, bound, lambda *_: planned)

    monkeypatch.setattr(definitions, "MOVED", ("a", "b"))  # so that they meet
    monkeypatch.setattr(SqlMetastore, "alter_table", alter_table)
    monkeypatch.setattr(handlers, "define", define)


@pytest.mark.long(*ROOMS)
@pytest.mark.parametrize("plant", [_stale_for_writers, _stale_for_definitions])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(1, 101):
            _history(seed, root).run()
