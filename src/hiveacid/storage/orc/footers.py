"""The tails of files, read once a process: opening is what a small file costs.

ACID files never change under their name; path, length and modification time together tell a file
that took another's place.
"""

from __future__ import annotations

from functools import lru_cache

from hiveacid.layout.snapshot import DataFile
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.tail import OrcTail, read_tail

CACHED_TAILS = 4096
"""A tail of a table of 20 columns takes some 20 KiB."""


def tail_of(fs: FileSystem, root: str, file: DataFile) -> OrcTail:
    """The tail of an ORC file below the path ``root`` (of its logical length, format.md 9).

    Raises:
        FormatError: not an ORC file, or a truncated one.
        MissingFileError: no such file, or it was gone when first read.
        StorageError: reading failed.
    """
    path = f"{root.rstrip('/')}/{file.path}"
    return _tail(fs, path, file.logical_bytes, (file.size_bytes, file.modified_ns))


@lru_cache(maxsize=CACHED_TAILS)
def _tail(
    fs: FileSystem, path: str, logical_bytes: int | None, _version: tuple[int, int]
) -> OrcTail:
    return read_tail(fs, path, length=logical_bytes)
