"""Scans of many files in an object store: what is asked for together, how often, what is held."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.s3_memory import Memory, memory_server

import hiveacid
from hiveacid.errors import MissingFileError
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Partition, WriteId
from hiveacid.session import Session
from hiveacid.storage import ranged
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partitions
from hiveacid.storage.ranged import OpenedEarly

FULL = "stored as orc tblproperties ('transactional'='true')"
LONG_S = 300.0


@pytest.fixture
def server() -> Iterator[Memory]:
    """In memory."""
    with memory_server() as server:
        yield server


@pytest.fixture
def acid(server: Memory, tmp_path: Path) -> Iterator[Session]:
    """A session whose warehouse is there."""
    url, settings = (
        f"sqlite:///{tmp_path}/m.db",
        {**server.settings, "hiveacid.compactor.auto": "off"},
    )
    with hiveacid.connect(None, url, warehouse="s3://b/wh", settings=settings) as session:
        yield session


def together(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Files with rows are answered once so many are asked for."""
    all_of, seen, original = threading.Barrier(count), [0], FileSystem.open_input
    lock = threading.Lock()

    def waiting(self: FileSystem, path: str, *, size_bytes: int = 0) -> pa.NativeFile:
        with lock:
            seen[0] += 1
            is_first = seen[0] <= count
        if is_first:
            all_of.wait(LONG_S)  # broken where one is opened after the other
        return original(self, path, size_bytes=size_bytes)

    monkeypatch.setattr(FileSystem, "open_input", waiting)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["partitioned by (p int)", "clustered by (p) into 40 buckets"])
def test_files_are_opened_together_and_each_is_one_request(
    acid: Session, server: Memory, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    is_partitioned = way.startswith("partitioned")
    acid.sql(f"create table t (id int{'' if is_partitioned else ', p int'}) {way} {FULL}")
    values = pa.array(range(40 if is_partitioned else 400), pa.int32())
    acid.table("t").write_arrow(pa.table({"id": values, "p": values}))
    count = sum("/bucket_" in path for path in server.objects)
    assert count >= ranged._OPENED_MAX
    server.reset()
    together(monkeypatch, ranged._OPENED_MAX)
    read = hiveacid.read_arrow(acid.table("t")).read_all()
    assert sorted(read["id"].to_pylist()) == values.to_pylist()
    assert server.asked == {"LIST": 1, "GET": count}


@pytest.mark.slow
def test_changes_of_a_table_of_many_partitions_open_its_files_together(
    acid: Session, server: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {FULL}")
    values = pa.array(range(40), pa.int32())
    acid.table("t").write_arrow(pa.table({"id": values, "p": values}))
    server.reset()
    together(monkeypatch, 8)
    acid.table("t").delete_arrow("id < 20")
    assert hiveacid.read_arrow(acid.table("t")).read_all().num_rows == 20
    assert "HEAD" not in server.asked


def test_delete_files_are_read_once_to_plan_and_once_for_their_events(
    acid: Session, server: Memory
) -> None:
    acid.sql(f"create table t (id int, at timestamp) {FULL}")
    acid.sql("insert into t values " + ", ".join(f"({n}, '2020-01-01 00:00:00')" for n in range(9)))
    for n in range(4):
        acid.table("t").delete_arrow(f"id = {n}")
    with hiveacid.connect(None, acid.client.metastore.url, settings=server.settings) as fresh:
        early_tails_forgotten()
        server.reset()
        read = hiveacid.read_arrow(fresh.table("t"), filter="id >= 0").read_all()
    assert read.num_rows == 5
    assert server.asked == {"LIST": 1, "GET": 2 * 5}, "each its tail, then its rows or events"


def early_tails_forgotten() -> None:
    """As in a new process."""
    from hiveacid.storage.orc import tails

    tails._tail.cache_clear()


def test_a_stripe_is_read_whole_or_in_blocks_not_by_streams(acid: Session, server: Memory) -> None:
    columns = [f"c{n}" for n in range(12)]
    acid.sql(f"create table t ({', '.join(f'{c} bigint' for c in columns)}) {FULL}")
    random = np.random.default_rng(1)
    rows = pa.table({c: random.integers(0, 2**60, 60_000) for c in columns})
    acid.table("t").write_arrow(rows)
    (size,) = (len(data) for path, data in server.objects.items() if "/bucket_" in path)
    assert size > 4 << 20
    server.reset()
    read = hiveacid.read_arrow(acid.table("t")).read_all()
    assert read.num_rows == 60_000
    assert server.asked["GET"] == 2, "its tail, and its stripe"
    assert server.sent_bytes <= 1.1 * size
    early_tails_forgotten()
    server.reset()
    some = hiveacid.read_arrow(acid.table("t"), columns=columns[::3]).read_all()
    assert some.equals(read.select(columns[::3]))
    assert server.asked["GET"] <= 2 + 2 * size / (1 << 20)
    assert server.sent_bytes <= 1.5 * size


def test_no_more_is_held_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    gate = threading.Event()

    class Far:
        def open_input(self, path: str, *, size_bytes: int = 0) -> pa.NativeFile:
            del size_bytes
            gate.wait(LONG_S)
            if path == "gone":
                raise MissingFileError("file gone does not exist", path=path)
            opened.append(path)
            return pa.BufferReader(path.encode())

    files = [(f"f{n}", 1) for n in range(100)]
    far: FileSystem = Far()  # type: ignore[assignment]
    with (
        ThreadPoolExecutor(1) as other,
        OpenedEarly(far.open_input, [*files[:3], ("gone", 1), *files[3:]]) as early_ones,
    ):
        first = other.submit(early_ones.open_input, "f0")
        gate.set()
        assert first.result().read() == b"f0"
        assert early_ones.open_input("f90").read() == b"f90", "any other file, too"
        with pytest.raises(MissingFileError):
            early_ones.open_input("gone")
    assert len(opened) <= ranged._OPENED_MAX + 3


@pytest.mark.long("storage", "layout")
@pytest.mark.parametrize("together", [False, True])
def test_a_hundred_thousand_objects_are_listed_by_their_pages_and_chosen_from(
    server: Memory, acid: Session, together: bool
) -> None:
    for n in range(1, 50_001):
        for file in ("_orc_acid_version", "bucket_00000_0"):
            server.objects[f"b/wh/t/delta_{n:07d}_{n:07d}_0000/{file}"] = b"x"
    location = "s3://b/wh/t"
    places = [Partition((), location), *([Partition((), "s3://b/wh/u")] if together else [])]
    (listed, *rest) = list_partitions(acid.client.files, places)
    assert [list(one) for one in rest] == [[] for _ in places[1:]]
    assert server.asked["LIST"] <= 101 and not server.asked["GET"]
    valid = ValidWriteIdList("default.t", hwm=WriteId(50_000))
    chosen = resolve(listed, valid, None)
    assert len(chosen.deltas) == 50_000 and len(chosen.row_files) == 50_000
