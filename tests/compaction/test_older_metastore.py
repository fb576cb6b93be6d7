"""A metastore that was restored from a backup: write ids are given out again, files are there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compaction.world import ACID, World

import hiveacid
from hiveacid.errors import MetastoreError
from hiveacid.session import Session

pytestmark = pytest.mark.long("compaction", "layout", "metastore", "model", "storage", "txn")


def lost_commit(world: World, table: str, name: str, partition: str = "") -> Path:
    """What a commit that the backup does not know has left: a copy of the first delta."""
    root = Path(world.acid.table(table).definition.location)
    (source, *_) = sorted(root.rglob("delta_0000001_0000001*"))
    made: Path = root / partition / name
    shutil.copytree(source, made)
    return made


def write_stream(acid: Session) -> None:
    with acid.stream("t") as stream, stream.transaction():
        stream.write({"id": 5, "v": "s"})


WRITES: dict[str, Callable[[Session], object]] = {
    "insert": lambda acid: acid.sql("insert into t values (5, 'x')"),
    "overwrite": lambda acid: acid.sql("insert overwrite table t values (5, 'x')"),
    "delete": lambda acid: acid.table("t").delete_arrow("id = 2"),
    "stream": write_stream,
    "analyze": lambda acid: acid.sql("analyze table t compute statistics noscan"),
    "definition": lambda acid: acid.sql("alter table t rename to t2"),
    "in a transaction": lambda acid: in_a_transaction(acid),
}


def in_a_transaction(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into other values (1, 'x')")
        txn.sql("insert into t values (5, 'x')")


@pytest.mark.parametrize("lost", ["base_0000002", "delete_delta_0000002_0000002_0000"])
@pytest.mark.parametrize("kind", WRITES)
def test_no_write_shows_what_the_metastore_does_not_know(
    any_world: World, kind: str, lost: str
) -> None:
    world = any_world
    world.make("other")
    world.insert(1, 2)
    path = lost_commit(world, "t", lost)
    writer = Session(world.connect())
    with pytest.raises(MetastoreError, match=f"{lost} is of write id 2, .* has not given out"):
        WRITES[kind](writer)
    assert sorted(one[0] for one in world.rows()) == [1, 2]
    assert world.acid.sql("show locks").rows == ()
    assert not world.client.metastore.get_open_txns().open
    assert path.exists()
    shutil.rmtree(path)
    WRITES[kind](writer)


@pytest.mark.parametrize("partition", ["k=2", "k=9"])
def test_other_partitions_count_and_those_that_the_metastore_does_not_know(
    any_world: World, partition: str
) -> None:
    world = any_world
    world.make("p", f"partitioned by (k int) {ACID}")
    for k in (1, 2):
        world.insert(k, table="p", k=str(k))
    lost_commit(world, "p", "base_0000003", partition)
    writer = Session(world.connect())
    with pytest.raises(MetastoreError, match=f"{partition}/base_0000003 is of write id 3"):
        writer.sql("insert into p partition (k=1) values (5, 'x')")
    assert len(world.rows("p")) == 2


def test_what_other_writers_have_is_no_reason(any_world: World) -> None:
    world = any_world
    world.insert(1)
    with Session(world.connect()).transaction() as txn:
        hiveacid.write_arrow(txn.table("t"), hiveacid.read_arrow(world.acid.table("t")).read_all())
        world.insert(3)  # another writer, with a higher write id, commits first
        Session(world.connect()).sql("insert into t values (4, 'x')")
    assert len(world.rows()) == 4
