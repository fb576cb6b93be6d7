"""VACUUM: cleaning in the words of other formats."""

from __future__ import annotations

import pytest
from tests.compaction.world import MAJOR, SETTLED_MS, World

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.sql import parse_one
from hiveacid.statements.compact import Clean

HOUR_S = 3600


def test_the_words() -> None:
    found = {}
    for text in ("vacuum t", "VACUUM TABLE d.t RETAIN 168 HOURS DRY RUN", "vacuum t dry run"):
        body = parse_one(text).body
        assert isinstance(body, Clean)
        assert body.name is not None
        found[text] = (body.name.table, body.dry_run, body.retain_s)
    assert list(found.values()) == [
        ("t", False, None),
        ("t", True, 168.0 * HOUR_S),
        ("t", True, None),
    ]


@pytest.fixture
def replaced(world: World) -> World:
    """Two deltas that were compacted, with a retention of 0."""
    world.insert(1)
    world.insert(2)
    world.compact(MAJOR)
    world.clock.advance_ms(SETTLED_MS)
    return world


def test_a_dry_run_only_tells(replaced: World) -> None:
    listing = replaced.acid.sql("vacuum t dry run")
    assert listing.columns == ("path", "fate", "reason")
    assert sorted(fate for _, fate, _ in listing.rows) == ["kept", "removable", "removable"]
    assert len(replaced.directories()) == 3
    assert {row[1] for row in replaced.acid.sql("vacuum t").rows} == {"removed"}
    assert replaced.directories() == ["base_0000002_v0000004"]


def test_what_was_replaced_lately_stays_as_long_as_is_asked(replaced: World) -> None:
    acid = replaced.acid
    reasons = [reason for *_, reason in acid.sql("vacuum t retain 1 hours dry run").rows]
    assert sum("retention" in reason for reason in reasons) == 2
    acid.sql("vacuum t retain 1 hours")
    acid.clean("t", retain_hours=0.5)
    acid.table("t").clean(retain_hours=0.5)
    assert len(replaced.directories()) == 3
    replaced.clock.advance_ms(HOUR_S * 500)
    acid.table("t").clean(retain_hours=0.5)
    assert len(replaced.directories()) == 1


def test_a_retention_is_not_cut_short(replaced: World) -> None:
    acid = replaced.acid
    acid.sql("alter table t set tblproperties ('hiveacid.retention'='36h')")
    for call in ("vacuum t retain 24 hours", "vacuum t retain 24 hours dry run"):
        with pytest.raises(InvalidInputError, match="for 36 h: 24 h are fewer"):
            acid.sql(call)
    acid.sql("vacuum t retain 36 hours")
    assert len(replaced.directories()) == 3
    with pytest.raises(NotFoundError):
        acid.sql("vacuum nowhere")
    with pytest.raises(InvalidInputError, match="retain_hours is a number"):
        acid.clean("t", retain_hours="24")  # type: ignore[arg-type]
