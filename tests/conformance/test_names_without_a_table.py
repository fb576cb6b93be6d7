"""A write id is given out for a name whose table has just gone: whoever comes to the name is not
the worse for it, on each kind of database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import AcidError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"
OFF = {"hiveacid.compactor.auto": "off", "hiveacid.retention_s": "0"}


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    root = str(tmp_path / "wh")
    with hiveacid.connect(None, metastore_url, warehouse=root, settings=OFF) as session:
        session.sql(f"create table t (id int) {ACID}")
        session.sql("insert into t values (1)")
        yield session


@pytest.fixture
def too_late(
    acid: Session, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """INSERT INTO t of another session, for which these statements are carried out just before it
    gets its write id; it has to fail.
    """
    given_out = SqlMetastore.allocate_write_ids

    def insert(*statements: str) -> None:
        with hiveacid.connect(None, metastore_url, settings=OFF) as late:

            def allocate(store: SqlMetastore, *args: Any, **more: Any) -> Any:
                monkeypatch.setattr(SqlMetastore, "allocate_write_ids", given_out)
                for text in statements:
                    acid.sql(text)
                return store.allocate_write_ids(*args, **more)

            monkeypatch.setattr(SqlMetastore, "allocate_write_ids", allocate)
            with pytest.raises(AcidError):
                late.table("t").write_arrow(pa.table({"id": pa.array([2], pa.int32())}))
        assert acid.sql("show locks").rows == ()

    return insert


def test_another_table_can_be_renamed_to_it(acid: Session, too_late: Callable[..., None]) -> None:
    acid.sql(f"create table other (id int) {ACID}")
    acid.sql("insert into other values (7)")
    too_late("alter table t rename to t2")
    acid.sql("alter table other rename to t")
    acid.sql("insert into t values (8)")
    assert rows_of(acid, "t") == [(7,), (8,)]
    assert rows_of(acid, "t2") == [(1,)]


def test_the_table_comes_back_to_its_name(
    acid: Session, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the locks, with a write id of the name alone: it is no write id of the table."""
    given_out = SqlMetastore.allocate_write_ids
    with hiveacid.connect(None, metastore_url, settings=OFF) as late:

        def allocate(store: SqlMetastore, *args: Any, **more: Any) -> Any:
            monkeypatch.setattr(SqlMetastore, "allocate_write_ids", given_out)
            acid.sql("alter table t rename to t2")
            try:
                return store.allocate_write_ids(*args, **more)
            finally:
                acid.sql("alter table t2 rename to t")

        monkeypatch.setattr(SqlMetastore, "allocate_write_ids", allocate)
        with late.transaction() as txn:
            txn.table("t").write_arrow([{"id": 2}])
            assert rows_of(acid, "t") == [(1,)]
    assert rows_of(acid, "t") == [(1,), (2,)]


def test_a_new_table_begins_anew(acid: Session, too_late: Callable[..., None]) -> None:
    too_late("drop table t")
    acid.sql(f"create table t (id int) {ACID}")
    assert acid.sql("insert into t values (8)").write_id == 1


def test_files_that_were_there_are_attached(acid: Session, too_late: Callable[..., None]) -> None:
    too_late("alter table t rename to t2")
    location = acid.table("t2").definition.location
    acid.detach("t2")
    acid.attach(location, name="t", accept_all_write_ids=True)
    assert rows_of(acid, "t") == [(1,)]
    assert acid.sql("insert into t values (8)").write_id == 2


@pytest.mark.parametrize("properties", [INSERT_ONLY, "'transactional'='true'"])
def test_a_table_without_transactions_can_be_converted(
    acid: Session, too_late: Callable[..., None], properties: str
) -> None:
    plain = ("create table t (x date) stored as orc", "insert into t values ('2026-01-01')")
    too_late("drop table t", *plain)
    before = rows_of(acid, "t")
    acid.sql(f"alter table t set tblproperties ({properties})")
    assert rows_of(acid, "t") == before and len(before) == 1
    acid.table("t").compact("major", wait=True)
    acid.clean()
    assert rows_of(acid, "t") == before
