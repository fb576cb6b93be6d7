"""A PURGE that dies in the middle.

The process ends at once as it makes, moves or removes its ``number``-th file; nothing is tidied up.
"""

from __future__ import annotations

import os
from typing import Any

from tests.compaction.dying import EXIT_CODE
from tests.compaction.world import FilesThrough, open_world

from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.testing import ManualClock


def main(url: str, warehouse: str, now_ms: int, number: int) -> None:
    """Purge, and die."""
    files = FilesThrough(_Dying(warehouse, number))
    client = open_world(url, warehouse, ManualClock(now_ms=now_ms), Settings(), files)
    with Session(client) as session:
        session.table("b").purge(where="id in (2, 5)")


class _Dying(FileSystem):
    """Counts what changes files."""

    def __init__(self, uri: str, number: int) -> None:
        super().__init__(uri)
        self._left = number

    def open_output(self, path: str) -> Any:
        self._count()
        return super().open_output(path)

    def write_bytes(self, path: str, *, data: bytes) -> None:
        self._count()
        super().write_bytes(path, data=data)

    def rename(self, source: str, *, target: str) -> None:
        self._count()
        super().rename(source, target=target)

    def delete_directory(self, path: str) -> None:
        self._count()
        super().delete_directory(path)

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            os._exit(EXIT_CODE)
