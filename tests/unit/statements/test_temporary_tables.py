"""Temporary tables: of one session, before others of their name, gone with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import NotFoundError, UnsupportedError

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ACID, "stored as parquet", ""])
def test_a_temporary_table_is_its_sessions_and_goes_with_it(
    metastore_url: str, tmp_path: Path, kind: str
) -> None:
    warehouse = tmp_path / "wh"
    with hiveacid.connect(None, metastore_url, warehouse=str(warehouse)) as other:
        other.sql(f"create table t (id int) {ACID}")
        other.sql("insert into t values (1)")
        with hiveacid.connect(None, metastore_url) as acid:
            acid.sql(f"create temporary table t (id int) partitioned by (k int) {kind}")
            acid.sql("create temporary table if not exists t (id int)")
            acid.sql("insert into t values (2, 5), (3, 6)")
            acid.sql("alter table default.t add columns (v string)")
            acid.sql("alter table t drop partition (k = 6)")
            if kind == ACID:
                assert acid.table("t").delete_arrow("id = 9").rows == 0
            assert rows_of(acid) == [(2, None, 5)]
            assert rows_of(other) == [(1,)]
            assert acid.sql("show partitions t").rows == (("k=5",),)
            assert len(acid.sql("show columns in t").rows) == 3
            with pytest.raises(UnsupportedError, match="temporary"):
                acid.sql("alter table t rename to u")
            acid.sql("create temporary table like_t like t")
            shown = acid.sql("show create table like_t").rows
            assert shown[0] == ("CREATE TEMPORARY TABLE `like_t`(",)
            acid.sql("drop table like_t")
            acid.sql("\n".join(line for (line,) in shown))
            assert acid.sql("show tables").rows == (("like_t",), ("t",))
            assert other.sql("show tables").rows == (("t",),)
            acid.sql("drop table t")
            assert rows_of(acid) == [(1,)]
            acid.sql("create temporary table t (id int)")
            assert rows_of(acid) == []
        assert other.sql("show tables").rows == (("t",),)
        assert [path.name for path in warehouse.iterdir()] == ["t"]
        with pytest.raises(NotFoundError):
            other.sql("insert into like_t values (1)")


@pytest.mark.slow
def test_all_that_python_calls_by_the_name_is_the_temporary_table(
    metastore_url: str, tmp_path: Path
) -> None:
    with hiveacid.connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as other:
        other.sql(f"create table t (id int) {ACID}")
        for number in (1, 2):
            other.sql(f"insert into t values ({number})")
        there = other.table("t")
        before = there.history()
        with hiveacid.connect(None, metastore_url) as acid:
            acid.sql(f"create temporary table t (id int, v string) {ACID}")
            mine = acid.table("t")
            with acid.stream("t") as stream, stream.transaction():
                stream.write({"id": 7, "v": "x"})
            assert hiveacid.read_arrow(mine).read_all().to_pylist() == [{"id": 7, "v": "x"}]
            assert [one.facts.inserted for one in mine.history()] == [1]
            assert (mine.detail().rows, len(mine.why_compact())) == (1, 1)
            assert [pin.table for pin in (mine.tag("a"), *acid.tag("b", ["t"]))] == [mine.name] * 2
            mine.drop_tag("a")
            mine.drop_tag("b")
            (entry,) = mine.compact("major", wait=True)
            assert acid.compactions("t") == (entry,)
            assert {one.table for one in (*mine.clean(), *acid.clean("t"))} <= {mine.name}
            assert mine.purge(where="id = 7").rows_deleted == 1
            assert acid.explain_row("t", where="id = 7").table == mine.name
            acid.detach("t")
            assert acid.table("t").columns == ("id",)
        assert (there.history(), there.tags(), other.compactions("t")) == (before, (), ())
        assert sorted(rows_of(other)) == [(1,), (2,)]


def test_a_temporary_table_needs_no_other_of_its_name(metastore_url: str, tmp_path: Path) -> None:
    with hiveacid.connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql(f"create temporary table t (id int) {ACID}")
        with acid.transaction() as txn:
            txn.table("t").write_arrow([{"id": 1}])
        assert rows_of(acid) == [(1,)]


_NOT_CLOSED = """
import sys, hiveacid
acid = hiveacid.connect(None, sys.argv[1], warehouse=sys.argv[2])
acid.sql("create temporary table t (id int)")
acid.sql("insert into t values (1)")
"""


@pytest.mark.slow
def test_a_process_that_ends_without_close_leaves_no_temporary_table(
    metastore_url: str, tmp_path: Path
) -> None:
    where = str(tmp_path / "wh")
    with hiveacid.connect(None, metastore_url, warehouse=where) as acid:
        subprocess.run([sys.executable, "-c", _NOT_CLOSED, metastore_url, where], check=True)
        assert acid.sql("show tables").rows == ()
    assert list(Path(where).iterdir()) == []
