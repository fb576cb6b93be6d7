from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.layout.events import EVENT_FIELDS
from hiveacid.model.ids import RowId, encode_bucket
from hiveacid.model.tables import Column, WriteId
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.merge.overlap import overlapping_rows
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

FS = Files().at("/")[0]
COLUMNS = (Column("id", parse_type("int")),)
ROW = pa.struct([("id", pa.int32())])


def _delete(root: Path, name: str, events: Iterable[tuple[int, int, int, int]]) -> None:
    """A delete delta with (original write id, bucket, row id, current write id) events."""
    buckets: dict[int, list[tuple[int, int, int, int]]] = {}
    for one in sorted(events):
        buckets.setdefault(one[1], []).append(one)
    for bucket, found in buckets.items():
        originals, _, row_ids, currents = zip(*found, strict=True)
        arrays = [
            pa.array([2] * len(found), pa.int32()),
            pa.array(originals, pa.int64()),
            pa.array([encode_bucket(bucket)] * len(found), pa.int32()),
            pa.array(row_ids, pa.int64()),
            pa.array(currents, pa.int64()),
            pa.nulls(len(found), ROW),
        ]
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        path = str(directory / f"bucket_{bucket:05}")
        with BucketFileWriter(FS, path, columns=COLUMNS, kind=FileKind.DELETE) as writer:
            writer.write_events(pa.record_batch(arrays, list(EVENT_FIELDS)))


def _overlap(root: Path, mine: int, *others: int, limit: int = 10) -> list[RowId]:
    found = overlapping_rows(
        FS,
        str(root),
        mine=WriteId(mine),
        others=[WriteId(one) for one in others],
        limit=limit,
    )
    assert found is not None
    return list(found)


def test_rows_that_both_deleted_are_named_whatever_statement_did(tmp_path: Path) -> None:
    _delete(tmp_path, "delete_delta_0000005_0000005_0000", [(1, 0, 7, 5), (1, 1, 7, 5)])
    _delete(tmp_path, "delete_delta_0000005_0000005_0002", [(3, 0, 2, 5)])
    _delete(tmp_path, "delete_delta_0000006_0000006_0000", [(1, 0, 8, 6), (3, 0, 2, 6)])
    _delete(tmp_path, "delete_delta_0000007_0000007_0000", [(1, 1, 7, 7), (2, 0, 7, 7)])
    bucket = [encode_bucket(0), encode_bucket(1)]
    assert _overlap(tmp_path, 5, 6) == [RowId(3, bucket[0], 2)]
    assert _overlap(tmp_path, 5, 7) == [RowId(1, bucket[1], 7)]
    assert _overlap(tmp_path, 5, 6, 7) == [RowId(1, bucket[1], 7), RowId(3, bucket[0], 2)]
    assert _overlap(tmp_path, 6, 7) == []


def test_write_ids_without_delete_events_overlap_nothing(tmp_path: Path) -> None:
    _delete(tmp_path, "delete_delta_0000005_0000005_0000", [(1, 0, 7, 5)])
    (tmp_path / "delta_0000006_0000006_0000").mkdir()
    assert _overlap(tmp_path, 5, 6) == []
    assert _overlap(tmp_path, 6, 5) == []


def test_in_a_compacted_directory_only_events_of_the_others_count(tmp_path: Path) -> None:
    _delete(tmp_path, "delete_delta_0000009_0000009_0000", [(1, 0, 1, 9), (1, 0, 2, 9)])
    _delete(tmp_path, "delete_delta_0000003_0000006_v0000012", [(1, 0, 1, 3), (1, 0, 2, 6)])
    assert [one.row_id for one in _overlap(tmp_path, 9, 6)] == [2]
    assert [one.row_id for one in _overlap(tmp_path, 9, 3, 6)] == [1, 2]
    assert _overlap(tmp_path, 9, 4, 5) == []


@pytest.mark.parametrize("limit", [1, 10])
def test_no_more_rows_than_asked_for_are_named(tmp_path: Path, limit: int) -> None:
    _delete(tmp_path, "delete_delta_0000005_0000005_0000", [(1, 0, n, 5) for n in range(50)])
    _delete(tmp_path, "delete_delta_0000006_0000006_0000", [(1, 0, n, 6) for n in range(20, 90)])
    found = _overlap(tmp_path, 5, 6, limit=limit)
    assert [one.row_id for one in found] == list(range(20, 20 + limit))


def test_random_deletes_overlap_as_sets_do(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = {
        write_id: {
            (int(w), int(b), int(r))
            for w, b, r in zip(
                random.integers(1, 4, 200),
                random.integers(0, 3, 200),
                random.integers(0, 300, 200),
                strict=True,
            )
        }
        for write_id in (5, 6, 7)
    }
    for write_id, found in rows.items():
        name = f"delete_delta_{write_id:07}_{write_id:07}_0000"
        _delete(tmp_path, name, [(w, b, r, write_id) for w, b, r in found])
    wanted = sorted(RowId(w, encode_bucket(b), r) for w, b, r in rows[5] & (rows[6] | rows[7]))
    assert wanted
    assert _overlap(tmp_path, 5, 6, 7, limit=10_000) == wanted


def _insert(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir()


def test_what_a_major_compaction_took_is_found_where_it_was_written(tmp_path: Path) -> None:
    """The base has no delete events; the cleaner leaves their directories to who is open."""
    _delete(tmp_path, "delete_delta_0000006_0000006_0000", [(1, 0, 7, 6)])
    _delete(tmp_path, "delete_delta_0000009_0000009_0000", [(1, 0, 7, 9)])
    _insert(tmp_path, "base_0000007_v0000031")
    assert [one.row_id for one in _overlap(tmp_path, 9, 6)] == [7]


def test_events_that_are_there_as_written_and_compacted_are_read_once(tmp_path: Path) -> None:
    _delete(tmp_path, "delete_delta_0000006_0000006_0000", [(1, 0, 7, 6)])
    _delete(tmp_path, "delete_delta_0000003_0000006_v0000012", [(1, 0, 7, 6)])
    _delete(tmp_path, "delete_delta_0000009_0000009_0000", [(1, 0, 7, 9)])
    (compacted,) = (tmp_path / "delete_delta_0000003_0000006_v0000012").iterdir()
    compacted.write_bytes(b"is not opened")
    assert [one.row_id for one in _overlap(tmp_path, 9, 6)] == [7]


@pytest.mark.parametrize(
    "compacted", ["base_0000007_v0000031", "delta_0000003_0000007_v0000031", "base_0000006"]
)
def test_where_compacted_events_are_gone_nobody_can_tell(tmp_path: Path, compacted: str) -> None:
    _delete(tmp_path, "delete_delta_0000009_0000009_0000", [(1, 0, 7, 9)])
    _insert(tmp_path, compacted)
    assert _gone(tmp_path, 9, 6)
    assert _overlap(tmp_path, 9, 8) == []  # not compacted: it deleted nothing
    _insert(tmp_path, "delta_0000006_0000006_0000")
    assert _overlap(tmp_path, 9, 6) == []  # not cleaned either
    assert _overlap(tmp_path, 7, 6) == []  # where nothing was deleted, nothing matters


def test_a_file_that_goes_away_while_it_is_read_leaves_nothing_to_tell(tmp_path: Path) -> None:
    class Cleaned(FileSystem):
        def open_input(self, path: str) -> pa.NativeFile:
            if "_0000006_" in path:
                Path(path).unlink()
            return super().open_input(path)

    _delete(tmp_path, "delete_delta_0000006_0000006_0000", [(1, 0, 7, 6)])
    _delete(tmp_path, "delete_delta_0000009_0000009_0000", [(1, 0, 7, 9)])
    assert _gone(tmp_path, 9, 6, fs=Cleaned("/"))


def _gone(root: Path, mine: int, other: int, *, fs: FileSystem = FS) -> bool:
    found = overlapping_rows(fs, str(root), mine=WriteId(mine), others=[WriteId(other)])
    return found is None
