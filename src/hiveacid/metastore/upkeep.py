"""What a metastore keeps in order, as protocols: compactions, which are a part of ``Metastore``;
and the past, which only a database of ours keeps: commits in their order, versions of a table,
the last micro-batches of streams.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hiveacid.model.compactions import (
    CompactionAnswer,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionType,
)
from hiveacid.model.history import (
    Commit,
    ConsumerMove,
    Floor,
    Pin,
    StreamBatch,
    UnrecordedCommit,
    Version,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import TableName, TxnId, WriteId

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """How the queue behaves; defaults are Hive's (metastore.md 4.7). Times are ms.

    ``pool_timeout_ms``: a request of a named pool that waited for so long is taken by the default
    pool's workers; 0 for never. ``failures_max`` attempts that failed one after the other keep new
    automatic requests away for ``failures_pause_ms`` (0: for ever). A failed cleaning is repeated
    after ``cleaning_retry_ms``, each time twice as long, ``cleaning_attempts_max`` times;
    ``cleaning_delay_ms`` after the commit it is done first. ``kept_...``: how many entries of the
    history stay for each table or partition; unsuccessful ones older than ``history_ms`` go when a
    later success covers them.
    """

    pool_timeout_ms: int = _DAY_MS // 2
    failures_max: int = 2
    failures_pause_ms: int = 7 * _DAY_MS
    cleaning_delay_ms: int = 0
    cleaning_retry_ms: int = 300_000
    cleaning_attempts_max: int = 5
    kept_not_initiated: int = 2
    kept_failed: int = 3
    kept_succeeded: int = 3
    kept_refused: int = 3
    history_ms: int = 7 * _DAY_MS


class CompactionQueue(Protocol):
    """Requests for compactions, who works on them, what became of them (metastore.md 4).

    An entry goes from hand to hand: ``compact`` -> ``find_next_compaction`` ->
    ``set_compactor_txn`` -> ``mark_compacted`` -> (commit of its transaction) ->
    ``find_ready_to_clean`` -> ``mark_cleaned``. Where its transaction is aborted instead, by
    its worker or because the worker is gone, the entry waits for a worker again; it fails when
    three workers were lost on it.
    """

    def compact(self, request: CompactionRequest) -> CompactionAnswer:
        """Enqueue, unless one is on its way for the same object (metastore.md 4.2).

        Raises: InvalidInputError: properties, pool or order too long for the queue.
        """

    def show_compactions(
        self, *, compaction: CompactionId | None = None, table: TableName | None = None
    ) -> tuple[CompactionInfo, ...]:
        """Queue and history, in the order of SHOW COMPACTIONS (metastore.md 4.8): those nothing
        has happened to first, then the latest end, start or commit first."""

    def find_next_compaction(
        self, worker: str, *, version: str | None = None, pool: str | None = None
    ) -> CompactionInfo | None:
        """Claim the oldest request of a pool; None where there is none. Safe for many workers."""

    def set_compactor_txn(
        self,
        compaction: CompactionId,
        txn: TxnId,
        *,
        highest_write_id: WriteId,
        worker: str | None = None,
        run_as: str | None = None,
    ) -> None:
        """Note the worker's transaction and what it sees (Hive's update_compactor_state).

        Raises: MetastoreError: the entry is not being worked on, or not by ``worker``.
        """

    def mark_compacted(self, compaction: CompactionId, *, txn: TxnId | None) -> None:
        """Its result is published: ready for cleaning once its transaction is committed.

        ``txn`` is what ``set_compactor_txn`` noted, None where nothing was.

        Raises: MetastoreError: the entry is gone (its table was dropped) or was given to another
            worker meanwhile: the transaction must be aborted.
        """

    def mark_failed(self, compaction: CompactionInfo, error: str) -> None:
        """Move to the history as failed; one that never was in the queue (``NO_COMPACTION``), as
        not initiated. What its worker marked before is known by the entry's ``txn``.

        Raises: NotFoundError: no such entry (DROP TABLE takes it along), or another worker's.
        """

    def mark_refused(self, compaction: CompactionInfo, reason: str) -> None:
        """Move to the history as refused. Raises: as ``mark_failed``."""

    def mark_cleaned(
        self,
        compaction: CompactionInfo,
        *,
        aborted_write_ids: Collection[WriteId] | None = None,
        failed_compactions: Collection[int] = (),
    ) -> None:
        """Move to the history as succeeded, forget what it has settled (metastore.md 4.5).

        ``aborted_write_ids`` are the writers' that may be forgotten; None stands for all aborted
        ones up to its highest write id. For an entry of ``find_aborts_to_clean`` they are all that
        is forgotten of writers. ``failed_compactions`` are aborted transactions: compactions of the
        object among them may be forgotten, nothing is left of their results. Nothing happens where
        another cleaner was first.
        """

    def abort_compactions(
        self, compactions: Collection[CompactionId]
    ) -> Mapping[CompactionId, tuple[str, str]]:
        """Take requests out of the queue that nobody works on yet; for each id Success or Error
        and a message, as ABORT COMPACTIONS prints them."""


class CompactionUpkeep(CompactionQueue, Protocol):
    """With what Hive's own initiator and cleaner do inside of its service."""

    def use_options(
        self, compaction: CompactionOptions, *, history_ms: int, retention_ms: int
    ) -> None:
        """Let the queue behave so for this client from now on, and its housekeeping keep records of
        commits so long, at least as long as ``retention_ms``, which is how long files are kept.
        """

    def begin_cycle(self, name: str, *, interval_s: float) -> int | None:
        """Whether it is this process's turn to do what all processes together do once in
        ``interval_s``: how long ago (ms) the turn before was; None where it is not due.

        ``name`` is the key of a row of Hive's AUX_TABLE (``Initiator``, ``Cleaner``).
        """

    def find_potential_compactions(
        self, *, since_ms: int | None = None, table: TableName | None = None
    ) -> tuple[tuple[TableName, str | None], ...]:
        """Tables and partitions (of one table) written to since they were last cleaned: in the
        last ``since_ms``, or their newest compaction failed; sorted."""

    def find_too_many_aborts(
        self, *, threshold: int, age_ms: int
    ) -> tuple[tuple[TableName, str | None, CompactionType], ...]:
        """What aborted transactions left: over ``threshold`` of them calls for MAJOR, one older
        than ``age_ms`` (not where negative) for MINOR."""

    def is_blocked_by_failures(self, table: TableName, partition: str | None) -> bool:
        """Whether the last attempts all failed, too short a while ago to try again."""

    def find_ready_to_clean(
        self, *, uncommitted: bool = False, without: Collection[CompactionId] = ()
    ) -> tuple[CompactionInfo, ...]:
        """Compactions whose inputs no open transaction can need any more (metastore.md 4.5), of
        each object the one that saw least; as if those ``without`` were cleaned.

        ``uncommitted``: also those whose transaction has not committed, as Hive 4.1 does
        (HIVE-29572); never to be cleaned.
        """

    def find_aborts_to_clean(self, *, threshold: int, age_ms: int) -> tuple[CompactionInfo, ...]:
        """Tables and partitions with files of aborted transactions, as entries of type
        ABORT_TXN_CLEANUP: where they are more than ``threshold`` or one is older than ``age_ms``
        (not where negative). Of a partitioned table's, partition None stands for what writers of
        dynamic partitions left anywhere in it."""

    def cleaner_txns(self, compaction: CompactionInfo, *, retention_ms: int = 0) -> ValidTxnList:
        """The transactions as a cleaner of this entry must see them: none is open, all above the
        oldest reader is not there yet, nor a compaction of the object that committed less than
        ``retention_ms`` ago. For ABORT_TXN_CLEANUP: all below the oldest writer."""

    def cleaner_write_ids(self, table: TableName, txns: ValidTxnList) -> ValidWriteIdList:
        """A table's write ids with these transactions, each aborted one named: a reader's list may
        end below some of them, whose files would stay."""

    def note_cleaning(self, compaction: CompactionInfo, *, started: bool) -> None:
        """Stamp, or take back the stamp of, the cleaner's start."""

    def retry_cleaning(self, compaction: CompactionInfo, error: str) -> None:
        """Cleaning failed: try again later, each time after twice as long, then mark as failed."""

    def forget_column_statistics(self, table: TableName) -> int:
        """Forget the statistics of columns of a table and its partitions; how many those were.

        Raises: NotFoundError: no such table.
        """

    def revoke_workers(
        self,
        *,
        host: str | None = None,
        older_than_ms: int | None = None,
        without_txn_ms: int | None = None,
    ) -> int:
        """Give back to the queue what dead workers hold: all of ``<host>-...`` (for a host with
        one process alone), all that began longer than ``older_than_ms`` ago, all that had no
        transaction ``without_txn_ms`` after the claim; the number given back.

        What a worker with a transaction held is given back when that is aborted.
        """


class Past(Protocol):
    """The part of ``OwnDatabase`` about the past."""

    def commits(
        self,
        table: TableName,
        *,
        after: int = 0,
        until: int | None = None,
        above: int = 0,
        limit: int | None = None,
        latest: bool = False,
    ) -> tuple[Commit, ...]:
        """The commits that wrote to the table, in their order, those whose place (``sequence``) is
        above ``after`` and not above ``until``, and whose write id is above ``above``; the last
        ones first where ``latest``. Commits of Hive's own are missing.

        Raises: NotFoundError: no such table.
        """

    def unrecorded(self, table: TableName) -> tuple[UnrecordedCommit, ...]:
        """The commits that wrote to the table and were not recorded (those of Hive), as far as
        Hive's tables know them still, the last first.

        Raises: NotFoundError: no such table.
        """

    def commits_of(self, txn: TxnId) -> tuple[Commit, ...]:
        """The parts of a transaction's commit, a table each; none where none was recorded.

        Raises: NotFoundError: a table that it wrote to was dropped.
        """

    def version(
        self,
        table: TableName,
        *,
        write_id: int | None = None,
        time_ms: int | None = None,
        sequence: int | None = None,
    ) -> Version:
        """The table just after the write id committed, or after the last commit to it up to a time
        or a place. Write id 0 is the table before its first commit. Whether the files are there
        still is another question.

        Raises: NotFoundError: no such table; the write id was not given out or not committed; the
        time is before the first commit that was recorded, and there was one before.
        """

    def latest(self, tables: Sequence[TableName]) -> tuple[Version, ...]:
        """The tables as they are, all at one moment.

        Raises: NotFoundError: no such table.
        """

    def pins(self, table: TableName | None = None, *, in_force: bool = False) -> tuple[Pin, ...]:
        """The pins of a table, or of all; with ``in_force`` those of it that have not expired."""

    def add_pins(self, pins: Sequence[Pin], *, keep_ms: int | None = None) -> tuple[Pin, ...]:
        """Make all of these pins or none, to expire after ``keep_ms``; one takes the place of an
        expired one of its name. Cleaners keep their files from now
        on; readers rely on them once they are confirmed.

        Raises: NotFoundError: no such table. AlreadyExistsError: there is one of that name.
        """

    def confirm_pins(self, pins: Sequence[Pin]) -> tuple[Pin, ...]:
        """Let readers rely on them: their files were there after the pins were made.

        Raises: NotFoundError: no such table.
        """

    def move_consumers(self, moves: Sequence[ConsumerMove]) -> None:
        """Let consumers go on, all of them or none. A pin that readers could rely on up to now is
        one that they can rely on afterwards, for its time begins anew; another is to be confirmed.

        Raises: ConflictError: a pin is gone, or not the one that was read from.
        """

    def drop_pins(self, pins: Sequence[Pin]) -> int:
        """Forget them; how many there were.

        Raises: NotFoundError: no such table.
        """

    def floors(self, table: TableName) -> Mapping[str, Floor]:
        """By the names of partitions (an empty one for a table without) what cleaners have begun to
        remove.

        Raises: NotFoundError: no such table.
        """

    def note_floor(self, table: TableName, partition: str | None, floor: Floor) -> None:
        """What a cleaner is about to remove besides; nothing happens where the table is gone."""

    def sequence_of(self, *, txn: TxnId | None = None, time_ms: int | None = None) -> int | None:
        """The place of a transaction's commit, or of the last commit up to a time; None where none
        was recorded.
        """

    def last_batches(self, app_id: str) -> tuple[StreamBatch, ...]:
        """The stream's last micro-batch in each table that has one, also in those dropped."""
