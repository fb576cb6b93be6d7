"""The wait-for graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.model.ids import TxnId
from hiveacid.model.locks import find_deadlock


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), max_size=14))
def test_a_deadlock_is_found_where_there_is_a_cycle_and_starts_with_its_youngest(
    waits: list[tuple[int, int]],
) -> None:
    edges = {(TxnId(a), TxnId(b)) for a, b in waits}
    reach = set(edges)
    for _ in range(8):
        reach |= {(a, d) for a, b in reach for c, d in edges if b == c}
    found = find_deadlock(edges)
    assert bool(found) == any(a == b for a, b in reach)
    if found:
        assert found[0] == max(found)
        assert set(zip(found, (*found[1:], found[0]), strict=True)) <= edges
