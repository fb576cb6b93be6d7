"""What keeps replaced files: named by a dry cleaning, and counted by reason in the metrics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compaction.world import DAY_MS, MAJOR, World

from hiveacid.compaction.cleaning_report import kept_bytes
from hiveacid.compaction.metrics import metrics_text
from hiveacid.model.history import Pin, PinKind
from hiveacid.model.tables import TableName
from hiveacid.settings import Settings

OVERDUE = 'hiveacid_compaction_oldest_age_seconds{state="ready for cleaning"}'


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database: two versions in one base, for which a cleaning waits a day."""
    world = world_with(Settings(retention_s=86_400.0))
    world.make("t")
    world.insert(1)
    world.insert(2)
    return world


def _kept(world: World) -> dict[str, int]:
    return {reason: size for reason, size in kept_bytes(world.client).items() if size}


def _reasons(world: World) -> str:
    world.clock.advance_ms(2_000)
    return " ".join(one.reason for one in world.acid.table("t").clean(dry_run=True))


def _overdue_s(world: World) -> float:
    lines = metrics_text(world.client).splitlines()
    (line,) = (one for one in lines if one.startswith(OVERDUE))
    return float(line.rpartition(" ")[2])


def test_bytes_are_counted_by_what_keeps_them(made: World) -> None:
    assert _kept(made) == {}
    made.make("u")
    reader = made.acid.transaction()
    reader.sql("insert into u values (1, 'x')")
    made.compact(MAJOR)
    made.clock.advance_ms(2_000)
    assert list(_kept(made)) == ["retention"]
    assert _overdue_s(made) == 0.0
    assert 'hiveacid_kept_bytes{reason="retention"}' in metrics_text(made.client)

    made.clock.advance_ms(2 * DAY_MS)
    assert set(_kept(made)) == {"reader"}
    reader.rollback()
    assert set(_kept(made)) == {"overdue"}
    assert _overdue_s(made) == pytest.approx(DAY_MS / 1000, abs=10)

    made.acid.sql("alter table t set tblproperties ('no_cleanup'='true')")
    assert set(_kept(made)) == {"no_cleanup"}
    assert _overdue_s(made) == 0.0


def test_a_tag_and_a_consumer_are_named_and_nothing_is_overdue(made: World) -> None:
    made.acid.table("t").tag("q3", as_of_write_id=1)
    own, name = made.client.own, TableName("default", "t")
    made.compact(MAJOR)
    made.clock.advance_ms(2 * DAY_MS)

    assert "needed by a tag or a consumer: tag q3" in _reasons(made)
    assert {"tag", "overdue"} == set(_kept(made))  # version 2 alone needs the second delta
    assert _overdue_s(made) == 0.0

    made.acid.table("t").drop_tag("q3")
    state = own.version(name, write_id=1)
    own.add_pins([Pin(PinKind.CONSUMER, "crm", name, state.write_id, state.valid)])
    assert "needed by a tag or a consumer: consumer crm" in _reasons(made)
    assert "consumer" in _kept(made)
    assert _overdue_s(made) == 0.0
