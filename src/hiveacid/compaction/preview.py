"""What a cleaner would do now, and why everything else stays: ``--dry-run``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hiveacid.client import Client
from hiveacid.compaction.orphans import Orphans
from hiveacid.compaction.removable import Lists, keeps_all, lists_of, old_aborts, removable
from hiveacid.layout.cleaning import Kept
from hiveacid.layout.names import STAGING_PREFIX, partition_name
from hiveacid.layout.resolve import Entry
from hiveacid.metastore.api import TxnInfo
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionInfo,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import AcidMode, Partition, Table, TableName
from hiveacid.model.transactions import TxnState
from hiveacid.storage.filesystem import FileInfo, FileSystem, file_system_for
from hiveacid.storage.listing import list_partition
from hiveacid.txn.retention import retained_until_ms, retention_s

_Object = tuple[TableName, str | None]


@dataclass(frozen=True, slots=True)
class KeptDirectory:
    """What stays; ``until_ms`` is the end of a retention, ``holders`` the open transactions whose
    reads it may still serve, the oldest first.
    """

    path: str
    why: Kept
    until_ms: int | None = None
    holders: tuple[TxnInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class CleaningPreview:
    """One directory of a table: paths in ``remove`` and ``keep`` are relative to ``location``.

    ``compaction`` is the one that is to be cleaned next, None where none is.
    """

    table: TableName
    partition: str | None
    location: str
    compaction: CompactionInfo | None
    remove: tuple[str, ...]
    keep: tuple[KeptDirectory, ...]


def preview_cleaning(client: Client, tables: Iterable[Table]) -> tuple[CleaningPreview, ...]:
    """What a cleaner would remove of these tables now, partition by partition.

    Raises:
        MetastoreError: the metastore failed.
        StorageError: a directory could not be listed.
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    moment = _Moment.now(client)
    found: list[CleaningPreview] = []
    for table in tables:
        if table.acid_mode is not AcidMode.NONE:
            found += [moment.preview(table, one) for one in _partitions(client, table)]
        if table.acid_mode is AcidMode.NONE or table.partition_columns:
            fs, root = file_system_for(table.location)
            infos = [i for i in fs.list_directory(root) if _name(i.path).startswith(STAGING_PREFIX)]
            if infos:
                remove, keep = moment.staging(infos)
                found.append(CleaningPreview(table.name, None, table.location, None, remove, keep))
    return tuple(found)


def _partitions(client: Client, table: Table) -> Sequence[Partition]:
    if not table.partition_columns:
        return (Partition((), table.location),)
    return client.metastore.list_partitions(table.name)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What is known of the metastore now."""

    client: Client
    waiting: Mapping[_Object, Sequence[CompactionInfo]]
    """of each object, what is to be cleaned, in this order"""
    ready: frozenset[int]
    aborts: frozenset[_Object]
    """where files of aborted transactions are to be removed"""
    open: tuple[TxnInfo, ...]
    orphans: Orphans

    @classmethod
    def now(cls, client: Client) -> _Moment:
        store, settings = client.metastore, client.settings
        waiting: dict[_Object, list[CompactionInfo]] = {}
        for one in sorted(store.show_compactions(), key=_cleaning_order):
            if (
                one.state is CompactionState.READY_FOR_CLEANING
                and one.type is not CompactionType.ABORT_TXN_CLEANUP
            ):
                waiting.setdefault((one.table, one.partition), []).append(one)
        aborts = store.find_aborts_to_clean(
            threshold=settings.compactor_aborts_threshold,
            age_ms=int(settings.compactor_aborts_age_s * 1000),
        )
        return cls(
            client=client,
            waiting=waiting,
            ready=frozenset(one.id for one in store.find_ready_to_clean()),
            aborts=frozenset((one.table, one.partition) for one in aborts),
            open=tuple(one for one in store.show_txns() if one.state is TxnState.OPEN),
            orphans=Orphans.now(client),
        )

    def preview(self, table: Table, partition: Partition) -> CleaningPreview:
        keys = [column.name for column in table.partition_columns]
        name = partition_name(keys, partition.values) if keys else None
        fs, root = file_system_for(partition.location)
        entries = list_partition(fs, root)
        staged_remove, staged_keep = self.staging(_staging(fs, root, entries))
        remove, keep = self._of_data(table, partition, name, _without_staging(entries))
        return CleaningPreview(
            table.name,
            name,
            partition.location,
            next(iter(self.waiting.get((table.name, name), ())), None),
            tuple(sorted((*remove, *staged_remove))),
            tuple(sorted((*keep, *staged_keep), key=lambda one: one.path)),
        )

    def staging(
        self, infos: Iterable[FileInfo]
    ) -> tuple[tuple[str, ...], tuple[KeptDirectory, ...]]:
        found = [(_name(info.path), self.orphans.has(info)) for info in infos]
        remove = tuple(name for name, is_orphan in found if is_orphan)
        keep = tuple(
            KeptDirectory(name, Kept.NOT_OURS) for name, is_orphan in found if not is_orphan
        )
        return remove, keep

    def _of_data(
        self, table: Table, partition: Partition, name: str | None, entries: tuple[Entry, ...]
    ) -> tuple[set[str], list[KeptDirectory]]:
        keeps = keeps_all(table, partition)
        nothing = _nothing_asked(table.name, name)
        plan = lists_of(self.client.metastore, nothing, None).plan(
            entries, table, aborted_only=True
        )
        now: set[str] = set()
        if not keeps and {(table.name, name), (table.name, None)} & self.aborts:
            seen = self._seen(table, nothing)
            now.update(removable(entries, table, seen, seen, aborted_only=True))
        held: dict[str, KeptDirectory] = {}
        is_next = not keeps
        for entry in self.waiting.get((table.name, name), ()):
            today, seen = lists_of(self.client.metastore, entry, None), self._seen(table, entry)
            why = self._retained(table, entry) or self._readers(entry)
            is_next = is_next and self._is_ready(table, entry, seen)
            if is_next:
                now.update(removable(entries, table, seen, today, aborted_only=False))
            for path in today.plan(entries, table, aborted_only=False).remove:
                earlier = held.get(path)
                if earlier is None or not (earlier.until_ms or earlier.holders):
                    held[path] = replace(why, path=path)
        kept = [KeptDirectory(path, Kept.ABORTED_LATELY) for path in plan.remove]
        kept += [
            held.get(path, KeptDirectory(path, why))
            if why is Kept.OBSOLETE
            else KeptDirectory(path, why)
            for path, why in plan.keep
        ]
        if keeps:
            unneeded = {*plan.remove, *held}
            kept = [
                KeptDirectory(one.path, Kept.NO_CLEANUP) if one.path in unneeded else one
                for one in kept
            ]
        return now, [one for one in kept if one.path not in now]

    def _seen(self, table: Table, about: CompactionInfo) -> Lists:
        store = self.client.metastore
        if about.id == NO_COMPACTION:
            txns = old_aborts(self.client, store.cleaner_txns(about))
        else:
            kept_ms = int(retention_s(table, self.client.settings) * 1000)
            txns = store.cleaner_txns(about, retention_ms=kept_ms)
        return lists_of(store, about, txns)

    def _is_ready(self, table: Table, entry: CompactionInfo, seen: Lists) -> bool:
        """Whether the cleaner takes it now, or as soon as those before it are done."""
        if self._retained(table, entry) is not None:
            return False
        last = entry.next_txn
        return entry.id in self.ready or (last is not None and last <= seen.txns.hwm)

    def _retained(self, table: Table, entry: CompactionInfo) -> KeptDirectory | None:
        until_ms = retained_until_ms(entry, table, self.client.settings)
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


def _cleaning_order(one: CompactionInfo) -> tuple[int, int]:
    return one.highest_write_id or 0, one.id


def _nothing_asked(table: TableName, partition: str | None) -> CompactionInfo:
    return CompactionInfo(
        NO_COMPACTION,
        table,
        partition,
        CompactionType.ABORT_TXN_CLEANUP,
        CompactionState.READY_FOR_CLEANING,
    )


def _staging(fs: FileSystem, root: str, entries: Iterable[Entry]) -> Iterator[FileInfo]:
    if any(entry.path.startswith(STAGING_PREFIX) for entry in entries):
        yield from (i for i in fs.list_directory(root) if _name(i.path).startswith(STAGING_PREFIX))


def _without_staging(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if not entry.path.startswith(STAGING_PREFIX))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
