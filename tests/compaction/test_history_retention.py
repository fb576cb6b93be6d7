"""Records of commits go when they are older than the history is kept, and none that is needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compaction.world import DAY_MS, World

from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError, NotFoundError, SnapshotExpiredError
from hiveacid.model.history import Pin, PinKind
from hiveacid.model.tables import TableName
from hiveacid.settings import Settings

KEPT = (
    "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='1h', "
    "'hiveacid.history.retention'='5d')"
)


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database: versions 1 to 4, of four days one after the other."""
    world = world_with(Settings(retention_s=3_600.0))
    world.make("t", KEPT)
    for number in (1, 2, 3, 4):
        world.insert(number)
        world.clock.advance_ms(DAY_MS)
    return world


def _keep_house(world: World, *, days: float) -> None:
    world.clock.advance_ms(int(days * DAY_MS))
    assert world.client.own.run_housekeeping(interval_s=0.0)


def _known(world: World) -> list[int]:
    return [int(one.write_id) for one in reversed(world.acid.table("t").history())]


def test_old_records_go_and_versions_below_are_an_error(made: World) -> None:
    acid = made.acid
    first = int(acid.table("t").history()[-1].txn)
    _keep_house(made, days=0)
    assert _known(made) == [1, 2, 3, 4]

    _keep_house(made, days=2.5)

    assert _known(made) == [3, 4]
    assert read_arrow(acid.table("t"), as_of_write_id=3).read_all().num_rows == 3
    for version in (0, 2):
        with pytest.raises(SnapshotExpiredError, match="oldest version that is told is 3"):
            read_arrow(acid.table("t"), as_of_write_id=version)
    with pytest.raises(NotFoundError, match="version 3 of"):
        read_arrow(acid.table("t"), as_of_time="2023-11-15 12:00:00")
    with pytest.raises(NotFoundError, match=f"transaction {first} was recorded"):
        acid.undo(first)
    assert acid.explain_row("t", where="id >= 3").since == 3
    _keep_house(made, days=100)
    assert _known(made) == [4]


def test_an_aborted_write_whose_transaction_is_forgotten_is_no_commit(made: World) -> None:
    for _ in range(2):
        txn = made.client.transactions.begin()
        txn.write_id(TableName("default", "t"))
        txn.abort("")
        reader = made.client.transactions.begin()  # what was begun since keeps its write id
        made.clock.advance_ms(5_000)
        made.client.metastore.clean_empty_txns()
        assert _known(made) == [1, 2, 3, 4]
        reader.abort("")


def test_a_tag_and_a_consumer_keep_what_they_need(made: World) -> None:
    acid, own = made.acid, made.client.own
    name = TableName("default", "t")
    acid.table("t").tag("q3", as_of_write_id=2)
    version = own.version(name, write_id=1)
    consumer = Pin(PinKind.CONSUMER, "crm", name, version.write_id, version.valid)
    own.add_pins([consumer])
    _keep_house(made, days=100)
    assert _known(made) == [1, 2, 3, 4]
    own.drop_pins([consumer])
    _keep_house(made, days=1)
    assert _known(made) == [2, 3, 4]
    assert read_arrow(acid.table("t"), as_of_tag="q3").read_all().num_rows == 2
    acid.table("t").drop_tag("q3")
    _keep_house(made, days=1)
    assert _known(made) == [4]


def test_a_version_keeps_the_higher_write_ids_that_committed_before_it(made: World) -> None:
    """Write id 5 commits after 6: version 5 has the rows of both."""
    acid = made.acid
    late = acid.over(None)
    late.sql("start transaction")
    late.sql("insert into t values (5, 'late')")
    made.insert(6)
    made.clock.advance_ms(2 * DAY_MS)
    late.sql("commit")

    _keep_house(made, days=4)

    assert _known(made) == [6, 5]
    assert read_arrow(acid.table("t"), as_of_write_id=5).read_all().num_rows == 6


def test_files_that_are_kept_keep_the_records(made: World) -> None:
    acid = made.acid
    acid.sql("alter table t set tblproperties ('hiveacid.retention'='30d')")
    _keep_house(made, days=20)
    assert _known(made) == [1, 2, 3, 4]
    with pytest.raises(InvalidInputError, match="length of time"):
        acid.sql("alter table t set tblproperties ('hiveacid.history.retention'='soon')")


def test_records_of_a_table_that_was_dropped_go_too(made: World) -> None:
    txn = made.acid.table("t").history(limit=1)[0].txn
    made.acid.sql("drop table t")
    with pytest.raises(NotFoundError, match="dropped"):
        made.client.own.commits_of(txn)
    _keep_house(made, days=100)
    assert made.client.own.commits_of(txn) == ()
