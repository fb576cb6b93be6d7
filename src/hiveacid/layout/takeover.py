"""What a directory tells of a history that another metastore knows, and what it cannot tell.

An aborted write looks like a committed one. So names alone decide only where there are no write
ids, or one; every other history needs Hive's lists of valid ids (docs/takeover.md).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from hiveacid.layout.directories import (
    FLUSH_LENGTH_SUFFIX,
    STAGING_PREFIX,
    BaseName,
    DirectoryName,
    is_hidden,
    is_marker,
    looks_acid,
    parse_directory,
    parse_original_file,
)
from hiveacid.layout.resolve import Entry
from hiveacid.model.tables import FIRST_WRITE_ID_AFTER_CONVERSION, LONG_MIN

_UNFINISHED: Final = (STAGING_PREFIX, "_tmp", ".hive-staging")
_NAMED_MAX: Final = 5

Listings = Mapping[str, Sequence[Entry]]
"""The entries of each partition, by its path below the table; '' where there are no partitions."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a metastore has to know of the history of a table that it did not make.

    New ids lie above ``highest_write_id`` and ``highest_txn``. The results of the transactions
    ``compactions`` are read. ``aborted`` pairs a write id whose rows nobody may see with the name
    of a partition that may hold some, None for the table.
    """

    highest_write_id: int
    highest_txn: int
    compactions: frozenset[int] = frozenset()
    aborted: tuple[tuple[int, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    """A base or delta: ``partition`` as in ``Listings``, ``path`` below the table's directory;
    ``name`` is None where it says nothing.
    """

    partition: str
    path: str
    name: DirectoryName | None

    @property
    def write_ids(self) -> tuple[int, int]:
        """The first and last write id of the name; of a base its own, 0 of one of originals."""
        if isinstance(self.name, BaseName):
            own = self.name.write_id if self.name.write_id != LONG_MIN else 0
            return own, own
        return (0, 0) if self.name is None else (self.name.min_write_id, self.name.max_write_id)

    @property
    def txn(self) -> int:
        """The compaction that made it, 0 where the name says none."""
        return 0 if self.name is None else self.name.visibility_txn

    @property
    def is_of_originals(self) -> bool:
        """Whether it is the compaction of files without row events."""
        return isinstance(self.name, BaseName) and self.name.write_id == LONG_MIN


def directories_of(listings: Listings) -> tuple[FoundDirectory, ...]:
    """The bases and deltas of all partitions."""
    found: dict[str, FoundDirectory] = {}
    for partition, entries in listings.items():
        for entry in entries:
            parts = entry.path.split("/") if entry.is_directory else entry.path.split("/")[:-1]
            at = next((i for i, part in enumerate(parts) if looks_acid(part)), None)
            if at is None or any(map(is_hidden, parts[:at])):
                continue
            path = "/".join(filter(None, (partition, *parts[: at + 1])))
            found.setdefault(path, FoundDirectory(partition, path, parse_directory(parts[at])))
    return tuple(found.values())


def plain_files(listings: Listings) -> Iterator[Entry]:
    """The files outside all bases and deltas, but those that every reader passes over."""
    for entries in listings.values():
        for entry in entries:
            parts = entry.path.split("/")
            passed_over = any(map(is_hidden, parts)) or is_marker(parts[-1])
            if not (entry.is_directory or passed_over or any(map(looks_acid, parts))):
                yield entry


def has_originals(listings: Listings) -> bool:
    """Whether there are files outside all bases and deltas, or a compaction of such files."""
    names = (entry.name for entry in plain_files(listings))
    return any(one.is_of_originals for one in directories_of(listings)) or any(
        parse_original_file(name) is not None for name in names
    )


def doubts(listings: Listings) -> tuple[str, ...]:
    """Why the directories alone do not tell which rows count, one clause a reason; empty where all
    do: there is no write id, or only the first one of the table.
    """
    found = directories_of(listings)
    reasons: list[str] = [*_first_of_each(found, listings)]
    ids = sorted({write_id for one in found for write_id in one.write_ids if write_id})
    first = FIRST_WRITE_ID_AFTER_CONVERSION if has_originals(listings) else 1
    if len(ids) > 1:
        shown = ", ".join(map(str, ids[:_NAMED_MAX])) + (", ..." if len(ids) > _NAMED_MAX else "")
        reasons.append(f"each of the write ids {shown} may be one of an aborted transaction")
    missing = next((want for want, one in zip(count(first), ids, strict=False) if want != one), 0)
    if missing and all(one.write_ids[0] == one.write_ids[1] for one in found):
        reasons.append(f"nothing is there of write id {missing}")
    return tuple(reasons)


def _first_of_each(found: Iterable[FoundDirectory], listings: Listings) -> Iterator[str]:
    """One clause for each kind of directory or file that leaves a doubt."""
    kinds: dict[str, str] = {}
    for one in found:
        first, last = one.write_ids
        if one.name is None:
            kinds.setdefault("name", f"the name of {one.path} says nothing")
        elif one.txn:
            kinds.setdefault("txn", f"{one.path} is a compaction that may not have been committed")
        elif isinstance(one.name, BaseName):
            kinds.setdefault("base", f"{one.path} is a base, which hides what is below it")
        elif first != last:
            kinds.setdefault("range", f"{one.path} holds several write ids")
    for partition, entries in listings.items():
        for entry in entries:
            path = f"{partition}/{entry.path}".lstrip("/")
            if path.endswith(FLUSH_LENGTH_SUFFIX):
                kinds.setdefault("side", f"{path} tells of a streaming batch that was not closed")
            elif any(part.startswith(_UNFINISHED) for part in entry.path.split("/")):
                kinds.setdefault("staging", f"{path} was left by a writer that did not finish")
    return iter(kinds.values())


def aborted_in(
    found: Iterable[FoundDirectory], aborted: Sequence[int], opened: Iterable[int]
) -> tuple[tuple[int, str | None], ...]:
    """Which of the sorted write ids ``aborted`` a partition's directories may hold, and all of
    ``opened``: whoever had those may still write.
    """
    pairs: set[tuple[int, str | None]] = set()
    for one in found:
        first, last = one.write_ids
        for write_id in aborted[bisect_left(aborted, first) : bisect_right(aborted, last)]:
            pairs.add((write_id, one.partition or None))
    pairs |= {(write_id, None) for write_id in opened if write_id not in {one for one, _ in pairs}}
    return tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1] or "")))
