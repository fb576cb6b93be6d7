"""The file system, listings, publication."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hiveacid.errors import FormatError, InvalidInputError, MissingFileError, StorageError
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import discover_partitions, list_partition, with_logical_lengths
from hiveacid.storage.target import FileKind, WrittenFile, publish, retract
from hiveacid.testing import FaultyFiles, ScriptedFaults

FS = Files().at("/")[0]


def test_locations_become_paths() -> None:
    for location in ("/a/b%3Ac", "/a/b%3Ac/", "file:/a/b%3Ac", "file:///a/b%3Ac"):
        assert Files().at(location)[1] == "/a/b%3Ac"
    for location in ("a/b", "nosuch://x/y", ""):
        with pytest.raises(InvalidInputError):
            Files().at(location)


def test_files_open_each_file_system_once_and_pickle_as_their_settings(tmp_path: Path) -> None:
    files = Files()
    assert files.at("/a")[0] is files.at("file:///b/c")[0]
    assert files == Files()
    assert hash(files) == hash(Files())
    copy = pickle.loads(pickle.dumps(files))
    assert copy == files
    assert copy.at(str(tmp_path))[0] == files.at("/")[0]
    faulty = FaultyFiles(ScriptedFaults(at=0))
    assert faulty != files
    with pytest.raises(StorageError, match="as it was told to"):
        faulty.at("/")[0].exists("/")
    assert pickle.loads(pickle.dumps(faulty)) == files, "no fault in another process"


def test_a_file_system_pickles_as_its_root(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    copy = pickle.loads(pickle.dumps(FS))
    assert copy.read_bytes(str(tmp_path / "a")) == b"x"


def test_files_and_directories(tmp_path: Path) -> None:
    root = str(tmp_path)
    FS.create_directory(f"{root}/d/e")
    FS.write_bytes(f"{root}/d/e/f", data=b"hello")
    assert FS.exists(f"{root}/d/e/f")
    assert FS.size_bytes(f"{root}/d/e/f") == 5
    assert [info.path for info in FS.list_recursive(root)] == [
        f"{root}/d",
        f"{root}/d/e",
        f"{root}/d/e/f",
    ]
    FS.rename(f"{root}/d/e/f", target=f"{root}/d/g")
    with FS.open_input(f"{root}/d/g") as source:
        assert source.read_at(3, 1) == b"ell"
    FS.delete_file(f"{root}/d/g")
    FS.delete_directory(f"{root}/d")
    FS.delete_directory(f"{root}/d")
    assert FS.list_recursive(f"{root}/d") == ()
    with pytest.raises(MissingFileError):
        FS.read_bytes(f"{root}/none")
    with pytest.raises(MissingFileError):
        FS.size_bytes(f"{root}/none")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_says_so() -> None:
    with pytest.raises(StorageError) as caught:
        FS.write_bytes("/dev/full", data=b"x" * 100_000)
    assert caught.value.context["detail"] == "no-space"


def test_listing_reads_markers(tmp_path: Path) -> None:
    base = tmp_path / "base_0000003"
    base.mkdir()
    (base / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    (base / "bucket_00000").write_bytes(b"12345")
    entries = {entry.path: entry for entry in list_partition(FS, str(tmp_path))}
    assert entries["base_0000003"].is_directory
    assert "compacted" in (entries["base_0000003/_metadata_acid"].marker or "")
    assert entries["base_0000003/bucket_00000"].size_bytes == 5
    assert entries["base_0000003/bucket_00000"].marker is None


@pytest.mark.parametrize(
    ("side", "length"),
    [
        ((0).to_bytes(8, "big"), 0),
        ((0).to_bytes(8, "big") + (70).to_bytes(8, "big"), 70),
        ((0).to_bytes(8, "big") + (70).to_bytes(8, "big") + b"\x00\x00\x01", 70),
        (None, None),
    ],
)
def test_the_last_complete_flush_length_counts(
    tmp_path: Path, side: bytes | None, length: int | None
) -> None:
    delta = tmp_path / "delta_0000001_0000005"
    delta.mkdir()
    (delta / "bucket_00000").write_bytes(b"x" * 100)
    if side is not None:
        (delta / "bucket_00000_flush_length").write_bytes(side)
    entries = list_partition(FS, str(tmp_path))
    directory = resolve(entries, ValidWriteIdList.everything(), None)
    found = with_logical_lengths(FS, str(tmp_path), directory, entries=entries)
    assert found.deltas[0].files[0].logical_bytes == length


def test_an_unreadable_flush_length_is_a_format_error(tmp_path: Path) -> None:
    delta = tmp_path / "delta_0000001_0000005"
    delta.mkdir()
    (delta / "bucket_00000").write_bytes(b"x" * 100)
    (delta / "bucket_00000_flush_length").write_bytes(b"\x00\x00")
    entries = list_partition(FS, str(tmp_path))
    directory = resolve(entries, ValidWriteIdList.everything(), None)
    with pytest.raises(FormatError):
        with_logical_lengths(FS, str(tmp_path), directory, entries=entries)


def test_partitions_are_found_by_name(tmp_path: Path) -> None:
    for name in (
        "p=1/q=a%3Ab",
        "p=1/q=__HIVE_DEFAULT_PARTITION__",
        "p=2/q=x",
        "_tmp/p=9",
        ".s/p=8",
    ):
        (tmp_path / name).mkdir(parents=True)
    found = discover_partitions(FS, str(tmp_path))
    assert {partition.names for partition in found} == {("p", "q")}
    assert {partition.values for partition in found} == {("1", "a:b"), ("1", None), ("2", "x")}
    assert discover_partitions(FS, str(tmp_path / "p=2" / "q=x"))[0].names == ()


def test_what_a_dropped_partition_leaves_is_no_partition(tmp_path: Path) -> None:
    (tmp_path / "p=1" / "q=1").mkdir(parents=True)
    (tmp_path / "p=2").mkdir()
    (found,) = discover_partitions(FS, str(tmp_path))
    assert found.values == ("1", "1")
    (tmp_path / "p=2" / "000000_0").touch()
    with pytest.raises(FormatError):
        discover_partitions(FS, str(tmp_path))


def test_partitions_that_disagree_are_a_format_error(tmp_path: Path) -> None:
    (tmp_path / "p=1").mkdir()
    (tmp_path / "q=1").mkdir()
    with pytest.raises(FormatError):
        discover_partitions(FS, str(tmp_path))


def staged(root: Path, *, partition: tuple[str | None, ...] = ("x:y",)) -> list[WrittenFile]:
    files = []
    for directory, kind in (
        ("delta_0000001_0000001_0000", FileKind.INSERT),
        ("delete_delta_0000001_0000001_0000", FileKind.DELETE),
    ):
        path = root / "_staging_1" / directory / "bucket_00000"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"data")
        files.append(
            WrittenFile(
                partition=partition,
                directory=directory,
                name="bucket_00000",
                staged_path=str(path),
                kind=kind,
                rows=1,
                size_bytes=4,
            )
        )
    return files


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


PUBLISHED = [
    "p=x%3Ay/delete_delta_0000001_0000001_0000/_orc_acid_version",
    "p=x%3Ay/delete_delta_0000001_0000001_0000/bucket_00000",
    "p=x%3Ay/delta_0000001_0000001_0000/_orc_acid_version",
    "p=x%3Ay/delta_0000001_0000001_0000/bucket_00000",
]


def test_publish_moves_files_and_marks_the_version(tmp_path: Path) -> None:
    files = staged(tmp_path)
    staging = str(tmp_path / "_staging_1")
    for _ in range(2):
        publish(FS, str(tmp_path), files, partition_columns=("p",), staging=staging)
        assert tree(tmp_path) == PUBLISHED
    assert (tmp_path / PUBLISHED[0]).read_bytes() == b"2"
    assert not Path(staging).exists()


def test_publish_goes_on_where_it_stopped(tmp_path: Path) -> None:
    files = staged(tmp_path)
    publish(FS, str(tmp_path), files[:1], partition_columns=("p",))
    publish(FS, str(tmp_path), files, partition_columns=("p",))
    assert set(PUBLISHED) <= set(tree(tmp_path))


def test_publish_overwrites_nothing_and_misses_nothing(tmp_path: Path) -> None:
    files = staged(tmp_path)
    taken = tmp_path / PUBLISHED[3]
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"somebody else's")
    with pytest.raises(StorageError, match="exists already"):
        publish(FS, str(tmp_path), files, partition_columns=("p",))
    retract(FS, str(tmp_path), files, partition_columns=("p",))
    assert taken.read_bytes() == b"somebody else's"
    taken.unlink()
    Path(files[0].staged_path).unlink()
    with pytest.raises(MissingFileError):
        publish(FS, str(tmp_path), files, partition_columns=("p",))


def test_retract_takes_everything_back(tmp_path: Path) -> None:
    files = staged(tmp_path)
    staging = str(tmp_path / "_staging_1")
    publish(FS, str(tmp_path), files, partition_columns=("p",), staging=staging)
    for _ in range(2):
        retract(FS, str(tmp_path), files, partition_columns=("p",))
        assert tree(tmp_path) == []
    assert (tmp_path / "p=x%3Ay").is_dir()
