"""Stripes read by several threads: side by side, and in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import FormatError
from hiveacid.storage.merge import merge_read
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.ranged import in_order

ACID = "stored as orc tblproperties ('transactional'='true', 'orc.stripe.size'='65536')"
LONG_S = 300.0


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads Arrow uses."""
    before = pa.cpu_count()
    yield pa.set_cpu_count
    pa.set_cpu_count(before)


def test_two_tasks_run_at_once_and_answer_in_order() -> None:
    both = threading.Barrier(2)

    def task(number: int) -> int:
        both.wait(LONG_S)  # broken where one task waits for the other to end
        return number

    assert list(in_order((partial(task, n) for n in range(6)), threads=2)) == list(range(6))


def test_one_task_needs_no_thread() -> None:
    assert list(in_order([threading.current_thread], threads=4)) == [threading.current_thread()]
    assert list(in_order((), threads=4)) == []


def test_no_more_is_read_ahead_than_threads_and_one() -> None:
    begun: list[int] = []

    def tasks() -> Iterator[Callable[[], int]]:
        for number in range(100):
            begun.append(number)
            yield partial(int, number)

    found = in_order(tasks(), threads=3)
    assert next(found) == 0
    assert len(begun) <= 5
    found.close()
    assert len(begun) <= 5


@pytest.mark.slow
def test_rows_are_the_same_and_in_the_same_order(
    tmp_path: Path, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_read, "_RUN_BYTES", 1)
    used: set[int] = set()
    original = BucketFileReader.batches

    def spy(self: BucketFileReader, **names: object) -> object:
        used.add(threading.get_ident())
        return original(self, **names)  # type: ignore[arg-type]

    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.sql(f"create table t (k bigint, v string) {ACID}")
        table = acid.table("t")
        for first in (0, 100_000):
            keys = range(first, first + 50_000)
            rows = pa.table({"k": pa.array(keys), "v": [f"v{key * 7919 % 1000}" for key in keys]})
            hiveacid.write_arrow(table, rows)
        table.delete_arrow("k < 150000 and k > 70000")
        for wanted in ({}, {"filter": "k > 120000 and v <> 'v7'"}, {"columns": ["v"]}):
            threads(1)
            expected = hiveacid.read_arrow(table, row_ids=True, **wanted).read_all()
            threads(3)
            with monkeypatch.context() as patch:
                patch.setattr(BucketFileReader, "batches", spy)
                assert hiveacid.read_arrow(table, row_ids=True, **wanted).read_all() == expected
        assert used - {threading.get_ident()}


def test_a_damaged_stripe_is_the_same_error(
    tmp_path: Path, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_read, "_RUN_BYTES", 1)
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.sql(f"create table t (v string) {ACID}")
        rows = pa.table({"v": [f"{n * 2654435761 % 2**32}" for n in range(50_000)]})
        hiveacid.write_arrow(acid.table("t"), rows)
        (path,) = (tmp_path / "wh").rglob("bucket_*")
        whole = bytearray(path.read_bytes())
        middle = len(whole) // 2
        whole[middle : middle + 5000] = bytes(5000)
        path.write_bytes(whole)
        threads(3)
        with pytest.raises(FormatError):
            hiveacid.read_arrow(acid.table("t")).read_all()
