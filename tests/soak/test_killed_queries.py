"""Streaming queries killed at random: two kills; ``python -m tests.soak.queries`` does more."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from tests.soak.queries import NEEDS_SPARK_4, SINKS, killed, killed_writer

pytestmark = [pytest.mark.java, pytest.mark.timing, pytest.mark.timeout(3600)]


def test_queries_that_are_killed_and_started_again_write_each_row_once(tmp_path: Path) -> None:
    is_old = pyspark.__version__.startswith("3.")
    sinks = [one for one in SINKS if not (is_old and one in NEEDS_SPARK_4)]
    killed(f"sqlite:///{tmp_path}/metastore.db", tmp_path, sinks=sinks, kills=2, seed=5)


def test_a_writer_that_is_killed_and_started_again_loses_nothing(tmp_path: Path) -> None:
    killed_writer(f"sqlite:///{tmp_path}/metastore.db", tmp_path, kills=2, seed=5)
