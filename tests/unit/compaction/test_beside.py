"""Compactions while others write: nobody waits, nobody is aborted, nothing is lost; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.model.compactions import CompactionState
from hiveacid.session import Session, connect
from hiveacid.settings import Settings

pytestmark = pytest.mark.slow
ACID = "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='0')"
ROWS = 200
TURNS = 8


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    settings = Settings(
        compactor_auto="off",
        conflict_retries=0,
        lock_timeout_s=0.5,
        compactor_embedded_pause_s=0.0,
        compactor_cleaner_interval_s=0.1,
    )
    wh = str(tmp_path / "wh")
    with connect(None, metastore_url, warehouse=wh, settings=settings) as session:
        session.sql(f"create table t (id int, v int) {ACID}")
        session.table("t").write_arrow(_rows_of(0))
        yield session


def _rows_of(value: int) -> pa.Table:
    ids = pa.array(range(ROWS), pa.int32())
    return pa.table({"id": ids, "v": pa.array([value] * ROWS, pa.int32())})


def _found(acid: Session) -> list[tuple[int, int]]:
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def _together(*works: Callable[[], object]) -> None:
    """All at once; the first failure is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        start.wait(300)
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join(300)
    if errors:
        raise errors[0]


def test_a_compaction_and_an_update_of_the_same_rows_both_succeed_every_time(acid: Session) -> None:
    for turn in range(1, TURNS + 1):
        kind = "major" if turn % 2 else "minor"
        _together(
            partial(acid.table("t").compact, kind, wait=True),
            partial(acid.table("t").merge_arrow, _rows_of(turn), on="id"),
        )
        assert _found(acid) == [(number, turn) for number in range(ROWS)]
    ended = {one.state for one in acid.compactions("t")}
    assert CompactionState.FAILED not in ended


def test_readers_and_writers_go_on_beside_an_embedded_compactor(
    acid: Session, metastore_url: str, tmp_path: Path
) -> None:
    settings = Settings(
        compactor_auto="embedded",
        conflict_retries=0,
        lock_timeout_s=0.5,
        compactor_embedded_pause_s=0.0,
        compactor_cleaner_interval_s=0.1,
    )
    wh = str(tmp_path / "wh")
    ended = threading.Event()
    seen, written = list[int](), list[int]()
    with connect(None, metastore_url, warehouse=wh, settings=settings) as writer:

        def write() -> None:
            try:
                while len(written) < TURNS or not writer.compactions("t"):
                    written.append(len(written) + 1)
                    writer.table("t").merge_arrow(_rows_of(written[-1]), on="id")
                    threading.Event().wait(0.05 * (len(written) > TURNS))
            finally:
                ended.set()

        def read() -> None:
            while not ended.is_set():
                rows = _found(acid)
                assert len(rows) == ROWS
                (value,) = {value for _, value in rows}
                seen.append(value)

        _together(write, read)
    assert seen == sorted(seen)
    assert _found(acid) == [(number, written[-1]) for number in range(ROWS)]
    assert acid.compactions("t", status="failed") == ()
