"""What `pip install hiveacid` without an extra can do, and what it says where it cannot."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.e2e import bare_install

_NEED_SPARK = {
    "setup explain select * from t",
    "setup select count(*) from t",
    "setup select 1",
    "setup create table ctas as select * from t",
    "setup create view v as select * from t",
    "setup insert into t select * from t",
    "setup update t set name = 'x'",
    "setup merge into t using plain s on t.id = s.id when matched then delete",
    "setup analyze table t compute statistics for columns",
    "AcidTable.analyze",
    "AcidTable.delete",
    "AcidTable.df",
    "AcidTable.merge",
    "AcidTable.update",
    "Session.execute",
    "Session.sql",
    "$ sql",
    "$ compactor run --spark",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Call -> what came of it, in a process that cannot import the extras' packages."""
    where = tmp_path_factory.mktemp("bare")
    done = subprocess.run(
        [sys.executable, bare_install.__file__, str(where)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_no_call_ends_in_a_bare_error(outcomes: dict[str, str]) -> None:
    bare = {call: text for call, text in outcomes.items() if text.startswith("BARE")}
    assert not bare, "\n".join(f"{call}: {text}" for call, text in bare.items())


def test_what_needs_spark_names_its_extra(outcomes: dict[str, str]) -> None:
    needing = {call for call, text in outcomes.items() if text.startswith("spark-needed")}
    assert needing == _NEED_SPARK
    for call in needing:
        assert "pip install 'hiveacid[spark]'" in outcomes[call], call


def test_what_needs_another_package_names_its_extra(outcomes: dict[str, str]) -> None:
    assert {c: t for c, t in outcomes.items() if t.startswith("missing-extra")}.keys() == {
        "Dataset.scan_polars",
        "$ demo",
        "$ metastore init postgres",
        "$ metrics",
    }
    assert "pip install 'hiveacid[metrics]'" in outcomes["$ metrics"]
    assert "pip install 'hiveacid[postgres]'" in outcomes["$ metastore init postgres"]
    assert "pip install 'hiveacid[demo]'" in outcomes["$ demo"]
    assert "pip install polars" in outcomes["Dataset.scan_polars"]


def test_all_else_works(outcomes: dict[str, str]) -> None:
    missing = ("spark-needed", "missing-extra")
    failed = {
        call: text
        for call, text in outcomes.items()
        if text != "ok" and not text.startswith(missing) and call not in _REFUSED
    }
    assert not failed


_REFUSED = {
    "AcidTable.load",
    "Session.attach",
    "$ attach",
    "AcidTransaction.rollback",
    *("Session.use_spark", "hiveacid.enable", "hiveacid.disable"),
    *("Session.abort_locks", "Session.abort_transactions", "$ abort"),
    *("Session.drop_tag", "AcidTable.purge", "AcidTable.restore", "$ purge", "$ changes"),
    *("Session.undo", "$ undo"),
}
"""There are no such files, transactions, locks, sessions, tags; PURGE finds a transaction open, and
ends the past that it can.
"""
