"""Streaming queries killed at random: two kills; ``python -m tests.soak.queries`` does more."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from tests.soak.queries import API, NEEDS_SPARK_4, SINKS, killed

ROOMS = ("foreach_batch", "connectors")
pytestmark = [pytest.mark.java, pytest.mark.long(*ROOMS), pytest.mark.timeout(3600)]


@pytest.mark.parametrize("sink", [*SINKS, API])
def test_a_query_that_is_killed_and_started_again_writes_each_row_once(
    tmp_path: Path, sink: str
) -> None:
    if sink in NEEDS_SPARK_4 and pyspark.__version__.startswith("3."):
        pytest.skip("PySpark 3.5 has no data sources in Python")
    killed(f"sqlite:///{tmp_path}/metastore.db", tmp_path, sink=sink, kills=2, seed=5)
