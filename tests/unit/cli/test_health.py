"""``purge`` as the command line does it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.running import run
from tests.unit.compaction.quick import ACID, session_of


def test_purge_says_what_it_did_and_where_the_report_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with session_of(url, tmp_path) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1), (2), (3)")
    told = run("purge", "t", "--where", "id = 2", "--wait", "5", "--metastore", url)
    assert told.returncode == 0, told.stderr
    first, second, *_, last = told.stdout.splitlines()
    assert first == "default.t: 1 rows deleted, 2 files removed"
    assert second == "0 of 1 deleted rows in 2 left"
    facts = json.loads(Path(last.removeprefix("report: ")).read_text())
    again = json.loads(run("purge", "t", "--metastore", url, "--json").stdout)
    assert (facts["rows_deleted"], again["rows_deleted"]) == (1, 0)
    assert (facts["rows_found"], again["files_before"]) == (0, [])
    refused = run("purge", "t", "--where", "nothing = 1", "--metastore", url)
    assert (refused.returncode, "nothing" in refused.stderr) == (1, True)
