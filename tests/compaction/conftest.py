"""A world on SQLite, and on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compaction.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """With an empty table ``t`` (id, v)."""
    made = World(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh")
    made.make()
    yield made
    made.close()


@pytest.fixture
def any_world(metastore_url: str, tmp_path: Path) -> Iterator[World]:
    """The same on each kind of database."""
    made = World(metastore_url, tmp_path / "wh")
    made.make()
    yield made
    made.close()
