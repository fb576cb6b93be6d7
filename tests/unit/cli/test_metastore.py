from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from hiveacid.cli.app import app
from hiveacid.errors import MetastoreError


def _run(command: str, url: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["metastore", command, url])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_init_makes_a_metastore_that_check_finds_whole(metastore_url: str) -> None:
    assert _run("init", metastore_url)[0] == 0
    code, output = _run("check", metastore_url)
    assert code == 0
    assert output.splitlines()[1:] == [
        "0 databases",
        "0 open and 0 aborted transactions",
        "0 locks",
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
    with pytest.raises(MetastoreError, match="There is no metastore"):
        _run(command, str(path))
