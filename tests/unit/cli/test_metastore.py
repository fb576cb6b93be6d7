from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from hiveacid.cli.app import app
from hiveacid.errors import MetastoreError, NotFoundError
from hiveacid.session import connect

ACID = "stored as orc tblproperties ('transactional'='true')"


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["metastore", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_init_makes_a_metastore_that_check_finds_whole(metastore_url: str) -> None:
    assert _run("init", metastore_url)[0] == 0
    code, output = _run("check", metastore_url)
    assert code == 0
    assert output.splitlines()[1:] == [
        "databases: 0",
        "transactions: 0 open, 0 aborted",
        "locks: 0",
    ]


def test_check_names_what_is_missing_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "metastore.db"
    _run("init", str(path))
    with sqlite3.connect(path) as raw:
        raw.execute('drop index "HL_TXNID_INDEX"')
    code, output = _run("check", str(path))
    assert (code, output.splitlines()[1:]) == (1, ["index hl_txnid_index is missing"])


def test_upgrade_brings_an_old_schema_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "metastore.db"
    _run("init", str(path))
    with sqlite3.connect(path) as raw:
        raw.execute('update "HIVEACID_VERSION" set "SCHEMA_VERSION" = 0')
    with pytest.raises(MetastoreError, match="older"):
        _run("check", str(path))
    assert _run("upgrade", str(path))[0] == 0
    assert _run("check", str(path))[0] == 0


@pytest.mark.parametrize("command", ["check", "upgrade"])
def test_a_metastore_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    path = tmp_path / "metastore.db"
    with pytest.raises(NotFoundError, match="There is no metastore"):
        _run(command, str(path))
    assert list(tmp_path.iterdir()) == []


def test_directories_of_aborted_transactions_are_not_newer(
    metastore_url: str, tmp_path: Path
) -> None:
    """A reader's list of write ids may end at the first of them."""
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1)")
        for _ in range(2):
            with contextlib.suppress(ValueError), acid.transaction() as txn:
                txn.sql("insert into t values (2)")
                raise ValueError
        acid.client.metastore.clean_txn_to_write_id()
    (tmp_path / "wh/t/delta_0000003_0000003_0000").mkdir()
    code, output = _run("check", "--files", metastore_url)
    assert code == 0, output


def test_directories_newer_than_a_restored_metastore_are_named(
    metastore_url: str, tmp_path: Path
) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
        acid.sql("insert into t values (1)")
        acid.sql("insert into p partition (k='x') values (1)")
    assert _run("check", "--files", metastore_url)[0] == 0
    for place in ("t/delta_0000002_0000002_0000", "p/k=x/base_0000007", "t/base_0000001_v0000099"):
        (tmp_path / "wh" / place).mkdir()
    code, output = _run("check", "--files", metastore_url)
    assert code == 1
    lines = sorted(line for line in output.splitlines() if " is of " in line)
    assert [line.partition(" is of ")[2] for line in lines] == [
        "write id 7, default.p has given out 1",
        "transaction 99, the last one is 4",
        "write id 2, default.t has given out 1",
    ]
    assert _run("check", metastore_url)[0] == 0
