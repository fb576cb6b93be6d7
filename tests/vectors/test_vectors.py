"""Behaviour vectors of the transaction manager and of compaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.postgres import PostgresServer
from tests.recorded import NEWER
from tests.vectors.running import RUNNABLE_AREAS, Vector, load_vectors, run_vector

_OURS = Path(__file__).parents[1] / "data" / "txn_vectors.json"
_NEWER = NEWER / "facts" / "txn_vectors.json"
_FILES = [path for path in (_OURS, _NEWER) if path.exists()]


def _all() -> list[Vector]:
    seen: dict[str, Vector] = {}
    for path in _FILES:
        for one in load_vectors(path):
            seen.setdefault(repr(one), one)
    return list(seen.values())


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """On each kind of database in every run; most other tests use PostgreSQL only where the code
    that speaks to it changed.
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.metastore()


@pytest.mark.parametrize("vector", _all(), ids=lambda one: one.name)
def test_vector_passes(vector: Vector, url: str, tmp_path: Path) -> None:
    run_vector(vector, url=url, warehouse=tmp_path / "warehouse")


def test_all_vectors_are_there_and_of_known_areas() -> None:
    vectors = load_vectors(_OURS)
    assert len(vectors) == 105
    assert {one.area for one in vectors} == set(RUNNABLE_AREAS)
