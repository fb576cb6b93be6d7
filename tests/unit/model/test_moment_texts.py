"""Texts stored in dates and timestamps: what Hive 4.1 made of each by INSERT ... VALUES."""

from __future__ import annotations

import pytest

from hiveacid.model.moment_texts import day_of, wall_clock_of

_DAY = "2020-01-02"


@pytest.mark.parametrize(
    ("text", "day", "clock"),
    [
        ("2020-1-2", _DAY, "00:00:00"),
        ("2020-01-02T03:04:05", _DAY, "03:04:05"),
        ("2020-01-02 3:4:5", _DAY, "03:04:05"),
        ("2020-01-02 03:04:05.123456789", _DAY, "03:04:05.123456"),
        ("2020-01-02 03:04:05.1234567890", _DAY, "03:04:05.123456"),
        ("2020-01-02 03:04", _DAY, "00:00:00"),
        ("2020-01-02 3", _DAY, "00:00:00"),
        ("2020-01-02 25:00:00", _DAY, "00:00:00"),
        ("2020-01-02 23:59:60", _DAY, "00:00:00"),
        ("2020-01-02 03:04:05 PM", _DAY, "00:00:00"),
        ("2020-01-02 03:04:05.", _DAY, "00:00:00"),
        ("2020-01-02 03:04:05x", _DAY, "00:00:00"),
        ("2020-01-02  03:04:05", _DAY, "00:00:00"),
        ("2020-01-02\t03:04:05", _DAY, "00:00:00"),
        ("2020-01-02 03:04:05Z", _DAY, "03:04:05"),
        ("2020-01-02 03:04:05+02:00", _DAY, "03:04:05"),
        ("2020-01-02 03:04:05 America/New_York", _DAY, "03:04:05"),
        ("2020-01-02t03:04:05", _DAY, "03:04:05"),
        ("2020-01-02x", _DAY, "00:00:00"),
        (" 2020-01-02 ", _DAY, "00:00:00"),
        ("1-1-1", "0001-01-01", "00:00:00"),
        ("20-1-1", "0020-01-01", "00:00:00"),
        ("9999-12-31 23:59:59.999999999", "9999-12-31", "23:59:59.999999"),
    ],
)
def test_a_text_that_begins_with_a_day(text: str, day: str, clock: str) -> None:
    assert str(day_of(text)) == day
    moment = wall_clock_of(text)
    assert moment is not None
    assert moment.isoformat(sep=" ") == f"{day} {clock}"


@pytest.mark.parametrize(
    "text",
    [
        *("2020-01-32", "2020-02-30", "2019-02-29", "2019-04-31 10:00:00", "0000-00-00"),
        *("10000-01-01", "+2020-01-01", "02020-01-02", "2020-001-02", "2020-01-002"),
        *("2020", "2020-01", "20200102", "2020/01/02", "1577934245", "2020-Jan-02", "2020--01-02"),
        *("\uff12\uff10\uff12\uff10-01-02", "", " ", "null", "2020-0-1"),
    ],
)
def test_a_text_that_is_no_day_is_null(text: str) -> None:
    assert day_of(text) is None
    assert wall_clock_of(text) is None
