"""One line of the log for each statement that writes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import hiveacid


def test_a_statement_that_writes_says_in_one_line_what_it_did(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="hiveacid.statements")
    with hiveacid.connect(None, tmp_path / "m.db", warehouse=tmp_path / "w") as acid:
        table = acid.create_table("t", "id int, name string")
        acid.sql("insert into t values (1, 'a'), (2, 'b')")
        table.merge_arrow([{"id": 2, "name": "c"}, {"id": 3, "name": "d"}], on="id")
        table.delete_arrow("id = 1")
    records = [record for record in caplog.records if record.name == "hiveacid.statements"]
    facts = [(r.statement, r.table, r.rows, r.files, r.write_id) for r in records]  # type: ignore[attr-defined]
    assert facts == [
        ("INSERT", "default.t", 2, 1, 1),
        ("ARROW MERGE", "default.t", 2, 3, 2),
        ("ARROW DELETE", "default.t", 1, 1, 3),
    ]
    assert all(record.bytes > 0 and record.seconds >= 0 for record in records)  # type: ignore[attr-defined]
    assert "INSERT default.t: 2 rows, 1 files, " in records[0].getMessage()
