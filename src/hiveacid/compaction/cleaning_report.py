"""What a cleaning removed, or would remove now, and why everything else stays, in words.

What would go is what a dry cleaner says (``cleaner.py``); here is told why the rest stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Final

from hiveacid.client import Client
from hiveacid.compaction.cleaner import Cleaned, Cleaner, bytes_below, is_below
from hiveacid.compaction.cleaning import keeps_all, lists_of
from hiveacid.errors import NotFoundError
from hiveacid.layout.compaction import Kept
from hiveacid.layout.directories import SWEPT_PREFIXES, name_of_partition
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionInfo,
    CompactionState,
    CompactionType,
)
from hiveacid.model.history import Pin
from hiveacid.model.readable import moment
from hiveacid.model.tables import AcidMode, Partition, Table, TableName
from hiveacid.model.transactions import TxnInfo, TxnState
from hiveacid.storage.listing import list_partition
from hiveacid.txn.manager import retained_until_ms, retention_s


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


@dataclass(frozen=True, slots=True)
class KeptDirectory:
    """What stays; ``until_ms`` is the end of a retention, ``holders`` the open transactions whose
    reads it may still serve, the oldest first, ``pins`` the tags and consumers that need it.
    """

    path: str
    why: Kept
    until_ms: int | None = None
    holders: tuple[TxnInfo, ...] = ()
    pins: tuple[Pin, ...] = ()
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CleaningPreview:
    """One directory of a table: paths in ``remove`` and ``keep`` are relative to ``location``."""

    table: TableName
    partition: str | None
    location: str
    remove: tuple[str, ...]
    keep: tuple[KeptDirectory, ...]
    removable_bytes: int = 0


def preview_cleaning(
    client: Client, tables: Iterable[Table], *, retain_s: float = 0.0
) -> tuple[CleaningPreview, ...]:
    """What a cleaner would remove of these tables now, directory by directory; ``retain_s`` as its
    own.

    Raises:
        MetastoreError: the metastore failed.
        StorageError: a directory could not be listed.
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    cleaner = Cleaner(client, dry=True, retain_s=retain_s)
    explained = _Explained.now(client, retain_s)
    found: list[CleaningPreview] = []
    for table in tables:
        gone = {path for one in cleaner.run_all(table.name) for path in one.removed}
        gone.update(cleaner.sweep((table,)))
        found += explained.previews(table, gone)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Explained:
    """Why paths stay, by what the metastore says now."""

    client: Client
    waiting: tuple[CompactionInfo, ...]
    """what is to be cleaned, in this order"""
    open: tuple[TxnInfo, ...]
    retain_s: float

    @classmethod
    def now(cls, client: Client, retain_s: float) -> _Explained:
        store = client.metastore
        waiting = [
            one
            for one in store.show_compactions()
            if one.state is CompactionState.READY_FOR_CLEANING
            and one.type is not CompactionType.ABORT_TXN_CLEANUP
        ]
        waiting.sort(key=lambda one: (one.highest_write_id or 0, one.id))
        opened = tuple(one for one in store.show_txns() if one.state is TxnState.OPEN)
        return cls(client, tuple(waiting), opened, retain_s)

    def previews(self, table: Table, gone: Collection[str]) -> Iterator[CleaningPreview]:
        """All directories of a table: its partitions, and its own where something lies there."""
        partitions: Sequence[Partition] = (Partition((), table.location),)
        if table.partition_keys:
            partitions = self.client.metastore.list_partitions(table.name)
        if table.acid_mode is not AcidMode.NONE:
            for one in partitions:
                yield self._preview(table, one, name_of_partition(table, one), gone)
        if table.partition_keys or table.acid_mode is AcidMode.NONE:
            fs, root = self.client.files.at(table.location)
            names = (info.name for info in fs.list_directory(root))
            staged = [name for name in names if name.startswith(SWEPT_PREFIXES)]
            if staged:
                remove = tuple(name for name in staged if f"{root}/{name}" in gone)
                keep = _not_ours(staged, remove)
                yield CleaningPreview(table.name, None, table.location, remove, keep)

    def _preview(
        self, table: Table, partition: Partition, name: str | None, gone: Collection[str]
    ) -> CleaningPreview:
        fs, root = self.client.files.at(partition.location)
        above = f"{root.rstrip('/')}/"
        remove = tuple(sorted(one.removeprefix(above) for one in gone if one.startswith(above)))
        entries = list_partition(fs, root)
        staged = {
            entry.path.partition("/")[0]
            for entry in entries
            if entry.path.startswith(SWEPT_PREFIXES)
        }
        data = tuple(entry for entry in entries if entry.path.partition("/")[0] not in staged)
        nothing = CompactionInfo(
            NO_COMPACTION,
            table.name,
            name,
            CompactionType.ABORT_TXN_CLEANUP,
            CompactionState.READY_FOR_CLEANING,
        )
        plan = lists_of(self.client.own, nothing, None).plan(data, table, aborted_only=True)
        kept_by_path: dict[str, KeptDirectory] = {}
        for entry in self.waiting:
            if (entry.table, entry.partition) == (table.name, name):
                why = self._retained(table, entry) or self._readers(entry)
                lists = lists_of(self.client.own, entry, None)
                entry_plan = lists.plan(data, table, aborted_only=False)
                for path in entry_plan.remove:
                    earlier = kept_by_path.get(path)
                    if earlier is None or not (earlier.until_ms or earlier.holders):
                        kept_by_path[path] = replace(why, path=path)
                for path in (path for path, reason in entry_plan.keep if reason is Kept.PINNED):
                    pins = tuple(one for one in lists.pinned if lists.holds(one, path, data, table))
                    kept_by_path[path] = KeptDirectory(path, Kept.PINNED, pins=pins)
        kept = [KeptDirectory(path, Kept.ABORTED_LATELY) for path in plan.remove]
        for path, reason in plan.keep:
            obsolete = kept_by_path.get(path) if reason is Kept.OBSOLETE else None
            kept.append(obsolete or KeptDirectory(path, reason))
        if keeps_all(table, partition):
            unneeded = {*plan.remove, *kept_by_path}
            kept = [
                KeptDirectory(one.path, Kept.NO_CLEANUP) if one.path in unneeded else one
                for one in kept
            ]
        kept += _not_ours(staged, remove)
        keep = sorted(
            (one for one in kept if not is_below(one.path, remove)), key=attrgetter("path")
        )
        keep = [replace(one, size_bytes=bytes_below(one.path, entries)) for one in keep]
        gone_bytes = sum(bytes_below(one, entries) for one in remove)
        return CleaningPreview(
            table.name, name, partition.location, remove, tuple(keep), gone_bytes
        )

    def _retained(self, table: Table, entry: CompactionInfo) -> KeptDirectory | None:
        kept_s = max(retention_s(table, self.client.settings), self.retain_s)
        until_ms = retained_until_ms(entry, kept_s)
        if until_ms is None or self.client.clock.now_ms() >= until_ms:
            return None
        return KeptDirectory("", Kept.RETENTION, until_ms)

    def _readers(self, entry: CompactionInfo) -> KeptDirectory:
        """Those that were open when the compaction committed; else one of them was open when
        somebody began who is open now.
        """
        last = entry.next_txn
        holders = tuple(one for one in self.open if last is None or one.id <= last) or self.open
        return KeptDirectory("", Kept.READERS, holders=holders)


def kept_bytes(client: Client) -> dict[str, int]:
    """Bytes of replaced files of the tables that have something to be cleaned, by what keeps them;
    ``overdue`` is what nothing keeps.

    Raises:
        MetastoreError, StorageError, FormatError: as ``preview_cleaning``.
    """
    ready = CompactionState.READY_FOR_CLEANING
    names = {one.table for one in client.metastore.show_compactions() if one.state is ready}
    found = dict.fromkeys((*_KEEPERS.values(), "tag", "consumer", "overdue"), 0)
    for name in sorted(names):
        with suppress(NotFoundError):  # dropped meanwhile
            for one in preview_cleaning(client, (client.metastore.get_table(name),)):
                found["overdue"] += one.removable_bytes
                for kept in one.keep:
                    keeper = kept.pins[0].kind.value if kept.pins else _KEEPERS.get(kept.why)
                    if keeper is not None:
                        found[keeper] += kept.size_bytes
    return found


_KEEPERS: Final = {
    Kept.RETENTION: "retention",
    Kept.READERS: "reader",
    Kept.NO_CLEANUP: "no_cleanup",
    Kept.OBSOLETE: "replaced",
}
"""By why a path stays; ``replaced`` waits for the compaction after which it is cleaned."""


def _not_ours(staged: Iterable[str], removed: Collection[str]) -> tuple[KeptDirectory, ...]:
    return tuple(KeptDirectory(one, Kept.NOT_OURS) for one in staged if one not in removed)


_REASONS: Final = {
    Kept.CURRENT: "read by whoever comes now",
    Kept.OBSOLETE: "replaced, but no compaction waits for cleaning it",
    Kept.ABORTED_LATELY: "left by aborted transactions, too few and too young for a cleaning",
    Kept.READERS: "replaced, and may still be needed",
    Kept.RETENTION: "replaced, and kept by the retention",
    Kept.PINNED: "replaced, and needed by a tag or a consumer",
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
        reason += f" until {moment(kept.until_ms)} UTC"
    if kept.holders:
        oldest = kept.holders[0]
        reason += f" by transaction {oldest.id} of {oldest.user}@{oldest.host}"
        others = len(kept.holders) - 1
        reason += f" and {others} more" if others else ""
    if kept.pins:
        reason += f": {', '.join(map(str, kept.pins))}"
    return reason
