"""Which reads hold a transaction open, and which files their tables' retention keeps instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import insert
from tests.compaction.test_cleaner import DAY_MS, preview, two_deltas
from tests.compaction.world import MAJOR, MINOR, World

import hiveacid
from hiveacid.layout.compaction import Kept
from hiveacid.metastore.sql.schema import AUX_TABLE
from hiveacid.model.compactions import CompactionState
from hiveacid.session import Session

DEFAULTS = hiveacid.settings.Settings(compactor_auto="off", retention_s=7 * 86_400.0)


@pytest.fixture
def keeping(world_with: Callable[..., World]) -> World:
    """A world with a retention of seven days, leases of an hour."""
    world = world_with(DEFAULTS)
    world.make()
    two_deltas(world)
    return world


def _open(world: World) -> tuple[int, ...]:
    return world.client.metastore.get_open_txns().open


def test_a_read_whose_files_the_retention_keeps_holds_no_transaction(keeping: World) -> None:
    reader = hiveacid.read_arrow(Session(keeping.connect()).table("t"))
    assert _open(keeping) == ()
    keeping.compact(MAJOR)
    keeping.clock.advance_ms(3_600_000)
    keeping.clean()
    assert sorted(reader.read_all()["id"].to_pylist()) == [1, 2, 3]


def test_where_a_service_of_hive_may_clean_reads_have_leases(keeping: World) -> None:
    """It knows no retention; what only Hive does leaves a key in AUX_TABLE."""
    with keeping.client.metastore.database.write() as unit:
        unit.ask(insert(AUX_TABLE).values(MT_KEY1="TxnCleaner", MT_KEY2=0))
    reader = hiveacid.read_arrow(Session(keeping.connect()).table("t"))
    assert len(_open(keeping)) == 1
    keeping.compact(MAJOR)
    keeping.clean()
    assert sorted(reader.read_all()["id"].to_pylist()) == [1, 2, 3]
    assert _open(keeping) == ()


def test_what_a_later_compaction_replaced_stays_for_its_own_retention(keeping: World) -> None:
    """The earlier one's turn comes first, and both saw the same write ids."""
    keeping.delete(3)
    keeping.compact(MINOR)
    minor = set(keeping.directories())
    keeping.clock.advance_ms(6 * DAY_MS)
    minor -= {name for name in minor if "_v" not in name}
    reader = hiveacid.read_arrow(Session(keeping.connect()).table("t"))
    keeping.compact(MAJOR)
    keeping.clock.advance_ms(DAY_MS)
    assert keeping.clean()[0].removed, "what the minor one replaced a week ago"
    kept = {one.path: one.why for one in preview(keeping).keep}
    assert {name: kept[name] for name in minor} == dict.fromkeys(minor, Kept.RETENTION)
    assert len(minor) == 2
    assert sorted(reader.read_all()["id"].to_pylist()) == [1, 2]
    keeping.clock.advance_ms(6 * DAY_MS)
    keeping.clean()
    keeping.clean()
    assert [name[:12] for name in keeping.directories()] == ["base_0000003"]
    assert keeping.states() == [CompactionState.SUCCEEDED] * 2


@pytest.mark.parametrize("why", ["property", "setting", "always"])
def test_where_the_retention_is_too_short_a_read_has_a_lease_that_can_be_ended(
    keeping: World, why: str
) -> None:
    session = Session(keeping.connect())
    if why == "property":
        session.sql("alter table t set tblproperties ('hiveacid.retention'='59m')")
    elif why == "setting":
        session.sql("set hiveacid.retention_s = 59m")
    else:
        session.sql("set hiveacid.reads.lease = always")
    outside = hiveacid.read_arrow(session.table("t"))
    with session.reading():
        inside = hiveacid.read_arrow(session.table("t"))
        assert len(_open(keeping)) == 2
    assert len(_open(keeping)) == 1, "that of the read before goes on"
    assert outside.read_all().num_rows == inside.read_all().num_rows == 3
    assert _open(keeping) == ()
