"""Table properties: what they mean. Compactions: letters and transitions."""

from __future__ import annotations

from hiveacid.model.compactions import COMPACTION_TRANSITIONS, CompactionState, CompactionType
from hiveacid.model.properties import (
    DELTA_NUM,
    DELTA_PCT,
    NO_AUTO_COMPACTION,
    NO_CLEANUP,
    is_true,
    threshold,
)


def test_properties_are_read_in_any_case() -> None:
    given = {"NO_AUTO_COMPACTION": " True ", "no_cleanup": "yes"}
    assert is_true(given, NO_AUTO_COMPACTION)
    assert not is_true(given, NO_CLEANUP) and not is_true({}, NO_CLEANUP)
    given = {"compactorthreshold.HIVE.compactor.delta.num.threshold": "4"}
    assert threshold(given, DELTA_NUM) == 4 and threshold(given, DELTA_PCT) is None


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
