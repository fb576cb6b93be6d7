"""The tutorial runs, and docs/spark.md has the list of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.connect import OVER_CONNECT
from tests.spark.tutorial import STEPS, Step

import hiveacid


@pytest.fixture
def enabled(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    url, off = f"sqlite:///{tmp_path}/m.db", {"hiveacid.compactor.auto": "off"}
    hiveacid.enable(spark, url, warehouse=str(tmp_path / "wh"), settings=off)
    yield spark
    hiveacid.disable(spark)


def _with_marks(step: Step) -> Any:
    """A query of its own starts several processes; test_stream_source, _sink run in each run."""
    is_query = step.code.__name__ == "stream_between_tables"
    marks = [pytest.mark.long("connectors", "functions", "streaming", "tables")] if is_query else []
    return pytest.param(step, marks=marks, id=step.code.__name__)


@pytest.mark.parametrize("step", [*map(_with_marks, STEPS)])
def test_a_step_of_the_tutorial(enabled: SparkSession, tmp_path: Path, step: Step) -> None:
    if int(enabled.version[0]) < step.spark or (step.here and OVER_CONNECT):
        with pytest.raises(Exception):  # noqa: B017 - ours, or Spark's that knows no such source
            step.code(enabled, str(tmp_path))
        return
    found = step.code(enabled, str(tmp_path)).collect()
    assert sorted((tuple(row) for row in found), key=str) == sorted(step.rows, key=str)


def test_the_list_is_documented(project: Path) -> None:
    text = (project / "docs" / "spark.md").read_text("utf-8")
    for number, step in enumerate(STEPS, 1):
        since = f", Spark {step.spark}" if step.spark > 3 else ", not on Connect" * step.here
        assert f"| {number} | {step.part} | {step.title} | runs{since} |" in text
    assert len(STEPS) == 30
