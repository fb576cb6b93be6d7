"""Changes of a table in a FROM clause become a placeholder with what is asked for."""

from __future__ import annotations

import pytest
from tests.unit.sql.catalog import bound

from hiveacid.errors import InvalidInputError, SqlSyntaxError, UnsupportedError
from hiveacid.model.history import AsOf, ChangeRange, Deduplication
from hiveacid.statements.values import Query

FROM_3_TO_9 = ChangeRange(3, 9, includes_since=True)


def asked(text: str) -> tuple[str, ChangeRange | None]:
    query = bound(text)
    assert isinstance(query, Query)
    ((_, ref),) = query.tables.items()
    return query.text, ref.changes


@pytest.mark.parametrize(
    ("text", "expected", "wanted"),
    [
        (
            "select * from table_changes('t', 3, 9)",
            "select * from P0 as `table_changes`",
            FROM_3_TO_9,
        ),
        ("select c.* from table_changes('t', 3, 9) c", "select c.* from P0 c", FROM_3_TO_9),
        (
            "select * from t changes from version 3 to version 9 where x = 1",
            "select * from P0 as `t` where x = 1",
            FROM_3_TO_9,
        ),
        (
            "select * from t changes from version 3 exclusive to version 9 exclusive as c",
            "select * from P0 as c",
            ChangeRange(3, 9, includes_until=False),
        ),
        (
            "select * from t changes from timestamp '1970-01-01 00:00:03' exclusive"
            " to timestamp '1970-01-01 00:00:09'",
            "select * from P0 as `t`",
            ChangeRange(AsOf(time_ms=3_000), AsOf(time_ms=9_000)),
        ),
        (
            "select * from table_changes('t', '1970-01-01 00:00:03', 9) c",
            "select * from P0 c",
            ChangeRange(AsOf(time_ms=3_000), 9, includes_since=True),
        ),
        (
            "select * from t changes from version 3"
            " with (key = 'a, b', deduplicationMode = netChanges, computeUpdates = false)",
            "select * from P0 as `t`",
            ChangeRange(
                3,
                None,
                ("a", "b"),
                Deduplication.NET_CHANGES,
                computes_updates=False,
                includes_since=True,
            ),
        ),
        (
            "select * from t changes for consumer CRM where x = 1",
            "select * from P0 as `t` where x = 1",
            ChangeRange(None, None, includes_since=True, consumer="crm"),
        ),
        (
            "select * from t changes for consumer 'c 1' from version 3 to version 9"
            " retain 2 hours with (key = a) c",
            "select * from P0 c",
            ChangeRange(3, 9, ("a",), includes_since=True, consumer="c 1", keep_ms=2 * 3_600_000),
        ),
    ],
)
def test_words_become_a_placeholder(text: str, expected: str, wanted: ChangeRange) -> None:
    assert asked(text) == (expected, wanted)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("select * from table_changes('t')", SqlSyntaxError),
        ("select * from t changes from 3", SqlSyntaxError),
        ("select * from t changes from timestamp 'yesterday'", InvalidInputError),
        ("select * from t changes from timestamp x", UnsupportedError),
        ("select * from table_changes('t', 3, 'tomorrow')", InvalidInputError),
        (
            "select * from t changes from timestamp '2026-01-02' to timestamp '2026-01-01'",
            InvalidInputError,
        ),
        ("select * from t changes for consumer", SqlSyntaxError),
        ("select * from t changes for consumer c from 3", SqlSyntaxError),
        ("select * from t changes from version 1 with (mode = 'x')", InvalidInputError),
        ("select * from t changes from version 1 with (computeUpdates = 'x')", InvalidInputError),
    ],
)
def test_other_words_are_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        bound(text)


def test_a_table_may_be_called_changes() -> None:
    assert asked("select * from t changes where changes.x = 1")[1] is None
