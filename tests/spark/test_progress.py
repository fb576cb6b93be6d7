"""What is known of Spark's jobs while they run: how far they are, and what they are called."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.spark.jobs import jobs_described, jobs_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session


@pytest.mark.long("progress", "spark")
@pytest.mark.parametrize("group", [None, "mine"])
def test_the_jobs_of_a_block_are_measured_while_they_run(
    spark: SparkSession, tmp_path: Path, group: str | None
) -> None:
    """The last task waits for what is measured: how long that takes does not matter."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        context.setLocalProperty("spark.jobGroup.id", group)
    spark.range(0, 4, 1, 4).collect()  # no job of the block
    go = tmp_path / "go"
    seen: list[tuple[int, int]] = []

    def wait(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            while batch.num_rows and batch.column(0)[0].as_py() == 2 and not go.exists():
                time.sleep(0.05)
            yield batch

    with jobs_watched(spark) as measure:

        def watch() -> None:
            while not seen:
                found = measure()
                if found is not None and found[0] == 2:
                    seen.append(found)
                time.sleep(0.05)
            go.touch()

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert len(spark.range(0, 3, 1, 3).mapInArrow(wait, "id long").collect()) == 3
        watcher.join()
    assert seen == [(2, 3)]
    if context is not None:
        assert context.getLocalProperty("spark.jobGroup.id") == group
        context.setLocalProperty("spark.jobGroup.id", None)


def test_jobs_are_described_or_tagged(spark: SparkSession, acid: Session) -> None:
    def called() -> object:
        context = getattr(spark, "_sc", None)
        if context is None:
            return spark.getTags() or None
        return context.getLocalProperty("spark.job.description")

    expected = "hiveacid: reading" if hasattr(spark, "_sc") else {"hiveacid: reading"}
    with acid.reading():
        assert called() == expected
        acid.sql("show tables")
        assert called() == expected
    assert called() is None
    with jobs_described(spark, "a, b"), jobs_described(spark, "a, b"):
        assert called() == ("a, b" if hasattr(spark, "_sc") else {"a; b"})
    assert called() is None
