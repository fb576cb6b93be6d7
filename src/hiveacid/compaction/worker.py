"""One compaction from claim to commit (metastore.md 4.4).

    claim -> own transaction, shared read lock -> what there is -> rewrite, hidden
          -> publish base_N_vT or delta_a_b_vT -> mark compacted -> commit

The result counts for nobody before the commit, by its visibility suffix, and for everybody after
it; what it replaces stays until the cleaner knows that nobody needs it. Row ids stay: no writer
waits for a compaction, none is aborted by one.

Wherever a worker dies, nothing is lost: its transaction is aborted by time-out, what it published
never counts and is removed by the cleaner, its entry is given back or reported as failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from hiveacid.client import Client
from hiveacid.compaction.rewrites import check_versions, find_partition, find_table
from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    LockError,
    NotFoundError,
    tolerated,
)
from hiveacid.layout.compaction import (
    MajorCompaction,
    MinorCompaction,
    RewritePlan,
    input_files,
    plan_major,
    plan_minor,
    plan_rebalance,
)
from hiveacid.layout.directories import AcidDirectory, DirectoryName, format_directory, staging_name
from hiveacid.layout.events import DataFormat, format_marker
from hiveacid.layout.resolve import resolve
from hiveacid.model.commits import StatisticsChange
from hiveacid.model.compactions import CompactionInfo, CompactionType
from hiveacid.model.ids import RangeValidity, ValidWriteIdList
from hiveacid.model.tables import AcidMode, Table, WriteId, check_mode
from hiveacid.model.transactions import LockComponent, LockType, OperationType, TxnState
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partition, with_logical_lengths
from hiveacid.storage.target import (
    WrittenFile,
    publish,
    publish_marker,
    publish_version,
    publishing,
)
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.manager import require_locks
from hiveacid.txn.transaction import Transaction

_LOG = logging.getLogger(__name__)
NOT_ENOUGH = "None of the compaction thresholds met, compaction request is refused!"
"""Hive's words for a request where there is nothing to do."""
_HIVE_3 = (
    "its files are named for Hive 3.1 (hiveacid.compat), which does not know the suffix that "
    "keeps a compaction from readers until it is complete"
)


class Rewrite(Protocol):
    """Reads what a plan says and stages the result; ``compaction/rewrites.py``."""

    def __call__(self, fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
        """Raises: FormatError: an input is damaged; StorageError: reading or writing failed."""


class Step(Enum):
    """What a worker has just done; it may die after each of them."""

    CLAIMED = "claimed"
    REWRITTEN = "rewritten"
    PUBLISHED = "published"
    MARKED = "marked"
    COMMITTED = "committed"


class Outcome(Enum):
    """What became of an entry of the queue."""

    COMPACTED = "compacted"
    NOTHING_TO_REWRITE = "nothing to rewrite"
    """there was something to clean only"""
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """no reply to the commit came: the cleaner finds out"""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """One entry's work: ``message`` says why where nothing was compacted.

    ``rows`` counts the events written, as far as they were counted: files that are copied as they
    are are not opened.
    """

    compaction: CompactionInfo
    outcome: Outcome
    directories: tuple[str, ...] = ()
    rows: int = 0
    size_bytes: int = 0
    elapsed_s: float = 0.0
    message: str | None = None


class Worker:
    """Does the compactions of a queue, one at a time.

    ``name`` is unique to the worker, as ``<host>-<process>-<thread>``; ``version`` is that of
    the program, for the history; ``reached`` is told each step.
    """

    def __init__(
        self,
        client: Client,
        rewrite: Rewrite,
        *,
        name: str,
        version: str | None = None,
        reached: Callable[[Step], None] | None = None,
    ) -> None:
        self._client = client
        self._queue = client.metastore
        self._rewrite = rewrite
        self._name = name
        self._version = version
        self._watcher = reached

    def run_next(self, *, pool: str | None = None) -> CompactionResult | None:
        """Claim the oldest request of a pool and do it; None where there is none.

        What goes wrong with one compaction is its outcome.

        Raises:
            MetastoreError: nothing could be claimed.
        """
        entry = self._queue.find_next_compaction(self._name, version=self._version, pool=pool)
        if entry is None:
            return None
        self._reached(Step.CLAIMED)
        started_s = self._client.clock.monotonic_s()
        result = self._attempt(entry)
        elapsed_s = self._client.clock.monotonic_s() - started_s
        _LOG.info(
            "Compaction %s of %s %s: %s",
            entry.id,
            entry.table,
            entry.partition or "",
            result.message or result.outcome.value,
            extra={"table": str(entry.table)},
        )
        return replace(result, compaction=entry, elapsed_s=elapsed_s)

    def _reached(self, step: Step) -> None:
        if self._watcher is not None:
            self._watcher(step)

    def _attempt(self, entry: CompactionInfo) -> CompactionResult:
        published: list[tuple[FileSystem, str]] = []
        txn: Transaction | None = None
        try:
            reason = self._refusal(entry)
            if reason is not None:
                return self._refuse(entry, reason)
            with self._excluding(entry):
                txn = self._client.transactions.begin_compaction(rebalance=_rebalances(entry))
                return self._compact(entry, txn, published)
        except CommitOutcomeUnknownError as error:
            return CompactionResult(entry, Outcome.UNKNOWN, message=str(error))
        except BaseException as error:
            if txn is not None and (txn.is_committed or _look_up(txn) is TxnState.COMMITTED):
                raise  # interrupted when it counted already
            failed = self._fail(entry if txn is None else replace(entry, txn=txn.id), error)
            if txn is None or _is_aborted(txn, because=error):
                for fs, path in published:
                    _take_back(fs, path)
            if isinstance(error, AcidError):
                return failed
            raise

    @contextmanager
    def _excluding(self, entry: CompactionInfo) -> Iterator[None]:
        """Wait for writers and keep others away, where the compaction gives rows new ids.

        The lock comes before the transaction, so that the transaction sees all that was written;
        writers that saw the rows before find at their commit that they were overwritten.
        """
        if not _rebalances(entry):
            yield
            return
        manager = self._client.transactions
        lock = manager.lock(
            [
                LockComponent(
                    LockType.EXCL_WRITE,
                    entry.table.database,
                    entry.table.table,
                    entry.partition,
                    OperationType.NO_TXN,
                )
            ]
        )
        try:
            yield
        finally:
            with tolerated(_LOG, "Unlock failed, the time-out will do: %s"):
                manager.unlock(lock)

    def _compact(
        self, entry: CompactionInfo, txn: Transaction, published: list[tuple[FileSystem, str]]
    ) -> CompactionResult:
        """Rewrite and publish an entry; ``published`` gets each directory before it is made."""
        table = find_table(self._queue, entry)
        if table is not None:
            names = None if entry.partition is None else (entry.partition,)
            txn.lock(Footprint(reads=(TableRead(table, names),)))
        reason = self._refusal(entry)  # again, now that nobody can alter or drop it
        if reason is not None:
            txn.commit()
            return self._refuse(entry, reason)
        table = self._queue.get_table(entry.table)
        valid = txn.valid_write_ids(table).for_compactor()
        highest = WriteId(valid.hwm)
        if _rebalances(entry):
            self._overwrite(entry, txn, table, highest)
        self._queue.set_compactor_txn(
            entry.id,
            txn.id,
            highest_write_id=highest,
            worker=self._name,
            run_as=entry.run_as,
        )
        partition = find_partition(self._queue, entry, table)
        if partition is None:  # what an aborted write left in partitions that it did not name
            return self._clean_only(entry, txn)
        fs, root = self._client.files.at(partition.location)
        directory = self._directory(fs, root, table, txn, valid)
        compaction = _plan(entry, directory, txn)
        if compaction is None:
            if directory.obsolete or directory.aborted:
                return self._clean_only(entry, txn)
            txn.commit()
            return self._refuse(entry, NOT_ENOUGH)
        hidden = staging_name(txn.id, "compaction")
        published.append((fs, f"{root}/{hidden}"))
        location = partition.location
        staging = f"{location.rstrip('/')}/{hidden}"
        in_place = fs.is_object_store
        plan = RewritePlan(table, location, directory, valid, compaction, staging, in_place)
        begun = _planned(compaction) if in_place else ()
        published.extend((fs, f"{root}/{one}") for one in begun)
        with publishing(fs, [f"{root}/{one}" for one in begun]):
            files = self._rewrite(fs, plan)
            self._reached(Step.REWRITTEN)
            outputs = _outputs(compaction, files)
            published.extend((fs, f"{root}/{one}") for one in outputs if one not in begun)
            require_locks(txn)
            _publish(fs, root, table, outputs, files, begun=begun, staging=f"{root}/{hidden}")
        self._reached(Step.PUBLISHED)
        txn.record_statistics([_in_other_files(entry, plan, files)])
        self._mark_and_commit(entry, txn)
        return CompactionResult(
            entry,
            Outcome.COMPACTED,
            outputs,
            sum(file.rows for file in files),
            sum(file.size_bytes for file in files),
        )

    def _overwrite(
        self, entry: CompactionInfo, txn: Transaction, table: Table, highest: WriteId
    ) -> None:
        """Record that all rows up to a write id get new ids.

        Raises:
            LockError: committed changes lie above a write id that is open: what they delete would
                not be found under the new ids.
        """
        seen = txn.valid_write_ids(table)
        if seen.range_validity(highest + 1, seen.hwm) is not RangeValidity.NONE:
            raise LockError(
                f"{entry.table} cannot be rebalanced now: write id {seen.min_open_write_id} is "
                f"open, and later ones are committed",
                table=str(entry.table),
                write_id=seen.min_open_write_id,
            )
        self._queue.add_dynamic_partitions(
            txn.id, highest, entry.table, [entry.partition], OperationType.UPDATE
        )

    def _directory(
        self,
        fs: FileSystem,
        root: str,
        table: Table,
        txn: Transaction,
        valid: ValidWriteIdList,
    ) -> AcidDirectory:
        check_mode(table)
        entries = list_partition(fs, root)
        directory = resolve(entries, valid, txn.valid_txns, mode=table.acid_mode)
        check_versions(fs, root, directory, entries)
        return with_logical_lengths(fs, root, directory, entries=entries)

    def _clean_only(self, entry: CompactionInfo, txn: Transaction) -> CompactionResult:
        self._mark_and_commit(entry, txn)
        return CompactionResult(entry, Outcome.NOTHING_TO_REWRITE)

    def _mark_and_commit(self, entry: CompactionInfo, txn: Transaction) -> None:
        """The mark comes first: the commit stamps the marked entry."""
        self._queue.mark_compacted(entry.id, txn=txn.id)
        self._reached(Step.MARKED)
        txn.commit()
        self._reached(Step.COMMITTED)

    def _refusal(self, entry: CompactionInfo) -> str | None:
        """Why an entry of the queue cannot be compacted, a sentence; None where it can."""
        table = find_table(self._queue, entry)
        if table is None:
            return f"Table {entry.table} does not exist any more"
        if table.acid_mode is AcidMode.NONE:
            return f"Compaction is not allowed on non-ACID table {entry.table}"
        if table.sort_columns:
            return f"Table {entry.table} is sorted: its order would be lost"
        if table.has_hive_3_names:
            return f"Table {entry.table} is not compacted: {_HIVE_3}"
        if _rebalances(entry) and table.bucket is not None:
            return f"Cannot execute rebalance compaction on bucketed table {entry.table}"
        if _rebalances(entry) and table.acid_mode is AcidMode.INSERT_ONLY:
            return f"Cannot execute rebalance compaction on insert-only table {entry.table}"
        try:
            find_partition(self._queue, entry, table)
        except NotFoundError as error:
            return error.message
        return None

    def _refuse(self, entry: CompactionInfo, reason: str) -> CompactionResult:
        self._mark(self._queue.mark_refused, entry, reason)
        return CompactionResult(entry, Outcome.REFUSED, message=reason)

    def _fail(self, entry: CompactionInfo, error: BaseException) -> CompactionResult:
        message = describe(error)
        self._mark(self._queue.mark_failed, entry, message)
        return CompactionResult(entry, Outcome.FAILED, message=message)

    def _mark(
        self, mark: Callable[[CompactionInfo, str], None], entry: CompactionInfo, why: str
    ) -> None:
        def end() -> None:
            try:
                mark(entry, why)
            except NotFoundError as gone:  # the table was dropped, or another worker has it
                _LOG.info("Compaction %s ended (%s), for nobody: %s", entry.id, why, gone)

        try:
            self._client.transactions.tell(end)
        except AcidError as error:
            _LOG.warning("Compaction %s ended (%s), told later: %s", entry.id, why, error)


def describe(error: BaseException) -> str:
    """What the history says of a failure: the message, with the file that it is about, and what to
    do.
    """
    if not isinstance(error, AcidError):
        return f"{type(error).__name__}: {error}"
    path, notes = error.context.get("path"), getattr(error, "__notes__", ())
    about = "" if not path or str(path) in error.message else f" ({path})"
    return ". ".join([f"{error.message}{about}", *notes])


def _rebalances(entry: CompactionInfo) -> bool:
    return entry.type is CompactionType.REBALANCE


def _plan(
    entry: CompactionInfo, directory: AcidDirectory, txn: Transaction
) -> MinorCompaction | MajorCompaction | None:
    if _rebalances(entry):
        return plan_rebalance(directory, txn=txn.id, buckets=entry.buckets, order_by=entry.order_by)
    if entry.type is CompactionType.MINOR:
        return plan_minor(directory, txn=txn.id)
    return plan_major(directory, txn=txn.id)


def _planned(compaction: MinorCompaction | MajorCompaction) -> tuple[str, ...]:
    planned: list[DirectoryName]
    if isinstance(compaction, MajorCompaction):
        planned = [compaction.output]
    else:
        planned = [one for one in (compaction.delta, compaction.delete_delta) if one is not None]
    return tuple(format_directory(one) for one in planned)


def _outputs(
    compaction: MinorCompaction | MajorCompaction, files: Sequence[WrittenFile]
) -> tuple[str, ...]:
    """The directories to publish: those with files, all of the plan where none has any."""
    names = _planned(compaction)
    filled = {file.directory for file in files}
    assert filled <= set(names), "a rewrite keeps to its plan"
    return tuple(name for name in names if name in filled) or names


def _in_other_files(
    entry: CompactionInfo, plan: RewritePlan, files: Sequence[WrittenFile]
) -> StatisticsChange:
    sizes = [file.size_bytes for file in files if file.size_bytes > 0]
    replaced = [file.size_bytes for file in input_files(plan) if file.size_bytes > 0]
    return StatisticsChange(
        entry.table,
        entry.partition,
        rows=None,
        files=len(sizes) - len(replaced),
        size_bytes=sum(sizes) - sum(replaced),
        keeps_rows=True,
    )


def _publish(
    fs: FileSystem,
    root: str,
    table: Table,
    outputs: Sequence[str],
    files: Sequence[WrittenFile],
    *,
    begun: Sequence[str],
    staging: str,
) -> None:
    """``begun`` are the directories in which files are written already, and which say so."""
    full = table.acid_mode is AcidMode.FULL
    is_used = not begun or any(file.staged_path.startswith(f"{staging}/") for file in files)
    with publishing(fs, [f"{root}/{name}" for name in outputs if name not in begun]):
        publish(fs, root, files, staging=staging if is_used else None)
        for name in set(outputs) - {file.directory for file in files}:
            # No event is left: the directory still has to be there, to replace what was read.
            if full:
                publish_version(fs, f"{root}/{name}")
            else:
                publish_marker(fs, f"{root}/{name}", text=format_marker(DataFormat.COMPACTED))


def _take_back(fs: FileSystem, path: str) -> None:
    """Delete what was made; what stays never counts, and the cleaner removes it."""
    with tolerated(_LOG, "A compaction's directory stays: %s", path=path):
        fs.end_uploads(path, if_=lambda *_: True)
        fs.delete_directory(path)


def _is_aborted(txn: Transaction, *, because: BaseException) -> bool:
    """Abort; whether it is known to be: until then its result may count, and be all there is."""
    with tolerated(_LOG, "Abort failed, the time-out will do: %s", txn=txn.id):
        txn.abort(f"compaction failed: {because}")
    return _look_up(txn) is TxnState.ABORTED


def _look_up(txn: Transaction) -> TxnState | None:
    with tolerated(_LOG, "The outcome cannot be looked up: %s", txn=txn.id):
        return txn.look_up()
    return None
