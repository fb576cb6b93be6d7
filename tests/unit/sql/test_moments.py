"""The time after TIMESTAMP AS OF."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hiveacid.errors import AcidError, InvalidInputError, SqlSyntaxError, UnsupportedError
from hiveacid.model.history import moment_ms
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.forms import whole
from hiveacid.sql.moments import moment

NOW_MS = moment_ms("2026-03-31 14:25:36.789")


def at(text: str) -> str:
    found = whole(text, moment).at(NOW_MS)
    assert found.time_ms is not None and found.time_of is None
    shown = datetime.fromtimestamp(found.time_ms / 1000, timezone.utc)
    return shown.replace(tzinfo=None).isoformat(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
        ("timestamp '2026-01-02 03:04:05+01:00'", "2026-01-02 02:04:05"),
        ("date '2026-01-02'", "2026-01-02 00:00:00"),
        ("current_timestamp", "2026-03-31 14:25:36.789000"),
        ("now()", "2026-03-31 14:25:36.789000"),
        ("current_timestamp() - interval 1 hour", "2026-03-31 13:25:36.789000"),
        ("current_timestamp() - INTERVAL '1' HOUR", "2026-03-31 13:25:36.789000"),
        ("current_timestamp() - interval '90 minutes'", "2026-03-31 12:55:36.789000"),
        ("now() - interval 1 day 2 hours + interval 3 seconds", "2026-03-30 12:25:39.789000"),
        ("(current_timestamp() - interval 1 week)", "2026-03-24 14:25:36.789000"),
        ("current_timestamp() - interval 1 month", "2026-02-28 14:25:36.789000"),
        ("now() + interval 11 months", "2027-02-28 14:25:36.789000"),
        ("now() - interval 2 years", "2024-03-31 14:25:36.789000"),
        ("date_sub(current_date(), 1)", "2026-03-30 00:00:00"),
        ("date_sub('2026-01-02 03:04:05', 1)", "2026-01-01 00:00:00"),
        ("date_add(current_date, -2)", "2026-03-29 00:00:00"),
        ("current_date() - 1", "2026-03-30 00:00:00"),
        ("add_months(current_date(), -1)", "2026-02-28 00:00:00"),
        ("cast('2026-01-02' as timestamp) + interval 1 hour", "2026-01-02 01:00:00"),
        ("cast(now() as date)", "2026-03-31 00:00:00"),
        ("to_timestamp('2026-01-02 03:04:05')", "2026-01-02 03:04:05"),
        ("to_date('2026-01-02 03:04:05')", "2026-01-02 00:00:00"),
        ("date_trunc('hour', now())", "2026-03-31 14:00:00"),
        ("date_trunc('YEAR', now())", "2026-01-01 00:00:00"),
        ("dateadd(hour, -1, now())", "2026-03-31 13:25:36.789000"),
        ("timestampadd(MONTH, -1, now())", "2026-02-28 14:25:36.789000"),
    ],
)
def test_times(text: str, expected: str) -> None:
    assert at(text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("7", UnsupportedError),
        ("unix_timestamp()", UnsupportedError),
        ("(select max(t) from x)", UnsupportedError),
        ("'yesterday'", InvalidInputError),
        ("now() - interval 'x' day", InvalidInputError),
        ("now() - interval 1 fortnight", SqlSyntaxError),
        ("now() - interval", SqlSyntaxError),
        ("now() - interval 99999 years", InvalidInputError),
        ("now() - interval 9999999999 days", InvalidInputError),
        ("date_sub(now())", SqlSyntaxError),
        ("date_trunc('fortnight', now())", SqlSyntaxError),
        ("cast(now() as int)", SqlSyntaxError),
    ],
)
def test_what_is_no_time(text: str, error: type[AcidError]) -> None:
    with pytest.raises(error):
        whole(text, moment)


def test_what_follows_is_left_alone() -> None:
    """As an alias, or another clause."""
    for text, rest in (
        ("current_timestamp() - interval 1 hour t", "t"),
        ("now() - interval '1' day as t", "as"),
        ("current_date where id = 1", "where"),
        ("'2026-01-02' retain 3 days", "retain"),
    ):
        read: list[str] = []

        def both(cursor: Cursor, read: list[str] = read) -> None:
            moment(cursor)
            read.append(cursor.token.text)
            while not cursor.at_end():
                cursor.next()

        whole(text, both)
        assert read == [rest]


def test_a_missing_value_of_pandas_is_no_time() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="is no time"):
        moment_ms(pandas.NaT)
