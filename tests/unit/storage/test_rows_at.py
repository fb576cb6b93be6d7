"""Rows at some places of a stripe: what statistics tell of their ids, and texts of dictionaries."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.storage.test_what_is_decoded import counted_stripes

import hiveacid
from hiveacid.errors import FormatError
from hiveacid.session import Session
from hiveacid.storage.orc import texts_at
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.streams import encode_unsigned
from hiveacid.storage.orc.texts_at import numbers_at

ROWS = 20_000
ACID = "stored as orc tblproperties ('transactional'='true', 'orc.compress'='{}')"


def _names(count: int, seed: int = 1) -> list[str]:
    chance = Random(seed)
    return [f"name {chance.randrange(300)}" for _ in range(count)]


@pytest.fixture
def acid(tmp_path: Path) -> Any:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def _made(acid: Session, columns: dict[str, Any], *, compress: str = "ZSTD") -> Any:
    kinds = ", ".join(f"{name} {'int' if name == 'id' else 'string'}" for name in columns)
    acid.sql(f"create table t ({kinds}) {ACID.format(compress)}")
    table = acid.table("t")
    table.write_arrow(pa.table(columns))
    return table


def _deleted(table: Any, step: int) -> list[dict[str, Any]]:
    """What the change feed tells of every so many rows that are deleted."""
    gone = pa.table({"id": pa.array(range(0, ROWS, step), pa.int32())})
    table.delete_arrow(gone)
    found = hiveacid.read_changes(table, since=1).read_all()
    names = [name for name in found.schema.names if not name.startswith("_")]
    return sorted(found.select(names).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("compress", ["ZSTD", "NONE", "ZLIB", "SNAPPY"])
@pytest.mark.parametrize("step", [1, 2, 97, ROWS - 1])
def test_deleted_rows_are_what_they_were(acid: Session, compress: str, step: int) -> None:
    names = _names(ROWS)
    columns = {
        "id": pa.array(range(ROWS), pa.int32()),
        "drawn": names,
        "sorted": sorted(names),
        "one": ["same"] * ROWS,
        "rare": [None if n % 1000 == 7 else name for n, name in enumerate(names)],
        "many": [f"text number {n} of them" for n in range(ROWS)],
        "empty": ["" if n % 3 else "ä" for n in range(ROWS)],
    }
    rows = pa.table(columns).to_pylist()
    assert _deleted(_made(acid, columns, compress=compress), step) == rows[::step]


def test_scattered_rows_do_not_have_the_texts_of_a_stripe_decoded(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _made(acid, {"id": pa.array(range(ROWS), pa.int32()), "v": _names(ROWS)})
    decoded = counted_stripes(monkeypatch)
    assert len(_deleted(table, 100)) == ROWS // 100
    assert decoded == []


def test_the_dictionary_of_the_stripe_before_serves_where_it_is_the_same(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 6 * ROWS
    acid.sql(
        "create table t (id int, v string) stored as orc tblproperties"
        " ('transactional'='true', 'orc.stripe.size'='100000')"
    )
    half = [f"name {n % 300:03}" for n in range(count // 2)]  # each stripe has all of them
    names = [*half, *(name.replace("a", "e") for name in half)]  # as long, and others
    table = acid.table("t")
    table.write_arrow(pa.table({"id": pa.array(range(count), pa.int32()), "v": names}))
    made: list[int] = []
    original = texts_at.column_of

    def spy(kind: int, streams: Any, size: int, *, encoding: int) -> pa.Array:
        made.append(size)
        return original(kind, streams, size, encoding=encoding)

    monkeypatch.setattr(texts_at, "column_of", spy)
    stripes = counted_stripes(monkeypatch)
    table.delete_arrow(pa.table({"id": pa.array(range(0, count, 50), pa.int32())}))
    found = hiveacid.read_changes(table, since=1).read_all().sort_by("id")
    assert found["v"].to_pylist() == names[::50]
    assert stripes == []
    assert set(made) <= {300, 600}, "the stripe where they meet has both"
    assert len(made) <= 3


def test_ids_that_statistics_tell_are_not_decoded(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _made(acid, {"id": pa.array(range(ROWS), pa.int32()), "v": _names(ROWS)})
    table.delete_arrow("id in (5, 6)")
    table.compact("major", wait=True)  # what is left has gaps
    read: list[bool] = []
    original = BucketFileReader._read_stripe

    def spy(self: BucketFileReader, reader: Any, number: int, names: list[str]) -> Any:
        if "/base_" in self.path or "/delta_0000001" in self.path:
            read.append("rowId" in names)
        return original(self, reader, number, names)

    monkeypatch.setattr(BucketFileReader, "_read_stripe", spy)
    table.delete_arrow("id = 9000")
    read.clear()
    (gone,) = hiveacid.read_changes(table, since=2).read_all().to_pylist()
    assert gone["id"] == 9_000
    assert all(read)
    assert read
    read.clear()
    assert hiveacid.read_changes(table, since=1).read_all().num_rows == 3
    assert not any(read)
    assert read


def test_numbers_at_places_are_those_of_the_stream() -> None:
    chance = np.random.default_rng(1)
    for bits in (1, 3, 8, 13, 24, 31, 40, 56):
        numbers = chance.integers(0, 2**bits, 2_000, dtype=np.uint64)
        places = np.sort(chance.choice(2_000, 50, replace=False))
        found = numbers_at(encode_unsigned(numbers), 2_000, places)
        assert found is not None
        assert found.tolist() == numbers[places].tolist()
    delta = bytes([0xC6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46])  # of ORC's specification
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert numbers_at(delta, 10, np.arange(10)).tolist() == primes  # type: ignore[union-attr]
    falling = bytes([3 << 6, 4, 100, 3])  # five, each two less
    assert numbers_at(falling, 5, np.array([1, 4])).tolist() == [98, 92]  # type: ignore[union-attr]
    repeated = bytes([1 << 3 | 4, 0x12, 0x34]) * 3  # seven times 0x1234, thrice
    assert numbers_at(repeated, 21, np.array([0, 6, 7, 20])).tolist() == [0x1234] * 4  # type: ignore[union-attr]


def test_runs_of_other_kinds_are_left_to_arrow_and_damage_is_told() -> None:
    none = np.array([0])
    assert numbers_at(bytes([2 << 6, 0, 0, 0]), 5, none) is None
    assert numbers_at(encode_unsigned(np.array([2**60], np.uint64)), 1, none) is None
    whole = encode_unsigned(np.arange(100, dtype=np.uint64))
    wrong = bytes([0xC6, 0x09, 0x82]), 10
    for damaged, count in (
        wrong,
        (whole[:-1], 100),
        (whole, 99),
        (whole, 101),
        (b"", 1),
        (b"\x40", 1),
    ):
        with pytest.raises(FormatError):
            numbers_at(damaged, count, none)
