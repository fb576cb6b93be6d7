"""Behaviour vectors of the transaction manager and of compaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.vectors.running import RUNNABLE_AREAS, Vector, load_vectors, run_vector

_OURS = Path(__file__).parents[1] / "data" / "txn_vectors.json"
_SHARED = Path(__file__).parents[2].parent / "shared" / "facts" / "txn_vectors.json"
_FILES = [path for path in (_OURS, _SHARED) if path.exists()]


def _all() -> list[Vector]:
    seen: dict[str, Vector] = {}
    for path in _FILES:
        for one in load_vectors(path):
            seen.setdefault(repr(one), one)
    return list(seen.values())


@pytest.mark.parametrize("vector", _all(), ids=lambda one: one.name)
def test_vector_passes(vector: Vector, metastore_url: str, tmp_path: Path) -> None:
    run_vector(vector, url=metastore_url, warehouse=tmp_path / "warehouse")


def test_all_vectors_are_there_and_of_known_areas() -> None:
    vectors = load_vectors(_OURS)
    assert len(vectors) == 105
    assert {one.area for one in vectors} == set(RUNNABLE_AREAS)
