"""IN of many values is one pass over a column, with the answer of as many comparisons."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hiveacid.model.predicates import Compare, In, Op, Or
from hiveacid.storage.plan import arrow_conditions
from hiveacid.storage.plan.arrow_conditions import mask


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([1, None, 3, 127], pa.int8()), {1, 127, 128, -(2**70)}),
        (pa.array([1, None, 3], pa.int64()), {3, 2**63}),
        (pa.array([1, None], pa.int64()), {1.0, 7}),
        (pa.array(["a", None, "", "b "], pa.string()), {"", "b", "a"}),
        (pa.array(["1", None], pa.string()), {1, "2"}),
        (pa.array([True, None, False]), {True}),
        (pa.array([1.5, None, 2.0]), {2, 1.5}),
    ],
)
def test_it_is_as_many_comparisons(array: pa.Array, values: set[object]) -> None:
    many = mask(In("c", frozenset(values)), {"c": array}, rows=len(array))  # type: ignore[arg-type]
    each = Or(tuple(Compare("c", Op.EQ, one) for one in values))  # type: ignore[arg-type]
    assert many.to_pylist() == mask(each, {"c": array}, rows=len(array)).to_pylist()


def test_no_value_is_compared_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_conditions._Column, "_compared", None)
    found = mask(In("c", frozenset(range(5000))), {"c": pa.array([1, -1])}, rows=2)
    assert found.to_pylist() == [True, False]
