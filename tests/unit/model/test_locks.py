"""Deadlocks, against the closure of who waits for whom."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.model.tables import LockId, TxnId
from hiveacid.model.transactions import (
    SESSION_PREFIX,
    LockInfo,
    LockSemantics,
    LockState,
    LockType,
    blocked_now,
    busy_sessions,
    find_cycle,
    find_deadlock,
)


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), max_size=14))
def test_a_cycle_is_found_where_there_is_one(waits: list[tuple[int, int]]) -> None:
    edges = {(LockId(a), LockId(b)) for a, b in waits}
    reach = set(edges)
    for _ in range(8):
        reach |= {(a, d) for a, b in reach for c, d in edges if b == c}
    found = find_cycle(edges)
    assert bool(found) == any(a == b for a, b in reach)
    if found:
        assert set(zip(found, (*found[1:], found[0]), strict=True)) <= edges


def _lock(
    lock: int, *, txn: int = 0, session: str = "", state: LockState = LockState.WAITING
) -> LockInfo:
    return LockInfo(
        LockId(lock), 1, TxnId(txn), "d", "t", None, state, LockType.EXCLUSIVE, 0, None, "u", "h",
        agent_info=session or None,
    )  # fmt: skip


def _held(lock: int, *, txn: int = 0, session: str = "") -> LockInfo:
    return _lock(lock, txn=txn, session=session, state=LockState.ACQUIRED)


A, B, C = (f"{SESSION_PREFIX}{name}" for name in "abc")


def test_the_youngest_transaction_gives_up_before_any_lock_table_and_else_the_latest() -> None:
    mixed = [
        (_lock(7, txn=3, session=A), _held(2, session=B)),
        (_lock(8, session=B), _held(1, session=A)),
    ]
    assert [one.lock_id for one in find_deadlock(mixed)] == [7, 8]
    transactions = [(_lock(7, txn=3), _held(2, txn=4)), (_lock(6, txn=4), _held(1, txn=3))]
    assert [one.txn_id for one in find_deadlock(transactions)] == [4, 3]
    sessions = [
        (_lock(7, session=A), _held(2, session=B)),
        (_lock(9, session=B), _held(3, session=C)),
        (_lock(8, session=C), _held(1, session=A)),
    ]
    assert [one.lock_id for one in find_deadlock(sessions)] == [9, 8, 7]


def test_a_session_holds_nobody_up_while_it_is_busy_or_waits_for_nothing() -> None:
    waits = [
        (_lock(7, session=A), _held(2, session=B)),
        (_lock(8, session=B), _held(1, session=A)),
    ]
    assert find_deadlock(waits)
    assert not find_deadlock(waits, busy={A})
    assert not find_deadlock(waits[:1])
    # What other clients say of themselves is not a session of ours.
    foreign = [
        (_lock(7, session="query"), _held(2, session="other")),
        (_lock(8, session="other"), _held(1, session="query")),
    ]
    assert not find_deadlock(foreign)


def test_two_statements_of_one_session_that_wait_in_a_row_are_no_deadlock() -> None:
    first = _lock(7, session=A)
    assert not find_deadlock([(first, _held(2, session=B)), (_lock(8, txn=3, session=A), first)])


def test_who_stands_behind_a_request_waits_for_what_that_waits_for() -> None:
    between = _lock(7)
    waits = [
        (between, _held(1, txn=3)),
        (_lock(8, txn=4), between),
        (_lock(9, txn=3), _held(2, txn=4)),
    ]
    assert [one.lock_id for one in find_deadlock(waits)] == [8, 7, 9]


def _waits(*locks: LockInfo) -> list[tuple[int, int]]:
    found = blocked_now(locks, semantics=LockSemantics.HIVE_4)
    return [(one.lock_id, by.lock_id) for one, by in found]


def _noted(lock: LockInfo, by: LockInfo) -> LockInfo:
    return replace(lock, blocked_by_lock_id=by.lock_id, blocked_by_component_id=by.component_id)


def test_what_the_session_has_got_since_it_looked_is_in_its_way_no_more() -> None:
    """The statement noted the LOCK of another thread, which has got it meanwhile."""
    mine, statement = _held(1, session=A), _lock(2, txn=5, session=A)
    assert _waits(mine, _noted(statement, mine)) == []
    assert _waits(_held(1, session=B), statement) == [(2, 1)]
    assert _waits(_lock(1, session=A), statement) == [(2, 1)]
    behind = _lock(3, txn=6, session=A)
    assert _waits(mine, _lock(2, txn=5, session=B), _noted(behind, mine)) == [(2, 1)]


def test_who_waits_for_what_the_transaction_has_is_not_in_its_way() -> None:
    between, statement = _lock(2, txn=6, session=B), _lock(3, txn=5, session=A)
    assert _waits(_held(1, txn=5, session=A), between, _noted(statement, between)) == [(2, 1)]
    # Another client's request looks again by its own rules.
    foreign = _noted(_lock(3, txn=5), between)
    assert _waits(_held(1, txn=5), between, foreign) == [(2, 1), (3, 2)]
    assert _waits(_held(1, txn=5), _lock(3, txn=5)) == []


def test_a_session_is_busy_while_a_transaction_of_it_holds_locks_and_waits_for_none() -> None:
    assert busy_sessions([_held(1, txn=5, session=A), _lock(2, txn=6, session=B)]) == {A}
    waiting = [_held(1, txn=5, session=A), _lock(2, txn=5, session=A), _held(3, session=B)]
    assert busy_sessions([*waiting, _held(4, txn=7, session="query")]) == set()
