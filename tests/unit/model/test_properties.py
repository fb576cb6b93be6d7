"""Table properties: what they mean. Compactions: letters and transitions."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.model.compactions import COMPACTION_TRANSITIONS, CompactionState, CompactionType
from hiveacid.model.tables import (
    DELTA_NUM,
    DELTA_PCT,
    NO_AUTO_COMPACTION,
    NO_CLEANUP,
    Table,
    TableName,
    check_mode,
    is_true,
    threshold,
)


def test_properties_are_read_in_any_case() -> None:
    given = {"NO_AUTO_COMPACTION": " True ", "no_cleanup": "yes"}
    assert is_true(given, NO_AUTO_COMPACTION)
    assert not is_true(given, NO_CLEANUP) and not is_true({}, NO_CLEANUP)
    given = {"compactorthreshold.HIVE.compactor.delta.num.threshold": "4"}
    assert threshold(given, DELTA_NUM) == 4 and threshold(given, DELTA_PCT) is None


@pytest.mark.parametrize(
    ("properties", "known"),
    [
        ({}, True),
        ({"transactional_properties": "nonsense"}, True),
        ({"transactional": "true"}, True),
        ({"transactional": "true", "transactional_properties": "Default"}, True),
        ({"transactional": "true", "transactional_properties": "INSERT_ONLY"}, True),
        ({"transactional": "true", "transactional_properties": "split_update|hash_merge"}, True),
        ({"transactional": "true", "transactional_properties": "insert_only "}, False),
        ({"transactional": "true", "transactional_properties": "nonsense"}, False),
    ],
)
def test_what_nobody_knows_how_to_read_is_refused(properties: dict[str, str], known: bool) -> None:
    table = Table(TableName("d", "t"), (), "/t", properties=properties)
    with nullcontext() if known else pytest.raises(InvalidInputError, match="unknown value"):
        check_mode(table)


def test_compaction_letters_and_transitions() -> None:
    assert [one.value for one in CompactionType] == ["a", "i", "r", "c", "*"]
    assert "".join(one.value for one in CompactionState) == "iwrfsacx"
    assert set(COMPACTION_TRANSITIONS) == set(CompactionState)
    assert {one for one in CompactionState if one.is_queued} == {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.READY_FOR_CLEANING,
    }
    assert CompactionState.READY_FOR_CLEANING.phrase == "ready for cleaning"
