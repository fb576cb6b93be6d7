"""When to compact: thresholds strictly exceeded, hours, overrides, and the words that say why."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hiveacid.compaction.policy import (
    Contents,
    Hours,
    Thresholds,
    decide,
    measure,
    reason_against,
    thresholds_of,
)
from hiveacid.errors import InvalidInputError
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.compactions import CompactionType
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Table, TableName
from hiveacid.settings import Settings

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


def _table(**properties: str) -> Table:
    return Table(TableName("db", "t"), (), "/t", properties={"transactional": "true", **properties})


@pytest.mark.parametrize(
    ("contents", "wanted", "words"),
    [
        (Contents(100, 3, 11), MAJOR, "11 bytes in deltas, more than 0.1 of the base's 100 bytes"),
        (Contents(100, 3, 10), None, "3 deltas, not more than 10; 10 bytes in deltas, not more"),
        (Contents(100, 11, 10), MINOR, "11 deltas, more than 10"),
        (Contents(100, 10, 10), None, "10 deltas, not more than 10"),
        (Contents(100, 11, 11), MAJOR, "11 bytes"),
        (Contents(0, 11, 5), MAJOR, "11 deltas, more than 10, and no base"),
        (Contents(0, 1, 5), None, "1 delta, not more than 10; no base to compare"),
        (Contents(100, 0, 0, has_old_base=True), MAJOR, "a base that nobody needs"),
        (Contents(100, 1, 1, has_old_base=True), None, "1 delta"),
        (Contents(100, 0, 0), None, "0 deltas"),
        (Contents(0, 0, 0), None, "0 deltas"),
    ],
)
def test_hives_thresholds(contents: Contents, wanted: CompactionType | None, words: str) -> None:
    decision = decide(contents, Thresholds(), hour=12)
    assert decision.type is wanted
    assert words in decision.reason


@pytest.mark.parametrize(
    ("contents", "hour", "wanted"),
    [
        (Contents(100, 3, 50), 23, MAJOR),
        (Contents(100, 3, 50), 5, MAJOR),
        (Contents(100, 3, 50), 6, None),
        (Contents(100, 3, 50), 21, None),
        (Contents(100, 11, 50), 12, MINOR),
        (Contents(0, 11, 50), 12, MINOR),
        (Contents(100, 11, 5), 12, MINOR),
        (Contents(100, 0, 0, has_old_base=True), 12, MAJOR),
    ],
)
def test_major_compactions_wait_for_their_hours(
    contents: Contents, hour: int, wanted: CompactionType | None
) -> None:
    decision = decide(contents, Thresholds(major=Hours(22, 6)), hour=hour)
    assert decision.type is wanted
    if wanted is not MAJOR and contents.delta_bytes > 10:
        assert "wait for the hours 22-6" in decision.reason


def test_hours_of_one_day() -> None:
    hours = Hours.parse("1-5")
    assert hours is not None
    assert [hour for hour in range(24) if hour in hours] == [1, 2, 3, 4]
    assert Hours.parse("") is None


def test_a_table_goes_before_the_session() -> None:
    table = _table(
        **{
            "compactorthreshold.hive.compactor.delta.num.threshold": "3",
            "compactorthreshold.hive.compactor.delta.pct.threshold": "0.5",
        }
    )
    settings = Settings(compactor_delta_num_threshold=7, compactor_offpeak="22-6")
    assert thresholds_of(table, settings) == Thresholds(deltas=3, fraction=0.5, major=Hours(22, 6))
    assert thresholds_of(_table(), settings).deltas == 7


@pytest.mark.parametrize(
    ("which", "text"),
    [("num", "many"), ("num", "nan"), ("num", "2.5"), ("num", "-1"), ("pct", "inf"), ("pct", "-1")],
)
def test_a_threshold_that_is_no_such_number_is_named(which: str, text: str) -> None:
    table = _table(**{f"compactorthreshold.hive.compactor.delta.{which}.threshold": text})
    with pytest.raises(InvalidInputError, match=rf"{which}\.threshold' is a .*: '{text}'"):
        thresholds_of(table, Settings())


@pytest.mark.parametrize(
    ("table", "database", "words"),
    [
        ({}, {}, None),
        ({"no_auto_compaction": "true"}, {}, "it has no_auto_compaction"),
        ({"NO_AUTO_COMPACTION": "TRUE"}, {}, "it has no_auto_compaction"),
        ({"no_auto_compaction": "true"}, {"NO_AUTO_COMPACTION": "false"}, None),
        ({}, {"no_auto_compaction": "true"}, "its database"),
        ({"no_auto_compaction": "false"}, {"no_auto_compaction": "true"}, "its database"),
        ({"transactional": "false"}, {}, "not transactional"),
        ({"hiveacid.file.names": "hive3"}, {}, "Hive 3.1"),
    ],
)
def test_who_is_left_alone(
    table: Mapping[str, str], database: Mapping[str, str], words: str | None
) -> None:
    reason = reason_against(_table(**table), database, Settings())
    assert (reason is None) if words is None else (words in str(reason))


def test_insert_only_tables_can_be_left_alone() -> None:
    table = _table(transactional_properties="insert_only")
    assert reason_against(table, {}, Settings()) is None
    assert "insert-only" in str(reason_against(table, {}, Settings(compactor_insert_only=False)))


def test_what_counts_is_what_the_compactor_sees() -> None:
    listing = [
        Entry("base_0000002/bucket_00000", 20),
        Entry("base_0000005_v0000009/bucket_00000", 100),
        Entry("base_0000005_v0000009/_orc_acid_version", 1),
        Entry("delta_0000006_0000006_0000/bucket_00000_0", 3),
        Entry("delete_delta_0000007_0000007_0000/bucket_00000", 4),
        Entry("delta_0000008_0000008_0000/bucket_00000_0", 50),
    ]
    valid = ValidWriteIdList.of("db.t", hwm=9, open=(8,)).for_compactor()
    found = resolve(listing, valid, None)
    assert measure(found, cleaning_waits=False) == Contents(100, 2, 7, has_old_base=True)
    assert not measure(found, cleaning_waits=True).has_old_base


def test_originals_are_the_base_where_there_is_none() -> None:
    listing = [Entry("000000_0", 30), Entry("delta_0000001_0000001_0000/bucket_00000_0", 3)]
    valid = ValidWriteIdList.of("db.t", hwm=1).for_compactor()
    assert measure(resolve(listing, valid, None), cleaning_waits=False) == Contents(30, 1, 3)
