"""Memory and CPU of this process and all below it: the driver, Spark's JVM, its Python workers."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A line of /proc; ``ticks`` are user and system time, its own and that of children which ended
    and were waited for, with theirs; ``waited`` those of the children alone.
    """

    pid: int
    parent: int
    ticks: int
    waited: int
    resident_bytes: int


def family() -> list[Process]:
    """This process and all its descendants; empty where there is no /proc."""
    read = map(_read, Path("/proc").glob("[0-9]*"))
    found = {process.pid: process for process in read if process is not None}
    children: dict[int, list[int]] = {}
    for process in found.values():
        children.setdefault(process.parent, []).append(process.pid)
    members, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        if pid in found:
            members.append(found[pid])
        todo.extend(children.get(pid, ()))
    return members


class CpuClock:
    """CPU seconds that the family has used so far, in user and in system mode; never goes back.

    Who has ended counts in who waited for it, else with what the call before saw of it.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Process] = {}
        self._lost = self._ticks = 0

    def __call__(self) -> float:
        before, self._seen = self._seen, {process.pid: process for process in family()}
        ended = [process for pid, process in before.items() if pid not in self._seen]
        for parent in {process.parent for process in ended} & self._seen.keys():
            ticks = sum(process.ticks for process in ended if process.parent == parent)
            self._lost += max(ticks + before[parent].waited - self._seen[parent].waited, 0)
        alive = sum(one.ticks for one in self._seen.values())
        self._lost = max(self._lost, self._ticks - alive)  # also what left the family
        self._ticks = self._lost + alive
        return self._ticks / _TICKS_PER_S


cpu_s: Final = CpuClock()


class PeakMemory:
    """The highest resident memory of the family while a block runs, looked at every ``every_s``.

    Pages that processes share count in each of them. A look takes some milliseconds.
    """

    def __init__(self, *, every_s: float) -> None:
        self._every_s = every_s
        self.total_bytes = 0
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while True:
            self.total_bytes = max(self.total_bytes, sum(one.resident_bytes for one in family()))
            if self._done.wait(self._every_s):
                break


def _read(entry: Path) -> Process | None:
    try:
        _, _, tail = (entry / "stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    return Process(
        pid=int(entry.name),
        parent=int(fields[1]),
        ticks=sum(map(int, fields[11:15])),
        waited=sum(map(int, fields[13:15])),
        resident_bytes=int(fields[21]) * _PAGE,
    )
