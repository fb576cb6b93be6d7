"""The initiator: what it asks for, what it leaves alone, and how often it looks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.compaction.world import MAJOR, MINOR, FilesThrough, World

from hiveacid.compaction.initiator import Initiator, Verdict
from hiveacid.compaction.worker import Outcome
from hiveacid.errors import StorageError
from hiveacid.model.compactions import CompactionState, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileInfo, FileSystem

State = CompactionState
FEW = Settings(
    retention_s=7 * 86400.0,
    lock_timeout_s=1,
    compactor_delta_num_threshold=2,
    compactor_delta_pct_threshold=1000.0,
)
"""More than two deltas are too many; no base is ever too small."""
NAME = TableName("default", "t")


@pytest.fixture
def few(world_with: Callable[..., World]) -> World:
    """A world with an empty table ``t`` on each kind of database, and thresholds soon met."""
    made = world_with(FEW)
    made.make()
    return made


def _initiator(world: World, settings: Settings | None = None) -> Initiator:
    client = world.connect()
    if settings is not None:
        client.use_settings(settings)
    return Initiator(client, name="host-1-initiator")


def _asked(verdicts: tuple[Verdict, ...]) -> list[tuple[str, str | None, CompactionType | None]]:
    return [(one.table.table, one.partition, one.decision.type) for one in verdicts]


def _write(world: World, times: int, table: str = "t", **values: str) -> None:
    for number in range(times):
        world.insert(number, table=table, **values)


def test_too_many_deltas_are_asked_for_once_and_compacted(few: World) -> None:
    _write(few, 2)
    (verdict,) = _initiator(few).run_cycle()
    assert verdict.decision.type is None
    assert (
        verdict.decision.reason == "2 deltas, not more than 2; no base to compare their bytes with"
    )
    _write(few, 1)
    (verdict,) = _initiator(few).run_cycle()
    assert (verdict.decision.type, verdict.compaction) == (MAJOR, 1)
    (again,) = _initiator(few).run_cycle()
    assert again.decision.reason == "compaction 1 is initiated"
    (entry,) = few.entries()
    assert (entry.type, entry.initiator) == (MAJOR, "host-1-initiator")
    result = few.worker().run_next()
    assert result is not None
    assert result.outcome is Outcome.COMPACTED
    _write(few, 3)
    (verdict,) = _initiator(few).run_cycle()
    assert (verdict.decision.type, verdict.decision.reason) == (MINOR, "3 deltas, more than 2")


def test_a_base_whose_cleaning_waits_is_not_asked_for_again(few: World) -> None:
    few.make("p", "partitioned by (k string) stored as orc tblproperties ('transactional'='true')")
    for _ in range(2):
        _write(few, 2, "p", k="a")
        few.compact(MAJOR, "p", "k=a")
    _write(few, 1, "p", k="b")
    found = {one.partition: one.decision for one in _initiator(few).run_cycle()}
    assert found["k=a"].type is None, "the old base stays for a week"
    for entry in few.entries("p"):
        few.client.metastore.mark_cleaned(replace(entry, highest_write_id=None))
    found = {one.partition: one.decision for one in _initiator(few).run_cycle()}
    assert found["k=a"].reason == "a base that nobody needs waits to be cleaned"


def test_initiators_at_once_ask_once(few: World) -> None:
    few.make("p", "partitioned by (k string) stored as orc tblproperties ('transactional'='true')")
    for key in ("a", "b", "c"):
        _write(few, 3, "p", k=key)
    initiators = [_initiator(few) for _ in range(3)]
    together = threading.Barrier(3)

    def run(one: Initiator) -> int:
        together.wait()
        return sum(verdict.compaction is not None for verdict in one.run_cycle())

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(run, initiators)) == 3
    assert sorted(str(one.partition) for one in few.entries("p")) == ["k=a", "k=b", "k=c"]


def test_services_share_the_turns(few: World) -> None:
    first, second = _initiator(few), _initiator(few)
    _write(few, 3)
    assert _asked(first.run_if_due()) == [("t", None, MAJOR)]
    assert second.run_if_due() == ()
    few.clock.advance_ms(301_000)
    assert len(second.run_if_due()) == 1, "its own first look is a full one"
    few.clock.advance_ms(301_000)
    assert second.run_if_due() == (), "nothing was written since"
    few.make("u")
    _write(few, 1, "u")
    few.clock.advance_ms(301_000)
    assert _asked(first.run_if_due()) == [("u", None, None)]
    few.clock.advance_ms(3_600_000)
    assert [name for name, _, _ in _asked(first.run_if_due())] == ["t", "u"], "all, once an hour"


def test_after_a_commit_only_that_table_is_looked_at(few: World) -> None:
    few.make("u")
    _write(few, 3)
    _write(few, 3, "u")
    few.clock.advance_ms(1_000)
    initiator = _initiator(few)
    assert _asked(initiator.look_at([NAME])) == [("t", None, MAJOR)]
    few.clock.advance_ms(20_000)
    assert initiator.look_at([NAME]) == (), "looked at already"
    _write(few, 1)
    assert [one.table for one in initiator.look_at([NAME])] == [NAME]


def test_one_broken_candidate_does_not_stop_the_others(few: World) -> None:
    few.make("b")
    wrong = {"compactorthreshold.hive.compactor.delta.num.threshold": "many"}  # Hive's ALTER TABLE
    few.client.metastore.alter_table(
        few.acid.table("b").name,
        lambda now: replace(now, properties={**now.properties, **wrong}),
    )
    _write(few, 3, "b")
    _write(few, 3)
    verdicts = _initiator(few).run_cycle()
    assert _asked(verdicts) == [("b", None, None), ("t", None, MAJOR)]
    (entry,) = few.entries("b")
    assert entry.state is State.DID_NOT_INITIATE
    assert "num.threshold' is a whole number, not negative: 'many'" in str(entry.error)
    assert entry.initiator == "host-1-initiator"


class _Unlisted(FileSystem):
    """The directory of the table t cannot be listed."""

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        if path.endswith("/t"):
            raise StorageError("no permission", path=path)
        return super().list_recursive(path)


def test_a_directory_that_cannot_be_listed_is_reported(few: World) -> None:
    few.make("u")
    _write(few, 3)
    _write(few, 3, "u")
    files = FilesThrough(_Unlisted("/"))
    initiator = Initiator(few.connect(files), name="host-1-initiator")
    assert _asked(initiator.run_cycle()) == [("t", None, None), ("u", None, MAJOR)]
    assert [one.error for one in few.entries()] == ["no permission"]


def test_two_failures_keep_it_away_for_a_week(few: World) -> None:
    _write(few, 3)
    store = few.client.metastore
    for _ in range(2):
        _initiator(few).run_cycle()
        claimed = store.find_next_compaction("host-1")
        assert claimed is not None
        store.mark_failed(claimed, "disk full")
    (verdict,) = _initiator(few).run_cycle()
    assert verdict.decision.reason == "its last compactions failed"
    assert few.states()[-1] is State.DID_NOT_INITIATE
    few.clock.advance_ms(7 * 86_400_000 + 1)
    (verdict,) = _initiator(few).run_cycle()
    assert verdict.decision.type is MAJOR


def test_major_compactions_begin_in_their_hours(few: World) -> None:
    settings = replace(FEW, compactor_delta_pct_threshold=0.0, compactor_offpeak="23-4")
    _write(few, 3)
    _initiator(few).run_cycle()
    few.worker().run_next()
    few.insert(9)
    (verdict,) = _initiator(few, settings).run_cycle()  # at 22:13
    assert verdict.decision.type is None
    assert verdict.decision.reason.endswith("; major compactions wait for the hours 23-4")
    few.clock.advance_ms(3_600_000)
    (verdict,) = _initiator(few, settings).run_cycle()
    assert verdict.decision.type is MAJOR


def test_the_pool_is_the_tables_or_the_databases(few: World) -> None:
    few.make(
        "b",
        "stored as orc tblproperties ('transactional'='true','hive.compactor.worker.pool'='big')",
    )
    _write(few, 3, "b")
    _write(few, 3)
    store = few.client.metastore
    pool = {"hive.compactor.worker.pool": "small"}
    store.alter_database("default", lambda now: replace(now, properties=pool))
    _initiator(few).run_cycle()
    assert [one.pool for one in (*few.entries("b"), *few.entries())] == ["big", "small"]


@pytest.mark.parametrize("after_a_commit", [False, True])
def test_dead_workers_are_relieved(few: World, after_a_commit: bool) -> None:
    few.request(MAJOR)
    assert few.client.metastore.find_next_compaction("host-9") is not None
    initiator = _initiator(few)

    def look() -> CompactionState:
        if after_a_commit:
            initiator.look_at([NAME])
        else:
            initiator.run_cycle()
        return few.states()[0]

    few.clock.advance_ms(300_000)  # the time-out of its transaction, ...
    assert look() is State.WORKING
    few.clock.advance_ms(1_500)  # ... and of its locks
    assert look() is (State.WORKING if after_a_commit else State.INITIATED)
    few.clock.advance_ms(300_000)
    assert look() is State.INITIATED


def test_explain_says_what_is_missing_and_asks_for_nothing(few: World) -> None:
    few.make("p", "partitioned by (k string) stored as orc tblproperties ('transactional'='true')")
    _write(few, 3, "p", k="a")
    _write(few, 1, "p", k="B")
    table = few.client.metastore.get_table(TableName("default", "p"))
    verdicts = _initiator(few).explain(table)
    assert [(one.partition, one.decision.type, one.decision.reason) for one in verdicts] == [
        ("k=B", None, "1 delta, not more than 2; no base to compare their bytes with"),
        ("k=a", MAJOR, "3 deltas, more than 2, and no base"),
    ]
    few.acid.sql("alter table p set tblproperties ('no_auto_compaction'='true')")
    table = few.client.metastore.get_table(table.name)
    (_, verdict) = _initiator(few).explain(table)
    assert verdict.decision.type is None
    assert (
        verdict.decision.reason == "it has no_auto_compaction; 3 deltas, more than 2, and no base"
    )
    assert few.entries("p") == []


def test_open_writers_are_not_counted(few: World) -> None:
    _write(few, 2)
    transaction = few.client.transactions.begin()
    transaction.write_id(NAME)
    _write(few, 2)
    (verdict,) = _initiator(few).run_cycle()
    assert verdict.decision.reason.startswith("2 deltas"), "a compaction ends below what is open"
    transaction.abort("enough")
    (verdict,) = _initiator(few).run_cycle()
    assert verdict.decision.type is MAJOR
