"""Spark's own reader does not wait for a server that goes away: its job runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import FormatError, StorageError
from hiveacid.spark.failures import done_by_spark
from hiveacid.spark.session import reads_files
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files
from hiveacid.testing import ManualClock

READ = "Encountered error while reading file {path}. SQLSTATE: KD001\nCaused by: "
GONE = "java.net.ConnectException: Call From a to b:8020 failed: Connection refused"
ELSEWHERE = "java.net.UnknownHostException: b"


@pytest.mark.parametrize(
    ("cause", "failures", "ends", "runs"),
    [
        (GONE, 5, None, 6),
        ("org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block", 1, None, 2),
        (GONE, 1000, StorageError, 0),
        (ELSEWHERE, 1, StorageError, 1),
        ("org.apache.orc.FileFormatException: not valid", 1, FormatError, 1),
        ("java.lang.ArithmeticException", 1, FormatError, 1),
    ],
)
def test_a_job_runs_again_where_a_server_of_its_files_went_away(
    tmp_path: Path, cause: str, failures: int, ends: type[Exception] | None, runs: int
) -> None:
    clock, ran = ManualClock(), []
    at = Files(retries=Retries(60, clock)).at

    def job() -> str:
        ran.append(1)
        if len(ran) <= failures:
            raise RuntimeError(READ.format(path=tmp_path / "f") + cause)
        return "rows"

    if ends is None:
        assert done_by_spark(job, at=at) == "rows"
    else:
        with pytest.raises(ends):
            done_by_spark(job, at=at)
    assert len(ran) == (runs or len(ran)) and clock.monotonic_s() <= 60


def test_what_spark_asks_a_name_node_before_its_job_is_asked_again(tmp_path: Path) -> None:
    refused = GONE.replace("failed:", "failed on connection exception:")
    failures = [f"An error occurred while calling o123.load.\n: {refused}"]
    at = Files(retries=Retries(60, ManualClock())).at

    def load() -> str:
        if failures:
            raise RuntimeError(failures.pop())
        return "relation"

    assert done_by_spark(load, at=at, place=str(tmp_path)) == "relation"


def test_a_failure_that_is_nothing_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    def job() -> None:
        raise KeyError(str(tmp_path))

    with pytest.raises(KeyError):
        done_by_spark(job, at=Files().at)


def test_of_a_server_that_does_not_answer_spark_nothing_is_remembered() -> None:
    class Session:
        """Whose reader fails once for each of some reasons."""

        fails = [GONE, ELSEWHERE]

        def __getattr__(self, _: str) -> Any:
            return lambda *_: self

        @property
        def read(self) -> Session:
            return self

        def load(self, paths: list[str]) -> Session:
            assert len(paths) > 1, "of a single one Spark logs a Java trace"
            raise RuntimeError(self.fails.pop(0))

    session: Any = Session()
    assert not reads_files(session, "hdfs://b:8020/t")
    assert not reads_files(session, "hdfs://b:8020/t")
    assert not reads_files(session, "hdfs://b:8020/t"), "it is known now, and not asked"
    assert session.fails == []
