"""Consumers of changes: each change once, with the commit of what was made of it, whatever
compactions and cleaners did; files that no consumer needs go.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compaction.world import (
    ACID,
    DAY_MS,
    INSERT_ONLY,
    MAJOR,
    World,
    changed_at_random,
    cleaned,
)

from hiveacid import read_arrow, read_changes
from hiveacid.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
    UnsupportedError,
)
from hiveacid.model.history import PinKind
from hiveacid.session import Session
from hiveacid.settings import Settings

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "past", "storage", "txn"
)

KINDS = ["insert"] * 3 + ["delete"] * 2 + ["overwrite"]


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database; nothing is retained. ``t`` is read from, ``out`` is written to."""
    world = world_with()
    world.make()
    world.acid.sql(f"create table out (id int, change string, version bigint) {ACID}")
    return world


def _read(txn: Any, consumer: str = "crm", **asked: Any) -> list[tuple[int, str, int]]:
    """What the consumer gets, written to ``out`` in the same transaction."""
    found = txn.table("t").changes(consumer=consumer, **asked).to_pylist()
    rows = [(one["id"], one["_change_type"], one["_commit_version"]) for one in found]
    if rows:
        names = ("id", "change", "version")
        txn.table("out").write_arrow([dict(zip(names, one, strict=True)) for one in rows])
    return sorted(rows)


def _consumed(acid: Session, consumer: str = "crm", **asked: Any) -> list[tuple[int, str, int]]:
    with acid.transaction() as txn:
        return _read(txn, consumer, **asked)


def _written(acid: Session) -> list[tuple[int, str, int]]:
    found = read_arrow(acid.table("out")).read_all().to_pylist()
    return sorted((one["id"], one["change"], one["version"]) for one in found)


def _ids(acid: Session) -> list[int]:
    return sorted(read_arrow(acid.table("t"), columns=["id"]).read_all()["id"].to_pylist())


def test_a_consumer_goes_on_with_the_commit_of_what_it_wrote(made: World, acid: Session) -> None:
    made.insert(1, 2)
    with pytest.raises(NotFoundError, match=r"default\.t has no consumer crm"):
        _consumed(acid)
    assert _consumed(acid, since=0) == [(1, "insert", 1), (2, "insert", 1)]
    assert _consumed(acid) == []
    made.delete(1)
    with pytest.raises(ZeroDivisionError), acid.transaction() as txn:
        assert _read(txn) == [(1, "delete", 2)]
        raise ZeroDivisionError
    with acid.transaction() as txn:
        txn.savepoint("before")
        assert _read(txn) == [(1, "delete", 2)]
        txn.rollback_to("before")
    made.insert(3)
    assert _consumed(acid, until=2) == [(1, "delete", 2)]
    assert _consumed(acid, since=0) == [(3, "insert", 3)]  # where a new one would begin
    assert _written(acid) == [
        (1, "delete", 2),
        (1, "insert", 1),
        (2, "insert", 1),
        (3, "insert", 3),
    ]


def test_of_two_that_read_under_one_name_one_fails(made: World, acid: Session) -> None:
    made.insert(1)
    other = Session(made.connect())
    _consumed(acid, since=1)
    made.insert(2)
    with (
        pytest.raises(ConflictError, match="somebody else has read under its name") as raised,
        acid.transaction() as mine,
        other.transaction() as theirs,
    ):
        assert _read(mine) == _read(theirs) == [(2, "insert", 2)]
    assert raised.value.context["consumer"] == "crm"
    assert _written(acid) == [(2, "insert", 2)]
    assert _consumed(acid) == _consumed(other) == []


def test_who_sees_less_than_the_consumer_has_read_does_not_set_it_back(
    made: World, acid: Session
) -> None:
    made.insert(1)
    _consumed(acid, since=1)
    other = Session(made.connect())
    with (
        pytest.raises(ConflictError, match="after the transaction began"),
        acid.transaction() as late,
    ):
        assert read_arrow(late.table("t")).read_all().num_rows == 1
        made.insert(2)
        assert _consumed(other) == [(2, "insert", 2)]
        _read(late)
    assert _consumed(acid) == []


def test_two_consumers_of_a_transaction_go_on_together_or_not_at_all(
    made: World, acid: Session
) -> None:
    made.insert(1)
    other = Session(made.connect())
    for consumer in ("a", "b"):
        _consumed(acid, consumer, since=0)
    made.insert(2)
    with pytest.raises(ConflictError), acid.transaction() as txn:
        _read(txn, "a")
        _read(txn, "b")
        _consumed(other, "b")
    assert _consumed(acid, "a") == [(2, "insert", 2)]
    assert _consumed(acid, "b") == []


def test_commits_out_of_order_come_once(made: World, acid: Session) -> None:
    made.insert(1)
    _consumed(acid, since=1)
    other = Session(made.connect())
    with other.transaction() as late:
        late.table("t").write_arrow([{"id": 5, "v": "late"}])
        made.insert(6)
        assert _consumed(acid) == [(6, "insert", 3)]
        assert _consumed(acid) == []
    assert _consumed(acid) == [(5, "insert", 2)]
    assert _consumed(acid) == []
    made.insert(7)
    assert _consumed(acid) == [(7, "insert", 4)]


def test_a_write_that_was_aborted_and_forgotten_holds_nothing_back(
    world_with: Callable[..., World],
) -> None:
    made = world_with(Settings(retention_s=0, compactor_aborts_threshold=0))
    made.make()
    made.acid.sql(f"create table out (id int, change string, version bigint) {ACID}")
    with made.acid.transaction() as txn:
        txn.table("t").write_arrow([{"id": 0, "v": "aborted"}])
        txn.rollback()
    made.insert(1)
    cleaned(made)
    made.client.own.run_housekeeping(interval_s=0)
    other = Session(made.connect())
    with other.transaction() as late:
        late.table("t").write_arrow([{"id": 5, "v": "late"}])
        made.insert(6)
        found = _consumed(made.acid, since=0)
        assert found == [(1, "insert", 2), (6, "insert", 4)]
    assert _consumed(made.acid) == [(5, "insert", 3)]


def test_own_rows_come_with_the_next_transaction(made: World, acid: Session) -> None:
    made.insert(1)
    with acid.transaction() as txn:
        txn.table("t").write_arrow([{"id": 2, "v": "mine"}])
        assert _read(txn, since=0) == [(1, "insert", 1)]
    assert _consumed(acid) == [(2, "insert", 2)]


def test_outside_of_a_transaction_it_moves_after_the_last_batch(made: World, acid: Session) -> None:
    made.insert(1)
    table = acid.table("t")
    with pytest.raises(InvalidInputError, match="no part of a transaction that writes"):
        table.changes(consumer="crm", since=0)
    assert acid.show_consumers() == ()
    reader = read_changes(table, consumer="crm", since=0)
    assert reader.read_next_batch().num_rows == 1
    assert acid.show_consumers()[0].behind == 1
    assert read_changes(table, consumer="crm").read_all().num_rows == 1
    assert acid.show_consumers()[0].behind == 0
    with pytest.raises(ConflictError, match="somebody else has read"):
        reader.read_all()
    with pytest.raises(InvalidInputError, match="retain= is of a consumer"):
        read_changes(table, since=0, retain=1)
    for nothing in (-1, 0):
        with pytest.raises(InvalidInputError, match="A consumer is retained for more than no time"):
            read_changes(table, consumer="crm", retain=nothing)


def _after(state: set[int], events: list[tuple[int, str, int]]) -> set[int]:
    """The state with its changes, in their order; an overwrite's deletes come before its rows."""
    for id_, kind, _ in sorted(events, key=lambda one: (one[2], one[1])):
        state = state | {id_} if kind == "insert" else state - {id_}
    return state


@pytest.mark.parametrize("seed", range(2))
def test_slow_consumers_miss_nothing_and_keep_nothing_for_long(made: World, seed: int) -> None:
    acid, chance = made.acid, random.Random(seed)
    now: set[int] = set()
    states: dict[str, set[int]] = {"fast": set(), "slow": set(), "late": set()}
    for name in states:
        _consumed(acid, name, since=0)
    for number in range(16):
        now = changed_at_random(made, chance, now, KINDS, cleans=0.7)
        for name, pace in (("fast", 0.7), ("slow", 0.2)):
            if chance.random() < pace:
                states[name] = _after(states[name], _consumed(acid, name))
                assert states[name] == now, (seed, number, name)
    made.insert(2000)
    made.compact(MAJOR)
    cleaned(made)
    now.add(2000)
    for name, state in states.items():
        assert _after(state, _consumed(acid, name)) == now == set(_ids(acid)), (seed, name)
    cleaned(made)
    root = Path(acid.table("t").definition.location)
    assert len([one for one in root.iterdir() if not one.name.startswith((".", "_"))]) == 1


def test_an_insert_only_table_is_kept_apart_for_its_consumer(made: World, acid: Session) -> None:
    acid.sql("drop table t")
    made.make(what=INSERT_ONLY)
    made.insert(1)
    _consumed(acid, since=0)
    made.insert(2)
    made.insert(3)
    made.compact(MAJOR)
    cleaned(made)
    assert _consumed(acid, until=2) == [(2, "insert", 2)]
    made.insert(4)
    made.compact(MAJOR)
    cleaned(made)
    assert _consumed(acid) == [(3, "insert", 3), (4, "insert", 4)]


def test_a_consumer_that_stays_away_for_too_long_is_told_where_it_can_begin(
    made: World, acid: Session
) -> None:
    made.insert(1)
    _consumed(acid, since=0, retain=1)
    made.insert(2)
    made.delete(1)
    made.compact(MAJOR)
    made.clock.advance_ms(DAY_MS - 10_000)
    cleaned(made)
    (one,) = acid.show_consumers("t")
    assert (one.version, one.behind) == (1, 2)
    assert one.pin_age_ms is not None
    assert DAY_MS - 10_000 <= one.pin_age_ms < DAY_MS
    made.clock.advance_ms(10_000)
    cleaned(made)
    with pytest.raises(SnapshotExpiredError, match="told since 3") as raised:
        _consumed(acid)
    assert any("DROP CONSUMER crm ON default.t" in one for one in raised.value.__notes__)
    with pytest.raises(SnapshotExpiredError):
        _consumed(acid)  # its new pin proves nothing
    acid.table("t").drop_consumer("crm")
    assert _consumed(acid, since=3) == []


def test_a_consumer_whose_time_is_over_goes_on_where_nothing_is_lost(
    made: World, acid: Session
) -> None:
    made.insert(1)
    _consumed(acid, since=0, retain=1)
    made.insert(2)
    made.clock.advance_ms(2 * DAY_MS)
    assert _consumed(acid) == [(2, "insert", 2)]
    made.delete(1)
    made.compact(MAJOR)
    cleaned(made)
    assert _consumed(acid) == [(1, "delete", 3)]


def test_a_rename_keeps_consumers_and_a_new_table_has_none(made: World, acid: Session) -> None:
    made.insert(1)
    _consumed(acid, since=0)
    made.insert(2)
    acid.sql("alter table t rename to moved")
    assert [str(one.table) for one in acid.show_consumers("moved")] == ["default.moved"]
    made.make()
    with pytest.raises(NotFoundError, match="has no consumer crm"):
        _consumed(acid)
    acid.sql("drop table t")
    acid.sql("alter table moved rename to t")
    assert _consumed(acid) == [(2, "insert", 2)]
    made.insert(3)
    with pytest.raises(ConflictError, match="or dropped it"), acid.transaction() as txn:
        assert _read(txn) == [(3, "insert", 5)]  # a RENAME takes a write id
        made.acid.table("t").drop_consumer("crm")
    assert (3, "insert", 5) not in _written(acid)
    acid.sql("drop table t")
    assert acid.client.own.pins() == ()


def test_sql_shows_and_drops_consumers(made: World, acid: Session) -> None:
    made.insert(1)
    made.make("u")
    _consumed(acid, since=0)
    made.insert(2)
    made.clock.advance_ms(90_000)
    found = acid.sql("show consumers on t")
    assert found.columns[:4] == ("consumer", "table", "version", "behind")
    ((name, table, version, behind, since, age, until),) = found.rows
    assert (name, table, version, behind) == ("crm", "default.t", "1", "1")
    assert age.startswith("1 min 3")
    assert since < until
    assert acid.sql("show consumers").rows == found.rows
    assert acid.sql("show consumers on u").rows == ()
    with pytest.raises(NotFoundError, match=r"default\.u has no consumer crm"):
        acid.sql("drop consumer crm on u")
    acid.sql("drop consumer if exists crm on u")
    acid.sql("DROP CONSUMER 'CRM' ON t")
    assert acid.show_consumers() == ()
    with pytest.raises(InvalidInputError, match="A consumer is a name"):
        _consumed(acid, " ", since=0)


def test_beside_a_cleaner_of_hives_own_it_is_refused(
    made: World, acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.insert(1)
    monkeypatch.setattr(type(acid.client.own), "is_served_by_hive", lambda _: True)
    with pytest.raises(UnsupportedError, match="A consumer keeps files from cleaners"):
        _consumed(acid, since=0)
    assert [one for one in acid.client.own.pins() if one.kind is PinKind.CONSUMER] == []
