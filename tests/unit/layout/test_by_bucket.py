"""Parts of a directory, each as if it lay by itself."""

from __future__ import annotations

from hiveacid.layout.directories import (
    AcidDirectory,
    BaseDirectory,
    BaseName,
    DataFile,
    DeltaDirectory,
    DeltaName,
)
from hiveacid.model.tables import StatementId, WriteId


def _delta(write_id: int, *files: DataFile, is_delete: bool = False) -> DeltaDirectory:
    name = DeltaName(WriteId(write_id), WriteId(write_id), StatementId(0), is_delete=is_delete)
    path = files[0].path.rpartition("/")[0]
    return DeltaDirectory(path, name, files, all_valid=True)


def test_rows_of_a_bucket_lie_beside_all_delete_deltas() -> None:
    originals = tuple(
        DataFile(path, 1, bucket)
        for path, bucket in (("000000_0", 0), ("000000_0_copy_1", 0), ("000001_0", 1))
    )
    both = _delta(1, DataFile("delta_1/bucket_00000", 1, 0), DataFile("delta_1/bucket_00001", 1, 1))
    deleted = _delta(2, DataFile("delete_delta_2/bucket_00000", 1, 0), is_delete=True)
    one = _delta(3, DataFile("delta_3/bucket_00001", 1, 1))
    directory = AcidDirectory(None, originals, (both, deleted, one), ("old",), (), ("x",))
    found = directory.by_bucket()
    assert list(found) == [0, 1]
    assert found[0].originals == originals[:2]
    assert [(d.path, d.files) for d in found[0].deltas] == [
        ("delta_1", both.files[:1]),
        ("delete_delta_2", deleted.files),
    ]
    assert found[1].originals == originals[2:]
    assert [d.path for d in found[1].deltas] == ["delta_1", "delete_delta_2", "delta_3"]
    assert found[1].row_files == (originals[2], both.files[1], *one.files)


def test_a_file_of_the_base_stays_in_it() -> None:
    files = (DataFile("base_5/bucket_00000", 1, 0), DataFile("base_5/bucket_00001", 1, 1))
    base = BaseDirectory("base_5", BaseName(WriteId(5)), files)
    directory = AcidDirectory(base, (), (), (), (), ())
    alone = directory.alone(files[1])
    assert alone.base is not None and alone.base.files == files[1:]
    assert alone.row_files == files[1:]
    assert [bucket.row_files for bucket in directory.by_bucket().values()] == [files[:1], files[1:]]
    original = DataFile("000000_0", 1, 0)
    assert AcidDirectory(None, (original,), (), (), (), ()).alone(original).row_files == (original,)
