"""A world on SQLite, and on each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compaction.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With an empty table ``t`` (id, v)."""
    made = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh")
    made.make()
    return made


@pytest.fixture
def any_world(metastore_url: str, tmp_path: Path) -> World:
    """The same on each kind of database."""
    made = World(metastore_url, tmp_path / "wh")
    made.make()
    return made
