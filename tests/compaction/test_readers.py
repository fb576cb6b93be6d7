"""Readers without a lease: an error that says so, never fewer rows; those with one never notice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.compaction.world import INSERT_ONLY, MAJOR, MINOR, World

import hiveacid
from hiveacid.errors import MissingFileError, SnapshotExpiredError
from hiveacid.layout.resolve import Entry
from hiveacid.model.compactions import CompactionType
from hiveacid.storage import listing
from hiveacid.storage.filesystem import FileInfo, FileSystem
from hiveacid.storage.listing import list_settled

KINDS = pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])


def location(world: World, table: str = "t") -> Path:
    return Path(world.acid.table(table).definition.location)


def three(world: World, table: str = "t") -> None:
    world.insert(1, 2, table=table)
    world.insert(3, table=table)
    world.insert(4, table=table)


@KINDS
def test_a_reader_by_path_that_is_overtaken_by_the_cleaner_is_told(
    world: World, kind: CompactionType
) -> None:
    three(world)
    world.delete(2)
    opened = hiveacid.read_arrow(str(location(world)))
    dataset = hiveacid.dataset(str(location(world)))
    world.compact(kind)
    world.clean()
    with pytest.raises(SnapshotExpiredError, match="cleaned while it was being read"):
        opened.read_all()
    with pytest.raises(SnapshotExpiredError):
        dataset.to_table()
    assert hiveacid.read_arrow(str(location(world))).read_all().num_rows == 3


def test_a_reader_by_path_of_an_insert_only_table_is_told(world: World) -> None:
    world.make("m", INSERT_ONLY)
    three(world, "m")
    opened = hiveacid.read_arrow(str(location(world, "m")))
    world.compact(MAJOR, "m")
    world.clean()
    with pytest.raises(SnapshotExpiredError):
        opened.read_all()


@pytest.fixture
def no_threads() -> Iterator[None]:
    """Nothing is read before it is asked for."""
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    yield
    pa.set_cpu_count(before)


@pytest.mark.usefixtures("no_threads")
def test_a_reader_in_the_middle_of_its_batches_is_told(world: World) -> None:
    three(world)
    opened = hiveacid.read_arrow(str(location(world)))
    first = opened.read_next_batch()
    world.compact(MAJOR)
    world.clean()
    with pytest.raises(SnapshotExpiredError):
        pa.Table.from_batches([first, *opened])


def test_a_file_that_is_missing_from_what_still_counts_is_no_cleaning(world: World) -> None:
    three(world)
    world.insert(5)
    opened = hiveacid.read_arrow(str(location(world)))
    (lost,) = location(world).glob("delta_0000002_*/bucket_*")
    lost.unlink()
    with pytest.raises(MissingFileError) as raised:
        opened.read_all()
    assert not isinstance(raised.value, SnapshotExpiredError)


def test_a_table_that_is_gone_is_no_cleaning(world: World) -> None:
    three(world)
    opened = hiveacid.read_arrow(str(location(world)))
    shutil.rmtree(location(world))
    with pytest.raises(MissingFileError):
        opened.read_all()


def test_a_leased_dataset_is_a_new_snapshot_each_time(world: World) -> None:
    three(world)
    dataset = hiveacid.dataset(world.acid.table("t"))
    assert dataset.to_table().num_rows == 4
    world.compact(MAJOR)
    world.clean()
    assert dataset.to_table().num_rows == 4


class _Overtaken(FileSystem):
    """Its listing of the root is older than that of the directories in it."""

    def __init__(self, world: World, times: int) -> None:
        super().__init__(str(location(world)))
        self._world = world
        self.left = times

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        before = {info.path for info in self.list_directory(path)}
        if self.left:
            self.left -= 1
            self._world.insert(10 + self.left)
            self._world.compact(MAJOR)
            self._world.clean()
        return tuple(
            info
            for info in super().list_recursive(path)
            if any(info.path == one or info.path.startswith(f"{one}/") for one in before)
        )


def _names(entries: tuple[Entry, ...]) -> list[str]:
    return sorted({entry.path.partition("/")[0][:12] for entry in entries})


def test_a_listing_that_a_compaction_came_in_between_is_made_again(world: World) -> None:
    three(world)
    files = _Overtaken(world, 1)
    assert _names(list_settled(files, str(location(world)))) == ["base_0000004"]
    assert files.left == 0


def test_a_listing_that_never_settles_is_an_error(world: World) -> None:
    three(world)
    with pytest.raises(SnapshotExpiredError, match="each of the 5 times"):
        list_settled(_Overtaken(world, listing._LISTINGS_MAX), str(location(world)))


def test_writers_do_not_disturb_a_listing(world: World) -> None:
    three(world)

    class Busy(FileSystem):
        def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
            found = super().list_recursive(path)
            world.insert(9)
            return found

    entries = list_settled(Busy(str(location(world))), str(location(world)))
    assert sum(not entry.is_directory for entry in entries) == 2 * 3
