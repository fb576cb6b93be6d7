"""Texts beside dates and timestamps in a condition: what they say, or an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture(scope="module")
def acid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    root = tmp_path_factory.mktemp("times")
    with hiveacid.connect(None, f"sqlite:///{root}/m.db", warehouse=str(root / "wh")) as session:
        session.sql(f"create table t (d date, ts timestamp) partitioned by (p timestamp) {ACID}")
        moment = pa.array([1_577_836_800_123_456], pa.timestamp("us"))
        session.table("t").write_arrow(
            pa.table({"d": [date(2019, 12, 30)], "ts": moment, "p": moment})
        )
        yield session


@pytest.mark.parametrize("column", ["ts", "p"])
@pytest.mark.parametrize(
    ("test", "rows"),
    [
        ("= '2020-01-01 00:00:00.123456'", 1),
        ("= '2020-01-01 00:00:00.123456000'", 1),
        ("= '2020-01-01 00:00:00.123456789'", 0),
        ("< '2020-01-01 00:00:00.123456789'", 1),
        (">= '2020-01-01 00:00:00.123456789'", 0),
        ("<> '2020-01-01 00:00:00.123456789'", 1),
        ("> '2020-01-01T00:00'", 1),
        ("> '2020-01-01'", 1),
    ],
)
def test_a_text_is_a_moment_to_the_nanosecond(
    acid: Session, column: str, test: str, rows: int
) -> None:
    found = hiveacid.read_arrow(acid.table("t"), filter=f"{column} {test}").read_all()
    assert found.num_rows == rows


@pytest.mark.parametrize(
    "condition",
    [
        "ts = '2020-01-01 00:00:00+01:00'",
        "d = '2019-12-30' or p >= '2020-01-01T00:00:00Z'",
        "d = '2020-W01-1'",
        "d = '20191230'",
        "d = '2019-13-01'",
        "ts < '2020-01-01 25:00:00.0000001'",
    ],
)
def test_a_text_that_is_no_wall_clock_is_an_error(acid: Session, condition: str) -> None:
    with pytest.raises(InvalidInputError, match="does not compare"):
        hiveacid.read_arrow(acid.table("t"), filter=condition)
    with pytest.raises(InvalidInputError, match="does not compare"):
        acid.table("t").delete_arrow(condition)
