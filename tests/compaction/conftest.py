"""A world on SQLite, and on each kind of database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.compaction.world import World

from hiveacid.session import Session
from hiveacid.settings import Settings


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """With an empty table ``t`` (id, v)."""
    made = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh")
    made.make()
    yield made
    made.close()


@pytest.fixture
def world_with(metastore_url: str, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes a world, with settings of its own, on each kind of database."""
    with ExitStack() as ends:

        def make(settings: Settings | None = None) -> World:
            made = World(metastore_url, tmp_path / "wh", settings)
            ends.callback(made.close)
            return made

        yield make


@pytest.fixture
def any_world(world_with: Callable[..., World]) -> World:
    """With an empty table ``t`` (id, v), on each kind of database."""
    made = world_with()
    made.make()
    return made


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """Without tables, on each kind of database; files are kept for a day."""
    return world_with(Settings(retention_s=86_400.0))


@pytest.fixture
def acid(made: World) -> Session:
    """Its session."""
    return made.acid
