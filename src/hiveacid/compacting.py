"""A session's door to compaction: statements into requests, who carries them out, what came of it.

Who carries a request out is settled here, above statements and compaction: the session's own
compactor in the background where it is embedded, else a service. Who waits (AND WAIT) lends a hand.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from hiveacid.client import Client
from hiveacid.compaction.cleaning_report import CleanedPath
from hiveacid.compaction.compactor import Compactor, EmbeddedCompactor
from hiveacid.compaction.detail import table_detail
from hiveacid.compaction.process import ProcessRewrite
from hiveacid.compaction.worker import Outcome
from hiveacid.errors import CompactionError, InvalidInputError, LockError
from hiveacid.health import HealthMethods, clean_listing, detail_listing
from hiveacid.metastore.api import Catalog
from hiveacid.model.compactions import (
    COVERED_BY,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import Partition, Table, TableKind, TableName
from hiveacid.progress import compactions_shown
from hiveacid.statements.arguments import checked
from hiveacid.statements.compact import (
    AbortCompactions,
    Clean,
    Compact,
    CompactionOrder,
    CompactionStatement,
    ShowCompactions,
    WhyCompact,
    aborts_listing,
    compactions_listing,
    enqueue,
    find_compactions,
    plan_compaction,
)
from hiveacid.statements.context import OpenSession
from hiveacid.statements.partition_values import partition_texts
from hiveacid.statements.values import DescribeDetail, Listing
from hiveacid.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOG = logging.getLogger(__name__)
_UNFINISHED: Final = (CompactionState.INITIATED, CompactionState.WORKING)
_READY: Final = CompactionState.READY_FOR_CLEANING
_ASKED_MAX: Final = 20
"""How often a compaction that is waited for is asked for, where others ask first."""
_LISTINGS: Final[Mapping[type, Callable[[Any], Listing]]] = {
    Compact: compactions_listing,
    ShowCompactions: compactions_listing,
    AbortCompactions: aborts_listing,
    DescribeDetail: detail_listing,
    Clean: clean_listing,
}
"""What SQL shows of what a statement found out; of the others nothing."""
_PAUSE_MIN_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


class Compacting:
    """Carries out what a session says about compactions; ``spark`` gives its Spark, if any."""

    def __init__(self, client: Client, *, spark: Callable[[], SparkSession | None]) -> None:
        self._client = client
        self._spark = spark
        self._making = threading.Lock()
        self._compactor: Compactor | None = None
        make = partial(ProcessRewrite, lambda: client.settings)
        self._alone = make(spark=spark)
        self._beside = make(spark=self._spark_elsewhere)
        self._awaited = make(spark=spark, awaiting=True)
        self._embedded = EmbeddedCompactor(
            self.compactor,
            is_on=lambda: is_embedded(client),
            clock=client.clock,
            settings=lambda: client.settings,
            threads=client.threads,
        )
        client.transactions.on_commit(self._embedded.note)

    def execute(self, value: CompactionStatement) -> object:
        """Carry out a statement built in Python; entries of the queue, or what was found out.

        Raises:
            NotFoundError, InvalidInputError: as ``plan_compaction`` and ``find_compactions``.
            CompactionError: a request is refused, or what was waited for failed.
        """
        metastore = self._client.metastore
        match value:
            case Compact():
                return self._compact(value)
            case ShowCompactions():
                return find_compactions(metastore, value)
            case AbortCompactions():
                return tuple(metastore.abort_compactions(value.compactions).items())
            case Clean(name, dry_run, retain_s):
                tables = None if name is None else (_with_files(metastore, name),)
                compactor = self.compactor()
                return compactor.clean_tables(tables, dry_run=dry_run, retain_s=retain_s)
            case WhyCompact(name):
                return self.compactor().initiator.explain(_with_files(metastore, name))
            case DescribeDetail(name):
                initiator = self.compactor().initiator
                return table_detail(self._client, initiator, _with_files(metastore, name))

    def listing(self, value: CompactionStatement) -> Listing | None:
        """Carry out a statement of SQL.

        Raises:
            NotFoundError, InvalidInputError, CompactionError: as ``execute``.
        """
        found: Any = self.execute(value)
        listed = _LISTINGS.get(type(value))
        return None if listed is None else listed(found)

    def compactor(self) -> Compactor:
        """The compactor of this process, made when it is first needed."""
        with self._making:
            if self._compactor is None:
                self._compactor = Compactor(
                    self._client, self._alone, beside=self._beside, version=VERSION
                )
            return self._compactor

    def _spark_elsewhere(self) -> SparkSession | None:
        """The session's Spark, unless its tasks are run on this machine: there a compaction's would
        hold the places of the application's own.
        """
        spark = self._spark()
        if spark is None:
            return None
        from hiveacid.spark.workers import is_local

        return None if is_local(spark) else spark

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do in the background."""
        return self._embedded.is_idle

    def close(self) -> None:
        """End the background work."""
        self._embedded.close()
        for rewrite in (self._alone, self._beside, self._awaited):
            rewrite.stop()

    def _compact(self, value: Compact) -> tuple[CompactionInfo, ...]:
        metastore = self._client.metastore
        order = plan_compaction(metastore, value, host=self._client.transactions.host)
        if order.table.partition_columns and not value.partition:
            ids = self._enqueue_all(order, wait=value.wait)
        else:
            ids = (self._enqueue(order.request, wait=value.wait),)
        if value.wait:
            done: list[CompactionInfo] = []
            title = f"COMPACT {order.table.name}"
            with compactions_shown(self._client, title, lambda: (len(done), len(ids))):
                done.extend(map(self._wait, ids))
            return tuple(done)
        entries = tuple(one for i in ids for one in metastore.show_compactions(compaction=i))
        for pool in {entry.pool for entry in entries}:
            self._embedded.request(pool)
        return entries

    def compact_now(
        self, order: CompactionOrder, chosen: Sequence[Partition]
    ) -> tuple[CompactionInfo, ...]:
        """Compact these partitions of an order's table, and wait for it.

        Raises:
            CompactionError, LockError: as ``execute`` of a Compact that waits.
        """
        partitioned = bool(order.table.partition_columns)
        requests = order.requests(chosen) if partitioned else (order.request,)[: len(chosen)]
        done: list[CompactionInfo] = []
        title = f"PURGE {order.table.name}"
        with compactions_shown(self._client, title, lambda: (len(done), len(requests))):
            ids = [self._enqueue(one, wait=True) for one in requests]
            done.extend(map(self._wait, ids))
        return tuple(done)

    def _enqueue_all(self, order: CompactionOrder, *, wait: bool) -> tuple[CompactionId, ...]:
        """Requests for the partitions that have something to do; where one is on its way, it is
        left to that.
        """
        chosen = self.compactor().initiator.with_work(
            order.table, order.partitions, order.request.type
        )
        ids: list[CompactionId] = []
        for request in order.requests(chosen):
            try:
                ids.append(self._enqueue(request, wait=wait))
            except CompactionError as error:  # noqa: PERF203 - one partition says nothing of others
                _LOG.info("%s", error.message)
        return tuple(ids)

    def _enqueue(self, request: CompactionRequest, *, wait: bool) -> CompactionId:
        """Put it into the queue. Who waits for its end waits also for one that is on its way, and
        is content with one that has left nothing to do, whoever asked for it.
        """
        metastore = self._client.metastore
        if not wait:
            return enqueue(metastore, request)
        for _ in range(_ASKED_MAX - 1):
            for entry in self._entries_like(request):
                if _is_unfinished(entry):
                    self._until_done(entry)
            (valid,) = metastore.valid_write_ids((request.table,))
            with suppress(CompactionError):  # one has come since, which is waited for, too
                return enqueue(metastore, request)
            for entry in self._entries_like(request):
                if _covers(entry, request, upto=valid.for_compactor().hwm):
                    return entry.id
        return enqueue(metastore, request)

    def _entries_like(self, request: CompactionRequest) -> tuple[CompactionInfo, ...]:
        """Those of the same table or partition, the latest first."""
        found = self._client.metastore.show_compactions(table=request.table)
        return tuple(entry for entry in found if entry.partition == request.partition)

    def _wait(self, compaction: CompactionId) -> CompactionInfo:
        """The entry at its end.

        Raises:
            CompactionError: it failed, or was taken out of the queue.
            LockError: another process does it, and takes too long.
        """
        (entry,) = self._client.metastore.show_compactions(compaction=compaction)
        entry = self._until_done(entry)
        if entry.state in (CompactionState.FAILED, CompactionState.ABORTED):
            raise _ended(entry, entry.state, entry.error)
        return entry

    def _until_done(self, entry: CompactionInfo) -> CompactionInfo:
        """Wait, lending a hand: what nobody has begun, or will end, is done here.

        Raises:
            CompactionError: it failed here, which the metastore could not be told yet.
            LockError: another process does it, and takes too long.
        """
        metastore, clock = self._client.metastore, self._client.clock
        worker = self.compactor().worker(self._awaited)
        until_s = clock.monotonic_s() + self._client.settings.compactor_wait_timeout_s
        pause_s = _PAUSE_MIN_S
        while _is_unfinished(entry):
            done = None
            if entry.state is CompactionState.INITIATED:
                done = worker.run_next(pool=entry.pool)
            if done is not None:
                pause_s = _PAUSE_MIN_S
            elif clock.monotonic_s() >= until_s:
                raise LockError(
                    f"Compaction {entry.id} of {entry.table} is not done within "
                    f"hiveacid.compactor.wait_timeout_s; {entry.worker or 'nobody'} does it",
                    compaction=entry.id,
                    table=str(entry.table),
                    worker=entry.worker,
                )
            else:
                clock.sleep_s(pause_s)
                self._client.transactions.heartbeat.tell_again()
                self.compactor().relieve()
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            found = metastore.show_compactions(compaction=entry.id)
            if not found:  # its table was dropped, or its history purged
                return entry
            (entry,) = found
            if done is None or done.compaction.id != entry.id or not _is_unfinished(entry):
                continue
            is_anothers = entry.worker != done.compaction.worker  # who took it for abandoned
            if done.outcome is Outcome.FAILED and not is_anothers:
                raise _ended(entry, CompactionState.FAILED, done.message)
        return entry


def _ended(entry: CompactionInfo, state: CompactionState, why: str | None) -> CompactionError:
    where = str(entry.table) + (f"/{entry.partition}" if entry.partition else "")
    return CompactionError(
        f"Compaction {entry.id} of {where} has {state.phrase}: {why}",
        compaction=entry.id,
        table=str(entry.table),
        partition=entry.partition,
    )


def _covers(entry: CompactionInfo, request: CompactionRequest, *, upto: int) -> bool:
    """Whether it has left nothing to do for the request in what was written up to a write id."""
    if entry.state is not _READY or entry.type not in COVERED_BY[request.type]:
        return False
    return entry.highest_write_id is not None and entry.highest_write_id >= upto


def _is_unfinished(entry: CompactionInfo) -> bool:
    """Also where the worker has yet to commit what it marked: it may die before."""
    if entry.state is _READY and entry.type is not CompactionType.REBALANCE:
        return entry.txn is not None and entry.committed_ms is None
    return entry.state in _UNFINISHED


@checked
class CompactionMethods(HealthMethods):
    """What a session offers about compactions; a table's are on its handle."""

    def compactions(
        self: OpenSession,
        table: str | None = None,
        *,
        partition: Mapping[str, object] | None = None,
        status: str | None = None,
        type: str | None = None,
        pool: str | None = None,
        limit: int | None = None,
    ) -> tuple[CompactionInfo, ...]:
        """The compactions that are asked for, under way or done, as SHOW COMPACTIONS lists them.

        Raises:
            NotFoundError: no such table.
            InvalidInputError: no such status or type.
        """
        value = ShowCompactions(
            name=None if table is None else self.table_name(table),
            partition=partition_texts(partition),
            status=status,
            kind=type,
            pool=pool,
            limit=limit,
        )
        return cast("tuple[CompactionInfo, ...]", self.execute(value))

    def clean(
        self: OpenSession,
        table: str | None = None,
        *,
        dry_run: bool = False,
        retain_hours: float | None = None,
    ) -> tuple[CleanedPath, ...]:
        """VACUUM of a table (of all): remove what no reader can need any more; ``dry_run`` tells.
        What was replaced within ``retain_hours`` stays, too.

        Raises:
            NotFoundError: no such table.
            InvalidInputError: ``retain_hours`` is shorter than a table's retention, or below 0.
        """
        name = None if table is None else self.table_name(table)
        return cast("tuple[CleanedPath, ...]", self.execute(Clean.of(name, dry_run, retain_hours)))


def _with_files(catalog: Catalog, name: TableName) -> Table:
    """The table of this name, which is no view."""
    table = catalog.get_table(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(f"{name} is a view: it has no files", view=str(name))
    return table


def is_embedded(client: Client) -> bool:
    """Whether a session of this client compacts by itself, by its settings now."""
    auto = client.settings.compactor_auto
    return auto == "embedded" or (auto == "default" and embeds_by_default(client.metastore.url))


def embeds_by_default(url: str) -> bool:
    """On SQLite a session compacts by itself unless it is told not to; a server has a service."""
    return url.startswith("sqlite")
