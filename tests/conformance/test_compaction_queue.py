"""The queue of compactions on both databases: claims, order, pools, what ends how, the history."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.conformance.compaction_steps import (
    HOUR_MS,
    MAJOR,
    NAME,
    State,
    begin,
    claim,
    entry_of,
    request,
    work,
    write,
)
from tests.metastores import table_rows

from hiveacid.errors import InvalidInputError, MetastoreError
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionId,
    CompactionRequest,
    CompactionType,
)
from hiveacid.model.tables import Column, Database, Table, TableName, WriteId
from hiveacid.model.transactions import TxnType
from hiveacid.model.types import parse_type
from hiveacid.testing import ManualClock


def test_workers_at_once_never_get_the_same_entry(queue: SqlMetastore) -> None:
    wanted = {request(queue, f"p={number}") for number in range(40)}
    together = threading.Barrier(4)

    def work(name: str) -> list[CompactionId]:
        together.wait()
        claimed = []
        while (found := queue.find_next_compaction(name)) is not None:
            claimed.append(found.id)
        return claimed

    with ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(work, ["a", "b", "c", "d"]))
    everything = [one for each in claimed for one in each]
    assert len(everything) == 40
    assert set(everything) == wanted
    assert all(
        entry_of(queue, one).worker == "abcd"[at] for at, e in enumerate(claimed) for one in e
    )


def test_requests_at_once_for_one_object_make_one_entry(queue: SqlMetastore) -> None:
    together = threading.Barrier(4)

    def ask(_: int) -> bool:
        together.wait()
        return queue.compact(CompactionRequest(NAME, None, MAJOR)).accepted

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert sorted(answers) == [False, False, False, True]
    assert len(queue.show_compactions()) == 1


def test_the_oldest_request_comes_first(queue: SqlMetastore) -> None:
    ids = [request(queue, f"p={one}") for one in "zax"]
    assert [claim(queue).id for _ in ids] == ids
    assert queue.find_next_compaction("host-1") is None


def test_a_claim_carries_what_was_asked_for(queue: SqlMetastore, clock: ManualClock) -> None:
    request = CompactionRequest(
        NAME,
        "p=1",
        CompactionType.REBALANCE,
        properties={"compactor.x": "ä:1", "tblprops.orc.compress": "ZLIB"},
        pool="big",
        buckets=4,
        order_by="a desc",
        initiator="host-manual",
        run_as="ann",
    )
    asked_ms = clock.now_ms()
    queue.compact(request)
    clock.advance_ms(5)
    found = queue.find_next_compaction("host-7", version="9.9", pool="big")
    assert found is not None
    assert found.properties == request.properties
    assert (found.table, found.partition, found.type) == (NAME, "p=1", CompactionType.REBALANCE)
    assert (found.pool, found.buckets, found.order_by) == ("big", 4, "a desc")
    assert (found.initiator, found.run_as) == ("host-manual", "ann")
    assert (found.worker, found.worker_version, found.state) == ("host-7", "9.9", State.WORKING)
    assert (found.enqueued_ms, found.started_ms) == (asked_ms, asked_ms + 5)


def test_what_the_queue_has_no_room_for_is_refused(queue: SqlMetastore) -> None:
    with pytest.raises(InvalidInputError, match=r"properties of a compaction .* 2048 characters"):
        queue.compact(CompactionRequest(NAME, None, MAJOR, properties={"k": "v" * 3000}))
    with pytest.raises(InvalidInputError, match="pool"):
        queue.compact(CompactionRequest(NAME, None, MAJOR, pool="p" * 129))


def test_pools_keep_to_themselves_until_they_wait_too_long(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    big = request(queue, "p=1", pool="big")
    plain = request(queue, "p=2")
    assert queue.find_next_compaction("w", pool="other") is None
    assert claim(queue, pool="big").id == big
    assert queue.find_next_compaction("w", pool="big") is None
    assert claim(queue).id == plain
    waits = request(queue, "p=3", pool="big")
    assert queue.find_next_compaction("w") is None
    clock.advance_ms(12 * HOUR_MS + 1)
    assert claim(queue).id == waits


def test_show_has_what_waits_first_then_the_latest(queue: SqlMetastore, clock: ManualClock) -> None:
    first, second, third, fourth = (request(queue, f"p={n}") for n in range(4))
    clock.advance_ms(10)
    queue.mark_failed(claim(queue), "broken")
    clock.advance_ms(10)
    claim(queue)
    assert [one.id for one in queue.show_compactions()] == [third, fourth, second, first]
    other = request(queue, table=TableName("default", "other"))
    assert other not in [one.id for one in queue.show_compactions(table=NAME)]


def test_abort_compactions_says_what_became_of_each(queue: SqlMetastore) -> None:
    working = request(queue, "p=1")
    claim(queue)
    waiting = request(queue, "p=2")
    failed = request(queue, "p=3", pool="x")
    queue.mark_failed(claim(queue, pool="x"), "broken")
    answers = queue.abort_compactions([waiting, working, failed, CompactionId(99)])
    assert answers == {
        working: ("Error", "Error while aborting compaction as compaction is in state-working"),
        waiting: ("Success", "Successfully aborted compaction"),
        failed: ("Error", "Error while aborting compaction as compaction is in state-failed"),
        99: ("Error", "No Such Compaction Id Available"),
    }
    assert entry_of(queue, waiting).state is State.ABORTED
    assert queue.find_next_compaction("w") is None


def test_the_history_keeps_the_newest_of_each_kind(queue: SqlMetastore) -> None:
    for _ in range(3):
        for partition in ("p=1", "p=2"):
            request(queue, partition)
            queue.mark_refused(claim(queue), "nothing to do")
    for _ in range(4):
        queue.abort_compactions([request(queue, "p=1")])
    queue.run_housekeeping(interval_s=0)
    left = [(one.partition, one.state, one.id) for one in queue.show_compactions()]
    assert sorted((partition, one) for partition, state, one in left if state is State.REFUSED) == [
        ("p=1", 3),
        ("p=1", 5),
        ("p=2", 4),
        ("p=2", 6),
    ]
    assert [one for _, state, one in left if state is State.ABORTED] == [9, 10]


def test_nothing_is_cleaned_before_it_is_committed(queue: SqlMetastore, clock: ManualClock) -> None:
    entry, txn = work(queue)
    clock.advance_ms(2000)
    assert queue.find_ready_to_clean() == ()
    assert [one.id for one in queue.find_ready_to_clean(uncommitted=True)] == [entry.id]
    queue.commit_txn(txn)
    assert queue.find_ready_to_clean() == (), "ids up to the commit's may turn up for a second"
    clock.advance_ms(1001)
    (ready,) = queue.find_ready_to_clean()
    assert (ready.id, ready.txn, ready.next_txn) == (entry.id, txn, txn)
    assert ready.committed_ms == clock.now_ms() - 1001


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("history", [True, False])
def test_a_reader_that_may_need_the_inputs_keeps_them(
    metastore_url: str, clock: ManualClock, when: str, history: bool
) -> None:
    options = MetastoreOptions(durable=False, server_time=False, use_min_history_level=history)
    with connect(metastore_url, clock=clock, options=options) as queue:
        before = begin(queue, TxnType.READ_ONLY) if when == "before" else None
        _, txn = work(queue)
        reader = before or begin(queue, TxnType.READ_ONLY)
        queue.commit_txn(txn)
        clock.advance_ms(5000)
        after = begin(queue, TxnType.READ_ONLY)
        assert queue.find_ready_to_clean() == ()
        queue.commit_txn(reader)
        (ready,) = queue.find_ready_to_clean()
        seen = queue.cleaner_txns(ready)
        assert seen.is_valid(txn), "who reads now sees the result"
        assert seen.hwm < after
        assert seen.open == ()


@pytest.mark.parametrize("history", [True, False])
def test_a_cleaner_does_not_see_a_later_compaction_that_a_reader_does_not(
    metastore_url: str, clock: ManualClock, history: bool
) -> None:
    options = MetastoreOptions(durable=False, server_time=False, use_min_history_level=history)
    with connect(metastore_url, clock=clock, options=options) as queue:
        _, txn = work(queue, highest=5)
        queue.commit_txn(txn)
        clock.advance_ms(2000)
        write(queue)
        later, later_txn = work(queue, highest=9)
        reader = begin(queue, TxnType.READ_ONLY)
        queue.commit_txn(later_txn)
        clock.advance_ms(2000)
        (ready,) = queue.find_ready_to_clean()
        assert ready.txn == txn
        seen = queue.cleaner_txns(ready)
        assert seen.is_valid(txn)
        assert not seen.is_valid(later_txn)
        queue.mark_cleaned(ready)
        assert queue.find_ready_to_clean() == ()
        queue.commit_txn(reader)
        assert [one.id for one in queue.find_ready_to_clean()] == [later.id]


def test_of_one_object_the_compaction_that_saw_least_is_cleaned_first(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    first, txn = work(queue, highest=5)
    queue.commit_txn(txn)
    second, txn = work(queue, highest=7)
    queue.commit_txn(txn)
    other, txn = work(queue, "p=1", highest=9)
    queue.commit_txn(txn)
    clock.advance_ms(2000)
    ready = queue.find_ready_to_clean()
    assert [one.id for one in ready] == [first.id, other.id]
    queue.retry_cleaning(ready[0], "no permission")
    assert [one.id for one in queue.find_ready_to_clean()] == [second.id, other.id], "not starved"


def test_a_failed_cleaning_is_tried_again_ever_later(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    entry, txn = work(queue)
    queue.commit_txn(txn)
    clock.advance_ms(HOUR_MS)
    for pause_ms in (1_000, 2_000, 4_000, 8_000, 16_000):
        (ready,) = queue.find_ready_to_clean()
        queue.retry_cleaning(ready, "no permission")
        clock.advance_ms(pause_ms)
        assert queue.find_ready_to_clean() == ()
        clock.advance_ms(1)
    (ready,) = queue.find_ready_to_clean()
    queue.retry_cleaning(ready, "no permission at all")
    failed = entry_of(queue, entry.id)
    assert (failed.state, failed.error) == (State.FAILED, "no permission at all")


def test_a_rebalance_is_stamped_too(queue: SqlMetastore, clock: ManualClock) -> None:
    request(queue, kind=CompactionType.REBALANCE)
    entry, txn = claim(queue), begin(queue, TxnType.REBALANCE_COMPACTION)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
    queue.mark_compacted(entry.id, txn=txn)
    queue.commit_txn(txn)
    found = entry_of(queue, entry.id)
    assert (found.next_txn, found.committed_ms) == (txn, clock.now_ms())


def test_what_aborted_writers_left_is_found_retried_and_forgotten(
    queue: SqlMetastore, clock: ManualClock
) -> None:
    txns = queue.open_txns(3, user="u", host="h")
    given = queue.allocate_write_ids(txns, NAME)
    for txn in txns:
        queue.add_dynamic_partitions(txn, given[txn], NAME, ["p=1"], None)
    queue.abort_txns(txns[:2])
    assert queue.find_aborts_to_clean(threshold=2, age_ms=-1) == ()
    (found,) = queue.find_aborts_to_clean(threshold=1, age_ms=-1)
    assert (found.table, found.partition, found.id) == (NAME, "p=1", NO_COMPACTION)
    assert found.type is CompactionType.ABORT_TXN_CLEANUP
    assert queue.cleaner_txns(found).hwm == txns[2] - 1, "below the oldest writer"
    queue.retry_cleaning(found, "no permission")
    assert queue.find_aborts_to_clean(threshold=1, age_ms=-1) == ()
    clock.advance_ms(1001)
    (again,) = queue.find_aborts_to_clean(threshold=1, age_ms=-1)
    assert (again.error, again.retry_retention_ms) == ("no permission", 1000)
    queue.mark_cleaned(again, aborted_write_ids=[given[txns[0]]])
    assert queue.show_compactions() == ()
    (rest,) = queue.find_aborts_to_clean(threshold=0, age_ms=-1)
    queue.mark_cleaned(rest, aborted_write_ids=[given[txns[1]], given[txns[2]]])
    assert queue.find_aborts_to_clean(threshold=0, age_ms=-1) == ()
    left = [row["TC_TXNID"] for row in table_rows(queue, "TXN_COMPONENTS")]
    assert left == [txns[2]], "what is open is never forgotten"


def test_a_failed_compaction_is_forgotten_apart_from_writers(queue: SqlMetastore) -> None:
    (writer,) = queue.open_txns(1, user="u", host="h")
    given = queue.allocate_write_ids([writer], NAME)
    queue.add_dynamic_partitions(writer, given[writer], NAME, [None], None)
    queue.abort_txn(writer)
    _, failed = work(queue, highest=given[writer])
    queue.abort_txn(failed)
    entry, txn = claim(queue), begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=given[writer])
    queue.mark_compacted(entry.id, txn=txn)
    queue.commit_txn(txn)

    def known() -> set[int]:
        return {row["TC_TXNID"] for row in table_rows(queue, "TXN_COMPONENTS")}

    assert known() == {writer, failed}
    queue.mark_cleaned(entry_of(queue, entry.id))
    assert known() == {failed}, "its result may be there still"
    (rest,) = queue.find_aborts_to_clean(threshold=0, age_ms=-1)
    queue.mark_cleaned(rest, aborted_write_ids=[given[writer]], failed_compactions=[writer])
    assert known() == {failed}
    queue.mark_cleaned(rest, aborted_write_ids=[], failed_compactions=[failed, 99])
    assert known() == set()


def test_cleaned_twice_counts_once(queue: SqlMetastore) -> None:
    entry, txn = work(queue)
    queue.commit_txn(txn)
    queue.mark_cleaned(entry_of(queue, entry.id))
    before = queue.show_compactions()
    queue.mark_cleaned(entry)
    assert queue.show_compactions() == before
    assert [one.state for one in before] == [State.SUCCEEDED]


def test_entries_go_with_their_table_and_are_renamed_with_it(queue: SqlMetastore) -> None:
    queue.create_database(Database("default", "/w"), if_not_exists=True)
    table = Table(NAME, (Column("a", parse_type("int")),), "/w/t")
    queue.create_table(table)
    request(queue)
    queue.mark_refused(claim(queue), "no")
    request(queue)
    entry, renamed = claim(queue), TableName("default", "renamed")
    queue.alter_table(NAME, lambda now: Table(renamed, now.columns, now.location))
    assert {one.table for one in queue.show_compactions()} == {renamed}
    assert len(queue.show_compactions(table=renamed)) == 2
    txn = begin(queue)
    queue.set_compactor_txn(entry.id, txn, highest_write_id=WriteId(1))
    queue.drop_table(renamed)
    assert queue.show_compactions() == ()
    with pytest.raises(MetastoreError, match="its table was dropped"):
        queue.mark_compacted(entry.id, txn=txn)


def test_a_turn_is_taken_once_in_an_interval(
    metastore_url: str, queue: SqlMetastore, clock: ManualClock
) -> None:
    with connect(metastore_url, clock=clock, options=queue.database.options) as other:
        first = queue.begin_cycle("Initiator", interval_s=10)
        assert first is not None
        assert first > 10_000
        assert other.begin_cycle("Initiator", interval_s=10) is None
        assert other.begin_cycle("Cleaner", interval_s=10) is not None
        clock.advance_ms(10_500)
        assert other.begin_cycle("Initiator", interval_s=10) == 10_500
        assert queue.begin_cycle("Initiator", interval_s=10) is None
        clock.advance_ms(-500)  # the time of one that began before and waited for the row
        assert queue.begin_cycle("Initiator", interval_s=10) is None
