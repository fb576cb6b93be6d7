"""Rewrites in processes of their own, and those that asked for them; what a thread reads ahead."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.compaction.quick import (
    ACID,
    names_of,
    rows_of,
    session_of,
    write,
)

from hiveacid.compaction.compactor import Compactor
from hiveacid.compaction.process import ProcessRewrite
from hiveacid.compaction.worker import Outcome
from hiveacid.errors import CompactionError
from hiveacid.model.compactions import CompactionInfo
from hiveacid.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.long("compaction")]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'metastore.db'}"


def test_a_process_ends_with_whoever_was_killed() -> None:
    """Its order is still to come: only that its parent is gone ends it, and with it the output."""
    order, never = os.pipe()
    text = (
        "import os, subprocess, sys\n"
        "what = ['-m', 'hiveacid.compaction.process', str(os.getpid()), '0']\n"
        "subprocess.Popen([sys.executable, *what])\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdin=order, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    parent.kill()
    assert parent.communicate(timeout=300) == (b"", None)
    os.close(order)
    os.close(never)


@pytest.mark.timing
@pytest.mark.skipif(not hasattr(os, "nice"), reason="a system without priorities")
@pytest.mark.parametrize("own_session", [True, False])
def test_a_process_gives_way_and_lowers_no_session_but_its_own(own_session: bool) -> None:
    """It is at its priority before it reads its order, which does not come here."""
    command = [sys.executable, "-m", "hiveacid.compaction.process", str(os.getpid()), "10"]
    before = _session_niceness(os.getpid())
    lower = min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=own_session) as process:
        for _ in range(600):
            if os.getpriority(os.PRIO_PROCESS, process.pid) == lower:
                break
            time.sleep(0.1)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == lower
        if own_session:
            assert _session_niceness(process.pid) in ("10", None)
        else:
            assert _session_niceness(process.pid) == before
        process.kill()


def _session_niceness(process: int) -> str | None:
    """Of the session among all, where Linux shares the processors among sessions first. Processes
    that no session has led since the machine came up have none: their file is empty.
    """
    group = Path(f"/proc/{process}/autogroup")
    words = group.read_text(encoding="ascii").split() if os.access(group, os.W_OK) else []
    return words[-1] if words else None


def test_a_large_compaction_is_done_by_a_process_of_its_own(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path, compactor_process_bytes=0) as acid:
        write(acid)
        acid.table("t").delete_arrow("id = 3")
        before = rows_of(acid)
        acid.table("t").compact("major", wait=True)
        assert any(name.startswith("base_") for name in names_of(acid))
        assert rows_of(acid) == before


@pytest.fixture
def acid(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session with a bucketed table, on six processors."""
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr("hiveacid.compaction.process._SHARE_BYTES", 1)
    with session_of(url, tmp_path, compactor_process_bytes=0) as made:
        made.sql(f"create table t (id int) clustered by (id) into 4 buckets {ACID}")
        write(made)
        yield made


@pytest.mark.parametrize(
    ("awaited", "processes"),
    [(True, 4), pytest.param(False, 3, marks=pytest.mark.long("compaction"))],
)
def test_processes_share_the_buckets_of_a_compaction(
    awaited: bool, processes: int, acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One a bucket where a statement waits, else as many as half of the processors, politely."""
    begun: list[list[str]] = []

    class Counted(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            begun.append(command)
            super().__init__(command, **options)

    def compact() -> CompactionInfo:
        (entry,) = acid.table("t").compact("major", wait=awaited)
        if not awaited:
            Compactor(acid.client, rewrite, version="1").worker().run_next()
        (entry,) = acid.client.metastore.show_compactions(compaction=entry.id)
        return entry

    rewrite = ProcessRewrite(lambda: acid.settings, spark=lambda: None)
    monkeypatch.setattr(subprocess, "Popen", Counted)
    acid.table("t").delete_arrow("id = 3")
    before = rows_of(acid)
    assert compact().error is None
    assert [command[-1] for command in begun] == ["0" if awaited else "10"] * processes
    base = next(Path(acid.table("t").definition.location).glob("base_*"))
    assert len(list(base.glob("bucket_*"))) >= 3
    assert rows_of(acid) == before
    damaged = max(base.glob("bucket_*"))
    damaged.write_bytes(b"no ORC file")
    acid.sql("insert into t values (100)")
    if awaited:
        with pytest.raises(CompactionError, match=damaged.name):
            compact()
    else:
        assert damaged.name in (compact().error or "")


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_large_bucket_is_read_by_a_thread_while_it_is_written(
    kind: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiveacid.storage.merge.bucket_rewrite._AHEAD_BYTES", 1)
    with session_of(url, tmp_path) as acid:
        write(acid)
        acid.table("t").delete_arrow("id in (0, 3)")
        before = rows_of(acid)
        acid.table("t").compact(kind, wait=True)
        assert rows_of(acid) == before
        acid.sql("insert into t values (100)")
        damaged = min(Path(acid.table("t").definition.location).glob("[bd]*_v*/bucket_*"))
        damaged.write_bytes(damaged.read_bytes()[:-40])
        with pytest.raises(CompactionError, match=damaged.name):
            acid.table("t").compact("major", wait=True)


def test_a_base_is_left_where_no_share_has_rows(acid: Session) -> None:
    acid.table("t").delete_arrow("id >= 0")
    acid.table("t").compact("major", wait=True)
    assert any(name.startswith("base_") for name in names_of(acid))
    assert rows_of(acid) == []


def test_what_the_process_runs_into_is_raised_here(url: str, tmp_path: Path) -> None:
    with session_of(url, tmp_path, compactor_process_bytes=0) as acid:
        write(acid)
        damaged = next(Path(acid.table("t").definition.location).glob("delta_0000002*/bucket*"))
        damaged.write_bytes(b"no ORC file")
        with pytest.raises(CompactionError, match=damaged.name):
            acid.table("t").compact("major", wait=True)


def test_a_process_that_is_stopped_is_an_error_and_publishes_nothing(
    url: str, tmp_path: Path
) -> None:
    with session_of(url, tmp_path, compactor_process_bytes=0) as acid:
        write(acid)
        before = names_of(acid)
        polite = ProcessRewrite(lambda: acid.settings, spark=lambda: None)
        polite.stop()
        worker = Compactor(acid.client, polite, version="1").worker()
        acid.table("t").compact("major")
        result = worker.run_next()
        assert result is not None
        assert result.outcome is Outcome.FAILED
        assert "has ended with status" in (result.message or "")
        assert names_of(acid) == before
