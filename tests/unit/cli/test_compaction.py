"""``compact``, ``compactions``, ``clean``: what they print, and their exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hiveacid
from hiveacid.cli.app import app
from hiveacid.errors import AcidError, CompactionError, InvalidInputError, NotFoundError

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='0')"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A metastore with an unpartitioned and a partitioned table."""
    place = f"sqlite:///{tmp_path / 'metastore.db'}"
    with hiveacid.connect(None, place, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql(f"create table p (id int) partitioned by (k string, n int) {ACID}")
        for number in range(3):
            acid.sql(f"insert into t values ({number})")
            acid.sql(f"insert into p values ({number}, 'a b', 1), ({number}, 'c', 2)")
    return place


def _run(url: str, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--metastore", url, "--json"])
    if isinstance(result.exception, AcidError):
        raise result.exception
    assert result.exit_code == code, result.output
    return json.loads(result.output)


def test_compact_only_asks_and_with_wait_does_it(url: str) -> None:
    (asked,) = _run(url, "compact", "t", "--minor", "--pool", "x")
    assert (asked["state"], asked["type"], asked["poolname"]) == ("initiated", "MINOR", "x")
    (found,) = _run(url, "compactions", "list", "t", "--status", "initiated")
    assert found == asked
    with pytest.raises(CompactionError, match="already scheduled"):
        _run(url, "compact", "t")
    (done,) = _run(url, "compact", "p", "--partition", "k=a b/n=1", "--wait")
    assert (done["partname"], done["state"]) == ("k=a b/n=1", "ready for cleaning")


def test_requests_are_aborted_and_what_cannot_be_ends_with_1(url: str) -> None:
    (asked,) = _run(url, "compact", "t")
    number = str(asked["compactionid"])
    (answer,) = _run(url, "compactions", "abort", number)
    assert answer["status"] == "Success"
    (answer,) = _run(url, "compactions", "abort", number, code=1)
    assert answer["status"] == "Error"


def test_why_and_clean_say_it_in_words(url: str) -> None:
    first, second = _run(url, "compactions", "why", "p")
    assert (first["partition"], first["type"]) == ("k=a b/n=1", None)
    assert "3 deltas, not more than 10" in second["reason"]
    told = _run(url, "clean", "--dry-run", "t")
    assert {one["fate"] for one in told} == {"kept"}
    assert _run(url, "clean") == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["compact", "nosuch"], NotFoundError),
        (["compact", "p", "--partition", "k=nosuch/n=1"], NotFoundError),
        (["compact", "p", "--partition", "nonsense"], InvalidInputError),
        (["compact", "t", "--major", "--order-by", "id"], InvalidInputError),
        (["compactions", "list", "--status", "lost"], InvalidInputError),
        (["compactions", "why", "nosuch"], NotFoundError),
        (["clean", "nosuch"], NotFoundError),
    ],
)
def test_wrong_names_are_errors(url: str, arguments: list[str], error: type[AcidError]) -> None:
    with pytest.raises(error):
        _run(url, *arguments)


def test_a_metastore_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "nosuch.db"
    with pytest.raises(NotFoundError):
        _run(f"sqlite:///{path}", "compact", "t")
    result = CliRunner().invoke(app, ["compactor", "run", "--once", "--metastore", str(path)])
    assert isinstance(result.exception, NotFoundError)
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compactor", "run", "--once", "--set", "hiveacid.retention_s"], "is not NAME=VALUE"),
        (["compactor", "run", "--once", "--metrics-port", "0"], "--once serves no metrics"),
        (["compact", "t", "--major", "--minor"], "exclude each other"),
        (["compactions", "abort", str(2**63)], "is not in the range"),
    ],
)
def test_wrong_usage_ends_with_2(url: str, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, [*arguments, "--metastore", url])
    assert (result.exit_code, words in result.output) == (2, True)


def test_what_clients_that_are_gone_hold_is_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        acid.sql("lock table t exclusive")
        (row,) = acid.client.metastore.show_locks()
        (txn,) = acid.client.metastore.open_txns(1, user="u", host="h")
        _abort(url, str(txn), "--lock", str(row.lock_id))
        assert acid.client.metastore.show_locks() == ()
        assert [
            one.id for one in acid.client.metastore.show_txns() if one.state.name == "OPEN"
        ] == []
        with pytest.raises(NotFoundError, match="no lock 99"):
            _abort(url, "--lock", "99")


def _abort(url: str, *arguments: str) -> None:
    result = CliRunner().invoke(app, ["abort", *arguments, "--metastore", url])
    if result.exception is not None:
        raise result.exception
