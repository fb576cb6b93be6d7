"""Where histories of a module of tests are played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.simulation.run import Place, place


@pytest.fixture(scope="module")
def here() -> Iterator[Place]:
    with place() as made:
        yield made
