"""INSERT ... VALUES of odd texts into dates and timestamps needs no Spark."""

from __future__ import annotations

from pathlib import Path

import hiveacid


def test_texts_that_are_no_plain_day_are_stored_as_hive_does(tmp_path: Path) -> None:
    with hiveacid.connect(
        None, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "w")
    ) as acid:
        acid.sql("create table t (k int, d date, c timestamp)")
        acid.sql(
            "insert into t values (1, '2020-1-2x', '2020-1-2 3:4:5+02:00'), (2, '2020', 'x'),"
            " (3, '2020-02-30', '2020-02-29 25:00:00')"
        )
        rows = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert [tuple("NULL" if v is None else str(v) for v in row.values()) for row in rows] == [
        ("1", "2020-01-02", "2020-01-02 03:04:05"),
        ("2", "NULL", "NULL"),
        ("3", "NULL", "2020-02-29 00:00:00"),
    ]
