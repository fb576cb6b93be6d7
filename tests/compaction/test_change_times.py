"""Changes from one time to another: those whose commits lie between."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import delete
from tests.compaction.world import ACID, World

from hiveacid import read_changes
from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.metastore.sql.catalog_schema import HIVEACID_COMMITS
from hiveacid.model.history import ChangeRange
from hiveacid.session import Session
from hiveacid.sql.forms import whole
from hiveacid.sql.moments import changes_clause
from hiveacid.statements.select import open_changes

HOUR_MS = 3_600_000


def versions(acid: Session, table: str = "t", **asked: Any) -> list[int]:
    found = read_changes(acid.table(table), **asked).read_all()
    return sorted(found["_commit_version"].to_pylist())


def by_sql(acid: Session, text: str) -> list[int]:
    wanted = whole(f"changes {text}", changes_clause)
    assert isinstance(wanted, ChangeRange)
    context = acid.reading_context()
    wanted = wanted.at(context.client.clock.now_ms())
    scan = open_changes(context, acid.table("t").definition, wanted, None)
    found = scan.read()["_commit_version"].to_pylist()
    scan.close()
    return sorted(found)


@pytest.fixture
def times(made: World) -> list[datetime]:
    """Of the commits 1 to 4 of ``t``, an hour apart."""
    made.acid.sql(f"create table t (id int) {ACID}")
    for number in range(1, 5):
        made.clock.advance_ms(HOUR_MS)
        made.acid.sql(f"insert into t values ({number})")
    commits = reversed(made.acid.table("t").history())
    return [datetime.fromtimestamp((c.committed_ms or 0) / 1000, timezone.utc) for c in commits]


def test_since_a_time_is_since_the_state_of_that_time(acid: Session, times: list[datetime]) -> None:
    first, second, third, last = times
    assert versions(acid, since=second) == [3, 4]
    assert versions(acid, since=second, until=third) == [3]
    assert versions(acid, since=second, until=third, bounds="[]") == [2, 3]
    assert versions(acid, since=second, until=third, bounds="()") == []
    assert versions(acid, since=first - timedelta(milliseconds=1), until=second) == [1, 2]
    assert versions(acid, since=second + timedelta(minutes=1), until=third) == [3]
    assert versions(acid, since=second, until=second) == []
    assert versions(acid, since=1, until=third) == [2, 3]
    assert versions(acid, since=second, until=3) == [3]
    assert versions(acid, since=str(third)) == [4]
    assert versions(acid, since=last.replace(tzinfo=None).isoformat()) == []


def test_before_the_table_is_before_its_first_version(acid: Session, times: list[datetime]) -> None:
    assert versions(acid, since="2001-01-01") == [1, 2, 3, 4]
    assert versions(acid, since=date(2001, 1, 1), until="2001-01-02") == []
    assert versions(acid, since=times[-1], until="2099-01-01") == []
    assert versions(acid, since="2001-01-01", until="2099-01-01T00:00:00+01:00") == [1, 2, 3, 4]


def test_sql_says_it_in_the_words_of_spark(
    made: World, acid: Session, times: list[datetime]
) -> None:
    second, third = times[1], times[2]
    between = f"from timestamp '{second}' to timestamp '{third}'"
    assert by_sql(acid, between) == [2, 3]
    assert by_sql(acid, between.replace("' to", "' exclusive to")) == [3]
    assert by_sql(acid, f"{between} exclusive") == [2]
    assert by_sql(acid, f"from version 2 to timestamp '{third}'") == [2, 3]
    assert by_sql(acid, f"from timestamp '{third}'") == [3, 4]
    made.clock.advance_ms(60_000)
    assert by_sql(acid, "from timestamp current_timestamp() - interval 90 minutes") == [3, 4]
    assert by_sql(acid, "from timestamp now() to timestamp now()") == []


def test_what_a_transaction_does_not_see_is_not_told(
    made: World, acid: Session, times: list[datetime]
) -> None:
    acid.sql("start transaction")
    assert versions(acid, since=times[2]) == [4]
    made.clock.advance_ms(60_000)
    acid.over(None).sql("insert into t values (5)")
    assert versions(acid, since=times[2]) == [4]
    assert versions(acid, since=times[2], until="2099-01-01") == [4]
    assert versions(acid, since="2099-01-01") == []
    acid.sql("rollback")
    assert versions(acid, since=times[3]) == [5]


def test_rows_of_before_a_conversion_belong_to_all_versions(made: World, acid: Session) -> None:
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='false')")
    acid.sql("insert into t values (1)")
    began = datetime.fromtimestamp(made.clock.now_ms() / 1000, timezone.utc)
    made.clock.advance_ms(HOUR_MS)
    acid.sql("alter table t set tblproperties ('transactional'='true')")
    acid.sql("insert into t values (2)")
    (version,) = versions(acid, since=began)
    assert version == acid.table("t").history()[0].write_id


def test_a_consumer_begins_at_a_time(acid: Session, times: list[datetime]) -> None:
    assert versions(acid, since=times[1], until=times[2], consumer="crm") == [3]
    assert versions(acid, consumer="crm") == [4]


def test_wrong_times_are_refused(acid: Session, times: list[datetime]) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"since": times[2], "until": times[1]}, "end at a time before that at which they begin"),
        ({"since": 4, "until": times[1]}, "Version 2 of default.t committed before version 4"),
        ({"since": "yesterday"}, "'yesterday' is no time"),
        ({"since": True}, "since is a version, a whole number, or a time, not True"),
        ({"since": 1, "until": 2.5}, "until is a version, a whole number, or a time, not 2.5"),
    ]
    for asked, words in wrong:
        with pytest.raises(InvalidInputError, match=words):
            versions(acid, **asked)
    with pytest.raises(InvalidInputError, match="end at a time before"):
        by_sql(acid, "from timestamp now() to timestamp now() - interval 1 hour")


def test_a_time_of_which_nothing_is_recorded_is_an_error(
    made: World, acid: Session, times: list[datetime]
) -> None:
    """The first two commits are Hive's."""
    with made.client.metastore.database.write() as unit:
        unit.ask(delete(HIVEACID_COMMITS).where(HIVEACID_COMMITS.c.HC_WRITEID <= 2))
    assert versions(acid, since=times[2]) == [4]
    with pytest.raises(NotFoundError, match="oldest one that is known by its time is version 3"):
        versions(acid, since=times[1])
