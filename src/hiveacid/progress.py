"""A bar on a terminal or in a notebook while a statement or a compaction takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiveacid.client import Client
from hiveacid.spark.jobs import Measure, jobs_watched, shows_its_own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.progress import Progress

SHOWN_AFTER_S: Final = 3.0
_EVERY_S: Final = 0.5


@contextmanager
def statement_shown(client: Client, spark: SparkSession | None, what: str) -> Iterator[None]:
    """Shows how far Spark's jobs of a block are."""
    if spark is None or not _is_wanted(client) or shows_its_own(spark):
        yield
        return
    with jobs_watched(spark) as measure, bar(client, what, measure, unit="tasks"):
        yield


@contextmanager
def compactions_shown(client: Client, what: str, measure: Measure) -> Iterator[None]:
    """Shows how many of the compactions that a block waits for are done."""
    if not _is_wanted(client):
        yield
        return
    with bar(client, what, measure, unit="compactions"):
        yield


def _is_wanted(client: Client) -> bool:
    return client.settings.progress and (sys.stderr.isatty() or "ipykernel" in sys.modules)


@contextmanager
def bar(
    client: Client, what: str, measure: Measure, *, unit: str, console: Console | None = None
) -> Iterator[None]:
    """Shows ``what`` and what ``measure`` says, from some seconds after the block's beginning to
    its end.
    """
    begun_s = client.clock.monotonic_s()
    drawing = threading.Lock()
    shown: list[Progress] = []
    ended = False

    def draw() -> None:
        if client.clock.monotonic_s() - begun_s < SHOWN_AFTER_S:
            return
        found = measure()
        with drawing:
            if found is None or ended:
                return
            if not shown:
                shown.append(_started(client, begun_s, what, unit, console))
            shown[0].update(shown[0].task_ids[0], completed=found[0], total=found[1] or None)
            shown[0].refresh()

    stop = client.threads.every(_EVERY_S, draw, name="hiveacid-progress")
    try:
        yield
    finally:
        stop()
        with drawing:
            ended = True
            for one in shown:
                one.stop()


def _started(
    client: Client, begun_s: float, what: str, unit: str, console: Console | None
) -> Progress:
    # slow to load, and most statements end before they are shown
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    made = Progress(
        *columns,
        console=console or Console(stderr=True),
        transient=True,
        auto_refresh=False,
        get_time=client.clock.monotonic_s,
    )
    task = made.add_task(what, total=None)
    made.tasks[task].start_time = begun_s
    made.start()
    return made
