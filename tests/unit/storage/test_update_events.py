"""Deltas of Hive before 3: inserts, updates and deletes in one file (format.md 4.7)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import FormatError
from hiveacid.layout.events import EVENT_FIELDS, Operation
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.event_merge import What, live_rows
from hiveacid.storage.merge.merge_read import merge_read
from hiveacid.storage.merge.sources import DirectorySources
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.statistics import is_native
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("string")))
ROW = pa.struct([("id", pa.int32()), ("v", pa.string())])
Event = tuple[Operation, int, int, int, str | None]
"""Operation, original write id, row id, current write id, value; bucket 0."""


def write_events(directory: Path, events: Iterable[Event], *, bucket: int = 0) -> None:
    """One bucket file of Hive 2: sorted by identity, newest first."""
    directory.mkdir(parents=True)
    found = sorted(events, key=lambda e: (e[1], e[2], -e[3]))
    operations, originals, row_ids, currents, values = zip(*found, strict=True)
    rows = [None if v is None else {"id": r, "v": v} for r, v in zip(row_ids, values, strict=True)]
    arrays = [
        pa.array(operations, pa.int32()),
        pa.array(originals, pa.int64()),
        pa.array([bucket] * len(found), pa.int32()),
        pa.array(row_ids, pa.int64()),
        pa.array(currents, pa.int64()),
        pa.array(rows, ROW),
    ]
    path = str(directory / "bucket_00000")
    with BucketFileWriter(FS, path, columns=COLUMNS, kind=FileKind.INSERT) as writer:
        writer.write_events(pa.record_batch(arrays, list(EVENT_FIELDS)))


def read(root: Path, valid: ValidWriteIdList) -> list[tuple[int, int, str]]:
    """(write id, row id, value) of the rows, sorted."""
    directory = resolve(list_partition(FS, str(root)), valid, None)
    batches = merge_read(FS, str(root), directory, table_columns=COLUMNS, valid=valid, row_ids=True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted((r["row__id"]["writeid"], r["row__id"]["rowid"], r["v"]) for r in rows)


@pytest.mark.slow
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 5)),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 6),
    st.sets(st.integers(1, 6), max_size=2),
    st.booleans(),
)
def test_the_newest_valid_event_of_each_row_counts(
    tmp_path_factory: pytest.TempPathFactory,
    txns: list[list[tuple[str, int]]],
    hwm: int,
    aborted: set[int],
    with_base: bool,
) -> None:
    root = tmp_path_factory.mktemp("v1")
    alive = [(0, n) for n in range(3)] if with_base else []
    model = dict.fromkeys(alive, "base")
    if with_base:
        write_events(root / "base_0000000", [(Operation.INSERT, 0, n, 0, "base") for n in range(3)])
    dead = sorted(w for w in aborted if w <= hwm)
    text = f"d.t:{hwm}:9223372036854775807::{','.join(map(str, dead))}"
    valid = ValidWriteIdList.parse(text)
    for write_id, changes in enumerate(txns, start=1):
        events: dict[tuple[int, int], Event] = {}
        seen = valid.is_valid(write_id)
        for row_id, (change, choice) in enumerate(changes):
            value = f"{write_id}-{row_id}"
            key = (write_id, row_id)
            if change == "insert":
                events[key] = (Operation.INSERT, *key, write_id, value)
                alive = [*alive, key] if seen else alive
            elif alive and alive[choice % len(alive)] not in events:
                key = alive[choice % len(alive)]
                operation = Operation.UPDATE if change == "update" else Operation.DELETE
                value = value if change == "update" else None
                events[key] = (operation, *key, write_id, value)
            else:
                continue
            if seen:
                model[key] = value
        alive = [key for key in alive if model.get(key) is not None]
        if events:
            write_events(root / f"delta_{write_id:07d}_{write_id:07d}", events.values())
    expected = sorted((*key, value) for key, value in model.items() if value is not None)
    assert read(root, valid) == expected


def test_a_later_statement_of_one_transaction_wins(tmp_path: Path) -> None:
    write_events(tmp_path / "delta_0000001_0000001_0000", [(Operation.INSERT, 1, 0, 1, "first")])
    write_events(tmp_path / "delta_0000001_0000001_0001", [(Operation.UPDATE, 1, 0, 1, "second")])
    assert read(tmp_path, ValidWriteIdList.everything()) == [(1, 0, "second")]


def test_updates_in_a_base_are_a_format_error(tmp_path: Path) -> None:
    write_events(tmp_path / "base_0000001", [(Operation.UPDATE, 1, 0, 1, "x")])
    with pytest.raises(FormatError, match="update or delete events among its rows"):
        read(tmp_path, ValidWriteIdList.everything())


def test_sparks_reader_is_not_given_files_with_updates(tmp_path: Path) -> None:
    write_events(tmp_path / "delta_0000001_0000001", [(Operation.INSERT, 1, 0, 1, "x")])
    write_events(tmp_path / "delta_0000002_0000002", [(Operation.UPDATE, 1, 0, 2, "y")])
    tails = [
        read_tail(FS, str(tmp_path / f"delta_000000{n}_000000{n}" / "bucket_00000")) for n in (1, 2)
    ]
    how = {"has_events": True, "utc": True, "wanted": ("id", "v")}
    found = [is_native(tail, COLUMNS, **how) for tail in tails]  # type: ignore[arg-type]
    assert found == [True, False]


PLAIN, ENCODED = 0, 536870912


def old_directory(root: Path, bucket: int, *, delete_delta: bool) -> None:
    """Three rows without events, then an update and a delete, or a delete delta, of Hive 2."""
    rows = {"id": pa.array([0, 1, 2], pa.int32()), "v": ["a", "b", "c"]}
    orc.write_table(pa.table(rows), str(root / "000000_0"))
    events = [(Operation.DELETE, 0, 2, 2, None)]
    if not delete_delta:
        events.append((Operation.UPDATE, 0, 1, 2, "updated"))
    name = "delete_delta" if delete_delta else "delta"
    write_events(root / f"{name}_0000002_0000002_0000", events, bucket=bucket)


def test_events_that_say_where_original_rows_are_count(tmp_path: Path) -> None:
    old_directory(tmp_path, ENCODED, delete_delta=False)
    found = read(tmp_path, ValidWriteIdList.everything())
    assert found == [(0, 0, "a"), (0, 1, "updated")]


@pytest.mark.parametrize("delete_delta", [False, True])
def test_events_with_plain_bucket_numbers_for_original_rows_are_a_format_error(
    tmp_path: Path, delete_delta: bool
) -> None:
    """Hive 4.1 and 3.1 do not apply them (real-hive.md 10)."""
    old_directory(tmp_path, PLAIN, delete_delta=delete_delta)
    with pytest.raises(FormatError, match=r"before Hive 3.* major compaction"):
        read(tmp_path, ValidWriteIdList.everything())
    assert read(tmp_path, ValidWriteIdList.parse("d.t:1:9223372036854775807::")) == [
        (0, 0, "a"),
        (0, 1, "b"),
        (0, 2, "c"),
    ]
    valid = ValidWriteIdList.everything()
    directory = resolve(list_partition(FS, str(tmp_path)), valid, None)
    sources = DirectorySources(FS, str(tmp_path), directory, valid=valid)
    with pytest.raises(FormatError, match="before Hive 3"):
        tuple(live_rows(sources, What((0,), COLUMNS, valid, unit="us")))
