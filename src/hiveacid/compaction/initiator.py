"""Looks for tables and partitions that are worth compacting and asks for it (metastore.md 4.3).

    written to lately -> skip rules -> list the directory -> policy -> queue

It only asks: whoever works on the queue does the rest, so any number of initiators do no harm. The
turns of a metastore's services are taken in the database.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from hiveacid.client import Client
from hiveacid.compaction.policy import (
    Decision,
    Thresholds,
    decide,
    measure,
    reason_against,
    thresholds_of,
)
from hiveacid.compaction.rewrites import find_partition
from hiveacid.errors import AcidError, NotFoundError
from hiveacid.layout.compaction import has_work
from hiveacid.layout.directories import AcidDirectory, name_of_partition
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import WORKER_POOL, Database, Partition, Table, TableName, check_mode
from hiveacid.storage.listing import list_partition, list_partitions

_LOG = logging.getLogger(__name__)
TURN: Final = "Initiator"
"""The key of the turn, as Hive calls it."""
_FULL_LOOK_S: Final = 3600.0
"""How often all that was written since the last cleaning is looked at, not only what is new: a
threshold may have changed, an hour has come, an initiator died before it was through."""
_OVERLAP_MS: Final = 500
_BLOCKED: Final = "its last compactions failed"
_BUSY: Final = (CompactionState.INITIATED, CompactionState.WORKING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the initiator thinks of a table or partition; ``compaction`` where it asked for one."""

    table: TableName
    partition: str | None
    decision: Decision
    compaction: CompactionId | None = None


@dataclass(frozen=True, slots=True)
class Examined:
    """A partition (of a table without, the whole): what lies in its directory, what of that counts
    for a compactor, and what the initiator thinks of it.
    """

    partition: Partition
    entries: tuple[Entry, ...]
    directory: AcidDirectory
    verdict: Verdict


class Initiator:
    """Asks for compactions; ``name`` begins with the host, as ``<host>-<process>-initiator``."""

    def __init__(self, client: Client, *, name: str) -> None:
        self._client = client
        self._queue = client.own
        self._name = name
        self._full_look_s: float | None = None
        self._relieved_s: float | None = None
        self._looked_s: dict[TableName, tuple[float | None, float]] = {}

    def run_if_due(self) -> tuple[Verdict, ...]:
        """One cycle, unless an initiator of this metastore ran within the check interval.

        Raises:
            MetastoreError: the metastore failed.
        """
        interval_s = self._client.settings.compactor_check_interval_s
        elapsed_ms = self._queue.begin_cycle(TURN, interval_s=interval_s)
        if elapsed_ms is None:
            return ()
        return self.run_cycle(since_ms=None if self._wants_full_look() else elapsed_ms)

    def run_cycle(self, *, since_ms: int | None = None) -> tuple[Verdict, ...]:
        """Give back what dead workers hold, then look at what was written to (in the last
        ``since_ms``), and ask; what was decided about each.

        Raises:
            MetastoreError: the metastore failed.
        """
        settings = self._client.settings
        self._relieve_dead_workers()
        since = None if since_ms is None else since_ms + _OVERLAP_MS
        candidates = dict.fromkeys(self._queue.find_potential_compactions(since_ms=since))
        aborts: dict[tuple[TableName, str | None], CompactionType] = {}
        if not settings.compactor_clean_aborts:
            for table, partition, kind in self._queue.find_too_many_aborts(
                threshold=settings.compactor_aborts_threshold,
                age_ms=int(settings.compactor_aborts_age_s * 1000),
            ):
                aborts[table, partition] = kind
        look = self._look(self._queue.show_compactions())
        return tuple(
            look.ask(table, partition, because_of_aborts=aborts.get((table, partition)))
            for table, partition in {**candidates, **aborts}
        )

    def look_at(self, tables: Collection[TableName]) -> tuple[Verdict, ...]:
        """Ask for what these tables need, which were just written to.

        Raises:
            MetastoreError: the metastore failed.
        """
        verdicts: list[Verdict] = []
        self.relieve_if_due()
        for name in sorted(tables):
            since_ms = self._since_last_look_ms(name)
            found = self._queue.find_potential_compactions(since_ms=since_ms, table=name)
            if found:
                look = self._look(self._queue.show_compactions(table=name))
                verdicts += (look.ask(table, partition) for table, partition in found)
        return tuple(verdicts)

    def with_work(
        self, table: Table, partitions: Iterable[Partition], kind: CompactionType
    ) -> tuple[Partition, ...]:
        """The partitions of which a compaction of this kind would rewrite anything.

        Raises:
            StorageError: a directory could not be listed.
            MetastoreError: the metastore failed.
        """
        look = self._look(())
        return tuple(one for one in partitions if has_work(look.directory(table, one), kind))

    def examine(self, table: Table, queue: Iterable[CompactionInfo]) -> Iterator[Examined]:
        """Each partition, with what would be asked for now, and why or why not; nothing is asked
        for. ``queue`` are the table's compactions.

        Raises:
            StorageError: a directory could not be listed.
            MetastoreError: the metastore failed.
        """
        look = self._look(queue)
        partitions: tuple[Partition, ...] = (Partition((), table.location),)
        if table.partition_columns:
            partitions = self._queue.list_partitions(table.name)
        listings = list_partitions(self._client.files, partitions)
        return (
            look.examined(table, partition, entries)
            for partition, entries in zip(partitions, listings, strict=True)
        )

    def explain(self, table: Table) -> tuple[Verdict, ...]:
        """The verdicts of ``examine``.

        Raises:
            StorageError, MetastoreError: as ``examine``.
        """
        queue = self._queue.show_compactions(table=table.name)
        return tuple(one.verdict for one in self.examine(table, queue))

    def relieve_if_due(self) -> None:
        """Give back what dead workers hold, unless it was done here within the check interval.

        Raises:
            MetastoreError: the metastore failed.
        """
        interval_s = self._client.settings.compactor_check_interval_s
        if (
            self._relieved_s is None
            or self._client.clock.monotonic_s() - self._relieved_s >= interval_s
        ):
            self._relieve_dead_workers()

    def _relieve_dead_workers(self) -> None:
        """Put entries of workers that are gone back into the queue. One without a transaction may
        be of a worker that waits for its locks: it notes its transaction after that.
        """
        settings = self._client.settings
        without_txn_s = settings.txn_timeout_s + settings.lock_timeout_s
        self._queue.revoke_workers(
            older_than_ms=int(settings.compactor_worker_timeout_s * 1000),
            without_txn_ms=int(without_txn_s * 1000),
        )
        self._relieved_s = self._client.clock.monotonic_s()

    def _look(self, queue: Iterable[CompactionInfo]) -> _Look:
        return _Look(self._client, self._name, queue)

    def _wants_full_look(self) -> bool:
        now_s = self._client.clock.monotonic_s()
        last_s = self._full_look_s
        if last_s is not None and now_s - last_s < _FULL_LOOK_S:
            return False
        self._full_look_s = now_s
        return True

    def _since_last_look_ms(self, table: TableName) -> int | None:
        now_s = self._client.clock.monotonic_s()
        full_s, last_s = self._looked_s.get(table, (None, now_s))
        if full_s is None or now_s - full_s >= _FULL_LOOK_S:
            self._looked_s[table] = now_s, now_s
            return None
        self._looked_s[table] = full_s, now_s
        return int((now_s - last_s) * 1000) + _OVERLAP_MS


class _Look:
    """One look at several tables, all in one snapshot of the transactions."""

    def __init__(
        self,
        client: Client,
        name: str,
        queue: Iterable[CompactionInfo],
    ) -> None:
        self._client = client
        self._metastore = client.own
        self._name = name
        self._busy: dict[tuple[TableName, str | None], CompactionInfo] = {}
        self._cleaning_waits: set[tuple[TableName, str | None]] = set()
        self._failed: set[tuple[TableName, str | None]] = set()
        for one in queue:
            if one.state in _BUSY:
                self._busy[one.table, one.partition] = one
            elif one.state is CompactionState.READY_FOR_CLEANING:
                self._cleaning_waits.add((one.table, one.partition))
            elif one.state is CompactionState.FAILED:
                self._failed.add((one.table, one.partition))
        self._txns: ValidTxnList | None = None
        self._thresholds: tuple[Table, Thresholds] | None = None
        self._reason: tuple[Table, str | None] | None = None
        self._valid: dict[TableName, ValidWriteIdList] = {}
        self._databases: dict[str, Database] = {}

    def ask(
        self,
        name: TableName,
        partition: str | None,
        *,
        because_of_aborts: CompactionType | None = None,
    ) -> Verdict:
        """Decide and ask; what goes wrong with one object is written into the history."""
        try:
            table, against = self._table(name, partition, because_of_aborts)
            if against is not None or table is None:
                if against == _BLOCKED:
                    self._not_initiated(name, partition, against)
                return Verdict(name, partition, Decision(None, against or "it does not exist"))
            if because_of_aborts is not None:
                decision = Decision(because_of_aborts, "too many or too old aborted transactions")
            else:
                directory = self.directory(table, self._partition(table, partition))
                decision = self._decision(table, partition, directory)
            return self._enqueued(table, partition, decision)
        except NotFoundError as error:  # dropped meanwhile
            return Verdict(name, partition, Decision(None, error.message))
        except AcidError as error:
            _LOG.warning("No decision about %s %s: %s", name, partition or "", error)
            self._not_initiated(name, partition, error.message)
            return Verdict(name, partition, Decision(None, error.message))

    def directory(self, table: Table, partition: Partition) -> AcidDirectory:
        """The base and deltas of a partition that count, of its listing."""
        return self._resolved(table, list_partition(*self._client.files.at(partition.location)))

    def examined(self, table: Table, partition: Partition, entries: tuple[Entry, ...]) -> Examined:
        """Decide about a partition whose definition and listing are known."""
        name = name_of_partition(table, partition)
        directory = self._resolved(table, entries)
        decision = self._decision(table, name, directory)
        against = self._against(table, name, None)
        if against is not None:
            decision = Decision(None, f"{against}; {decision.reason}")
        return Examined(partition, entries, directory, Verdict(table.name, name, decision))

    def _resolved(self, table: Table, entries: Iterable[Entry]) -> AcidDirectory:
        check_mode(table)
        txns, valid = self._lists(table.name)
        return resolve(entries, valid, txns, mode=table.acid_mode)

    def _table(
        self, name: TableName, partition: str | None, aborts: CompactionType | None
    ) -> tuple[Table | None, str | None]:
        """The table, and why nothing is asked for it (None where something may be)."""
        busy = self._busy.get((name, partition))
        if busy is not None:  # its definition is not needed then
            return None, _is_busy(busy)
        try:
            table = self._metastore.get_table(name)
        except NotFoundError:
            return None, "it does not exist any more"
        return table, self._against(table, partition, aborts)

    def _against(
        self, table: Table, partition: str | None, aborts: CompactionType | None
    ) -> str | None:
        busy = self._busy.get((table.name, partition))
        if busy is not None:
            return _is_busy(busy)
        against = self._reason_against(table)
        if against is None and table.partition_columns and partition is None and aborts is None:
            against = "it was written to without a partition's name"
        if (
            against is None
            and (table.name, partition) in self._failed
            and self._metastore.is_blocked_by_failures(table.name, partition)
        ):
            against = _BLOCKED
        return against

    def _reason_against(self, table: Table) -> str | None:
        """Asked for each partition of a table, and the same for all."""
        if self._reason is None or self._reason[0] is not table:
            properties = self._database(table.name).properties
            self._reason = table, reason_against(table, properties, self._client.settings)
        return self._reason[1]

    def _database(self, name: TableName) -> Database:
        if name.database not in self._databases:
            self._databases[name.database] = self._metastore.get_database(name.database)
        return self._databases[name.database]

    def _partition(self, table: Table, partition: str | None) -> Partition:
        found = find_partition(self._metastore, _entry(table.name, partition), table)
        assert found is not None, "candidates of a partitioned table have a partition"
        return found

    def _decision(self, table: Table, name: str | None, directory: AcidDirectory) -> Decision:
        waits = (table.name, name) in self._cleaning_waits
        now = datetime.fromtimestamp(self._client.clock.now_ms() / 1000)
        return decide(
            measure(directory, cleaning_waits=waits),
            self._thresholds_of(table),
            hour=now.hour,
        )

    def _thresholds_of(self, table: Table) -> Thresholds:
        """Asked for each partition of a table, and the same for all."""
        if self._thresholds is None or self._thresholds[0] is not table:
            self._thresholds = table, thresholds_of(table, self._client.settings)
        return self._thresholds[1]

    def _lists(self, name: TableName) -> tuple[ValidTxnList, ValidWriteIdList]:
        if self._txns is None:
            self._txns = self._metastore.valid_txns()
        if name not in self._valid:
            (valid,) = self._metastore.valid_write_ids((name,), self._txns)
            self._valid[name] = valid.for_compactor()
        return self._txns, self._valid[name]

    def _enqueued(self, table: Table, partition: str | None, decision: Decision) -> Verdict:
        if decision.type is None:
            return Verdict(table.name, partition, decision)
        lower = {key.lower(): value for key, value in table.properties.items()}
        pool = lower.get(WORKER_POOL) or self._database(table.name).properties.get(WORKER_POOL)
        answer = self._metastore.compact(
            CompactionRequest(
                table.name,
                partition,
                decision.type,
                pool=pool,
                initiator=self._name,
                run_as=table.owner or None,
            )
        )
        if not answer.accepted:
            reason = f"{answer.message}; {decision.reason}"
            return Verdict(table.name, partition, Decision(None, reason))
        _LOG.info(
            "Compaction %s of %s %s: %s", answer.id, table.name, partition or "", decision.reason
        )
        return Verdict(table.name, partition, decision, answer.id)

    def _not_initiated(self, name: TableName, partition: str | None, reason: str) -> None:
        entry = replace(_entry(name, partition), initiator=self._name)
        self._metastore.mark_failed(entry, reason)


def _is_busy(entry: CompactionInfo) -> str:
    return f"compaction {entry.id} is {entry.state.phrase}"


def _entry(name: TableName, partition: str | None) -> CompactionInfo:
    """An entry that is in no queue. Hive writes MINOR where no type was decided."""
    return CompactionInfo(
        NO_COMPACTION, name, partition, CompactionType.MINOR, CompactionState.INITIATED
    )
