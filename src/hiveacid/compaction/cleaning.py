"""By what a cleaner decides: the lists that count, what they let go of a directory, which hidden
entries belong to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hiveacid.client import Client
from hiveacid.layout.compaction import CleaningPlan, has_ended, keep_pinned, plan_cleaning
from hiveacid.layout.directories import STAGING_PREFIX, parse_manifests_name, parse_staging_name
from hiveacid.layout.resolve import Entry
from hiveacid.metastore.api import OwnDatabase
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.history import Pin
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import NO_CLEANUP, Partition, Table, TxnId, check_mode, is_true
from hiveacid.model.transactions import TxnState
from hiveacid.storage.filesystem import FileInfo


@dataclass(frozen=True, slots=True)
class Lists:
    """What counts: write ids by a cleaner's rules, transactions, and what pins show."""

    valid: ValidWriteIdList
    txns: ValidTxnList
    pinned: tuple[Pin, ...] = ()

    def plan(self, entries: Iterable[Entry], table: Table, *, aborted_only: bool) -> CleaningPlan:
        """What would go of a directory by these lists.

        Raises:
            FormatError: a ``_metadata_acid`` that decides is not one.
        """
        listing, mode = tuple(entries), table.acid_mode
        found = plan_cleaning(listing, self.valid, self.txns, aborted_only=aborted_only, mode=mode)
        if aborted_only or not self.pinned or not found.remove:
            return found
        return keep_pinned(found, listing, self.pinned, self.valid, self.txns, mode=mode)

    def holds(self, pin: Pin, path: str, entries: Iterable[Entry], table: Table) -> bool:
        """Whether a pin alone would keep the path."""
        plan = replace(self, pinned=(pin,)).plan(entries, table, aborted_only=False)
        return any(one == path for one, _ in plan.keep)


def old_aborts(client: Client, txns: ValidTxnList) -> ValidTxnList:
    """``txns`` in which those that were alive a short while ago count as open.

    A writer that was aborted by time-out may wake up and publish: by then nothing may be forgotten
    of it, or its rows would count until it finds out.
    """
    young_ms = client.clock.now_ms() - int(client.settings.compactor_aborts_age_s * 1000)
    young = {
        one.id
        for one in client.metastore.show_txns()
        if one.state is TxnState.ABORTED and one.last_heartbeat_ms > young_ms
    }
    return ValidTxnList.of(
        hwm=txns.hwm,
        open=(*txns.open, *young.intersection(txns.aborted)),
        aborted=set(txns.aborted) - young,
    )


def lists_of(store: OwnDatabase, entry: CompactionInfo, txns: ValidTxnList | None) -> Lists:
    """The lists for an entry, up to what its compaction saw; ``txns`` None for those of now."""
    chosen = store.valid_txns() if txns is None else txns
    valid = store.cleaner_write_ids(entry.table, chosen)
    pinned = store.pins(entry.table, in_force=True)
    return Lists(valid.for_cleaner(hwm=entry.highest_write_id), chosen, pinned)


def removable(
    entries: tuple[Entry, ...], table: Table, seen: Lists, today: Lists, *, aborted_only: bool
) -> tuple[str, ...]:
    """What may go: what everybody sees as replaced, and what is aborted today.

    Raises:
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    replaced = seen.plan(entries, table, aborted_only=aborted_only).remove
    aborted = today.plan(entries, table, aborted_only=True).remove
    return tuple(sorted({*replaced, *aborted}))


def keeps_all(table: Table, partition: Partition | None) -> bool:
    """Whether ``no_cleanup`` of the table or the partition is true.

    Raises:
        InvalidInputError: as ``check_mode``.
    """
    check_mode(table)
    properties = {} if partition is None else partition.properties
    return is_true(table.properties, NO_CLEANUP) or is_true(properties, NO_CLEANUP)


@dataclass(frozen=True, slots=True)
class Orphans:
    """Tells which hidden entries belong to nobody, by the transactions of one moment.

    A name that does not say whose it is goes by its age: ``unnamed_before_ns`` lies before all that
    is open.
    """

    open: frozenset[TxnId]
    hwm: TxnId
    unnamed_before_ns: int

    @classmethod
    def now(cls, client: Client) -> Orphans:
        """As of now.

        Raises:
            MetastoreError: the metastore failed.
        """
        found = client.metastore.get_open_txns()
        begun_ms = [
            one.started_ms for one in client.metastore.show_txns() if one.state is TxnState.OPEN
        ]
        oldest_ms = min([client.clock.now_ms(), *begun_ms])
        grace_ms = int(client.settings.compactor_aborts_age_s * 1000)
        return cls(frozenset(found.open), found.hwm, (oldest_ms - grace_ms) * 1_000_000)

    def may_be_hives(self, info: FileInfo) -> bool:
        """Whether it holds manifests of a statement of Hive's, which only its write id can tell to
        be over.
        """
        return info.is_directory and parse_manifests_name(info.name) is not None

    def has_hives(self, info: FileInfo, changed_ns: int, lists: Lists) -> bool:
        """Whether manifests are left by a statement that is over, and so for a while: one whose
        transaction was timed out may still be at work. ``changed_ns`` is when the last of them
        changed, ``lists`` are those of its table.
        """
        name = parse_manifests_name(info.name)
        if name is None or not 0 < changed_ns < self.unnamed_before_ns:
            return False
        return has_ended(name, lists.valid, lists.txns)

    def has(self, info: FileInfo) -> bool:
        """Whether an entry of a table's or partition's directory is an orphan."""
        if not info.name.startswith(STAGING_PREFIX):
            return False
        txn = parse_staging_name(info.name)
        if txn is None:
            return 0 < info.modified_ns < self.unnamed_before_ns
        return txn <= self.hwm and txn not in self.open
