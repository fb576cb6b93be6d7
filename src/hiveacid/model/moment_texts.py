"""Which texts are a day or a wall clock, as Hive stores them (real-hive.md 13).

A text must begin with a whole day of at most four digits for the year; a zone is dropped, and a
time of day that is none with all behind it. The patterns mean the same to Java.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

BLANKS: Final = "[ \t-\r]*"
DAY: Final = "([0-9]{1,4}-[0-9]{1,2}-[0-9]{1,2})(?![0-9])"
_OFFSET: Final = "(UTC|GMT|UT)?([+-][01][0-9]:[0-9]{2}(:[0-9]{2})?)?"
_ZONE: Final = f" ?(Z|{_OFFSET}|[CEMW]ET|[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+)+)"
CLOCK: Final = (
    f"[ Tt]([0-9]{{1,2}}:[0-9]{{1,2}}:[0-9]{{1,2}}([.][0-9]{{1,9}})?)[0-9]*{_ZONE}{BLANKS}"
)
_DAY: Final = re.compile(BLANKS + DAY)
_CLOCK: Final = re.compile(CLOCK)


def day_of(text: str) -> datetime.date | None:
    """The day that a text begins with; None where it is none."""
    found = _DAY.match(text)
    return None if found is None else _day(found)


def wall_clock_of(text: str) -> datetime.datetime | None:
    """The day and time of a text, midnight where it has no time, to the microsecond; None where
    it begins with no day.
    """
    found = _DAY.match(text)
    day = None if found is None else _day(found)
    if found is None or day is None:
        return None
    midnight = datetime.datetime.combine(day, datetime.time())
    clock = _CLOCK.fullmatch(text, found.end())
    if clock is None:
        return midnight
    whole, _, fraction = clock[1].partition(".")
    try:
        hour, minute, second = map(int, whole.split(":"))
        time = datetime.time(hour, minute, second, int(fraction[:6].ljust(6, "0")))
    except ValueError:
        return midnight
    return datetime.datetime.combine(day, time)


def _day(found: re.Match[str]) -> datetime.date | None:
    try:
        return datetime.date(*map(int, found[1].split("-")))
    except ValueError:
        return None
