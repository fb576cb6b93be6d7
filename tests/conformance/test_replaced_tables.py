"""CREATE OR REPLACE TABLE of another definition: the old table, then the new one, never none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.metastore.sql.engine import Database
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    root = str(tmp_path / "wh")
    with hiveacid.connect(None, metastore_url, warehouse=root, settings=OFF) as session:
        session.sql(f"create table t (id int) {ACID}")
        session.sql("insert into t values (1)")
        yield session


def test_whoever_looks_finds_the_old_table_or_the_new_one(
    acid: Session, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...] | None] = []
    name, original = acid.table_name("t"), Database.write

    with hiveacid.connect(None, metastore_url, settings=OFF) as other:
        other_database = other.client.metastore.database  # type: ignore[attr-defined]

        @contextmanager
        def write(self: Database, **how: Any) -> Iterator[Any]:
            with original(self, **how) as unit:
                yield unit
            if self is not other_database:
                table = other.client.metastore.get_tables((name,)).get(name)
                seen.append(None if table is None else tuple(c.name for c in table.columns))

        with monkeypatch.context() as patched:
            patched.setattr(Database, "write", write)
            acid.sql(f"create or replace table t (id int, w string) {ACID}")

    new = seen.index(("id", "w"))
    assert set(seen[:new]) == {("id",)} and set(seen[new:]) == {("id", "w")}
    for number in (1, 2):
        acid.sql(f"insert into t values ({number}, 'a')")
    assert read_arrow(acid.table("t")).read_all()["id"].to_pylist() == [1, 2]
    assert [one.name for one in (tmp_path / "wh").iterdir() if one.name.startswith("t")] == [
        acid.table("t").definition.location.rpartition("/")[2]
    ]

    acid.sql(f"create or replace table t (v string) {ACID}")
    acid.sql("insert into t values ('z')")
    assert read_arrow(acid.table("t")).read_all().to_pylist() == [{"v": "z"}]
    assert acid.client.own.get_open_txns().open == () and acid.sql("show locks").rows == ()
    assert acid.client.metastore.list_tables("default") == ("t",)
    acid.sql("drop table t")
    assert not [one for one in (tmp_path / "wh").iterdir() if one.name.startswith("t")]
