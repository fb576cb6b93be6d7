"""Writers, readers, compactors and cleaners at once, on real clocks: nobody waits, nobody fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Worker
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = Settings(
    retention_s=0,
    conflict_unit="row",
    conflict_retries=0,
    lock_timeout_s=30,
    compactor_auto="off",
    compactor_aborts_age_s=0,
)
pytestmark = pytest.mark.timing
ROWS_PER_WRITER = 4
SECONDS = 6.0


@pytest.fixture
def connect(metastore_url: str, tmp_path: Path) -> Callable[[], Session]:
    return partial(
        hiveacid.connect, None, metastore_url, warehouse=str(tmp_path / "wh"), settings=SETTINGS
    )


class _Crew:
    """Threads that repeat their work until the time is over; what one raises is kept."""

    def __init__(self) -> None:
        self.until_s = time.monotonic() + SECONDS
        self.errors: list[BaseException] = []
        self.rounds: dict[str, int] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, connect: Callable[[], Session], work: Callable[..., None]) -> None:
        self.rounds[name] = 0

        def run() -> None:
            try:
                with connect() as session:
                    while time.monotonic() < self.until_s and not self.errors:
                        work(session, self.rounds[name])
                        self.rounds[name] += 1
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()

    def join(self) -> None:
        for one in self._threads:
            one.join()
        if self.errors:
            raise self.errors[0]


def _rows(first: int, version: int) -> pa.Table:
    ids = range(first, first + ROWS_PER_WRITER)
    return pa.table(
        {"id": pa.array(ids, pa.int32()), "v": pa.array([version] * ROWS_PER_WRITER, pa.int32())}
    )


def test_writers_readers_compactors_and_cleaners_at_once(connect: Callable[[], Session]) -> None:
    writers = 2
    with connect() as acid:
        acid.sql(f"create table t (id int, v int) {ACID}")
        for writer in range(writers):
            acid.table("t").write_arrow(_rows(writer * 100, 0))
    crew = _Crew()

    def update(first: int, session: Session, turn: int) -> None:
        result = session.table("t").merge_arrow(_rows(first, turn + 1), on=["id"])
        assert (result.updated, result.inserted) == (ROWS_PER_WRITER, 0)

    def read(session: Session, turn: int) -> None:
        del turn
        found = hiveacid.read_arrow(session.table("t")).read_all()
        assert found.num_rows == writers * ROWS_PER_WRITER
        for writer in range(writers):
            versions = {row["v"] for row in found.to_pylist() if row["id"] // 100 == writer}
            assert len(versions) == 1, f"a reader saw half of a change: {versions}"

    def compact(session: Session, turn: int) -> None:
        kind = CompactionType.MINOR if turn % 3 else CompactionType.MAJOR
        store = session.client.metastore
        store.compact(CompactionRequest(TableName("default", "t"), None, kind))
        worker = Worker(session.client, partial(rewrite, settings=SETTINGS), name=f"host-{turn}")
        done = worker.run_next()
        assert done is None or done.outcome is not Outcome.FAILED, done
        time.sleep(0.05)

    def clean(session: Session, turn: int) -> None:
        del turn
        Cleaner(session.client).run()
        time.sleep(0.2)

    for writer in range(writers):
        crew.start(f"writer {writer}", connect, partial(update, writer * 100))
    crew.start("reader", connect, read)
    crew.start("compactor", connect, compact)
    crew.start("cleaner", connect, clean)
    crew.join()
    assert all(rounds > 1 for rounds in crew.rounds.values()), crew.rounds
    with connect() as acid:
        found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
        wanted = {
            writer * 100 + at: crew.rounds[f"writer {writer}"]
            for writer in range(writers)
            for at in range(ROWS_PER_WRITER)
        }
        assert {row["id"]: row["v"] for row in found} == wanted
        assert len(found) == len(wanted)
        states = [one.state.phrase for one in acid.client.metastore.show_compactions()]
        assert "succeeded" in states or "ready for cleaning" in states
        assert "failed" not in states
