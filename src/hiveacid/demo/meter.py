"""What a step costs: seconds, peak memory of all processes, files; and the locks seen meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hiveacid.metastore.api import Metastore
from hiveacid.model.transactions import LockInfo, TxnInfo

_EVERY_S: Final = 0.1


@dataclass(slots=True)
class Step:
    """One measured step; ``rows`` says what was done, in words where a number does not do."""

    title: str
    rows: str = ""
    seconds: float = 0.0
    files: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """The transactions and the locks of one moment in which a step ran."""

    step: str
    txns: tuple[TxnInfo, ...]
    locks: tuple[LockInfo, ...]


class Meter:
    """Measures steps one after the other; a thread looks at memory and locks ten times a second."""

    def __init__(
        self,
        *,
        warehouse: Path,
        metastore: Metastore,
        begun: Callable[[str], None],
        ended: Callable[[Step], None],
    ) -> None:
        """``begun`` and ``ended`` are told of each step."""
        self._warehouse = warehouse
        self._metastore = metastore
        self._begun = begun
        self._ended = ended
        self.steps: list[Step] = []
        self.seen: list[Seen] = []
        """for each step in which locks were held, the moment with most of them"""

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Measure the body; it may set ``rows``."""
        step = Step(title)
        self._begun(title)
        files = count_files(self._warehouse)
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(step, done), daemon=True)
        begin = time.perf_counter()
        watcher.start()
        try:
            yield step
        finally:
            step.seconds = time.perf_counter() - begin
            done.set()
            watcher.join()
        step.files = count_files(self._warehouse) - files
        self.steps.append(step)
        self._ended(step)

    def _watch(self, step: Step, done: threading.Event) -> None:
        best: Seen | None = None
        while True:
            step.peak_bytes = max(step.peak_bytes, resident_bytes())
            locks = self._metastore.show_locks()
            if locks and (best is None or len(locks) > len(best.locks)):
                best = Seen(step.title, self._metastore.show_txns(), locks)
            if done.wait(_EVERY_S):
                break
        if best is not None:
            self.seen.append(best)


def count_files(root: Path) -> int:
    """Data files below a warehouse; hidden ones and markers do not count."""
    return sum(
        1
        for folder, _, names in os.walk(root)
        for name in names
        if not name.startswith(("_", ".")) and "/." not in folder[len(str(root)) :]
    )


def resident_bytes() -> int:
    """Resident memory of this process and all below it: the driver, the JVM, the Python workers.

    Shared pages count in each process. 0 where there is no /proc.
    """
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        parents[pid], pages[pid] = _parent_and_pages(entry)
    family = {os.getpid()}
    while children := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= children
    return sum(pages.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE")


def _parent_and_pages(process: Path) -> tuple[int, int]:
    """Parent id and resident pages; zeros for a process that ended while we looked."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[1]), int(fields[21])
