"""The tails of files, read once a process: opening is what a small file costs.

ACID files never change under their name; path, length and modification time together tell a file
that took another's place.
"""

from __future__ import annotations

from functools import lru_cache

from hiveacid.layout.snapshot import DataFile
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.orc.tail import OrcTail, read_tail

CACHED_TAILS = 4096
"""A tail of a table of 20 columns takes some 20 KiB."""


def tail_of(location: str, file: DataFile) -> OrcTail:
    """The tail of an ORC file below ``location`` (of its logical length, format.md 9).

    Raises:
        FormatError: not an ORC file, or a truncated one.
        MissingFileError: no such file, or it was gone when first read.
        StorageError: reading failed.
    """
    return _tail(location, file.path, file.logical_bytes, (file.size_bytes, file.modified_ns))


def forget_tails() -> None:
    """Let the next readers open files again: a history that is replayed reads what it read."""
    _tail.cache_clear()


@lru_cache(maxsize=CACHED_TAILS)
def _tail(
    location: str, path: str, logical_bytes: int | None, _version: tuple[int, int]
) -> OrcTail:
    fs, root = file_system_for(location)
    return read_tail(fs, f"{root.rstrip('/')}/{path}", length=logical_bytes)
