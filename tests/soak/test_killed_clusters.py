"""Two drivers on a cluster while parts of it are killed; ``python -m tests.soak.cluster`` kills
more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.hive_tool import HiveIsMissingError
from tests.soak.cluster import PLACES, short_plan, tried

pytestmark = [pytest.mark.java, pytest.mark.timing, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_killed_on_a_cluster_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, place: str
) -> None:
    try:
        tried(tmp_path, place=place, plans=[short_plan(driver=n, place=place) for n in range(2)])
    except HiveIsMissingError as error:
        pytest.skip(str(error))
