"""What killed writers left beside the data: ours, and Hive's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.compaction.world import ACID, FilesThrough, World

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.cleaning_report import preview_cleaning
from hiveacid.errors import StorageError
from hiveacid.session import Session
from hiveacid.storage.filesystem import FileInfo, FileSystem


def test_staging_directories_of_killed_writers_go_and_those_of_others_stay(world: World) -> None:
    world.insert(1)
    root = Path(world.acid.table("t").definition.location)
    manager = world.connect().transactions
    open_one, dead = manager.begin(), manager.begin()
    dead.abort("killed")
    for name in (f"_hiveacid_staging_{open_one.id}_0", f"_hiveacid_staging_{dead.id}_0_aside"):
        (root / name).mkdir()
        (root / name / "bucket_00000").write_text("half a fi")
    (root / "_hiveacid_staging_999999_0").mkdir()  # of a transaction to come
    (root / ".hive-staging_1").mkdir()
    (root / "_tmp_4711").mkdir()
    (shown,) = preview_cleaning(world.client, [world.acid.table("t").definition])
    assert shown.remove == (f"_hiveacid_staging_{dead.id}_0_aside",)
    removed = Cleaner(world.client).sweep()
    assert removed == (str(root / f"_hiveacid_staging_{dead.id}_0_aside"),)
    assert world.ids() == [1]
    open_one.abort("")
    assert len(Cleaner(world.client).sweep([world.acid.table("t").definition])) == 1
    assert {".hive-staging_1", "_tmp_4711", "_hiveacid_staging_999999_0"} < set(world.directories())


@pytest.mark.parametrize("partitioned", [False, True])
def test_manifests_of_hives_killed_statements_go_when_they_are_old_and_others_stay(
    world: World, partitioned: bool
) -> None:
    if partitioned:
        world.acid.sql("drop table t")
        world.make(what=f"partitioned by (p int) {ACID}")
    world.insert(1, **({"p": "1"} if partitioned else {}))
    table = world.acid.table("t").definition
    manager = world.connect().transactions
    dead, open_one = manager.begin(), manager.begin()
    ids = [txn.write_id(table.name) for txn in (dead, open_one)]
    dead.abort("killed")
    beyond = ids[-1] + 1
    names = [f"-tmp.delta_{one:07d}_{one:07d}_0000" for one in (1, *ids, beyond)]
    names += ["-tmp.scratch", f"-tmp.delete_delta_{ids[0]:07d}_{ids[0]:07d}_0001"]
    young = f"-tmp.base_{ids[0]:07d}"
    for name in (*names, young):
        manifest = Path(table.location, name, "000000_0.manifest")
        manifest.parent.mkdir()
        manifest.write_text("")
        os.utime(manifest, (1, 1))
        os.utime(manifest.parent, (1, 1))
    os.utime(Path(table.location, young, "000000_0.manifest"))
    gone = {names[0], names[1], names[-1]}
    shown = [path for one in preview_cleaning(world.client, [table]) for path in one.remove]
    assert set(shown) == gone
    removed = Cleaner(world.client).sweep([table])
    assert {one.rpartition("/")[2] for one in removed} == gone
    assert {*names, young} - gone == {
        one.name for one in Path(table.location).iterdir() if one.name.startswith("-tmp.")
    }
    assert world.ids() == [1]
    open_one.abort("")
    assert [one.rpartition("/")[2] for one in Cleaner(world.client).sweep([table])] == [names[2]]


def test_one_tables_directory_that_cannot_be_read_leaves_no_other_unswept(world: World) -> None:
    world.make("a")
    location = world.acid.table("a").definition.location
    dead = world.connect().transactions.begin()
    dead.abort("killed")
    left = Path(world.warehouse, "t", f"_hiveacid_staging_{dead.id}_0")
    left.mkdir(parents=True)

    class Closed(FileSystem):
        def list_directory(self, path: str) -> tuple[FileInfo, ...]:
            if path.startswith(location):
                raise StorageError(f"no permission for {path}")
            return super().list_directory(path)

    acid = Session(world.connect(FilesThrough(Closed(world.warehouse))))
    with pytest.raises(StorageError, match=f"no permission for {location}"):
        acid.clean()
    assert not left.exists()
