"""One suite over the places where files are: a local disk, an object store, HDFS."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.s3 import S3Server

from hiveacid.errors import MissingFileError
from hiveacid.layout.directories import VERSION_FILE
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.plain.moves import PlainMoves
from hiveacid.storage.stores import s3_of_settings
from hiveacid.storage.target import FileKind, WrittenFile, publish, retract
from hiveacid.testing import Fault, FaultyFiles, ManualClock, ScriptedFaults

NAMES = ["p=a%2Fb/f", "p=1+1/f g", "p=é/f%41", "p='\"&/f", "p=[a]*/f"]


class InPassing(ScriptedFaults):
    """Each request fails three times, in each way, before it succeeds, in each thread."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    def before(self, operation: str, subject: str) -> Fault | None:
        """See ``Faults``."""
        super().before(operation, subject)
        asked = getattr(self._thread, "asked", 0)
        self._thread.asked = asked + 1
        return (Fault.LOST, Fault.REFUSED, Fault.TORN, None)[asked % 4]


@pytest.fixture(
    params=[
        "local",
        "busy",
        "s3",
        pytest.param("hdfs", marks=[pytest.mark.java, pytest.mark.long("storage")]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system, and the path of a directory in it that is not there yet."""
    if request.param == "local":
        return Files().at(str(tmp_path / "a b%2B+é"))
    if request.param == "busy":
        endless = Retries(1e9, clock=ManualClock())  # all threads move this clock on
        faulty = FaultyFiles(ScriptedFaults(), InPassing(), retries=endless)
        return faulty.at(str(tmp_path / "a b%2B+é"))
    if request.param == "hdfs":
        return Files().at(f"{request.getfixturevalue('hdfs')}/{tmp_path.name}/a b%2B+é")
    server: S3Server = request.getfixturevalue("s3")
    files = Files(s3=s3_of_settings(Settings.of(server.settings)))
    return files.at(f"s3a://{server.bucket()}/a b%2B+é")


def test_a_path_has_a_location(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    location = fs.location_of(path)
    assert fs.path_of(location) == path
    assert type(fs) is not FileSystem or FileSystem(location, fs.s3) == fs


def files_below(fs: FileSystem, path: str) -> list[str]:
    """Paths below a directory."""
    found = [info for info in fs.list_recursive(path) if not info.is_directory]
    return [info.path[len(path) + 1 :] for info in found]


def written(place: tuple[FileSystem, str], *names: str) -> None:
    """Files whose content is their name."""
    fs, path = place
    for name in names:
        fs.create_directory(f"{path}/{name}".rpartition("/")[0])
        fs.write_bytes(f"{path}/{name}", data=name.encode())


def test_names_are_what_they_are(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    assert fs.list_recursive(path) == fs.list_directory(path) == ()
    assert not fs.exists(path)
    written(place, *NAMES)
    assert files_below(fs, path) == sorted(NAMES)
    assert [fs.read_bytes(f"{path}/{name}").decode() for name in NAMES] == NAMES
    assert all(info.modified_ns for info in fs.list_recursive(path) if not info.is_directory)
    fs.copy_files([(f"{path}/{name}", f"{path}/{name} copied") for name in NAMES])
    assert [fs.read_bytes(f"{path}/{name} copied").decode() for name in NAMES] == NAMES
    first = [info.path for info in fs.list_directory(path) if info.is_directory]
    assert first == sorted({f"{path}/{name.partition('/')[0]}" for name in NAMES})
    again = pickle.loads(pickle.dumps(fs))
    assert again.size_bytes(f"{path}/{NAMES[0]}") == len(NAMES[0])


def test_directories_are_listed_together(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    names = ["p=a", "p=a!", "p=a b", "p=b%2F", "p=c/q=1", "p=c/q=2", "p=é", "p=none"]
    for name in names[:-1]:
        written(place, f"{name}/d/e/f", f"{name}/g")
        fs.create_directory(f"{path}/{name}/empty/e")
    for chosen in (names, names[::-2], names[:1]):
        paths = [f"{path}/{name}" for name in chosen]
        listed = fs.list_each(paths)
        for one, infos in zip(paths, listed, strict=True):
            expected = fs.list_recursive(one)
            assert [(i.path, i.is_directory) for i in infos] == [
                (i.path, i.is_directory) for i in expected
            ]
            assert [i for i in infos if not i.is_directory] == [
                i for i in expected if not i.is_directory
            ]
    if fs.is_object_store:
        return
    nested = [path, f"{path}/p=a"]
    assert fs.list_each(nested) == tuple(map(fs.list_recursive, nested))


def test_a_file_is_written_over_read_anywhere_copied_and_deleted(
    place: tuple[FileSystem, str],
) -> None:
    fs, path = place
    written(place, "d/f")
    with fs.open_output(f"{path}/d/f") as out:
        out.write(b"0123")
        out.write(b"456789")
    with fs.open_input(f"{path}/d/f") as file:
        assert file.size() == 10
        file.seek(7)
        assert file.read() == b"789"
    fs.copy_files([(f"{path}/d/f", f"{path}/d/{n}") for n in range(20)])
    assert fs.read_bytes(f"{path}/d/19") == b"0123456789"
    fs.delete_file(f"{path}/d/f")
    assert not fs.exists(f"{path}/d/f") and fs.is_directory(f"{path}/d")
    fs.delete_directory(f"{path}/d")
    fs.delete_directory(f"{path}/d")
    assert not fs.exists(f"{path}/d")


MISSING: list[Callable[[FileSystem, str], object]] = [
    lambda fs, path: fs.open_input(path),
    lambda fs, path: fs.read_bytes(path),
    lambda fs, path: fs.size_bytes(path),
    lambda fs, path: fs.copy_file(path, target=f"{path}-copy"),
    lambda fs, path: fs.rename(path, target=f"{path}-new"),
]


@pytest.mark.parametrize("step", MISSING)
def test_what_is_not_there_is_a_missing_file(
    place: tuple[FileSystem, str], step: Callable[[FileSystem, str], object]
) -> None:
    fs, path = place
    written(place, "f")
    with pytest.raises(MissingFileError):
        step(fs, f"{path}/none")


def test_directories_are_seen_while_empty_and_renamed_with_all_in_them(
    place: tuple[FileSystem, str],
) -> None:
    fs, path = place
    fs.create_directory(f"{path}/empty/one")
    assert fs.is_directory(f"{path}/empty/one")
    assert [info.path for info in fs.list_directory(f"{path}/empty")] == [f"{path}/empty/one"]
    assert fs.list_recursive(f"{path}/empty/one") == ()
    fs.rename(f"{path}/empty/one", target=f"{path}/empty/two")
    assert fs.is_directory(f"{path}/empty/two") and not fs.exists(f"{path}/empty/one")
    written(place, "d/x/f", "d/g")
    fs.rename(f"{path}/d", target=f"{path}/e")
    assert files_below(fs, path) == ["e/g", "e/x/f"] and not fs.exists(f"{path}/d")
    fs.rename(f"{path}/e/x/f", target=f"{path}/e/h")
    assert fs.read_bytes(f"{path}/e/h") == b"d/x/f"


def test_publish_and_retract_may_be_repeated(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    written(place, "_staging/0", "_staging/1")
    files = [
        WrittenFile(
            ("a b",), "delta_1_1", f"bucket_{n}", f"{path}/_staging/{n}", FileKind.INSERT, 1, 10
        )
        for n in range(2)
    ]
    for _ in range(2):
        publish(fs, path, files, partition_columns=("p",), staging=f"{path}/_staging")
        assert files_below(fs, f"{path}/p=a b/delta_1_1") == [VERSION_FILE, "bucket_0", "bucket_1"]
        assert files_below(fs, f"{path}/_staging") == []
    for _ in range(2):
        retract(fs, path, files, partition_columns=("p",))
        assert files_below(fs, path) == []
    with pytest.raises(MissingFileError):
        publish(fs, path, files, partition_columns=("p",))


def test_publish_overwrites_no_file_of_a_plain_table(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    written(place, "_staging/0", "000000_0")
    file = WrittenFile((), "", "000000_0", f"{path}/_staging/0", FileKind.PLAIN, 1, 10)
    moves = PlainMoves()
    moves.publish(fs, path, [file])
    fs.delete_directory(f"{path}/_staging")
    assert files_below(fs, path) == ["000000_0", "000000_0_copy_1"]
    assert fs.read_bytes(f"{path}/000000_0_copy_1") == b"_staging/0"
    for _ in range(2):
        moves.retract()
        assert files_below(fs, path) == ["000000_0"]
