"""What a metastore does for compactions, as a protocol; it is a part of ``Metastore``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from hiveacid.model.compactions import (
    CompactionAnswer,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionType,
)
from hiveacid.model.ids import TxnId, WriteId
from hiveacid.model.tables import TableName
from hiveacid.model.valid import ValidTxnList


class CompactionQueue(Protocol):
    """Requests for compactions, who works on them, what became of them (metastore.md 4).

    An entry goes from hand to hand: ``compact`` -> ``find_next_compaction`` ->
    ``set_compactor_txn`` -> ``mark_compacted`` -> (commit of its transaction) ->
    ``find_ready_to_clean`` -> ``mark_cleaned``.
    """

    def compact(self, request: CompactionRequest) -> CompactionAnswer:
        """Enqueue, unless one is on its way for the same object (metastore.md 4.2)."""

    def show_compactions(
        self, *, compaction: CompactionId | None = None, table: TableName | None = None
    ) -> tuple[CompactionInfo, ...]:
        """Queue and history, in the order of SHOW COMPACTIONS (metastore.md 4.8)."""

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
        run_as: str | None = None,
    ) -> None:
        """Note the worker's transaction and what it sees (Hive's update_compactor_state).

        Raises: MetastoreError: the entry is not being worked on.
        """

    def mark_compacted(self, compaction: CompactionId) -> None:
        """Its result is published: ready for cleaning once its transaction is committed."""

    def mark_failed(self, compaction: CompactionInfo, error: str) -> None:
        """Move to the history as failed; one that never was in the queue, as not initiated.

        Raises: MetastoreError: no such entry.
        """

    def mark_refused(self, compaction: CompactionInfo, reason: str) -> None:
        """Move to the history as refused."""

    def mark_cleaned(
        self, compaction: CompactionInfo, *, aborted_write_ids: Collection[WriteId] | None = None
    ) -> None:
        """Move to the history as succeeded, forget what it has settled (metastore.md 4.5).

        ``aborted_write_ids`` are those that may be forgotten; None stands for all aborted ones up
        to its highest write id.
        """

    def retry_cleaning(self, compaction: CompactionInfo, error: str) -> None:
        """Cleaning failed: try again later, each time after twice as long, then mark as failed."""

    def abort_compactions(
        self, compactions: Collection[CompactionId]
    ) -> Mapping[CompactionId, tuple[str, str]]:
        """Take requests out of the queue that nobody works on yet; for each id Success or Error
        and a message, as ABORT COMPACTIONS prints them."""

    def find_potential_compactions(
        self, *, since_ms: int | None = None
    ) -> tuple[tuple[TableName, str | None], ...]:
        """Tables and partitions written to (lately), or whose newest compaction failed."""

    def find_too_many_aborts(
        self, *, threshold: int, age_ms: int
    ) -> tuple[tuple[TableName, str | None, CompactionType], ...]:
        """What aborted transactions left: over ``threshold`` of them calls for MAJOR, one older
        than ``age_ms`` (not where negative) for MINOR."""

    def is_blocked_by_failures(self, table: TableName, partition: str | None) -> bool:
        """Whether the last attempts all failed, too short a while ago to try again."""

    def find_ready_to_clean(self) -> tuple[CompactionInfo, ...]:
        """Compactions whose inputs no open transaction can need any more (metastore.md 4.5)."""

    def find_aborts_to_clean(self, *, threshold: int, age_ms: int) -> tuple[CompactionInfo, ...]:
        """Tables and partitions with files of aborted transactions, as entries of type
        ABORT_TXN_CLEANUP."""

    def cleaner_txns(self, compaction: CompactionInfo) -> ValidTxnList:
        """The transactions as a cleaner must see them: what nobody can need is aborted or valid,
        all above the oldest reader is not there yet."""

    def note_cleaning(self, compaction: CompactionInfo, *, started: bool) -> None:
        """Stamp, or take back the stamp of, the cleaner's start."""

    def revoke_workers(self, *, host: str | None = None, older_than_ms: int | None = None) -> int:
        """Give back to the queue what dead workers hold: all of a host (as it starts), or all that
        began too long ago; the number given back."""

    def purge_compaction_history(self) -> None:
        """Keep the newest entries of each kind of each object (metastore.md 4.6)."""
