"""What becomes of a compaction whose worker is lost, gives it back, or wakes up too late."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.conformance.compaction_steps import (
    State,
    begin,
    claim,
    entry_of,
    request,
)

from hiveacid.errors import MetastoreError, NotFoundError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.compactions import (
    CompactionId,
)
from hiveacid.model.tables import WriteId
from hiveacid.model.transactions import TxnType
from hiveacid.testing import ManualClock


@pytest.mark.parametrize("published", [False, True])
def test_an_entry_whose_worker_is_gone_waits_again(queue: SqlMetastore, published: bool) -> None:
    request(queue)
    entry, txn = claim(queue), begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
    if published:
        queue.mark_compacted(entry.id, txn=txn)
    queue.abort_txn(txn)
    given_back = entry_of(queue, entry.id)
    assert (given_back.state, given_back.worker, given_back.txn) == (State.INITIATED, None, None)
    assert claim(queue, "host-2").id == entry.id
    with pytest.raises(MetastoreError, match="by another worker"):  # the first one wakes up
        queue.mark_compacted(entry.id, txn=txn)
    with pytest.raises(NotFoundError, match="No record with CQ_ID=1 "):
        queue.mark_failed(entry, "late")
    assert entry_of(queue, entry.id).worker == "host-2"


def test_who_lost_an_entry_takes_nothing_from_who_has_it(queue: SqlMetastore) -> None:
    """Neither while the other one works, nor when that one has marked it."""
    request(queue)
    lost, txn = claim(queue), begin(queue)
    queue.set_compactor_txn(lost.id, txn, highest_write_id=WriteId(1), worker=lost.worker)
    queue.abort_txn(txn)
    claim(queue, "host-2")
    with pytest.raises(MetastoreError, match="by another worker"):
        queue.set_compactor_txn(lost.id, txn, highest_write_id=WriteId(1), worker=lost.worker)
    others = begin(queue)
    queue.set_compactor_txn(lost.id, others, highest_write_id=WriteId(1), worker="host-2")
    queue.mark_compacted(lost.id, txn=others)
    for entry in (lost, replace(lost, txn=txn)):
        with pytest.raises(NotFoundError, match="No record with CQ_ID=1 "):
            queue.mark_failed(entry, "late")
    queue.commit_txn(others)
    assert entry_of(queue, lost.id).state is State.READY_FOR_CLEANING


def test_who_has_marked_an_entry_may_still_fail(queue: SqlMetastore) -> None:
    request(queue)
    entry, txn = claim(queue), begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1), worker=entry.worker)
    queue.mark_compacted(entry.id, txn=txn)
    queue.mark_failed(replace(entry, txn=txn), "commit refused")
    assert entry_of(queue, entry.id).error == "commit refused"


def test_an_entry_that_costs_too_many_workers_fails(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    wanted = request(queue)
    for lost in range(3):
        entry, txn = claim(queue), begin(queue)
        queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
        queue.abort_txn(txn)  # it gave up by itself, which does not count
        entry, txn = claim(queue), begin(queue)
        queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
        assert entry_of(queue, wanted).retry_retention_ms == lost
        clock.advance_ms(300_001)
        assert queue.perform_timeouts() == (txn,)
    failed = entry_of(queue, wanted)
    assert failed.state is State.FAILED
    assert failed.error == "3 workers were lost while they worked on it"


def test_lost_workers_count_no_more_once_it_is_done(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    request(queue)
    claim(queue)
    clock.advance_ms(1000)
    assert queue.revoke_workers(without_txn_ms=999) == 1
    entry, txn = claim(queue), begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
    queue.mark_compacted(entry.id, txn=txn)
    assert entry_of(queue, entry.id).retry_retention_ms == 0


def test_an_aborted_transaction_of_another_kind_touches_no_entry(queue: SqlMetastore) -> None:
    request(queue)
    entry, txn = claim(queue), begin(queue, TxnType.DEFAULT)
    queue.abort_txn(txn)
    assert entry_of(queue, entry.id).state is State.WORKING


def test_workers_are_revoked_by_host_and_age(queue: SqlMetastore, clock: ManualClock) -> None:
    for partition, worker in (("p=1", "ha-1"), ("p=2", "hab-1"), ("p=3", "h%-1"), ("p=4", "hc-1")):
        request(queue, partition)
        claim(queue, worker)
    assert queue.revoke_workers(host="ha") == 1
    assert queue.revoke_workers(host="h%") == 1
    clock.advance_ms(1000)
    queue.set_compactor_txn(CompactionId(4), begin(queue), highest_write_id=WriteId(1))
    assert queue.revoke_workers(without_txn_ms=999) == 1
    assert [one.worker for one in queue.show_compactions() if one.state is State.WORKING] == [
        "hc-1"
    ]
    assert queue.revoke_workers(older_than_ms=1001) == 0
    assert queue.revoke_workers(older_than_ms=999) == 1
