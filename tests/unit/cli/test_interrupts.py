"""Ctrl-C ends a command: one line, the exit status that shells have for it, nothing left open."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.interrupts import pressed_after
from tests.sampling import first_letter, sampled
from tests.unit.cli.running import run

import hiveacid
from hiveacid import read_arrow

COMMANDS = (
    'sql -e "insert into t values (3)" --metastore {url}',
    'sql -e "delete from t where id = 1" --metastore {url}',
    "compact t --wait --metastore {url}",
    "read t --metastore {url}",
    "txns --metastore {url}",
)


@pytest.mark.parametrize("command", sampled(COMMANDS, "cli", "session", "txn", group=first_letter))
def test_a_command_that_is_interrupted(tmp_path: Path, command: str) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as acid:
        acid.create_table("t", "id int")
        for number in (1, 2):
            acid.sql(f"insert into t values ({number})")
    with pressed_after(40, within=lambda name: "hiveacid/metastore/" in name):
        done = run(*shlex.split(command.format(url=url)))
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
    with hiveacid.connect(None, url) as acid:
        assert "open" not in str(acid.sql("show transactions").rows).lower()
        assert list(acid.sql("show locks").rows) == []
        assert read_arrow(acid.table("t")).read_all().sort_by("id")["id"].to_pylist() == [1, 2]
