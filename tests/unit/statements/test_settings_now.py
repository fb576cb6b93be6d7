"""SET counts for everything that runs from then on, whoever was there before."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.session import Session, connect
from hiveacid.settings import Settings

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true')"
_TEXTS = {
    "hiveacid.compactor.auto": "embedded",
    "hiveacid.compactor.offpeak": "22-6",
    "hiveacid.txn.isolation": "serializable",
    "hiveacid.conflict.unit": "partition",
    "hiveacid.store_assignment": "ansi",
    "hiveacid.reads.lease": "always",
    "hiveacid.msck.path_validation": "skip",
    "hiveacid.s3.path_style": "true",
}
_FIXED = {
    "hiveacid.txn.timeout_s",
    "hiveacid.files.retry_s",
    *(name for name in Settings.names() if name.startswith("hiveacid.s3.")),
}


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    settings = {"hiveacid.compactor.auto": "off"}
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh"), settings=settings) as session:
        yield session


def _other(name: str, text: str) -> str:
    """Another text that the setting takes."""
    if name in _TEXTS:
        return _TEXTS[name]
    if not text:
        return "something"
    if text in ("true", "false"):
        return "false" if text == "true" else "true"
    return str(float(text) + 1) if "." in text else str(int(text) + 1)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that has written and compacted."""
    root = tmp_path_factory.mktemp("used")
    # a value that no other test holds
    settings = Settings(housekeeping_interval_s=61.0)
    with connect(None, f"sqlite:///{root}/m.db", warehouse=str(root), settings=settings) as session:
        session.sql(f"create table t (id int) {ACID}")
        session.sql("insert into t values (1)")
        session.table("t").compact("major", wait=True)
        for key in ("hiveacid.lock.timeout_s", "hiveacid.housekeeping.interval_s"):
            session.sql(f"set {key} = 17")  # what is replaced below is nobody's initial value
        yield session


@pytest.mark.parametrize("name", Settings.names())
def test_nobody_goes_on_with_a_setting_as_it_was(used: Session, name: str) -> None:
    before = used.settings
    text = before.get(name)
    assert text is not None
    if name in _FIXED:
        with pytest.raises(InvalidInputError, match=f"{name}.*while a session is connected"):
            used.sql(f"set {name} = {_other(name, text)}")
        assert used.settings is before
        return
    used.sql(f"set {name} = {_other(name, text)}")
    assert used.settings.get(name) != text
    assert used.client.settings is used.settings
    holders = [one for one in gc.get_referrers(before) if type(one).__name__ != "frame"]
    used.sql(f"set {name} = {text}")
    assert not holders, "somebody goes on with what SET has replaced"


def test_the_queue_goes_by_the_settings_of_now(acid: Session) -> None:
    store: Any = acid.client.metastore
    names = (
        *("pool_timeout_s", "failed_threshold", "failed_retry_s", "cleaner_retry_s"),
        *("cleaner_attempts", "history_failed", "history_succeeded", "history_s"),
    )
    for name in names:
        acid.sql(f"set hiveacid.compactor.{name} = 17")
    options = store.database.options.compaction
    assert (options.failures_max, options.cleaning_attempts_max, options.kept_failed) == (17,) * 3
    assert (options.kept_succeeded, options.kept_refused) == (17, 17)
    times = (options.pool_timeout_ms, options.failures_pause_ms, options.cleaning_retry_ms)
    assert (*times, options.history_ms) == (17_000,) * 4


def test_housekeeping_keeps_records_by_the_settings_of_now(acid: Session) -> None:
    store: Any = acid.client.metastore
    acid.sql("set hiveacid.history.retention_s = 45d")
    acid.sql("set hiveacid.retention_s = 60d")
    options = store.database.options
    assert (options.history_ms, options.retention_ms) == (45 * 86_400_000, 60 * 86_400_000)


def test_thresholds_set_after_connect_decide(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    for number in range(3):
        acid.sql(f"insert into t values ({number})")
    (verdict,) = acid.table("t").why_compact()
    assert verdict.decision.type is None
    acid.sql("set hiveacid.compactor.delta_num_threshold = 2")
    (verdict,) = acid.table("t").why_compact()
    assert verdict.decision.type is not None


def test_a_retention_set_after_connect_decides_what_clean_removes(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    acid.sql("insert into t values (2)")
    acid.table("t").compact("major", wait=True)
    assert [text for text in _reasons(acid) if "retention" in text]
    acid.sql("set hiveacid.retention_s = 0")
    assert not [text for text in _reasons(acid) if "retention" in text]


def _reasons(acid: Session) -> list[str]:
    return [one.reason for one in acid.clean("t", dry_run=True)]


def test_set_within_a_transaction_is_the_sessions(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("set hiveacid.retention_s = 5")
    assert acid.settings.retention_s == acid.client.settings.retention_s == 5


def test_reset_goes_back_to_what_the_session_was_connected_with(acid: Session) -> None:
    acid.sql("set hiveacid.retention_s = 5")
    acid.sql("set hiveacid.compactor.auto = embedded")
    acid.sql("reset")
    assert acid.settings.retention_s == Settings().retention_s
    assert acid.client.settings.compactor_auto == "off"


# -------------------------------------------------------------------- the warehouse


def test_a_metastore_knows_its_warehouse(acid: Session, metastore_url: str, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "wh")
    for named in (None, warehouse, f"{warehouse}/", f"file://{warehouse}", f"{tmp_path}/x/../wh"):
        with connect(None, metastore_url, warehouse=named) as other:
            assert other.client.warehouse == warehouse
    with pytest.raises(InvalidInputError, match=f"is {warehouse}, not {tmp_path}/other"):
        connect(None, metastore_url, warehouse=f"{tmp_path}/other")


def test_a_new_metastore_needs_an_absolute_warehouse(metastore_url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"relative path.*{os.path.abspath('wh')}"):
        connect(None, metastore_url, warehouse="wh")
    with pytest.raises(AcidError):
        connect(None, metastore_url)
    assert not (tmp_path / "metastore.db").exists()
