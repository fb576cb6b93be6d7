"""A compactor that dies at a point of its work.

The process ends at once, nothing is tidied up: as with ``kill -9``.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from tests.compaction.world import FilesThrough, open_world

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Step, Worker
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.testing import ManualClock

EXIT_CODE = 9
IN_THE_MIDDLE = ("mid-rewrite", "mid-publish")
POINTS = (*(step.value for step in Step), *IN_THE_MIDDLE)


def main(url: str, warehouse: str, now_ms: int, point: str) -> None:
    """Claim and die, or clean and die."""
    settings = Settings(retention_s=0)
    files = FilesThrough(_Dying(warehouse, point))
    client = open_world(url, warehouse, ManualClock(now_ms=now_ms), settings, files)
    if point == "mid-clean":
        _clean_and_die(Cleaner, client)
        return

    def reached(step: Step) -> None:
        if step.value == point:
            os._exit(EXIT_CODE)

    how = partial(rewrite, settings=settings)
    Worker(client, how, name="host-2-1", reached=reached).run_next()


def _clean_and_die(cleaner: Any, client: Any) -> None:
    seen: list[str] = []

    def removing(path: str) -> None:
        seen.append(path)
        if len(seen) == 2:
            os._exit(EXIT_CODE)

    cleaner(client, removing=removing).run()


class _Dying(FileSystem):
    """Its process dies as it creates or moves the second file."""

    def __init__(self, uri: str, point: str) -> None:
        super().__init__(uri)
        self._point = point
        self._seen = 0

    def open_output(self, path: str) -> Any:
        self._count("mid-rewrite")
        return super().open_output(path)

    def rename(self, source: str, *, target: str) -> None:
        self._count("mid-publish")
        super().rename(source, target=target)

    def _count(self, point: str) -> None:
        if point == self._point:
            self._seen += 1
            if self._seen == 2:
                os._exit(EXIT_CODE)
