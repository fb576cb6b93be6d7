"""Deletes what nobody can need any more (metastore.md 4.5, format.md 10.4).

Three kinds of things go, each by its own rule:

* what a compaction replaced: once every transaction that was open when it committed has ended, and
  the retention is over, from that commit on. By the queue's cleaner lists, which end below the
  oldest reader and below each later compaction whose own retention is not over. What a pin (a tag,
  a consumer of changes) would read stays, and an entry waits for it, unless a later one does;
* what aborted transactions left, compactions too: at once, nobody ever sees it;
* staging directories of transactions that have ended: what killed writers left.

It holds what it cleans shared, as a reader does, so that what it has listed is not dropped or moved
meanwhile: by their paths, the files of a table that comes to the place look the same. What somebody
holds exclusively is cleaned later.

An entry is done only when a new listing, seen with today's lists, holds nothing more to remove:
what is forgotten about aborted transactions would make their rows visible. A cleaner may die
anywhere; the next one begins anew.

A cleaner that only shows what it would do (``dry``) decides in the same way: what it would have
removed is not there any more, and an entry that it would have ended is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile

from hiveacid.client import Client
from hiveacid.compaction.cleaning import (
    Lists,
    Orphans,
    keeps_all,
    lists_of,
    old_aborts,
    removable,
)
from hiveacid.compaction.rewrites import find_partition, find_table
from hiveacid.errors import (
    AcidError,
    InternalError,
    MissingFileError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    tolerated,
)
from hiveacid.layout.compaction import CleaningPlan, Kept, floor_of, settled_aborts
from hiveacid.layout.resolve import Entry
from hiveacid.model.compactions import CompactionId, CompactionInfo, CompactionState, CompactionType
from hiveacid.model.history import Pin
from hiveacid.model.tables import (
    DROPPING,
    NO_CLEANUP,
    RENAMING_TO,
    Partition,
    Table,
    TableKind,
    TableName,
    WriteId,
)
from hiveacid.model.transactions import CLEANER
from hiveacid.storage.filesystem import FileInfo, FileSystem
from hiveacid.storage.listing import list_partition
from hiveacid.txn.footprint import use_table
from hiveacid.txn.manager import retained_until_ms, retention_s

_LOG = logging.getLogger(__name__)
_LOCKED = "it is locked exclusively: it is being dropped, renamed or altered"
_MOVED = "a RENAME of the table, or a DROP of partitions, is under way, or was killed"
_LOST = "its lock was lost: the cleaner stood still for too long"


class CleaningOutcome(Enum):
    """What became of an entry."""

    CLEANED = "cleaned"
    WAITING = "waiting"
    """something stays for now; the entry stays with it"""
    REFUSED = "refused"
    """``no_cleanup`` keeps all"""
    FAILED = "failed"
    """to be tried again later"""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One entry's cleaning; ``removed`` are paths, ``removed_bytes`` those of their files;
    ``message`` says why where not all went.
    """

    compaction: CompactionInfo
    outcome: CleaningOutcome
    removed: tuple[str, ...] = ()
    removed_bytes: int = 0
    message: str | None = None


class _Unheard:
    """The queue as a dry cleaner has it: nothing that it is told is kept."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Cleaner:
    """Cleans what is ready, or with ``dry`` only says what would go; ``removing`` is told each path
    before it goes. For the partitions ``unretained`` (None for that of a table without) the
    retention is over; elsewhere it is at least ``retain_s``. Which readers may need something
    counts as ever.
    """

    def __init__(
        self,
        client: Client,
        *,
        dry: bool = False,
        removing: Callable[[str], None] | None = None,
        unretained: Collection[tuple[TableName, str | None]] = (),
        retain_s: float = 0.0,
    ) -> None:
        self._client = client
        self._retain_s = retain_s
        self._unretained = frozenset(unretained)
        self._store = client.own
        self._queue = _Unheard() if dry else self._store
        self._dry = dry
        self._removing = removing
        self._gone: set[str] = set()
        self._over: set[CompactionId] = set()
        self._pinned: dict[tuple[TableName, str | None], tuple[CompactionId, tuple[Pin, ...]]] = {}

    def run_all(self, table: TableName | None = None) -> tuple[Cleaned, ...]:
        """Cycles until one ends nothing: of each table or partition, one takes one compaction.

        Raises:
            MetastoreError: the queue could not be read.
        """
        done: list[Cleaned] = []
        while True:
            found = self.run(table)
            done += found
            cleaned = (one for one in found if one.outcome is CleaningOutcome.CLEANED)
            if all(_of_aborts(one.compaction) for one in cleaned):
                return tuple(done)

    def run(self, table: TableName | None = None) -> tuple[Cleaned, ...]:
        """One cycle, of one table or all: compactions, then aborted transactions; what goes wrong
        with one entry is its outcome.

        Raises:
            MetastoreError: the queue could not be read.
        """
        settings = self._client.settings
        entries = self._store.find_ready_to_clean(without=self._over | self._kept_by_pins())
        if settings.compactor_clean_aborts:
            entries += self._store.find_aborts_to_clean(
                threshold=settings.compactor_aborts_threshold,
                age_ms=int(settings.compactor_aborts_age_s * 1000),
            )
        chosen = [entry for entry in entries if table in (None, entry.table)]
        # Most entries wait for their retention: one look at each table is all that they cost.
        tables = {one.table: one for one in chosen}
        definitions = {name: find_table(self._store, one) for name, one in tables.items()}
        return tuple(self._clean(entry, definitions[entry.table]) for entry in chosen)

    def sweep(self, tables: Iterable[Table] | None = None) -> tuple[str, ...]:
        """Remove the staging directories that killed writers left; all tables' where None. Lists
        the directories of tables and partitions, so not for every cycle.

        Raises:
            MetastoreError: the catalog could not be read.
        """
        orphans = Orphans.now(self._client)
        removed: list[str] = []
        for table in self.all_tables() if tables is None else tables:
            with suppress(UnsupportedError):  # a partition of Hive's has another format
                partitions = self._store.list_partitions(table.name)
                locations = (table.location, *(one.location for one in partitions))
                removed += self._sweep_locations(table, locations, orphans)
        return tuple(removed)

    def all_tables(self) -> Iterator[Table]:
        """Every table of the catalog that hiveacid knows how to read.

        Raises:
            MetastoreError: the catalog could not be read.
        """
        for database in self._store.list_databases():
            for name in self._store.list_tables(database):
                with suppress(NotFoundError, UnsupportedError):  # dropped meanwhile; Hive's
                    table = self._store.get_table(TableName(database, name))
                    if table.kind is not TableKind.VIEW:
                        yield table

    def _clean(self, entry: CompactionInfo, table: Table | None) -> Cleaned:
        try:
            done = self._clean_entry(entry, table)
        except AcidError as error:
            _LOG.warning("Cleaning after compaction %s failed: %s", entry.id, error)
            done = Cleaned(entry, CleaningOutcome.FAILED, message=error.message)
            self._retry(entry, error)
        if self._dry:
            if done.outcome in (CleaningOutcome.CLEANED, CleaningOutcome.REFUSED):
                self._over.add(entry.id)
        elif done.removed:
            _LOG.info(
                "Cleaned %s %s: %s removed, %s bytes",
                entry.table,
                entry.partition or "",
                len(done.removed),
                done.removed_bytes,
                extra={"table": str(entry.table)},
            )
        return done

    def _clean_entry(self, entry: CompactionInfo, table: Table | None) -> Cleaned:
        if table is not None and not _of_aborts(entry):
            until_ms = retained_until_ms(entry, self._kept_s(entry, table))
            if until_ms is not None and self._client.clock.now_ms() < until_ms:
                return Cleaned(entry, CleaningOutcome.WAITING, message="kept by its retention")
        with self._sharing(entry.table, entry.partition) as is_shared:
            if is_shared is None:
                return Cleaned(entry, CleaningOutcome.WAITING, message=_LOCKED)
            return self._clean_shared(entry, find_table(self._store, entry), is_shared)

    @contextmanager
    def _sharing(
        self, table: TableName, partition: str | None
    ) -> Iterator[Callable[[], bool] | None]:
        """Keeps what is cleaned from being dropped or moved; tells whether it still does, which who
        stood still for long does not know. None where somebody is about to do that.
        """
        if self._dry:
            yield lambda: True
            return
        manager, metastore = self._client.transactions, self._client.metastore
        lock = manager.try_claim(use_table(table, partition), agent_info=CLEANER)
        if lock is None:
            yield None
            return
        try:
            yield lambda: any(
                one.lock_id == lock
                for one in metastore.show_locks(database=table.database, table=table.table)
            )
        finally:
            with tolerated(_LOG, "Unlock failed, the time-out will do: %s"):
                manager.unlock(lock)

    def _clean_shared(
        self, entry: CompactionInfo, table: Table | None, is_shared: Callable[[], bool]
    ) -> Cleaned:
        try:
            partition = None if table is None else find_partition(self._store, entry, table)
        except NotFoundError:
            table = partition = None
        if table is None:
            self._queue.mark_cleaned(entry)
            return Cleaned(entry, CleaningOutcome.CLEANED)
        if keeps_all(table, partition):
            reason = f"{NO_CLEANUP}=true keeps the files of {entry.table}"
            if not _of_aborts(entry):
                self._queue.mark_refused(entry, reason)
            return Cleaned(entry, CleaningOutcome.REFUSED, message=reason)
        if any(key == RENAMING_TO or key.startswith(DROPPING) for key in table.properties):
            # What is not there is not gone; who was killed is undone by the next statement.
            return Cleaned(entry, CleaningOutcome.WAITING, message=_MOVED)
        locations = self._locations(table) if partition is None else (partition.location,)
        if _of_aborts(entry):
            done = self._remove_from(entry, table, locations, is_shared, aborted_only=True)
            orphans = Orphans.now(self._client)
            swept = self._sweep_locations(table, (table.location, *locations), orphans)
            return replace(done, removed=(*done.removed, *swept))
        return self._remove_from(entry, table, locations, is_shared, aborted_only=not partition)

    def _kept_s(self, entry: CompactionInfo, table: Table) -> float:
        if (entry.table, entry.partition) in self._unretained:
            return 0.0
        return max(retention_s(table, self._client.settings), self._retain_s)

    def remove_aborted(self, table: Table, partition: Partition) -> tuple[str, ...]:
        """Remove what aborted transactions left in a partition, which nobody ever sees. Nothing is
        forgotten about them: their writers may still wake up.

        Raises:
            StorageError: the file system failed.
        """
        fs, root = self._client.files.at(partition.location)
        removed: list[str] = []
        with self._sharing(table.name, None) as is_shared:
            entries = self._listed(fs, root) if is_shared else ()
            txns = self._store.valid_txns()
            lists = Lists(self._store.cleaner_write_ids(table.name, txns).for_cleaner(), txns)
            for path in lists.plan(entries, table, aborted_only=True).aborted:
                if is_shared and is_shared():
                    self._remove(fs, root, path, entries)
                    removed.append(f"{root}/{path}")
        return tuple(removed)

    def _remove_from(
        self,
        entry: CompactionInfo,
        table: Table,
        locations: Sequence[str],
        is_shared: Callable[[], bool],
        *,
        aborted_only: bool,
    ) -> Cleaned:
        if _of_aborts(entry):
            txns = old_aborts(self._client, self._store.cleaner_txns(entry))
        else:
            kept_ms = int(self._kept_s(entry, table) * 1000)
            txns = self._store.cleaner_txns(entry, retention_ms=kept_ms)
        lists = lists_of(self._store, entry, txns)
        lists_now = lists if _of_aborts(entry) else lists_of(self._store, entry, None)
        self._queue.note_cleaning(entry, started=True)
        removed: list[str] = []
        size_bytes = 0
        remaining: list[CleaningPlan] = []
        for location in locations:
            fs, root = self._client.files.at(location)
            entries = self._listed(fs, root)
            going = removable(entries, table, lists, lists_now, aborted_only=aborted_only)
            floor = floor_of(lists.plan(entries, table, aborted_only=False))
            if going and not (aborted_only or self._dry):
                if floor is not None:
                    self._store.note_floor(table.name, entry.partition, floor)
                # Who makes a pin looks after it at floors, and whether something is being cleaned:
                # so this cleaning is seen there, or the pin is seen here.
                late = replace(lists, pinned=self._store.pins(table.name, in_force=True))
                going = removable(entries, table, late, lists_now, aborted_only=False)
            for path in takewhile(lambda _: is_shared(), going):
                self._remove(fs, root, path, entries)
                removed.append(f"{root}/{path}")
                size_bytes += bytes_below(path, entries)
            entries = self._listed(fs, root) if removed else entries
            remaining.append(lists_now.plan(entries, table, aborted_only=aborted_only))
        if not is_shared():
            self._queue.note_cleaning(entry, started=False)
            return Cleaned(entry, CleaningOutcome.WAITING, tuple(removed), size_bytes, _LOST)
        waiting = [path for plan in remaining for path in plan.remove]
        if waiting:
            self._queue.note_cleaning(entry, started=False)
            why = f"{len(waiting)} replaced directories may still be needed by a reader: "
            why += f"{waiting[0]}, ..."
            return Cleaned(entry, CleaningOutcome.WAITING, tuple(removed), size_bytes, why)
        if any(why is Kept.PINNED for plan in remaining for _, why in plan.keep):
            pins = self._store.pins(entry.table, in_force=True)
            if pins and self._is_last(entry):
                self._queue.note_cleaning(entry, started=False)
                self._pinned[entry.table, entry.partition] = entry.id, pins
                why = f"kept by {', '.join(map(str, pins))}"
                return Cleaned(entry, CleaningOutcome.WAITING, tuple(removed), size_bytes, why)
        self._queue.mark_cleaned(
            entry,
            aborted_write_ids=self._settled(entry, remaining, lists_now),
            failed_compactions=lists_now.txns.aborted,
        )
        return Cleaned(entry, CleaningOutcome.CLEANED, tuple(removed), size_bytes)

    def _is_last(self, entry: CompactionInfo) -> bool:
        """Whether no other compaction waits that will remove what pins keep, once they are gone."""
        return not any(
            one.state is CompactionState.READY_FOR_CLEANING
            and one.partition == entry.partition
            and not _of_aborts(one)
            and (one.highest_write_id or 0, one.id) > (entry.highest_write_id or 0, entry.id)
            for one in self._client.metastore.show_compactions(table=entry.table)
        )

    def _kept_by_pins(self) -> set[CompactionId]:
        """What nothing but pins keeps, as long as they are the same."""
        if not self._pinned:
            return set()
        now_ms = self._client.clock.now_ms()
        known = self._store.pins()
        same: set[CompactionId] = set()
        for (table, _), (entry, pins) in self._pinned.items():
            here = (one for one in known if one.table == table)
            if pins == tuple(one for one in here if (one.expires_ms or now_ms + 1) > now_ms):
                same.add(entry)
        return same

    def _settled(
        self, entry: CompactionInfo, left: Sequence[CleaningPlan], lists: Lists
    ) -> Collection[WriteId] | None:
        """The aborted write ids that may be forgotten; None for all up to the entry's highest."""
        if not _of_aborts(entry) and not any(plan.aborts_remain for plan in left):
            return None
        settled = set(lists.valid.aborted)
        for plan in left:
            settled &= set(settled_aborts(plan, lists.valid))
        return frozenset(WriteId(one) for one in settled)

    def _remove(self, fs: FileSystem, root: str, path: str, entries: Sequence[Entry]) -> None:
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise InternalError(f"The cleaner was to delete {path!r}: no path below {root}")
        full = f"{root.rstrip('/')}/{path}"
        if self._removing is not None:
            self._removing(full)
        if self._dry:
            self._gone.add(full)
            return
        with suppress(MissingFileError):  # another cleaner was quicker
            if any(one.path == path and not one.is_directory for one in entries):
                fs.delete_file(full)
            else:
                fs.delete_directory(full)

    def _listed(self, fs: FileSystem, root: str) -> tuple[Entry, ...]:
        """What is below a directory, apart from what a dry cleaner would have removed."""
        entries = list_partition(fs, root)
        if not self._gone:
            return entries
        above = f"{root.rstrip('/')}/"
        gone = {path.removeprefix(above) for path in self._gone if path.startswith(above)}
        return tuple(one for one in entries if not is_below(one.path, gone))

    def _sweep_locations(
        self, table: Table, locations: Collection[str], orphans: Orphans
    ) -> list[str]:
        removed = []
        for location in dict.fromkeys(locations):
            fs, root = self._client.files.at(location)
            found = fs.list_directory(root)
            left = self._left_by_hive(table, fs, filter(orphans.may_be_hives, found), orphans)
            for info in (*filter(orphans.has, found), *left):
                entry = Entry(info.name, info.size_bytes, is_directory=info.is_directory)
                self._remove(fs, root, info.name, (entry,))
                removed.append(info.path)
        if not self._dry:
            self._end_uploads(sorted(f"{one.rstrip('/')}/" for one in locations), orphans)
        return removed

    def _left_by_hive(
        self, table: Table, fs: FileSystem, found: Iterable[FileInfo], orphans: Orphans
    ) -> list[FileInfo]:
        """Which of these directories of manifests are of statements that are over."""
        infos = tuple(found)
        if not infos:
            return []
        txns = self._store.valid_txns()
        lists = Lists(self._store.cleaner_write_ids(table.name, txns).for_cleaner(), txns)
        left = []
        for info in infos:  # an object store tells no time of directories
            within = (info, *fs.list_directory(info.path))
            if orphans.has_hives(info, max(one.modified_ns for one in within), lists):
                left.append(info)
        return left

    def _end_uploads(self, locations: Sequence[str], orphans: Orphans) -> None:
        """What tasks sent to an object store that nobody completed costs storage, and no more."""
        last = None
        for location in locations:
            if last is None or not location.startswith(last):
                last = location
                _end_uploads(*self._client.files.at(location), orphans)

    def _locations(self, table: Table) -> tuple[str, ...]:
        """The table's root, and the partitions that lie outside of it."""
        root = table.location.rstrip("/")
        if not table.partition_columns:
            return (root,)
        partitions = self._store.list_partitions(table.name)
        outside = (one.location for one in partitions if not one.location.startswith(f"{root}/"))
        return tuple(dict.fromkeys((root, *outside)))

    def _retry(self, entry: CompactionInfo, error: AcidError) -> None:
        with tolerated(_LOG, "Cleaning %s cannot be put off: %s", entry.id):
            self._queue.retry_cleaning(entry, error.message)


def _end_uploads(fs: FileSystem, root: str, orphans: Orphans) -> None:
    def is_over(_: str, began_ns: int) -> bool:
        return began_ns < orphans.unnamed_before_ns

    # what may be read is clean without it
    with tolerated(_LOG, "Uploads stay: %s", only=StorageError, path=root):
        ended = fs.end_uploads(root, if_=is_over)
        if ended:
            _LOG.info("Ended %s uploads below %s", len(ended), root)


def _of_aborts(entry: CompactionInfo) -> bool:
    return entry.type is CompactionType.ABORT_TXN_CLEANUP


def is_below(path: str, directories: Collection[str]) -> bool:
    """Whether a path is one of these, or below one."""
    return path in directories or any(path.startswith(f"{one}/") for one in directories)


def bytes_below(path: str, entries: Iterable[Entry]) -> int:
    """How large a file is, or all files below a directory."""
    return sum(e.size_bytes for e in entries if e.path == path or e.path.startswith(f"{path}/"))
