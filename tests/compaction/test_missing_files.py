"""A data file that somebody removed by hand is named by what its commit wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compaction.world import ACID, INSERT_ONLY, MAJOR, MINOR, World

from hiveacid import read_arrow, read_changes
from hiveacid.errors import MissingFileError, SnapshotExpiredError

PARTITIONED = f"partitioned by (p string) {ACID}"


def _missing(world: World) -> list[str]:
    found = world.acid.table("t").detail().findings
    return [one.evidence.partition(",")[0] for one in found if one.kind == "missing files"]


def _files(world: World, pattern: str) -> list[Path]:
    return sorted(Path(world.warehouse).glob(f"t/**/{pattern}"))


@pytest.mark.parametrize("what", [ACID, INSERT_ONLY])
def test_a_file_removed_by_hand_is_named(made: World, what: str) -> None:
    made.make("t", what)
    for number in (1, 2, 3):
        made.insert(number)
    assert _missing(made) == []
    (file,) = (one for one in _files(made, "delta_0000002_0000002*/*") if one.name[0] != "_")
    file.unlink()

    assert _missing(made) == ["0 of 1 files of version 2"]
    found = made.acid.doctor().findings
    assert [one.kind for one in found if one.kind == "missing files"]
    table, told = made.acid.table("t"), r"version 2 of default\.t are missing.*0 of 1"
    assert read_arrow(table, as_of_write_id=1).read_all().num_rows == 1
    assert read_changes(table, since=2).read_all().num_rows == 1
    for version in (2, 3):
        with pytest.raises(MissingFileError, match=told):
            read_arrow(table, as_of_write_id=version)
        with pytest.raises(MissingFileError, match=told):
            table.restore(write_id=version)
        with pytest.raises(MissingFileError, match=told):
            read_changes(table, since=1, until=version)


def test_what_was_replaced_or_dropped_is_not_missing(made: World) -> None:
    acid = made.acid
    made.make("t", PARTITIONED)
    made.insert(1, p="a")
    made.insert(2, p="b")
    with acid.transaction() as txn:
        txn.sql("insert into t values (3, 'x', 'a'), (4, 'y', 'c')")
        txn.table("t").delete_arrow("id = 2")
        txn.savepoint("s")
        txn.sql("insert into t values (5, 'x', 'd')")
        txn.rollback_to("s")
    assert _missing(made) == []
    acid.sql("insert overwrite table t partition (p='a') values (6, 'z')")
    assert _missing(made) == []
    made.insert(7, p="c")
    made.compact(MINOR, partition="p=c")
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    assert _missing(made) == []
    made.insert(8, p="e")
    made.compact(MAJOR, partition="p=e")
    made.insert(9, p="e")
    acid.sql("alter table t drop partition (p='e')")
    assert _missing(made) == []


def test_empty_files_that_were_loaded_are_not_missing(made: World, tmp_path: Path) -> None:
    made.make("t", INSERT_ONLY.replace("orc", "textfile"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1\x01x\n")
    (tmp_path / "in" / "empty").touch()
    made.acid.sql(f"load data local inpath '{tmp_path}/in' into table t")
    assert _missing(made) == []
    assert read_arrow(made.acid.table("t"), as_of_write_id=1).read_all().num_rows == 1
    assert read_changes(made.acid.table("t"), since=0).read_all().num_rows == 1


def test_a_truncate_and_rows_that_a_transaction_replaced_itself_are_not_missing(
    made: World,
) -> None:
    made.make("t")
    made.insert(1)
    made.acid.sql("truncate table t")
    with made.acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a')")
        txn.sql("insert into t values (2, 'b')")
        txn.table("t").delete_arrow("id = 1")
    assert _missing(made) == []
    assert made.rows() == [(2, "b")]
    for version in (1, 2, 3):
        read_arrow(made.acid.table("t"), as_of_write_id=version).read_all()
    assert read_changes(made.acid.table("t"), since=0).read_all().num_rows == 3


def test_a_file_removed_within_the_retention_is_told_and_what_a_cleaner_removed_is_not(
    made: World,
) -> None:
    made.make("t")
    for number in (1, 2, 3):
        made.insert(number)
    made.compact(MAJOR)
    table = made.acid.table("t")
    (file,) = (one for one in _files(made, "delta_0000002_0000002*/*") if one.name[0] != "_")
    file.unlink()

    with pytest.raises(MissingFileError, match=r"version 2 of default\.t are missing"):
        read_arrow(table, as_of_write_id=2)
    assert read_arrow(table, as_of_write_id=3).read_all().num_rows == 3
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    with pytest.raises(SnapshotExpiredError):
        read_arrow(table, as_of_write_id=2)
