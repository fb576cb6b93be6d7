"""Streams on both databases: which micro-batch is there, whose transactions are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.metastores import table_rows

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.tables import TableName
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    root = str(tmp_path / "wh")
    with hiveacid.connect(None, metastore_url, warehouse=root, settings=OFF) as session:
        for table in ("t", "u"):
            session.sql(f"create table {table} (id int) {ACID}")
        yield session


def ids(acid: Session, table: str) -> list[int]:
    return sorted(read_arrow(acid.table(table)).read_all()["id"].to_pylist())


def batch(acid: Session, app_id: str, number: int, table: str, *, checkpoint: bool = False) -> bool:
    with acid.transaction() as txn:
        if not txn.begin_batch(app_id, number, table=table, checkpoint=checkpoint):
            return False
        txn.table(table).write_arrow([{"id": number}])
        return True


def test_the_open_transactions_of_an_agent_are_aborted(acid: Session) -> None:
    transactions = acid.client.transactions
    mine, others = (
        transactions.begin_for_another(TableName("default", "t"), agent=agent)
        for agent in ("mine", "others")
    )
    transactions.take_over(
        transactions.begin_for_another(TableName("default", "t"), agent="mine")
    ).commit()

    assert transactions.abort_of("mine") == (mine.txn,)
    assert transactions.abort_of("mine") == ()
    assert acid.client.metastore.get_open_txns().open == (others.txn,)


def test_a_batch_is_there_once_and_in_the_table_of_those_before(acid: Session) -> None:
    tried = [
        ("a", 0, "t", True),
        ("a", 0, "t", False),
        ("a", 1, "t", True),
        ("a", 0, "t", False),
        ("b", 7, "t", True),
        ("a", 0, "u", True),
        ("a", 2, "u", True),
        ("a", 2, "t", True),
    ]
    for app_id, number, table, done in tried:
        assert batch(acid, app_id, number, table) is done, (app_id, number, table)
    with pytest.raises(InvalidInputError, match=r"those before went to default\.t \(up to 7\)"):
        batch(acid, "b", 8, "u", checkpoint=True)
    assert (ids(acid, "t"), ids(acid, "u")) == ([0, 1, 2, 7], [0, 2])
    acid.sql("alter table t rename to v")
    acid.sql("drop table u")
    assert not batch(acid, "b", 7, "v")
    acid.sql(f"create table u (id int) {ACID}")
    assert batch(acid, "a", 0, "u")


def test_a_batch_goes_with_the_savepoint_before_it_and_is_begun_once(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.savepoint("before")
        assert txn.begin_batch("a", 5, table="t")
        txn.savepoint("within")
        assert not txn.begin_batch("a", 5, table="t")
        assert not txn.begin_batch("a", 4, table="t")
        txn.table("t").write_arrow([{"id": 5}])
        txn.rollback_to("within")
        assert not txn.begin_batch("a", 5, table="t")
        txn.rollback_to("before")
        assert txn.begin_batch("b", 0, table="t")
    assert ids(acid, "t") == []
    assert batch(acid, "a", 5, "t")
    assert not batch(acid, "b", 0, "t")
    assert ids(acid, "t") == [5]


def test_numbers_of_a_name_are_those_of_each_table(acid: Session) -> None:
    assert batch(acid, "job", 10, "t")
    assert batch(acid, "job", 3, "u")
    assert not batch(acid, "job", 3, "u")
    assert not batch(acid, "job", 10, "t")


def test_a_checkpoint_that_is_older_than_the_table_is_refused(acid: Session) -> None:
    """Its next batch has a number that is there, and rows that are not."""
    for number in range(4):
        assert batch(acid, "query", number, "t", checkpoint=True)
    for number in (0, 2):
        with pytest.raises(InvalidInputError, match=f"Batch {number} of query is older .*t, 3"):
            batch(acid, "query", number, "t", checkpoint=True)
    assert not batch(acid, "query", 3, "t", checkpoint=True)
    assert batch(acid, "query", 4, "t", checkpoint=True)
    assert ids(acid, "t") == [0, 1, 2, 3, 4]


def test_a_table_of_the_name_is_not_the_one_that_the_batches_went_to(acid: Session) -> None:
    for number in range(3):
        assert batch(acid, "query", number, "t", checkpoint=True)
    acid.sql("drop table t")
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(InvalidInputError, match=r"one of this name \(up to 2\) that was dropped"):
        batch(acid, "query", 3, "t", checkpoint=True)
    assert batch(acid, "query", 0, "t", checkpoint=True)  # a new checkpoint
    assert batch(acid, "query", 1, "t", checkpoint=True)
    assert ids(acid, "t") == [0, 1]

    acid.sql("drop table u")
    acid.sql("alter table t rename to u")
    assert batch(acid, "query", 2, "u", checkpoint=True)


def test_of_two_that_write_one_batch_the_first_wins(acid: Session, metastore_url: str) -> None:
    with hiveacid.connect(None, metastore_url, settings=OFF) as other:
        with pytest.raises(ConflictError, match="already") as error, acid.transaction() as txn:
            assert txn.begin_batch("a", 0, table="t")
            txn.table("t").write_arrow([{"id": 1}])
            assert batch(other, "a", 0, "t")
        assert error.value.context["batch"] == 0
    assert ids(acid, "t") == [0]


def test_streams_side_by_side_leave_nothing_open(acid: Session, metastore_url: str) -> None:
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(hiveacid.connect(None, metastore_url, settings=OFF))
            for _ in range(3)
        ]
        streams = [
            stack.enter_context(one.stream("t", transactions_per_batch=n + 1))
            for n, one in enumerate(sessions)
        ]
        for turn in range(4):
            for n, stream in enumerate(streams):
                stream.begin()
                stream.write({"id": 10 * turn + n})
            for n, stream in enumerate(reversed(streams)):
                stream.abort() if n == turn else stream.commit()
    expected = [10 * turn + n for turn in range(4) for n in range(3) if n != 2 - turn]
    assert ids(acid, "t") == expected
    assert acid.client.own.get_open_txns().open == () and acid.sql("show locks").rows == ()


def recorded(acid: Session) -> list[tuple[int, str | None]]:
    """What is recorded of transactions that have not committed."""
    store = acid.client.metastore
    assert isinstance(store, SqlMetastore)
    rows = table_rows(store, "TXN_COMPONENTS")
    return sorted((row["TC_WRITEID"], row["TC_PARTITION"]) for row in rows)


def test_what_a_batch_is_to_write_is_recorded_before_it_is_written(acid: Session) -> None:
    """So that rows of a lost writer stay invisible; what never began leaves no aborted work."""
    with acid.stream("t", transactions_per_batch=4) as stream:
        with stream.transaction():
            stream.write({"id": 1})
        stream.begin()
        assert recorded(acid) == [(n, None) for n in (2, 3, 4)]
        stream.write({"id": 2})
        stream.abort()
    assert recorded(acid) == [(2, None)]
    assert acid.client.own.get_open_txns().open == () and ids(acid, "t") == [1]


def test_what_was_recorded_for_a_batch_and_is_gone_is_recorded_anew(acid: Session) -> None:
    acid.sql(f"create table p (id int) partitioned by (k int) {ACID}")
    acid.sql("alter table p add partition (k=1)")
    with acid.stream("p", partition={"k": 1}, transactions_per_batch=3) as stream:
        with stream.transaction():
            stream.write({"id": 1})
        assert recorded(acid) == [(2, "k=1"), (3, "k=1")]
        acid.sql("alter table p drop partition (k=1)")
        acid.sql("alter table p add partition (k=1)")
        acid.client.own.forget_writes(acid.client.own.get_open_txns().open)
        assert recorded(acid) == []
        with pytest.raises(ConflictError), stream.transaction():
            assert recorded(acid) == [(2, "k=1")]
            stream.write({"id": 2})
        assert recorded(acid) == [(2, "k=1")]
        with stream.transaction():
            stream.write({"id": 3})
    assert ids(acid, "p") == [3]


def test_a_batch_is_noted_where_its_transaction_was_opened_anew(
    acid: Session, metastore_url: str
) -> None:
    """What others did before its first statement had its locks is no reason to forget it."""
    with hiveacid.connect(None, metastore_url, settings=OFF) as other, acid.transaction() as txn:
        assert txn.begin_batch("a", 3, table="t")
        begun = txn.id
        other.table("t").write_arrow([{"id": 1}])
        txn.sql("truncate table t")
        assert txn.id != begun
        txn.table("t").write_arrow([{"id": 3}])
    assert not batch(acid, "a", 3, "t")
    assert ids(acid, "t") == [3]
