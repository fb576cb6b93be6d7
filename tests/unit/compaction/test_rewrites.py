"""The rewrites: what each does to files that golden tables do not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden.compacting import FS, PLANS, Compacted, compact, seen_after

from hiveacid.compaction.rewrites import Method, choose_method, rewrite
from hiveacid.errors import FormatError, SparkNeededError, UnsupportedError
from hiveacid.layout import events as layout
from hiveacid.layout.compaction import MajorCompaction, RewritePlan
from hiveacid.layout.directories import BaseName
from hiveacid.layout.events import Operation
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList, encode_bucket
from hiveacid.model.tables import BucketSpec, Column, FileFormat, Table, TableName
from hiveacid.model.types import parse_type
from hiveacid.reading.rows import read_arrow
from hiveacid.settings import Settings
from hiveacid.storage.merge import event_merge
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.tail import OrcTail, read_tail
from hiveacid.storage.target import FileKind

COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("string")))
ROW = pa.struct([("id", pa.int32()), ("v", pa.string())])
FULL = {"transactional": "true"}
TXNS = ValidTxnList.of(hwm=50)
Event = tuple[int, int, int, int]
"""Operation, original write id, row id, current write id."""


def table(root: Path, **more: object) -> Table:
    return Table(TableName("default", "t"), COLUMNS, str(root), properties=FULL, **more)  # type: ignore[arg-type]


def write(
    path: Path,
    events: Iterable[Event],
    *,
    bucket: int = 0,
    kind: FileKind = FileKind.BASE,
    stripe_bytes: int = 1 << 26,
) -> None:
    """One file of events, in the order given; a row's value tells its event."""
    path.parent.mkdir(parents=True, exist_ok=True)
    operations, originals, row_ids, currents = zip(*events, strict=True)
    rows = [
        None
        if operation == Operation.DELETE
        else {"id": row, "v": f"{write_id}.{row} by {current}"}
        for operation, write_id, row, current in events
    ]
    arrays = [
        pa.array(operations, pa.int32()),
        pa.array(originals, pa.int64()),
        pa.array([encode_bucket(bucket)] * len(rows), pa.int32()),
        pa.array(row_ids, pa.int64()),
        pa.array(currents, pa.int64()),
        pa.array(rows, ROW),
    ]
    properties = {"orc.stripe.size": str(stripe_bytes)}
    with BucketFileWriter(FS, str(path), columns=COLUMNS, kind=kind, properties=properties) as file:
        file.write_events(pa.record_batch(arrays, list(layout.EVENT_FIELDS)))


def inserts(write_id: int, rows: Iterable[int]) -> list[Event]:
    return [(Operation.INSERT, write_id, row, write_id) for row in rows]


def deletes(write_id: int, rows: Iterable[int], *, by: int) -> list[Event]:
    return [(Operation.DELETE, write_id, row, by) for row in rows]


def done(
    root: Path,
    kind: str,
    *,
    valid: str = "t:9:9223372036854775807::",
    method: Method = Method.ARROW,
    definition: Table | None = None,
    stripe_bytes: int = 0,
) -> Compacted:
    return compact(
        definition or table(root),
        write_ids=ValidWriteIdList.parse(valid),
        txns=TXNS,
        plan=PLANS[kind],
        rewrite=partial(
            rewrite, FS, settings=Settings(compactor_stripe_bytes=stripe_bytes), method=method
        ),
    )


def rows(
    root: Path, compacted: Compacted | None = None, valid: str = "t:9:9223372036854775807::"
) -> pa.Table:
    txns = TXNS if compacted is None else seen_after(TXNS, compacted.txn)
    found = read_arrow(str(root), valid_write_ids=valid, valid_txns=txns, row_ids=True)
    return found.read_all().sort_by("row__id")


def tail_of(root: Path, compacted: Compacted, name: str) -> OrcTail:
    [file] = [file for file in compacted.files if f"{file.directory}/{file.name}" == name]
    return read_tail(FS, str(root / file.directory / file.name))


def test_stripes_are_copied_byte_by_byte_and_the_tail_fits(tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        path = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000_0"
        write(path, inserts(write_id, range(3000)), stripe_bytes=1)
    before = rows(tmp_path)
    inputs = {path: read_tail(FS, str(path)) for path in sorted(tmp_path.glob("delta_*/bucket*"))}
    compacted = done(tmp_path, "minor", method=Method.STRIPE_COPY)
    tail = tail_of(tmp_path, compacted, "delta_0000001_0000003_v0000051/bucket_00000")
    data = (tmp_path / "delta_0000001_0000003_v0000051" / "bucket_00000").read_bytes()
    copied = iter(tail.stripes)
    for path, found in inputs.items():
        for stripe in found.stripes:
            other = next(copied)
            start, size = stripe.offset, stripe.size_bytes
            assert path.read_bytes()[start : start + size] == data[other.offset :][:size]
    assert tail.rows == 9000 and len(tail.stripes) == 6
    index = layout.parse_key_index(tail.user_metadata[layout.KEY_INDEX_KEY].decode())
    assert [(row.write_id, row.row_id) for row in index[:3]] == [
        (1, 1023),
        (1, 2999),
        (2, 1023),
    ]
    assert tail.user_metadata[layout.STATS_KEY] == b"9000,0,0"
    numbers, texts = (tail.footer.statistics[number] for number in (7, 8))
    assert (numbers.intStatistics.minimum, numbers.intStatistics.maximum) == (0, 2999)
    assert numbers.numberOfValues == 9000 and numbers.intStatistics.sum == 3 * 2999 * 1500
    assert texts.stringStatistics.minimum == b"1.0 by 1"
    assert rows(tmp_path, compacted).equals(before)


@pytest.mark.parametrize(
    ("stripe_bytes", "stripes"), [(0, 3), (1 << 20, 1)], ids=["copied", "too small"]
)
def test_small_stripes_are_put_together(stripe_bytes: int, stripes: int, tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        path = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000_0"
        write(path, inserts(write_id, range(10)))
    compacted = done(tmp_path, "minor", method=Method.STRIPE_COPY, stripe_bytes=stripe_bytes)
    tail = tail_of(tmp_path, compacted, "delta_0000001_0000003_v0000051/bucket_00000")
    assert (len(tail.stripes), tail.rows) == (stripes, 30)


def test_what_differs_is_not_copied(tmp_path: Path) -> None:
    """Another type, an aborted write id, ranges that overlap: decoded, and right."""
    older = tmp_path / "delta_0000001_0000001_0000" / "bucket_00000_0"
    older.parent.mkdir()
    with BucketFileWriter(
        FS,
        str(older),
        columns=(Column("id", parse_type("smallint")),),
        kind=FileKind.INSERT,
        write_id=1,
        bucket_property=encode_bucket(0),
    ) as file:
        file.write_rows(pa.record_batch([pa.array([0, 1], pa.int16())], ["id"]))
    write(tmp_path / "delta_0000002_0000002_0000" / "bucket_00000_0", inserts(2, range(10)))
    shared = [*inserts(3, range(5)), *inserts(4, range(5)), *inserts(5, range(5))]
    write(tmp_path / "delta_0000003_0000005" / "bucket_00001", shared, bucket=1)
    write(tmp_path / "delta_0000006_0000006_0000" / "bucket_00001", inserts(6, [0]), bucket=1)
    valid = "t:9:9223372036854775807::4"
    before = rows(tmp_path, valid=valid)
    compacted = done(tmp_path, "minor", method=Method.STRIPE_COPY, valid=valid)
    assert rows(tmp_path, compacted, valid).equals(before) and before.num_rows == 2 + 10 + 11
    one = tail_of(tmp_path, compacted, "delta_0000001_0000006_v0000051/bucket_00000")
    assert str(one.root.fields[5][1]) == "struct<id:int,v:string>"
    everything = rows(tmp_path, compacted)
    assert everything.equals(before), "rows of the aborted transaction are gone for good"


def test_files_whose_rows_lie_among_each_other_are_merged_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_merge, "_AT_ONCE_ROWS", 0)
    base = tmp_path / "base_0000003"
    for attempt in range(3):
        part = [
            *inserts(1, range(attempt, 9000, 3)),
            *inserts(3, range(attempt * 100, 900, 300)),
        ]
        write(base / f"bucket_00000_{attempt}", part, stripe_bytes=1)
    gone = [*deletes(1, range(0, 9000, 7), by=4), *deletes(3, [100], by=4)]
    write(tmp_path / "delete_delta_0000004_0000004" / "bucket_00000", gone, kind=FileKind.DELETE)
    more = [*deletes(1, range(0, 9000, 5), by=5)]
    write(tmp_path / "delete_delta_0000005_0000005" / "bucket_00000", more, kind=FileKind.DELETE)
    before = rows(tmp_path)
    minor = done(tmp_path, "minor")
    tail = tail_of(tmp_path, minor, "delete_delta_0000004_0000005_v0000051/bucket_00000")
    assert tail.rows == len(gone) + len(more) and len(minor.files) == 1
    assert rows(tmp_path, minor).equals(before)
    major = done(tmp_path, "major")
    assert rows(tmp_path, major).equals(before)
    name = "base_0000005_v0000051/bucket_00000"
    index = layout.parse_key_index(
        tail_of(tmp_path, major, name).user_metadata[layout.KEY_INDEX_KEY].decode()
    )
    assert list(index) == sorted(index)
    assert tail_of(tmp_path, major, name).rows == before.num_rows


def test_an_event_that_stands_twice_is_written_once(tmp_path: Path) -> None:
    twice = [*inserts(1, range(5)), *inserts(2, range(5))]
    for name in ("bucket_00000_0", "bucket_00000_1"):
        write(tmp_path / "delta_0000001_0000002" / name, twice)
    write(tmp_path / "delta_0000003_0000003" / "bucket_00000", inserts(3, [0]))
    assert rows(tmp_path).num_rows == 21
    for kind in PLANS:
        root = tmp_path.parent / f"{tmp_path.name}-{kind}"
        for path in tmp_path.rglob("bucket*"):
            target = root / path.relative_to(tmp_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        assert rows(root, done(root, kind, method=Method.STRIPE_COPY)).num_rows == 11


def test_a_base_without_rows_exists(tmp_path: Path) -> None:
    write(tmp_path / "delta_0000001_0000001_0000" / "bucket_00003_0", inserts(1, [0]), bucket=3)
    write(
        tmp_path / "delete_delta_0000002_0000002_0000" / "bucket_00003",
        deletes(1, [0], by=2),
        bucket=3,
        kind=FileKind.DELETE,
    )
    compacted = done(tmp_path, "major")
    [file] = compacted.files
    assert (file.directory, file.name, file.rows) == ("base_0000002_v0000051", "bucket_00000", 0)
    assert rows(tmp_path, compacted).num_rows == 0


def test_delete_events_go_to_the_file_of_their_bucket(tmp_path: Path) -> None:
    """Hive 3.0 wrote them anywhere (format.md 7.2)."""
    for bucket in (0, 1):
        path = tmp_path / "delta_0000001_0000001_0000" / f"bucket_{bucket:05d}"
        write(path, inserts(1, range(5)), bucket=bucket)
    directory = tmp_path / "delete_delta_0000002_0000002_0000"
    directory.mkdir()
    keys = [(1, encode_bucket(0), 1), (1, encode_bucket(1), 2)]
    with BucketFileWriter(
        FS, str(directory / "bucket_00001"), columns=COLUMNS, kind=FileKind.DELETE, write_id=2
    ) as file:
        columns = [pa.array(values) for values in zip(*keys, strict=True)]
        file.write_deletes(columns[0], columns[1].cast(pa.int32()), columns[2])
    write(
        tmp_path / "delete_delta_0000003_0000003_0000" / "bucket_00000",
        deletes(1, [4], by=3),
        kind=FileKind.DELETE,
    )
    before = rows(tmp_path)
    compacted = done(tmp_path, "minor")
    counts = {file.name: file.rows for file in compacted.files if "delete" in file.directory}
    assert counts == {"bucket_00000": 2, "bucket_00001": 1}
    assert rows(tmp_path, compacted).equals(before) and before.num_rows == 7


def test_an_empty_delete_file_and_one_out_of_order_fail(tmp_path: Path) -> None:
    write(tmp_path / "delta_0000001_0000001" / "bucket_00000", inserts(1, [0, 1]))
    for write_id in (2, 3):
        path = tmp_path / f"delete_delta_{write_id:07d}_{write_id:07d}" / "bucket_00000"
        write(path, deletes(1, [0], by=write_id), kind=FileKind.DELETE)
    path.write_bytes(b"")
    for kind in PLANS:
        with pytest.raises(FormatError, match="delete_delta_0000003_0000003/bucket_00000"):
            done(tmp_path, kind)
    write(path, deletes(1, [1, 0], by=3), kind=FileKind.DELETE)
    write(tmp_path / "delta_0000004_0000004" / "bucket_00000", inserts(4, [1, 0]))
    with pytest.raises(FormatError, match="delta_0000004_0000004/bucket_00000 are not sorted"):
        done(tmp_path, "minor")


def test_files_of_an_insert_only_table_are_copied(tmp_path: Path) -> None:
    for write_id, names in ((1, ("000000_0", "000001_0")), (2, ("000001_0",)), (4, ("000001_0",))):
        directory = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000"
        directory.mkdir()
        for name in names:
            (directory / name).write_text(f"{write_id} {name}\n")
    (tmp_path / "delta_0000001_0000001_0000" / "000002_0").write_text("")
    properties = {**FULL, "transactional_properties": "insert_only"}
    valid = "t:9:9223372036854775807::4"
    plain = Table(
        TableName("default", "t"),
        COLUMNS,
        str(tmp_path),
        format=FileFormat.TEXT,
        properties=properties,
    )
    minor = done(tmp_path, "minor", valid=valid, definition=plain)
    assert [(file.directory, file.name, file.rows) for file in minor.files] == [
        ("delta_0000001_0000002_v0000051", name, 0) for name in ("000000_0", "000001_0", "000002_0")
    ]
    texts = [(tmp_path / file.directory / file.name).read_text() for file in minor.files]
    assert texts == ["1 000000_0\n", "1 000001_0\n", "2 000001_0\n"]
    bucketed = Table(
        plain.name,
        COLUMNS,
        str(tmp_path),
        format=FileFormat.TEXT,
        properties=properties,
        bucket=BucketSpec(("id",), 2),
    )
    major = done(tmp_path, "major", valid=valid, definition=bucketed)
    assert [(file.directory, file.name) for file in major.files] == [
        ("base_0000002_v0000051", name) for name in ("000000_0", "000001_0", "000001_0_copy_1")
    ]


def plan_of(*, major: bool, sizes: Sequence[int], deleted: bool = False) -> RewritePlan:
    entries = [
        Entry(f"delta_{n:07d}_{n:07d}_0000/bucket_00000", size) for n, size in enumerate(sizes, 1)
    ]
    if deleted:
        entries.append(Entry("delete_delta_0000099_0000099_0000/bucket_00000", 1))
    valid = ValidWriteIdList.everything()
    directory = resolve(entries, valid, None)
    compaction = PLANS["major" if major else "minor"](directory, txn=1)
    assert compaction is not None
    return RewritePlan(table(Path("/t")), "/t", directory, valid, compaction, "/t/_staging")


@pytest.mark.parametrize(
    ("plan", "spark", "expected"),
    [
        (plan_of(major=False, sizes=[500, 499]), True, Method.ARROW),
        (plan_of(major=False, sizes=[500, 500]), True, Method.STRIPE_COPY),
        (plan_of(major=False, sizes=[5000, 5001]), True, Method.SPARK),
        (plan_of(major=False, sizes=[5000, 5001]), False, Method.STRIPE_COPY),
        (plan_of(major=True, sizes=[700, 700]), True, Method.STRIPE_COPY),
        (plan_of(major=True, sizes=[700, 700], deleted=True), True, Method.ARROW),
        (plan_of(major=True, sizes=[5000, 5000], deleted=True), True, Method.SPARK),
    ],
)
def test_the_method_follows_from_the_sizes(
    plan: RewritePlan, spark: bool, expected: Method
) -> None:
    limits = Settings(compactor_spark_bytes=10_000, compactor_stripe_bytes=500)
    assert choose_method(plan, spark=spark, settings=limits) is expected


def test_spark_without_a_session(tmp_path: Path) -> None:
    write(tmp_path / "delta_0000001_0000001" / "bucket_00000", inserts(1, [0]))
    valid = ValidWriteIdList.everything()
    directory = resolve([Entry("delta_0000001_0000001/bucket_00000", 9)], valid, None)
    compaction = MajorCompaction(BaseName(1, 5))
    plan = RewritePlan(
        table(tmp_path),
        str(tmp_path),
        directory,
        valid,
        compaction,
        f"{tmp_path}/_staging",
    )
    with pytest.raises(SparkNeededError):
        rewrite(FS, plan, settings=Settings(), method=Method.SPARK)


OPERATIONS = st.sampled_from([Operation.INSERT, Operation.UPDATE, Operation.DELETE])


@pytest.mark.long("compaction", "storage")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(
        st.lists(st.tuples(OPERATIONS, st.integers(0, 12)), min_size=1, max_size=6),
        min_size=2,
        max_size=6,
    ),
    aborted=st.sets(st.integers(1, 6)),
    at_once=st.sampled_from([0, 1000]),
)
@pytest.mark.slow
def test_deltas_of_hive_2_read_the_same_after_minor_and_major(
    history: list[list[tuple[Operation, int]]],
    aborted: set[int],
    at_once: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inserts, updates and deletes in one delta (format.md 4.7); identities of write id 0."""
    monkeypatch.setattr(event_merge, "_AT_ONCE_ROWS", at_once)
    root = tmp_path_factory.mktemp("v1")
    write(root / "base_0000000" / "bucket_00000", inserts(0, range(8)))
    for write_id, steps in enumerate(history, 1):
        events = {
            row: (operation, 0, row, write_id)
            if operation
            else (operation, write_id, row, write_id)
            for operation, row in steps
        }
        ordered = sorted(events.values(), key=lambda event: (event[1], event[2], -event[3]))
        write(root / f"delta_{write_id:07d}_{write_id:07d}" / "bucket_00000", ordered)
    gone = ",".join(map(str, sorted(aborted)))
    valid = f"t:9:9223372036854775807::{gone}"
    before = rows(root, valid=valid)
    for kind in ("minor", "major"):
        compacted = done(root, kind, valid=valid, method=Method.STRIPE_COPY)
        assert rows(root, compacted, valid).equals(before), kind
    assert np.all(np.diff(before["row__id"].combine_chunks().field("writeid")) >= 0)


TIMES = (Column("t", parse_type("timestamp")), Column("s", parse_type("struct<t:timestamp>")))


def exact(path: Path) -> pa.Table:
    """Timestamps of a file with all their digits."""
    with BucketFileReader(FS, str(path)) as reader:
        batches = [
            pa.record_batch(list(batch.columns), ["t", "s"])
            for batch in reader.batches(
                table_columns=TIMES, wanted=(0, 1), identities=False, unit="us", exact=True
            )
        ]
    return pa.Table.from_batches(batches).combine_chunks()


@pytest.mark.slow
@pytest.mark.parametrize(("compression", "late"), [("ZLIB", 3), ("NONE", 3), ("ZLIB", 12_000)])
def test_timestamps_of_any_year_keep_all_their_digits(
    compression: str, late: int, tmp_path: Path
) -> None:
    """Years 1 to 9999 with nanoseconds: more than any timestamp of Arrow has. The first may come
    ``late``, after stripes that are written already.
    """
    count = 25_000  # three groups of the row index
    assert late < count
    spread = np.random.default_rng(7)
    seconds = spread.integers(-62_000_000_000, 253_000_000_000, count)
    seconds[:3] = (253_402_300_799, -62_135_596_800, 0)
    micros = seconds * 1_000_000 + spread.integers(0, 1_000_000, count)
    nanos = spread.integers(0, 1000, count).astype(np.int16)
    null = spread.random(count) < 0.1
    null[:3] = False
    nanos[:3] = (999, 1, 0) if late == 3 else 0
    nanos[3:late] = 0
    times = pa.array(micros, mask=null).cast(pa.timestamp("us"))
    column = pa.StructArray.from_arrays([times, pa.array(nanos, mask=null)], ["micros", "nanos"])
    plain = pa.array([0] * count).cast(pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([plain], ["t"])
    properties = {**FULL, "orc.compress": compression, "orc.stripe.size": "100000"}
    for write_id in (1, 2):
        path = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000_0"
        path.parent.mkdir()
        with BucketFileWriter(
            FS,
            str(path),
            columns=TIMES,
            kind=FileKind.BASE,
            write_id=write_id,
            bucket_property=encode_bucket(0),
            properties=properties,
        ) as file:
            for start in range(0, count, 9_000):
                arrays = [column.slice(start, 9_000), nested.slice(start, 9_000)]
                file.write_rows(pa.record_batch(arrays, ["t", "s"]))
    assert exact(path).column(0).combine_chunks().equals(column)
    gone = [*deletes(1, range(0, count, 3), by=3), *deletes(2, range(count), by=3)]
    write(tmp_path / "delete_delta_0000003_0000003" / "bucket_00000", gone, kind=FileKind.DELETE)
    definition = Table(TableName("default", "t"), TIMES, str(tmp_path), properties=properties)
    [made] = done(tmp_path, "major", definition=definition).files
    left = pa.array(np.arange(count) % 3 > 0)
    found = exact(tmp_path / made.directory / made.name).column(0).combine_chunks()
    assert found.equals(column.filter(left))


def test_nanoseconds_inside_other_types_are_refused_beside_years_that_arrow_lacks(
    tmp_path: Path,
) -> None:
    wide = pa.array([253_402_300_799_000_000]).cast(pa.timestamp("us"))
    fine = pa.array([1]).cast(pa.timestamp("ns"))
    for write_id, times, inside in ((1, wide, wide), (2, fine, fine)):
        path = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000_0"
        path.parent.mkdir()
        with BucketFileWriter(
            FS,
            str(path),
            columns=TIMES,
            kind=FileKind.INSERT,
            write_id=write_id,
            bucket_property=encode_bucket(0),
        ) as file:
            nested = pa.StructArray.from_arrays([inside], ["t"])
            file.write_rows(pa.record_batch([times, nested], ["t", "s"]))
    definition = Table(TableName("default", "t"), TIMES, str(tmp_path), properties=FULL)
    with pytest.raises(UnsupportedError, match="finer than microseconds"):
        done(tmp_path, "minor", definition=definition)
    [file] = done(tmp_path, "minor", definition=definition, method=Method.STRIPE_COPY).files
    assert file.rows == 2
