"""An executor that dies in the middle of a write: the statement succeeds once, or fails whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.java, pytest.mark.long("spark", "storage", "statements")]
PROGRAM = Path(__file__).with_name("executor_loss.py")


@pytest.fixture(scope="module")
def came_to(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    where = tmp_path_factory.mktemp("executor_loss")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(where)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("statement", "result", "first"),
    [
        ("insert", "InsertResult(rows=2000, write_id=1)", 0),
        ("merge", "MergeResult(updated=2000, deleted=0, inserted=0, write_id=2)", 10000),
    ],
)
def test_what_is_run_again_counts_once(
    came_to: dict[str, Any], statement: str, result: str, first: int
) -> None:
    found = came_to[statement]
    assert found["killed"] == 1
    assert found["result"] == result
    assert found["rows"] == list(range(first, first + 2000))
    assert found["distinct_ids"] == 2000
    assert found["by_spark"] == sum(found["rows"])
    assert (found["staging"], found["locks"]) == ([], 0)


@pytest.mark.timeout(900)
def test_where_every_try_dies_nothing_has_happened(came_to: dict[str, Any]) -> None:
    found, before, after = came_to["fails"], came_to["merge"], came_to["after"]
    assert re.fullmatch(
        r"StorageError: The processes of Spark that did the work died: Task 0 in stage \S+ failed "
        r"2 times, most recent failure: Lost task .* ExecutorLostFailure .* exited with code 137",
        found["result"],
    )
    assert "org.apache.spark.SparkException: Job aborted" in found["cause"]
    for key in ("rows", "deltas", "distinct_ids", "by_spark", "staging", "locks"):
        assert found[key] == before[key], key
    assert after["rows"] == sorted([-1, *found["rows"]])


@pytest.mark.timeout(900)
def test_without_its_spark_a_session_says_so_and_does_what_needs_none(
    came_to: dict[str, Any],
) -> None:
    assert came_to["stopped"]["result"].startswith("SparkNeededError: UPDATE default.t needs Spark")
    assert came_to["tables"] == [["t"]]
