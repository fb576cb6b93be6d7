"""Temporary tables: of one session, before others of their name, gone with it."""

from __future__ import annotations

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
            acid.sql("drop table t")
            assert rows_of(acid) == [(1,)]
            acid.sql("create temporary table t (id int)")
            assert rows_of(acid) == []
        assert other.sql("show tables").rows == (("t",),)
        assert [path.name for path in warehouse.iterdir()] == ["t"]
        with pytest.raises(NotFoundError):
            other.sql("insert into like_t values (1)")
