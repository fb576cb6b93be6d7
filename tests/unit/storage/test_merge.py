"""Reading a table directory: deletes, valid write ids, files that are not what they should be."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import FormatError, MissingFileError, NotFoundError
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList, encode_bucket
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.reading.rows import read_arrow
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.delete_set import RUN_BITS, DeleteSet
from hiveacid.storage.merge.merge_read import merge_read
from hiveacid.storage.merge.sources import read_delete_keys
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("string")))
EVERYTHING = ValidWriteIdList.everything()


def insert(
    root: Path, write_id: int, ids: Iterable[int], *, bucket: int = 0, statement: int = 0
) -> None:
    directory = root / f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
    directory.mkdir(parents=True, exist_ok=True)
    numbers = list(ids)
    with BucketFileWriter(
        FS,
        str(directory / f"bucket_{bucket:05d}"),
        columns=COLUMNS,
        kind=FileKind.INSERT,
        write_id=write_id,
        bucket_property=encode_bucket(bucket, statement),
    ) as writer:
        writer.write_rows(
            pa.record_batch(
                [pa.array(numbers, pa.int32()), pa.array([f"v{n}" for n in numbers])], ["id", "v"]
            )
        )


def delete(
    root: Path,
    write_id: int,
    keys: Iterable[tuple[int, int, int]],
    *,
    file_bucket: int = 0,
) -> Path:
    """Keys are (write id, bucket, row id) of statement 0."""
    directory = root / f"delete_delta_{write_id:07d}_{write_id:07d}_0000"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"bucket_{file_bucket:05d}"
    rows = sorted((w, encode_bucket(b), r) for w, b, r in keys)
    with BucketFileWriter(
        FS, str(path), columns=COLUMNS, kind=FileKind.DELETE, write_id=write_id
    ) as writer:
        writer.write_deletes(
            pa.array([row[0] for row in rows], pa.int64()),
            pa.array([row[1] for row in rows], pa.int32()),
            pa.array([row[2] for row in rows], pa.int64()),
        )
    return path


def ids(root: Path, **options: Any) -> list[int]:
    return sorted(read_arrow(str(root), **options).read_all()["id"].to_pylist())


def test_deletes_match_the_whole_identity(tmp_path: Path) -> None:
    insert(tmp_path, 1, range(5))
    insert(tmp_path, 2, range(10, 15))
    insert(tmp_path, 2, range(20, 25), bucket=1)
    delete(tmp_path, 3, [(1, 0, 0), (2, 0, 4), (7, 0, 1), (1, 1, 2)])
    delete(tmp_path, 4, [(2, 1, 0)], file_bucket=1)
    assert ids(tmp_path) == [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 23, 24]


def test_every_delete_file_counts_for_every_bucket_as_hive_3_0_wrote_them(tmp_path: Path) -> None:
    insert(tmp_path, 1, range(5))
    insert(tmp_path, 1, range(10, 15), bucket=1)
    delete(tmp_path, 2, [(1, 0, 1), (1, 1, 1)], file_bucket=1)
    assert ids(tmp_path) == [0, 2, 3, 4, 10, 12, 13, 14]


def test_only_valid_write_ids_count(tmp_path: Path) -> None:
    insert(tmp_path, 1, range(3))
    insert(tmp_path, 2, [10])
    delete(tmp_path, 3, [(1, 0, 0)])
    insert(tmp_path, 4, [40])
    assert ids(tmp_path) == [1, 2, 10, 40]
    assert ids(tmp_path, valid_write_ids="t:3:9223372036854775807::2") == [1, 2]
    assert ids(tmp_path, valid_write_ids="t:4:3:3:") == [0, 1, 2, 10, 40]


def test_rows_of_a_shared_delta_are_filtered_by_write_id(tmp_path: Path) -> None:
    directory = tmp_path / "delta_0000001_0000003"
    directory.mkdir()
    events = pa.record_batch(
        [
            pa.array([0] * 3, pa.int32()),
            pa.array([1, 2, 3]),
            pa.array([encode_bucket(0)] * 3, pa.int32()),
            pa.array([0] * 3),
            pa.array([1, 2, 3]),
            pa.array([{"id": i, "v": "x"} for i in (1, 2, 3)]).cast(
                pa.struct([("id", pa.int32()), ("v", pa.string())])
            ),
        ],
        names=["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"],
    )
    path = directory / "bucket_00000"
    with BucketFileWriter(FS, str(path), columns=COLUMNS, kind=FileKind.INSERT) as writer:
        writer.write_events(events)
    assert ids(tmp_path) == [1, 2, 3]
    assert ids(tmp_path, valid_write_ids="t:3:9223372036854775807::2") == [1, 3]
    assert ids(tmp_path, valid_write_ids="t:3:3:3:1") == [2]


def test_columns_filter_and_row_ids(tmp_path: Path) -> None:
    part = tmp_path / "p=a%2Fb"
    insert(part, 1, range(3))
    insert(tmp_path / "p=__HIVE_DEFAULT_PARTITION__", 1, [7])
    table = read_arrow(str(tmp_path), columns=["P", "id"], row_ids=True).read_all()
    assert table.schema.names == ["p", "id", "row__id"]
    assert sorted(table["p"].to_pylist(), key=str) == [None, "a/b", "a/b", "a/b"]
    found = read_arrow(str(tmp_path), columns=["v"], filter=pc.field("id") >= 2).read_all()
    assert sorted(found["v"].to_pylist()) == ["v2", "v7"]
    only = read_arrow(str(tmp_path), columns=["id"], filter=pc.field("p") == "a/b").read_all()
    assert sorted(only["id"].to_pylist()) == [0, 1, 2]
    assert sum(batch.num_rows for batch in read_arrow(str(tmp_path), columns=[])) == 4
    row_ids = table.filter(pc.field("id") == 2)["row__id"].to_pylist()
    assert row_ids == [{"writeid": 1, "bucketid": encode_bucket(0), "rowid": 2}]
    with pytest.raises(NotFoundError):
        read_arrow(str(tmp_path), columns=["nope"])


def test_reading_is_lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 1)  # several threads are ahead of the reader
    insert(tmp_path, 1, range(3))
    insert(tmp_path, 2, range(3), bucket=1)
    reader = read_arrow(str(tmp_path))
    assert reader.read_next_batch().num_rows == 3
    (tmp_path / "delta_0000002_0000002_0000" / "bucket_00001").unlink()
    with pytest.raises(MissingFileError):
        reader.read_next_batch()


def test_missing_directory_is_an_error_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_arrow(str(tmp_path / "none"))
    assert read_arrow(str(tmp_path)).read_all().num_rows == 0


def test_a_delete_file_that_the_listing_promised_is_never_skipped(tmp_path: Path) -> None:
    insert(tmp_path, 1, range(3))
    path = delete(tmp_path, 2, [(1, 0, 0)])
    directory = resolve(list_partition(FS, str(tmp_path)), EVERYTHING, None)
    path.unlink()
    with pytest.raises(MissingFileError):
        list(merge_read(FS, str(tmp_path), directory, table_columns=COLUMNS, valid=EVERYTHING))


@pytest.mark.parametrize("content", [b"", b"PAR1....PAR1", b"not orc at all"])
def test_a_foreign_or_empty_delete_file_is_a_format_error(tmp_path: Path, content: bytes) -> None:
    insert(tmp_path, 1, range(3))
    delete(tmp_path, 2, [(1, 0, 0)]).write_bytes(content)
    with pytest.raises(FormatError):
        ids(tmp_path)


def test_a_raw_file_in_a_delete_files_place_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    with BucketFileWriter(FS, str(path), columns=COLUMNS, kind=FileKind.PLAIN) as writer:
        writer.write_rows(
            pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], ["id", "v"])
        )
    with pytest.raises(FormatError, match="no delete events"):
        read_delete_keys(FS, str(path), valid=EVERYTHING)


@pytest.mark.parametrize(
    "place", ["000000_0", "000000_0_copy_1", "HIVE_UNION_SUBDIR_1/000000_0", "sub/bucket_00000"]
)
def test_events_outside_bases_and_deltas_are_a_format_error(tmp_path: Path, place: str) -> None:
    insert(tmp_path, 1, [1, 2])
    stray = tmp_path / place
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes((tmp_path / "delta_0000001_0000001_0000" / "bucket_00000").read_bytes())
    for options in ({}, {"columns": ["id"]}, {"filter": "id = 1"}, {"row_ids": True}):
        with pytest.raises(FormatError, match=f"{place} holds row events and lies outside"):
            read_arrow(str(tmp_path), **options).read_all()  # type: ignore[arg-type]


def test_lower_case_root_names_are_accepted(tmp_path: Path) -> None:
    directory = tmp_path / "delta_0000001_0000001_0000"
    directory.mkdir()
    names = ["operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"]
    row = pa.array([{"_col0": 5, "_col1": "x"}])
    values: list[Any] = [pa.array([v]) for v in (0, 1, encode_bucket(0), 0, 1)]
    values[0], values[2] = values[0].cast(pa.int32()), values[2].cast(pa.int32())
    orc.write_table(pa.table([*values, row], names), str(directory / "bucket_00000"))
    table = read_arrow(str(tmp_path), row_ids=True).read_all()
    assert table.to_pylist() == [
        {
            "_col0": 5,
            "_col1": "x",
            "row__id": {"writeid": 1, "bucketid": encode_bucket(0), "rowid": 0},
        }
    ]


def test_positional_names_and_missing_columns_follow_the_table(tmp_path: Path) -> None:
    insert(tmp_path, 1, [4])
    wider = (
        Column("key", parse_type("bigint")),
        Column("text", parse_type("string")),
        Column("extra", parse_type("decimal(5,1)")),
    )
    directory = resolve(list_partition(FS, str(tmp_path)), EVERYTHING, None)
    (batch,) = merge_read(FS, str(tmp_path), directory, table_columns=wider, valid=EVERYTHING)
    assert batch.to_pylist() == [{"key": 4, "text": "v4", "extra": None}]
    with pytest.raises(FormatError, match="cannot be read as"):
        list(
            merge_read(
                FS,
                str(tmp_path),
                directory,
                table_columns=(COLUMNS[0], Column("v", parse_type("array<date>"))),
                valid=EVERYTHING,
            )
        )


KEYS = st.tuples(
    st.integers(0, 3) | st.sampled_from([10_000_001, 2**62]),
    st.sampled_from([0, encode_bucket(0), encode_bucket(1), encode_bucket(0, 3)]),
    st.integers(0, 6) | st.sampled_from([2**40, 2**62]),
)


def arrays_of(keys: list[tuple[int, int, int]]) -> Any:
    return (
        np.array([k[0] for k in keys], dtype=np.int64),
        np.array([k[1] for k in keys], dtype=np.int32),
        np.array([k[2] for k in keys], dtype=np.int64),
    )


@given(st.lists(KEYS, max_size=12), st.lists(KEYS, max_size=12))
def test_delete_set_is_a_set(
    deleted: list[tuple[int, int, int]], rows: list[tuple[int, int, int]]
) -> None:
    found = DeleteSet([arrays_of(deleted[:5]), arrays_of(deleted[5:])])
    assert len(found) == len(set(deleted))
    assert found.contains(*arrays_of(rows)).tolist() == [row in set(deleted) for row in rows]


@given(st.lists(KEYS, max_size=12), st.sampled_from(RUN_BITS))
def test_bitmap_has_the_bits_of_the_deleted_rows(
    deleted: list[tuple[int, int, int]], bits: int
) -> None:
    gone = DeleteSet([arrays_of(deleted)])
    sizes = gone.bitmap_bytes()
    if not sizes:
        return
    bitmap = gone.bitmap(bits)
    assert len(bitmap.run) * (1 << bits) // 8 <= sizes[bits]
    found = {
        (int(write_id), int(bucket), (int(run) << bits) + at)
        for write_id, bucket, run, words in zip(
            bitmap.write_id, bitmap.bucket, bitmap.run, bitmap.words, strict=True
        )
        for at in np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
    }
    assert found == set(deleted)
    runs = list(zip(bitmap.write_id, bitmap.bucket, bitmap.run, strict=True))
    assert len(set(runs)) == len(runs)


def test_a_few_rows_are_looked_up_in_a_large_set_at_the_cost_of_the_rows() -> None:
    """Each stripe of a file asks, and the whole set is not gone through for each."""
    gone = np.arange(0, 2_000_000, 2)
    deletes = DeleteSet([(np.ones(len(gone), np.int64), np.zeros(len(gone), np.int32), gone)])
    rows = np.arange(1_000_000, 1_000_010)
    tracemalloc.start()
    try:
        found = deletes.contains(np.ones(10, np.int64), np.zeros(10, np.int32), rows)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tolist() == [True, False] * 5
    assert peak_bytes < 100_000


def test_deleted_rows_are_found_in_runs_of_rows_and_elsewhere() -> None:
    """The same rows, whether they are of one write id and bucket and in order, or not."""
    chance = np.random.default_rng(7)
    ids = chance.integers(1, 4, 300), chance.integers(0, 3, 300), chance.integers(0, 50, 300)
    wide = ids[0], ids[1], ids[2] << 55  # too wide to be packed
    for write_id, bucket, row_id in (ids, wide):
        keys = write_id, (bucket << 16).astype(np.int32), row_id
        deletes = DeleteSet([tuple(part[:90] for part in keys)])
        gone = set(zip(*(part[:90].tolist() for part in keys), strict=True))
        assert len(deletes) == len(gone)
        for one in (1, 2, 9):
            run = np.flatnonzero((write_id == one) & (bucket == 1))
            order = run[np.unique(row_id[run], return_index=True)[1]]
            for chosen in (order, order[::-1], np.arange(300)):
                rows = [part[chosen] for part in keys]
                expected = [row in gone for row in zip(*(r.tolist() for r in rows), strict=True)]
                assert deletes.contains(*rows).tolist() == expected
                at, places = deletes.matches(*rows)
                assert at.tolist() == np.flatnonzero(expected).tolist()
                assert places.tolist() == deletes.places(*rows)[at].tolist()
