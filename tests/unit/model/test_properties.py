"""Table properties: what they mean. Compactions: letters and transitions."""

from __future__ import annotations

from hiveacid.model.compactions import COMPACTION_TRANSITIONS, CompactionState, CompactionType
from hiveacid.model.properties import parse_properties
from hiveacid.model.tables import AcidMode


def test_properties_are_read_in_any_case() -> None:
    found = parse_properties(
        {
            "TRANSACTIONAL": "TRUE",
            "bucketing_version": "2",
            "NO_AUTO_COMPACTION": "true",
            "orc.compress": "ZLIB",
            "compactor.hive.compactor.x": "1",
            "compactorthreshold.hive.compactor.delta.num.threshold": "4",
            "hiveacid.y": "z",
        }
    )
    assert (found.mode, found.bucketing_version) == (AcidMode.FULL, 2)
    assert not found.auto_compaction and found.cleanup
    assert found.orc == {"orc.compress": "ZLIB"}
    assert found.compactor == {"hive.compactor.x": "1"}
    assert found.thresholds == {"hive.compactor.delta.num.threshold": "4"}
    assert found.own == {"y": "z"}


def test_table_without_a_bucketing_version_is_one_of_hive_2() -> None:
    assert parse_properties({}).bucketing_version == 1
    assert parse_properties({"bucketing_version": "-1"}).bucketing_version == 1


def test_compaction_letters_and_transitions() -> None:
    assert [one.value for one in CompactionType] == ["a", "i", "r", "c"]
    assert "".join(one.value for one in CompactionState) == "iwrfsacx"
    assert set(COMPACTION_TRANSITIONS) == set(CompactionState)
    assert {one for one in CompactionState if one.is_queued} == {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.READY_FOR_CLEANING,
    }
    assert CompactionState.READY_FOR_CLEANING.phrase == "ready for cleaning"
