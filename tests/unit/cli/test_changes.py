"""``changes`` as the command line prints it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.running import run
from tests.unit.compaction.quick import ACID, session_of


def test_changes_are_a_line_of_json_each(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with session_of(url, tmp_path) as acid:
        acid.sql(f"create table t (id int, v string) {ACID}")
        acid.sql("insert into t values (1, 'a'), (2, 'b')")
        acid.table("t").merge_arrow([{"id": 2, "v": "B"}], on="id")
    asked = ("changes", "t", "--since", "1", "--key", "id", "--metastore", url)
    told = run(*asked, "--json")
    assert told.returncode == 0, told.stderr
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(one["_change_type"], one["v"]) for one in found] == [
        ("update_preimage", "b"),
        ("update_postimage", "B"),
    ]
    assert "update_postimage" in run(*asked).stdout
    refused = run("changes", "t", "--since", "7", "--metastore", url)
    assert (refused.returncode, "no version 7 yet" in refused.stderr) == (1, True)
