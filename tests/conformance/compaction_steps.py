"""A queue of compactions and what its tests do to it: request, claim, write, begin, work."""

from __future__ import annotations

from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.compactions import (
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import TableName, TxnId, WriteId
from hiveacid.model.transactions import TxnType

NAME = TableName("default", "t")
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
State = CompactionState
HOUR_MS = 3_600_000


def request(
    queue: SqlMetastore,
    partition: str | None = None,
    *,
    table: TableName = NAME,
    kind: CompactionType = MAJOR,
    pool: str | None = None,
) -> CompactionId:
    answer = queue.compact(CompactionRequest(table, partition, kind, pool=pool))
    assert answer.accepted
    return answer.id


def claim(queue: SqlMetastore, worker: str = "host-1", **pool: str) -> CompactionInfo:
    found = queue.find_next_compaction(worker, **pool)
    assert found is not None
    return found


def write(queue: SqlMetastore, table: TableName = NAME) -> None:
    (txn,) = queue.open_txns(1, user="u", host="h")
    queue.allocate_write_ids([txn], table)
    queue.commit_txn(txn)


def begin(queue: SqlMetastore, kind: TxnType = TxnType.COMPACTION) -> TxnId:
    (txn,) = queue.open_txns(1, user="u", host="h", txn_type=kind)
    return txn


def work(
    queue: SqlMetastore, partition: str | None = None, *, highest: int = 1
) -> tuple[CompactionInfo, TxnId]:
    """An entry whose result is published, its transaction open."""
    request(queue, partition)
    entry = claim(queue)
    txn = begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(highest))
    queue.mark_compacted(entry.id, txn=txn)
    return entry, txn


def entry_of(queue: SqlMetastore, compaction: CompactionId) -> CompactionInfo:
    (found,) = queue.show_compactions(compaction=compaction)
    return found
