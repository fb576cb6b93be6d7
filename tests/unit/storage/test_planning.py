"""The planner leaves out what cannot match, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.layout.directories import Snapshot, SnapshotPart
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList, encode_bucket
from hiveacid.model.predicates import ANYTHING, And, Compare, In, IsNull, Op, Or, Predicate
from hiveacid.model.tables import AcidMode, BucketSpec, Column, Partition, Table, TableName
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.column_hashing import bucket_ids
from hiveacid.storage.merge.merge_read import merge_read
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.plan.arrow_conditions import mask
from hiveacid.storage.plan.planning import compression, partitions_that_match, plan_scan
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
COLUMNS = (Column("k", parse_type("int")), Column("v", parse_type("string")))
EVERYTHING = ValidWriteIdList.everything()
ACID = {"transactional": "true"}
SMALL_STRIPES = {"orc.stripe.size": "16384", "orc.compress": "NONE"}


def write(root: Path, write_id: int, keys: Sequence[int], *, bucket: int = 0) -> None:
    directory = root / f"delta_{write_id:07d}_{write_id:07d}_0000"
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(write_id)
    with BucketFileWriter(
        FS,
        str(directory / f"bucket_{bucket:05d}"),
        columns=COLUMNS,
        kind=FileKind.INSERT,
        write_id=write_id,
        bucket_property=encode_bucket(bucket, 0),
        properties=SMALL_STRIPES,
    ) as writer:
        for start in range(0, len(keys), 1000):
            part = keys[start : start + 1000]
            texts = [str(number) for number in rng.integers(0, 1 << 62, len(part))]
            writer.write_rows(pa.record_batch([pa.array(part, pa.int32()), texts], ["k", "v"]))


def delete(root: Path, write_id: int, bucket: int, original: int, row: int) -> None:
    directory = root / f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
    directory.mkdir(parents=True, exist_ok=True)
    with BucketFileWriter(
        FS,
        str(directory / f"bucket_{bucket:05d}"),
        columns=COLUMNS,
        kind=FileKind.DELETE,
        write_id=write_id,
    ) as writer:
        writer.write_deletes(
            pa.array([original], pa.int64()),
            pa.array([encode_bucket(bucket, 0)], pa.int32()),
            pa.array([row], pa.int64()),
        )


def snapshot(root: Path, bucket: BucketSpec | None = None) -> Snapshot:
    table = Table(TableName("d", "t"), COLUMNS, str(root), bucket=bucket, properties=ACID)
    directory = resolve(list_partition(FS, str(root)), EVERYTHING, None, mode=AcidMode.FULL)
    return Snapshot(table, EVERYTHING, (SnapshotPart(Partition((), str(root)), directory),))


def rows(plan: ScanPlan) -> list[int]:
    """Keys of the rows that a reader of the plan yields."""
    found: list[int] = []
    for part in plan.parts:
        for batch in merge_read(
            FS,
            part.part.partition.location,
            part.part.directory,
            table_columns=COLUMNS,
            columns=["k"],
            valid=EVERYTHING,
            selection=part.selection,
        ):
            found += batch.column(0).to_pylist()
    return sorted(found)


@pytest.fixture(scope="module")
def sorted_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sorted")
    write(root, 1, range(10_000))
    write(root, 2, range(20_000, 30_000))
    delete(root, 3, 0, 1, 5)
    delete(root, 4, 0, 2, 5)
    return root


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Compare("k", Op.EQ, 7), [7]),
        (Compare("k", Op.EQ, 5), []),
        (Compare("k", Op.LT, 3), [0, 1, 2]),
        (Compare("k", Op.GE, 29_998), [29_998, 29_999]),
        (In("k", frozenset({1, 25_000})), [1, 25_000]),
        (And((Compare("k", Op.GT, 9_998), Compare("k", Op.LT, 20_001))), [9_999, 20_000]),
        (Or((Compare("k", Op.EQ, 1), Compare("k", Op.EQ, 2))), [1, 2]),
        (Compare("k", Op.EQ, 15_000), []),
        (IsNull("k"), []),
        (Compare("k", Op.LT, -(1 << 40)), []),
    ],
)
def test_stripes(sorted_table: Path, predicate: Predicate, expected: list[int]) -> None:
    plan = plan_scan(snapshot(sorted_table), files=Files(), predicate=predicate)
    assert rows(plan) == expected
    whole = plan_scan(snapshot(sorted_table), files=Files()).amount
    assert plan.amount.bytes < whole.bytes / 3
    assert plan.amount.stripes <= 4


def test_all_rows_without_a_predicate(sorted_table: Path) -> None:
    plan = plan_scan(snapshot(sorted_table), files=Files(), predicate=ANYTHING)
    assert rows(plan) == sorted({*range(10_000), *range(20_000, 30_000)} - {5, 20_005})
    assert (plan.amount.files, plan.amount.files_of) == (2, 2)


def test_delete_files_that_cannot_touch_the_chosen_rows_are_left_out(sorted_table: Path) -> None:
    (part,) = plan_scan(
        snapshot(sorted_table), files=Files(), predicate=Compare("k", Op.EQ, 7)
    ).parts
    assert [file.path.split("/")[0] for file in part.delete_files] == [
        "delete_delta_0000003_0000003_0000"
    ]


def test_deletes_reach_the_base_of_files_of_before_the_table_was_transactional(
    tmp_path: Path,
) -> None:
    write(tmp_path, 0, [7], bucket=0)
    write(tmp_path, 0, [8, 9], bucket=1)
    (tmp_path / "delta_0000000_0000000_0000").rename(
        tmp_path / "base_-9223372036854775808_v0000023"
    )
    delete(tmp_path, 10_000_001, 1, 0, 0)
    deleted = "delete_delta_10000001_10000001_0000/bucket_00001"
    for predicate, expected in ((ANYTHING, [7, 9]), (Compare("k", Op.EQ, 8), [])):
        plan = plan_scan(snapshot(tmp_path), files=Files(), predicate=predicate)
        assert rows(plan) == expected
        assert [file.path for part in plan.parts for file in part.delete_files] == [deleted]


def bucketed_table(root: Path, spec: BucketSpec, *, version: int) -> list[int]:
    """Rows 0..99 put by ``version``, whatever the table says."""
    kind = parse_type("int")
    places: dict[int, list[int]] = {}
    keys = pa.array(range(100), pa.int32())
    numbers = bucket_ids([keys], [kind], spec.count, version=version).to_pylist()
    for key, number in enumerate(numbers):
        places.setdefault(number, []).append(key)
    for number, keys in places.items():
        write(root, 1, keys, bucket=number)
    return sorted(places)


def test_one_bucket_is_read_for_one_key(tmp_path: Path) -> None:
    spec = BucketSpec(("k",), 8, version=2)
    assert bucketed_table(tmp_path, spec, version=2) == list(range(8))
    for key in (0, 1, 17, 99):
        plan = plan_scan(
            snapshot(tmp_path, spec), files=Files(), predicate=Compare("k", Op.EQ, key)
        )
        assert rows(plan) == [key]
        assert (plan.amount.files, plan.amount.files_of) == (1, 8)
    plan = plan_scan(snapshot(tmp_path, spec), files=Files(), predicate=Compare("k", Op.GE, 0))
    assert plan.amount.files == 8


def test_a_bucketed_table_keeps_only_deletes_of_the_bucket(tmp_path: Path) -> None:
    spec = BucketSpec(("k",), 8, version=2)
    bucketed_table(tmp_path, spec, version=2)
    for number in range(8):
        delete(tmp_path, 2, number, 1, 0)
    (part,) = plan_scan(
        snapshot(tmp_path, spec), files=Files(), predicate=Compare("k", Op.EQ, 17)
    ).parts
    assert [file.bucket for file in part.delete_files] == [part.files[0].bucket]


def test_partitions(tmp_path: Path) -> None:
    columns = (Column("y", parse_type("int")), Column("s", parse_type("string")))
    table = Table(TableName("d", "t"), COLUMNS, "/t", columns, properties=ACID)
    partitions = [Partition((y, s), "/t") for y in ("1", "02", None) for s in ("a", None)]

    def kept(predicate: Predicate) -> list[tuple[str | None, ...]]:
        return [one.values for one in partitions_that_match(table, partitions, predicate)]

    assert kept(Compare("y", Op.EQ, 2)) == [("02", "a"), ("02", None)]
    assert kept(Compare("s", Op.EQ, "b")) == [("1", None), ("02", None), (None, None)]
    assert kept(
        And((Compare("y", Op.EQ, 1), Compare("s", Op.EQ, "a"), Compare("k", Op.EQ, 3)))
    ) == [
        ("1", "a"),
        ("1", None),
    ]
    assert kept(IsNull("y")) == [(None, "a"), (None, None)]
    assert len(kept(Compare("k", Op.EQ, 3))) == 6


def test_wall_clocks_are_compared_with_a_day_to_spare(tmp_path: Path) -> None:
    """Spark reads one that the session's time zone skips as another: it must still be kept."""
    columns = (Column("ts", parse_type("timestamp")),)
    table = Table(TableName("d", "t"), COLUMNS, "/t", columns, properties=ACID)
    partitions = [Partition((f"2020-03-0{day} 02:30:00",), "/t") for day in (6, 8)]
    moved = Compare("ts", Op.EQ, datetime(2020, 3, 8, 3, 30))
    assert [one.values[0] for one in partitions_that_match(table, partitions, moved)] == [
        "2020-03-08 02:30:00"
    ]
    times = pa.array([datetime(2020, 3, 8, 2, 30)], pa.timestamp("us"))
    assert mask(moved, {"ts": times}, rows=1).to_pylist() == [True]


def test_what_a_byte_of_small_files_stands_for_is_told_by_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for write_id in range(1, 41):  # more files than are asked
        write(tmp_path, write_id, range(1000))
    plan = plan_scan(snapshot(tmp_path), files=Files())
    in_memory = 40_000 * (48 + 8 * len(COLUMNS))
    assert compression(plan) == pytest.approx(in_memory / plan.amount.bytes, rel=0.02)
    assert compression(plan) > 1.5
    monkeypatch.setattr("hiveacid.storage.plan.planning._SMALL_BYTES_MAX", plan.amount.bytes - 1)
    assert compression(plan) == 1.0, "too large to be taken for small"
    assert compression(plan_scan(snapshot(tmp_path / "nothing"), files=Files())) == 1.0
