"""``purge``, times and tables as the command line and notebooks show them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.unit.cli.running import run
from tests.unit.compaction.quick import ACID, session_of

from hiveacid.model.readable import moment


@pytest.mark.slow
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


def test_tags_are_listed_and_in_the_way_of_a_purge(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with session_of(url, tmp_path) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1)")
        acid.sql("create tag q3 on t")
    (tag,) = json.loads(run("tags", "t", "--metastore", url, "--json").stdout)
    assert (tag["tag"], tag["table"], tag["version"], tag["expires"]) == (
        "q3",
        "default.t",
        1,
        None,
    )
    assert abs(tag["made"] / 1000 - time.time()) < 86_400
    refused = run("purge", "t", "--metastore", url)
    assert (refused.returncode, "tag q3 (version 1)" in refused.stderr) == (1, True)
    assert run("purge", "t", "--drop-pins", "--metastore", url).returncode == 0
    assert json.loads(run("tags", "--metastore", url, "--json").stdout) == []


def test_times_and_durations_are_for_people_in_tables_and_numbers_in_json(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with session_of(url, tmp_path) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1)")
        acid.sql("insert into t values (2)")
        (entry,) = acid.table("t").compact(wait=True)
    (facts,) = json.loads(run("compactions", "list", "--metastore", url, "--json").stdout)
    assert facts["committime"] == entry.committed_ms
    told = run("compactions", "list", "--metastore", url).stdout
    assert moment(entry.committed_ms) in told.replace("\n", "")
    assert str(entry.committed_ms) not in told


def test_notebooks_show_tables(tmp_path: Path) -> None:
    with session_of(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as acid:
        acid.sql(f"create table t (id int comment 'a < b') {ACID}")
        done = acid.sql("insert into t values (1)")
        emp = acid.table("t")
        assert done._repr_html_().startswith("<table><tr><th></th><th>InsertResult</th></tr>")
        assert "<td>rows</td><td>1</td>" in done._repr_html_()
        assert "<td>id</td><td>int</td><td>a &lt; b</td>" in emp._repr_html_()
        assert "<th>numFiles</th>" in acid.sql("describe detail t")._repr_html_()
        assert "<td>files</td><td>1</td>" in emp.detail()._repr_html_()
        assert "<th>evidence</th>" in acid.doctor()._repr_html_()


def test_a_row_is_explained_and_its_transaction_undone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with session_of(url, tmp_path) as acid:
        acid.sql(f"create table t (id int, v string) {ACID}")
        acid.sql("insert into t values (1, 'a'), (2, 'b')")
        acid.table("t").delete_arrow("id = 2")
        txn = acid.table("t").history(limit=1)[0].txn
    told = run("explain-row", "t", "--where", "id = 2", "--key", "id", "--metastore", url, "--json")
    changes = json.loads(told.stdout)["changes"]
    assert [(one["what"], one["version"]) for one in changes] == [("insert", 1), ("delete", 2)]
    (undone,) = json.loads(run("undo", str(txn), "--metastore", url, "--json").stdout)
    assert undone == {"table": "default.t", "deleted": 0, "inserted": 1, "version": 3}
    again = run("undo", str(txn), "--key", "id", "--metastore", url)
    assert (again.returncode, "default.t has {'id': 2, 'v': 'b'} again" in again.stderr) == (
        1,
        True,
    )
    listed = json.loads(run("history", "t", "--metastore", url, "--json").stdout)
    assert isinstance(listed[0]["timestamp"], int)
    assert abs(listed[0]["timestamp"] / 1000 - time.time()) < 86_400
    assert (listed[0]["version"], listed[0]["operation"]) == (3, f"UNDO {txn}")
    metrics = run("metrics", "--metastore", url)
    assert 'hiveacid_kept_bytes{reason="retention"} 0.0' in metrics.stdout
