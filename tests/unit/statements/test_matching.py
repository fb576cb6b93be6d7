"""Rows are matched as a join on equal values would match them: against plain Python."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.statements.matching import Keys

_KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-3, 0, 1, 2, 2_000_000_000]),
    "bigint": (pa.int64(), [-(2**62), -1, 0, 7, 2**62]),
    "date": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 23)]),
    "string": (pa.string(), ["", "a", "A", "äö", "a "]),
    "decimal": (pa.decimal128(15, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")]),
    "timestamp": (pa.timestamp("us"), [datetime(1969, 1, 1), datetime(2026, 1, 1, 1, 2, 3, 4)]),
    "boolean": (pa.bool_(), [True, False]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -2.5]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, -2.5]),
}


def _rows(kinds: list[str], count: int, seed: int, *, chunks: int) -> pa.Table:
    chance = random.Random(seed)
    columns = {}
    for number, name in enumerate(kinds):
        kind, values = _KINDS[name]
        found = [chance.choice([*values, None]) for _ in range(count)]
        step = max(1, -(-count // chunks))
        parts = [pa.array(found[at : at + step], kind) for at in range(0, count, step)]
        columns[f"k{number}"] = pa.chunked_array(parts, kind)
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kinds", [[one] for one in _KINDS] + [["int", "string"], ["bigint", "date", "decimal"]]
)
def test_pairs_are_those_of_equal_values(kinds: list[str], seed: int) -> None:
    keys = _rows(kinds, 40, seed, chunks=3)
    on = [f"k{number}" for number in range(len(kinds))]
    index = Keys(keys, on)
    for count, chunks in ((60, 1), (60, 4), (1, 1), (0, 1)):
        rows = _rows(kinds, count, seed + 100, chunks=chunks).append_column(
            "other", pa.array(range(count))
        )
        at, by = index.matches(rows)
        expected = sorted(
            (i, j)
            for i, row in enumerate(rows.select(on).to_pylist())
            for j, key in enumerate(keys.to_pylist())
            if row == key and None not in row.values()
        )
        assert sorted(zip(at.tolist(), by.tolist(), strict=True)) == expected


@pytest.mark.parametrize("width", [32, 64])
def test_a_nan_is_every_nan_and_no_number(width: int) -> None:
    """Intel's division 0.0 / 0.0 gives one with a sign, Java's has none."""
    nans = {
        32: (0x7FC00000, 0xFFC00000, 0x7FC00001),
        64: (0x7FF8 << 48, 0xFFF8 << 48, 0x7FF << 52 | 5),
    }
    bits = np.array([*nans[width], 0], f"u{width // 8}")
    values = pa.array([*bits.view(f"f{width // 8}"), None, -0.0], f"float{width}")
    rows = pa.table({"k": values, "n": pa.array([1] * 6)})
    at, by = Keys(rows, ["k", "n"]).matches(rows)
    pairs = {(int(one), int(other)) for one, other in zip(at, by, strict=True)}
    assert pairs == {(i, j) for group in ((0, 1, 2), (3, 5)) for i in group for j in group}


def test_nothing_matches_no_keys() -> None:
    keys = _rows(["int", "string"], 0, 1, chunks=1)
    at, by = Keys(keys, ["k0", "k1"]).matches(_rows(["int", "string"], 20, 2, chunks=2))
    assert (len(at), len(by)) == (0, 0)


def test_keys_are_looked_up_without_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Keys(_rows(["bigint", "string"], 20, 1, chunks=1), ["k0", "k1"])

    def refused(*_: object) -> None:
        raise AssertionError("a hash table of all keys for each batch")

    monkeypatch.setattr(index, "_joined", refused)
    index.matches(_rows(["bigint", "string"], 20, 2, chunks=1))
