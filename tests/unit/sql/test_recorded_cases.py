"""Every statement of the recorded SQL cases parses, or is refused as Hive refused it."""

from __future__ import annotations

from tests.acceptance.scripts import Answer, read_case
from tests.recorded import sql_cases

from hiveacid.errors import AcidError
from hiveacid.sql import parse_one


def test_statements_that_hive_accepts_parse() -> None:
    cases = [read_case(script) for script in sql_cases()]
    assert len(cases) >= 97
    refused = [
        (case.name, recorded.sql)
        for case in cases
        for recorded in case.statements
        if recorded.answer is not Answer.ERROR and not _parses(recorded.sql)
    ]
    assert refused == []


def _parses(text: str) -> bool:
    try:
        parse_one(text)
    except AcidError:
        return False
    return True
