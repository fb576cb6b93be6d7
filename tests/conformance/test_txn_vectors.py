"""Behaviour vectors of the transaction manager; the areas of compaction wait for compaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.testing.txn_vectors import (
    RUNNABLE_AREAS,
    NotBuiltError,
    Vector,
    load_vectors,
    run_vector,
)

_OURS = Path(__file__).parents[1] / "data" / "txn_vectors.json"
_SHARED = Path(__file__).parents[2].parent / "shared" / "facts" / "txn_vectors.json"
_FILES = [path for path in (_OURS, _SHARED) if path.exists()]


def _all() -> list[Vector]:
    seen: dict[str, Vector] = {}
    for path in _FILES:
        for one in load_vectors(path):
            seen.setdefault(repr(one), one)
    return list(seen.values())


@pytest.mark.parametrize(
    "vector", [one for one in _all() if one.area in RUNNABLE_AREAS], ids=lambda one: one.name
)
def test_vector_passes(vector: Vector, metastore_url: str, tmp_path: Path) -> None:
    run_vector(vector, url=metastore_url, warehouse=tmp_path / "warehouse")


@pytest.mark.parametrize(
    "vector", [one for one in _all() if one.area not in RUNNABLE_AREAS], ids=lambda one: one.name
)
def test_vector_of_a_later_area_does_not_fail(vector: Vector, tmp_path: Path) -> None:
    try:
        run_vector(vector, url=str(tmp_path / "metastore.db"), warehouse=tmp_path / "warehouse")
    except NotBuiltError as missing:
        pytest.skip(f"not run: {missing}")


def test_all_vectors_of_the_transaction_manager_are_there() -> None:
    assert sum(one.area in RUNNABLE_AREAS for one in load_vectors(_OURS)) == 86
