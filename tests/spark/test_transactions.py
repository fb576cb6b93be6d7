"""Transactions of several statements through Spark: UPDATE, DELETE, MERGE and queries in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from hiveacid.errors import AcidError, CardinalityError, TransactionError
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
Rows = list[tuple[Any, ...]]


def _of(where: Any, sql: str = "select * from t") -> Rows:
    return sorted(tuple(row) for row in where.sql(sql).collect())


def _committed(acid: Session, table: str = "t") -> Rows:
    """What ORC readers of the committed write ids see."""
    import hiveacid

    definition = acid.table(table).definition
    (valid,) = acid.client.metastore.valid_write_ids((definition.name,))
    found = hiveacid.read_arrow(definition.location, valid_write_ids=str(valid))
    return sorted(tuple(row.values()) for row in found.read_all().to_pylist())


def test_one_row_is_changed_by_every_kind_of_statement(
    acid: Session, layout: Callable[[str], list[str]]
) -> None:
    acid.sql(f"create table t (id int, v int) {ACID}")
    acid.sql("insert into t values (1, 10), (2, 20)")
    with acid.transaction() as txn:
        txn.sql("insert into t values (3, 30)")
        assert txn.sql("update t set v = v + 1 where id in (1, 3)").rows == 2
        assert txn.table("t").update({"v": F.col("v") + 1}, where="id <> 2").rows == 2
        lazy = txn.table("t").df()
        merged = txn.sql(
            "merge into t using (select id, v + 100 as v from t union all select 4, 4) s "
            "on t.id = s.id when matched and t.id = 2 then delete "
            "when matched then update set v = s.v when not matched then insert values (s.id, s.v)"
        )
        assert (merged.updated, merged.deleted, merged.inserted) == (2, 1, 1)
        assert txn.sql("delete from t where id = 4").rows == 1
        assert _of(txn, "select count(*), max(v) from t") == [(2, 132)]
        assert _of(acid) == [(1, 10), (2, 20)]
        assert sorted(tuple(row) for row in lazy.collect()) == [(1, 12), (2, 20), (3, 32)]
        last = txn.sql("select * from t")
    expected = [(1, 112), (3, 132)]
    assert _of(acid) == _committed(acid) == sorted(map(tuple, last.collect())) == expected
    assert _of(acid, "select count(*) from t") == [(2,)]
    ids = {name.partition("/")[0][-4:] for name in layout("t") if "0000002_0000002" in name}
    assert ids == {f"{n:04d}" for n in range(10)}


@pytest.mark.long("spark", "statements", "txn")
def test_an_overwrite_is_followed_by_every_kind_of_statement(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) partitioned by (k string) {ACID}")
    acid.sql("insert into t values (1, 'a', 'x'), (2, 'b', 'y')")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t partition (k) select id + 10, v, k from t where k = 'x'")
        txn.sql("insert into t select id + 1, 'new', k from t")
        txn.savepoint("filled")
        txn.sql("insert overwrite table t partition (k='x') select id, 'again' from t where id > 5")
        assert _of(txn, "select * from t where k = 'x'") == [
            (11, "again", "x"), (12, "again", "x"),
        ]  # fmt: skip
        txn.rollback_to("filled")
        txn.sql("update t set v = concat(v, '!') where id > 2")
        txn.sql("delete from t where id = 12")
        expected = [(2, "b", "y"), (3, "new!", "y"), (11, "a!", "x")]
        assert _of(txn) == expected
    assert _of(acid) == _committed(acid) == expected


def test_a_failed_statement_leaves_the_transaction_usable(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql(f"create table u (id int, v string) {ACID}")
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        with pytest.raises(CardinalityError):
            txn.sql(
                "merge into t using (select 1 as id union all select 1) s on t.id = s.id "
                "when matched then update set v = 'b'"
            )
        with pytest.raises(AcidError):
            txn.sql("select nosuch from t")
        txn.sql("from t insert into t select id + 1, v insert into u select id + 2, v")
        assert _of(txn) == [(1, "a"), (2, "a")]
        assert _of(txn, "select * from u") == [(3, "a")]  # both branches read what was there
    with pytest.raises(TransactionError):
        txn.sql("select 1")
    assert len(_of(acid)) == 2


def test_sql_transactions_of_a_session_hold_queries_too(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("start transaction")
    acid.sql("insert into t values (1)")
    assert _of(acid, "select count(*) from t") == [(1,)]
    assert "default.t" in str(_of(acid, "explain select * from t"))
    acid.sql("rollback")
    assert _of(acid) == []
