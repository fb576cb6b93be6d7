"""Reading without a lease: what compactions and cleanings in the middle of it do.

A reader who lists a directory may find that a cleaner was quicker. That is told from a file that is
missing from a directory that still counts, and neither is ever passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hiveacid.errors import MissingFileError, SnapshotExpiredError, StorageError
from hiveacid.layout.cleaning import is_replaced
from hiveacid.layout.names import BaseName, looks_acid, parse_directory
from hiveacid.layout.resolve import Entry
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partition

_LISTINGS_MAX: Final = 5


def list_settled(fs: FileSystem, path: str) -> tuple[Entry, ...]:
    """A partition's listing that no compaction or cleaning came in between, for a reader without a
    lease: one that began before a compaction was published and ended after its inputs were cleaned
    would hold neither.

    Raises:
        SnapshotExpiredError: it was compacted or cleaned again and again meanwhile.
        StorageError: listing or reading failed.
    """
    for _ in range(_LISTINGS_MAX):
        with suppress(MissingFileError):
            entries = list_partition(fs, path)
            outermost = {entry.path.partition("/")[0] for entry in entries}
            listed = {name for name in outermost if looks_acid(name)}
            there = {info.path.rpartition("/")[2] for info in fs.list_directory(path)}
            if listed <= there and not any(map(_is_compacted, there - listed)):
                return entries
    raise SnapshotExpiredError(
        f"{path} was compacted or cleaned each of the {_LISTINGS_MAX} times it was listed",
        path=path,
        note="A table of a session is read with its files kept for hiveacid.reads.lease_s.",
    )


def _is_compacted(name: str) -> bool:
    found = parse_directory(name)
    return isinstance(found, BaseName) or (found is not None and bool(found.visibility_txn))


@contextmanager
def noticing_cleaning(fs: FileSystem) -> Iterator[None]:
    """Reads listed files in its block.

    Raises:
        SnapshotExpiredError: one of them was cleaned.
        MissingFileError: one of them is missing for another reason.
    """
    try:
        yield
    except MissingFileError as error:
        raise missing_or_expired(fs, error) from error


def missing_or_expired(fs: FileSystem, error: MissingFileError) -> StorageError:
    """``error``, or what it stands for where the file was cleaned; looks at its directory."""
    path = str(error.context.get("path", ""))
    parts = path.split("/")
    at = max((i for i, part in enumerate(parts[:-1]) if parse_directory(part)), default=None)
    root = "/".join(parts[:-1] if at is None else parts[:at])
    try:
        there = {info.path.rpartition("/")[2] for info in fs.list_directory(root)}
    except StorageError:
        return error
    if not there or not is_replaced(None if at is None else parts[at], there):
        return error
    return SnapshotExpiredError(
        f"{path} was cleaned while it was being read: what it held has been compacted or replaced",
        path=path,
        note="Read again. A session keeps what it reads for hiveacid.reads.lease_s.",
    )
