"""What a cleaning removed, or would remove, and why the rest stays, path by path, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Final

from hiveacid.compaction.cleaner import Cleaned
from hiveacid.compaction.preview import CleaningPreview, KeptDirectory
from hiveacid.layout.cleaning import Kept
from hiveacid.model.tables import Table, TableName


class Fate(Enum):
    """What becomes of a path."""

    REMOVED = "removed"
    REMOVABLE = "removable"
    """it would go"""
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class CleanedPath:
    """A directory or file of a table, what becomes of it, and why."""

    table: TableName
    partition: str | None
    path: str
    fate: Fate
    reason: str


_REASONS: Final = {
    Kept.CURRENT: "read by whoever comes now",
    Kept.OBSOLETE: "replaced, but no compaction waits for cleaning it",
    Kept.ABORTED_LATELY: "left by aborted transactions, too few and too young for a cleaning",
    Kept.READERS: "replaced, and may still be needed",
    Kept.RETENTION: "replaced, and kept by the retention",
    Kept.NO_CLEANUP: "not needed, and kept by the property no_cleanup",
    Kept.COMPACTION_NOT_SEEN: "made by a compaction that is open or later than the oldest reader",
    Kept.NOT_DECIDED: "holds the writes of open transactions",
    Kept.NOT_OURS: "hidden, or with a name that says nothing",
}
_NOT_NEEDED: Final = "nobody can need it any more"
_LEFT_BEHIND: Final = "left behind by a writer that is gone"


def of_preview(previews: Iterable[CleaningPreview]) -> Iterator[CleanedPath]:
    """Every path of the previews."""
    for one in previews:
        for path in one.remove:
            full = f"{one.location.rstrip('/')}/{path}"
            yield CleanedPath(one.table, one.partition, full, Fate.REMOVABLE, _NOT_NEEDED)
        for kept in one.keep:
            full = f"{one.location.rstrip('/')}/{kept.path}"
            yield CleanedPath(one.table, one.partition, full, Fate.KEPT, why_kept(kept))


def of_cleaning(done: Iterable[Cleaned]) -> Iterator[CleanedPath]:
    """Every path that went."""
    for one in done:
        entry = one.compaction
        for path in one.removed:
            yield CleanedPath(entry.table, entry.partition, path, Fate.REMOVED, _NOT_NEEDED)


def of_sweep(table: Table, paths: Iterable[str]) -> Iterator[CleanedPath]:
    """Every staging directory that went."""
    for path in paths:
        yield CleanedPath(table.name, None, path, Fate.REMOVED, _LEFT_BEHIND)


def why_kept(kept: KeptDirectory) -> str:
    """Why a path stays, in a sentence with who is in the way, and until when."""
    reason = _REASONS[kept.why]
    if kept.until_ms is not None:
        until = datetime.fromtimestamp(kept.until_ms / 1000, tz=timezone.utc)
        reason += f" until {until:%Y-%m-%d %H:%M:%S} UTC"
    if kept.holders:
        oldest = kept.holders[0]
        reason += f" by transaction {oldest.id} of {oldest.user}@{oldest.host}"
        others = len(kept.holders) - 1
        reason += f" and {others} more" if others else ""
    return reason
