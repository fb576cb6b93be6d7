"""Valid lists: Hive's texts and hand-computed answers of format.md 3."""

from __future__ import annotations

import time

import pytest

from hiveacid.errors import FormatError
from hiveacid.model.ids import (
    ListKind,
    RangeValidity,
    ValidTxnList,
    ValidWriteIdList,
)
from hiveacid.model.tables import LONG_MAX

ALL, SOME, NONE = RangeValidity


@pytest.mark.parametrize(
    "text",
    ["db.t:5:9223372036854775807::", "db.t:6:3:3,5:", "db.t:10:9223372036854775807::3,4,6"],
)
def test_text_of_the_sheet_comes_back(text: str) -> None:
    assert str(ValidWriteIdList.parse(text)) == text


def test_short_texts() -> None:
    assert ValidWriteIdList.parse("tbl:100:4:4") == ValidWriteIdList.of("tbl", hwm=100, open=[4])
    assert ValidWriteIdList.parse("tbl:4:9223372036854775807") == ValidWriteIdList("tbl", 4)
    assert ValidWriteIdList.parse("null:4:9223372036854775807:").table is None
    assert ValidWriteIdList.parse("").is_valid(LONG_MAX)
    assert ValidTxnList.parse("7:9223372036854775807") == ValidTxnList(7)
    assert ValidTxnList.parse("").is_valid(LONG_MAX)


def test_runs_of_five_are_written_short() -> None:
    text = "101:13:13-17,21,22,23:10"
    valid = ValidTxnList.parse(text)
    assert valid.open == (13, 14, 15, 16, 17, 21, 22, 23)
    assert str(valid) == text
    assert str(ValidTxnList.of(hwm=9, aborted=[5, 6, 7, 8])) == ("9:9223372036854775807::5,6,7,8")


@pytest.mark.parametrize("text", ["t", "t:1", "t:x:1::", "t:1:1:a:", "t:1:1:::", "a:7:1:1::"])
def test_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        ValidWriteIdList.parse(text)
    with pytest.raises(FormatError):
        ValidTxnList.parse("x" + text)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1, 2, ALL),
        (1, 3, SOME),
        (3, 3, NONE),
        (3, 5, SOME),
        (5, 6, SOME),
        (7, 9, NONE),
        (6, 9, SOME),
        (5, 5, NONE),
    ],
)
def test_range_of_write_ids(first: int, last: int, expected: RangeValidity) -> None:
    valid = ValidWriteIdList.parse("db.t:6:3:3:5")
    assert valid.range_validity(first, last) is expected


def test_aborted_ranges() -> None:
    valid = ValidWriteIdList.parse("db.t:10:7:7:3,4,6")
    assert valid.range_aborted(3, 4) is ALL
    assert valid.range_aborted(3, 5) is SOME
    assert valid.range_aborted(7, 8) is NONE
    assert valid.range_aborted(11, 11) is NONE
    assert valid.is_aborted(6) and not valid.is_aborted(7)


def test_original_rows_and_bases() -> None:
    valid = ValidWriteIdList.parse("db.t:10:7:7:3")
    assert valid.is_valid(0)
    assert [w for w in range(12) if valid.is_valid_base(w)] == [0, 1, 2, 3, 4, 5, 6]
    assert valid.min_open_write_id == 7
    assert ValidWriteIdList.everything().min_open_write_id is None


def test_compactor_ends_below_the_lowest_open_id() -> None:
    valid = ValidWriteIdList.parse("db.t:10:7:7:3,8").for_compactor()
    assert (valid.hwm, valid.exceptions) == (6, (3,))
    assert valid.range_validity(1, 6) is ALL and valid.range_validity(6, 7) is NONE
    assert valid.is_aborted(3) and not valid.all_valid(1, 6)


def test_cleaner_counts_no_range_beyond_its_watermark() -> None:
    valid = ValidWriteIdList.parse("db.t:10:9223372036854775807::3").for_cleaner(hwm=6)
    assert valid.kind is ListKind.CLEANER
    assert valid.range_validity(1, 6) is SOME and valid.range_validity(1, 7) is NONE


def test_reader_inside_a_transaction_sees_itself_and_nothing_later() -> None:
    seen = ValidTxnList.of(hwm=30, open=[5, 20, 25], aborted=[7, 26], current=20)
    assert (seen.hwm, seen.open, seen.aborted, seen.min_open) == (20, (5,), (7,), 5)
    assert seen.is_valid(20) and not seen.is_valid(21) and not seen.is_valid(5)


@pytest.mark.timing
def test_many_exceptions_are_looked_up_fast() -> None:
    valid = ValidWriteIdList.of("t", hwm=10**6, aborted=range(0, 20_000, 2))
    started = time.perf_counter()
    for write_id in range(20_000):
        valid.range_validity(write_id, write_id + 50)
    assert time.perf_counter() - started < 2
