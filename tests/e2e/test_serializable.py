"""Serializable transactions of two clients, without Spark: every door to them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.tables import committed, data_of, rows_of

import hiveacid
from hiveacid.errors import ConflictError, InvalidInputError, TransactionError
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.statements import run

MERGED = data_of((1, "a"))


def _by_python(acid: Session) -> hiveacid.transaction.AcidTransaction:
    return acid.transaction(isolation="Serializable")


def _by_setting(acid: Session) -> hiveacid.transaction.AcidTransaction:
    acid.sql("set hiveacid.txn.isolation = serializable")
    return acid.transaction()


def _by_table(acid: Session) -> hiveacid.transaction.AcidTransaction:
    acid.sql("alter table t set tblproperties ('hiveacid.isolation'='SERIALIZABLE')")
    return acid.transaction()


def _by_statement(acid: Session) -> hiveacid.transaction.AcidTransaction:
    txn = acid.transaction()
    txn.sql("set transaction isolation level serializable")
    return txn


def _by_statement_before(acid: Session) -> hiveacid.transaction.AcidTransaction:
    acid.sql("set transaction isolation level serializable")
    return acid.transaction()


@pytest.mark.parametrize(
    "begin", [_by_python, _by_setting, _by_table, _by_statement, _by_statement_before]
)
def test_of_two_merges_that_insert_one_key_the_second_loses(
    acid: Session, other: Session, begin: Callable[[Session], hiveacid.transaction.AcidTransaction]
) -> None:
    txn = begin(acid)
    assert txn.table("t").merge_arrow(MERGED, on=["id"]).inserted == 1
    assert other.table("t").merge_arrow(MERGED, on=["id"]).inserted == 1
    with pytest.raises(ConflictError, match="read conflict on default/t") as caught:
        txn.commit()
    assert caught.value.context["table"] == "default.t"
    assert rows_of(acid) == committed(acid) == [(1, "a")]


def test_at_snapshot_isolation_both_insert_it(acid: Session, other: Session) -> None:
    with acid.transaction() as txn:
        txn.table("t").merge_arrow(MERGED, on=["id"])
        other.table("t").merge_arrow(MERGED, on=["id"])
    assert rows_of(acid) == [(1, "a"), (1, "a")]


def test_merges_of_the_same_keys_at_once_insert_each_once(
    metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single statements: who loses runs again and finds the key. The first ones meet when each has
    read the table and none has committed.
    """
    all_have_read, met, publish = threading.Barrier(3), threading.local(), run._publish

    def publish_together(*given: Any) -> None:
        if not hasattr(met, "already"):
            met.already = True
            all_have_read.wait(300)
        publish(*given)

    monkeypatch.setattr(run, "_publish", publish_together)
    settings = Settings(isolation="serializable", conflict_retries=50, conflict_backoff_s=0.001)
    acid = hiveacid.connect(None, metastore_url, warehouse=str(tmp_path / "wh"))
    acid.sql(
        "create table t (id int, v string) stored as orc tblproperties ('transactional'='true')"
    )
    inserted, retries, failures = [0], [0], []

    def work(own: int) -> None:
        try:
            with hiveacid.connect(
                None, metastore_url, warehouse=str(tmp_path / "wh"), settings=settings
            ) as mine:
                for n in range(4):
                    data = data_of((n, f"of {own}"), (n + 1, f"of {own}"))
                    result = mine.table("t").merge_arrow(data, on=["id"], when_matched=None)
                    inserted[0] += result.inserted
                    retries[0] += result.retries
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=300)
    assert failures == []
    assert [row[0] for row in rows_of(acid)] == [0, 1, 2, 3, 4]
    assert (inserted[0], retries[0] > 1) == (5, True)
    acid.close()


def test_write_skew_over_two_tables_by_sql(acid: Session, other: Session) -> None:
    for session in (acid, other):
        session.sql("start transaction isolation level serializable")
    assert rows_of(acid, "u") == rows_of(other, "t") == []
    acid.sql("insert into t values (1, 'nobody in u')")
    other.sql("insert into u values (1, 'nobody in t')")
    acid.sql("commit")
    with pytest.raises(ConflictError, match="read conflict on default/t"):
        other.sql("commit")
    assert rows_of(other, "u") == []


def test_a_partition_that_was_left_out_may_change(acid: Session, other: Session) -> None:
    acid.table("p").write_arrow(data_of((1, "a"), k="x"))
    acid.table("p").write_arrow(data_of((1, "a"), k="y"))
    for change, wins in (("y", True), ("x", False), ("new", False)):
        txn = acid.transaction(isolation="serializable")
        txn.table("p").delete_arrow("k = 'x' or k = 'new'")
        other.table("p").write_arrow(data_of((2, "b"), k=change))
        if wins:
            txn.commit()
            acid.table("p").write_arrow(data_of((1, "a"), k="x"))
            continue
        with pytest.raises(ConflictError, match=f"read conflict on default/p/k={change}"):
            txn.commit()


def test_who_only_reads_and_who_only_inserts_commit(acid: Session, other: Session) -> None:
    with acid.transaction(isolation="serializable") as reader:
        assert rows_of(reader) == []
        with acid.transaction(isolation="serializable") as blind:
            blind.sql("insert into t values (1, 'a')")
            other.sql("insert into t values (2, 'b')")
        assert rows_of(reader) == []
    assert rows_of(acid) == [(1, "a"), (2, "b")]


def test_set_transaction_holds_for_one_transaction(acid: Session, other: Session) -> None:
    acid.sql("set transaction isolation level serializable")
    for raises in (True, False):
        acid.sql("begin")
        acid.table("t").merge_arrow(MERGED, on=["id"], when_matched=None)
        other.table("t").write_arrow(data_of((2, "b")))
        if raises:
            with pytest.raises(ConflictError):
                acid.sql("commit")
        else:
            acid.sql("commit")
    acid.sql("begin")
    rows_of(acid)
    with pytest.raises(InvalidInputError, match="before the first statement"):
        acid.sql("set transaction isolation level serializable")
    acid.sql("rollback")
    with acid.transaction() as txn:
        txn.rollback()
        with pytest.raises(TransactionError):
            txn.sql("set transaction isolation level snapshot")


def test_an_isolation_that_there_is_not(acid: Session) -> None:
    with pytest.raises(InvalidInputError, match="'snapshot', 'serializable', not 'strict'"):
        acid.transaction(isolation="strict")
    with pytest.raises(InvalidInputError, match="must be one of snapshot, serializable"):
        acid.sql("set hiveacid.txn.isolation = strict")
    with pytest.raises(InvalidInputError, match="isolation' is 'snapshot' or 'serializable'"):
        acid.sql("alter table t set tblproperties ('hiveacid.isolation'='strict')")
    with pytest.raises(InvalidInputError, match="isolation' is 'snapshot' or 'serializable'"):
        acid.sql(
            "create table w (a int) stored as orc "
            "tblproperties ('transactional'='true', 'hiveacid.isolation'='strict')"
        )
