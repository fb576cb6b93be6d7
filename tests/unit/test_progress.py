"""The bar of progress: when it is drawn, and what it says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

import hiveacid
from hiveacid.client import Client, open_client
from hiveacid.progress import bar, compactions_shown
from hiveacid.settings import Settings
from hiveacid.testing import ManualClock


class OneByOne:
    """Threads that a test is."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def every(self, seconds: float, work: Callable[[], None], *, name: str) -> Callable[[], None]:
        del seconds, name
        self.work.append(work)
        return self.work.clear


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def client(tmp_path: Path, threads: OneByOne, **settings: bool) -> Client:
    return open_client(
        f"sqlite:///{tmp_path}/m.db",
        warehouse=str(tmp_path / "w"),
        clock=ManualClock(),
        settings=Settings(**settings),
        threads=threads,
    )


def test_the_bar_is_drawn_after_some_seconds_and_taken_away_at_the_end(tmp_path: Path) -> None:
    threads, out = OneByOne(), Terminal()
    console = Console(file=out, force_terminal=True, color_system=None, width=100)
    measured = iter([None, (0, 7), (3, 7), (4, 7)])
    with closing(client(tmp_path, threads)) as opened:
        threads.work.clear()  # its heartbeat's
        with bar(opened, "MERGE INTO t", lambda: next(measured), unit="tasks", console=console):
            (draw,) = threads.work
            draw()
            assert out.getvalue() == "", "it is too early, and nobody is asked"
            opened.clock.sleep_s(4)
            draw()
            assert out.getvalue() == "", "there is no job yet"
            draw()
            assert "MERGE INTO t" in out.getvalue() and "0/7 tasks 0:00:04" in out.getvalue()
            draw()
            assert "3/7 tasks" in out.getvalue()
        assert threads.work == []
        drawn = out.getvalue()
        draw()  # a thread that was about to
        assert out.getvalue() == drawn


@pytest.mark.parametrize(
    ("terminal", "settings", "shown"),
    [(Terminal(), {}, True), (io.StringIO(), {}, False), (Terminal(), {"progress": False}, False)],
)
def test_a_bar_is_for_terminals_and_can_be_turned_off(
    terminal: io.StringIO,
    settings: dict[str, bool],
    shown: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    threads = OneByOne()
    with closing(client(tmp_path, threads, **settings)) as opened:
        threads.work.clear()
        with compactions_shown(opened, "COMPACT t", lambda: (0, 1)):
            assert bool(threads.work) == shown


def test_who_waits_for_compactions_sees_how_many_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int] | None] = []
    with hiveacid.connect(
        None,
        f"sqlite:///{tmp_path}/m.db",
        warehouse=str(tmp_path / "w"),
        settings={"hiveacid.compactor.auto": "off"},
    ) as acid:
        acid.sql(
            "create table t (id int) partitioned by (p int) stored as orc "
            "tblproperties ('transactional'='true')"
        )
        for number in range(2):
            acid.sql(f"insert into t values ({number}, 0), ({number}, 1)")
        shown = hiveacid.compacting.compactions_shown  # type: ignore[attr-defined]

        def watched(client: Client, what: str, measure: Callable[[], tuple[int, int] | None]):  # type: ignore[no-untyped-def]
            assert what == "COMPACT default.t"
            wait = acid.compacting._wait

            def measured(one):  # type: ignore[no-untyped-def]
                seen.append(measure())
                return wait(one)

            monkeypatch.setattr(acid.compacting, "_wait", measured)
            return shown(client, what, measure)

        monkeypatch.setattr("hiveacid.compacting.compactions_shown", watched)
        acid.table("t").compact("major", wait=True)
    assert seen == [(0, 2), (1, 2)]
