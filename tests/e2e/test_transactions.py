"""Transactions of several statements on several tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.e2e.conftest import ACID
from tests.e2e.tables import committed, data_of, directories, rows_of

import hiveacid
from hiveacid.errors import ConflictError, NotFoundError, TransactionError
from hiveacid.layout.directories import is_hidden
from hiveacid.model.commits import row_count
from hiveacid.session import Session


@pytest.fixture
def two_clients(metastore_url: str, tmp_path: Path) -> Iterator[tuple[Session, Session]]:
    """Two clients of a metastore of each kind."""
    places = (metastore_url, str(tmp_path / "wh"))
    with (
        hiveacid.connect(None, places[0], warehouse=places[1]) as acid,
        hiveacid.connect(None, places[0], warehouse=places[1]) as other,
    ):
        for name in "tu":
            acid.sql(f"create table {name} (id int, v string) {ACID}")
        acid.sql(f"create table p (id int, v string) partitioned by (k string) {ACID}")
        yield acid, other


def test_several_tables_change_in_one_commit(two_clients: tuple[Session, Session]) -> None:
    acid, other = two_clients
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a'), (2, 'b')")
        txn.table("u").write_arrow(data_of((7, "x")))
        txn.sql("insert into p partition (k='n') values (1, 'a')")
        assert rows_of(other, "t") == rows_of(other, "u") == rows_of(other, "p") == []
        assert other.sql("show partitions p").rows == ()
        assert rows_of(txn) == [(1, "a"), (2, "b")]
        assert rows_of(txn, "p") == [(1, "a", "n")]
    assert rows_of(other) == [(1, "a"), (2, "b")]
    assert rows_of(other, "u") == [(7, "x")]
    assert rows_of(other, "p") == [(1, "a", "n")]


def test_rows_of_the_same_transaction_are_updated_merged_and_deleted_again(acid: Session) -> None:
    acid.sql("insert into t values (1, 'old'), (2, 'old')")
    with acid.transaction() as txn:
        txn.sql("insert into t values (3, 'new')")
        for text in ("once", "twice", "thrice"):
            change = data_of((1, text), (3, text))
            assert txn.table("t").merge_arrow(change, on=["id"]).updated == 2
        assert rows_of(txn) == [(1, "thrice"), (2, "old"), (3, "thrice")]
        assert txn.table("t").delete_arrow("id = 3").rows == 1
        assert txn.table("t").delete_arrow("id = 3").rows == 0
        assert txn.table("t").merge_arrow(data_of((3, "back"), (2, "b")), on=["id"]).inserted == 1
        assert rows_of(acid) == [(1, "old"), (2, "old")]
    expected = [(1, "thrice"), (2, "b"), (3, "back")]
    assert rows_of(acid) == committed(acid) == expected


def test_statement_ids_are_those_of_the_directories_and_are_never_used_twice(
    acid: Session,
) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        txn.savepoint("s")
        txn.sql("insert into t values (2, 'b')")
        txn.rollback_to("s")
        txn.table("t").merge_arrow(data_of((1, "c")), on=["id"], when_not_matched=None)
        txn.sql("insert into t values (3, 'd')")
    assert directories(acid) == [
        "delete_delta_0000001_0000001_0002",
        "delta_0000001_0000001_0000",
        "delta_0000001_0000001_0003",
        "delta_0000001_0000001_0004",
    ]
    assert rows_of(acid) == committed(acid) == [(1, "c"), (3, "d")]


def test_one_snapshot_for_the_whole_transaction_taken_at_its_first_statement(
    acid: Session, other: Session
) -> None:
    with acid.transaction() as txn:
        other.sql("insert into t values (1, 'before')")
        assert rows_of(txn) == [(1, "before")]
        other.sql("insert into t values (2, 'after')")
        other.sql("insert into u values (2, 'after')")
        assert rows_of(txn) == [(1, "before")]
        assert rows_of(txn, "u") == []
    assert len(rows_of(acid)) == 2


def test_rollback_leaves_nothing_visible_and_no_files(acid: Session) -> None:
    acid.sql("insert into t values (1, 'a')")
    before = directories(acid)
    with pytest.raises(ZeroDivisionError), acid.transaction() as txn:
        txn.sql("insert overwrite table t values (2, 'b')")
        txn.sql("insert into t values (3, 'c')")
        txn.sql("insert into p partition (k='n') values (1, 'a')")
        raise ZeroDivisionError
    assert not txn.is_open
    assert rows_of(acid) == committed(acid) == [(1, "a")]
    assert directories(acid) == before
    assert directories(acid, "p") == []
    assert acid.sql("show partitions p").rows == ()
    assert acid.sql("show locks").rows == ()


@pytest.mark.parametrize("table", ["t", "m"])
def test_statements_after_an_overwrite_rewrite_its_base(acid: Session, table: str) -> None:
    acid.sql(f"insert into {table} values (1, 'old')")
    with acid.transaction() as txn:
        txn.sql(f"insert into {table} values (2, 'gone')")
        txn.sql(f"insert overwrite table {table} values (3, 'c'), (4, 'd')")
        assert rows_of(txn, table) == [(3, "c"), (4, "d")]
        txn.sql(f"insert into {table} values (5, 'e')")
        txn.sql(f"insert into {table} values (6, 'f')")
        expected = [(3, "c"), (4, "d"), (5, "e"), (6, "f")]
        assert rows_of(txn, table) == expected
        assert rows_of(acid, table) == [(1, "old")]
    assert rows_of(acid, table) == committed(acid, table) == expected
    assert directories(acid, table) == [
        "base_0000002", "delta_0000001_0000001_0000", "delta_0000002_0000002_0000",
    ]  # fmt: skip


def test_rows_of_an_own_base_are_changed_and_keep_their_identities(acid: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a'), (2, 'b'), (3, 'c')")
        assert txn.table("t").delete_arrow("id = 2").rows == 1
        txn.table("t").merge_arrow(data_of((3, "C"), (4, "D")), on=["id"])
        txn.table("t").merge_arrow(data_of((4, "DD")), on=["id"])
        assert rows_of(txn) == [(1, "a"), (3, "C"), (4, "DD")]
    assert rows_of(acid) == committed(acid) == [(1, "a"), (3, "C"), (4, "DD")]
    assert directories(acid) == ["base_0000001"]
    read = hiveacid.read_arrow(acid.table("t"), row_ids=True).read_all().to_pylist()
    ids = [tuple(row["row__id"].values()) for row in read]
    assert ids == sorted(ids) and len(set(ids)) == 3
    assert {write_id for write_id, _, _ in ids} == {1}
    assert acid.table("t").delete_arrow("id = 4").rows == 1  # by a later transaction
    assert rows_of(acid) == [(1, "a"), (3, "C")]


def test_an_own_base_may_empty_and_fill_again(acid: Session) -> None:
    acid.sql("insert into t values (1, 'a')")
    with acid.transaction() as txn:
        txn.sql("truncate table t")
        assert rows_of(txn) == []
        txn.sql("insert into t values (2, 'b')")
        txn.table("t").delete_arrow("id = 2")
        assert rows_of(txn) == []
        txn.sql("insert into t values (3, 'c')")
        txn.sql("insert overwrite table t values (4, 'd')")
        txn.sql("truncate table t")
        txn.sql("insert into t values (5, 'e')")
    assert rows_of(acid) == committed(acid) == [(5, "e")]
    assert directories(acid)[0] == "base_0000002"


def test_only_the_overwritten_partition_is_rewritten(acid: Session) -> None:
    acid.sql("insert into p partition (k='x') values (1, 'a')")
    acid.sql("insert into p partition (k='y') values (2, 'b')")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table p partition (k='x') values (3, 'c')")
        txn.table("p").write_arrow(
            pa.table({"id": pa.array([4, 5, 6], pa.int32()), "v": ["d"] * 3, "k": ["x", "y", "z"]})
        )
        txn.sql("truncate table p partition (k='z')")
    assert rows_of(acid, "p") == [(2, "b", "y"), (3, "c", "x"), (4, "d", "x"), (5, "d", "y")]
    assert directories(acid, "p") == [
        "k=x/base_0000003",
        "k=x/delta_0000001_0000001_0000",
        "k=y/delta_0000002_0000002_0000",
        "k=y/delta_0000003_0000003_0001",
        "k=z/base_0000003",
        "k=z/delta_0000003_0000003_0001",
    ]


@pytest.mark.parametrize("table", ["t", "m"])
def test_rolled_back_to_a_savepoint_an_own_base_is_what_it_was(acid: Session, table: str) -> None:
    with acid.transaction() as txn:
        txn.sql(f"insert into {table} values (1, 'a')")
        txn.savepoint("one")
        txn.sql(f"insert overwrite table {table} values (2, 'b')")
        txn.savepoint("two")
        txn.sql(f"insert into {table} values (3, 'c')")
        txn.sql(f"insert overwrite table {table} values (4, 'd')")
        txn.sql(f"truncate table {table}")
        txn.rollback_to("two")
        assert rows_of(txn, table) == [(2, "b")]
        txn.rollback_to("ONE")
        assert rows_of(txn, table) == [(1, "a")]
        with pytest.raises(NotFoundError, match="no savepoint two"):
            txn.rollback_to("two")
        txn.sql(f"insert into {table} values (5, 'e')")
    assert rows_of(acid, table) == committed(acid, table) == [(1, "a"), (5, "e")]
    assert not [name for name in directories(acid, table) if "base" in name or is_hidden(name)]


def test_the_first_to_commit_wins_and_nothing_of_the_other_stays(
    two_clients: tuple[Session, Session],
) -> None:
    acid, other = two_clients
    acid.sql("insert into t values (1, 'a')")
    with pytest.raises(ConflictError), acid.transaction() as txn:
        txn.table("u").write_arrow(data_of((1, "mine")))
        txn.table("t").merge_arrow(data_of((1, "mine")), on=["id"])
        other.table("t").merge_arrow(data_of((1, "theirs")), on=["id"])
    assert rows_of(acid) == committed(acid) == [(1, "theirs")]
    assert rows_of(acid, "u") == [] and directories(acid, "u") == []


def test_an_overwrite_removes_no_row_that_its_transaction_does_not_see(
    two_clients: tuple[Session, Session],
) -> None:
    acid, other = two_clients
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert into p partition (k='x') values (1, 'a')")
    with acid.transaction() as txn:
        assert rows_of(txn) == [(1, "a")]
        other.sql("insert into t values (2, 'b')")
        other.sql("insert into p partition (k='y') values (2, 'b')")
        with pytest.raises(ConflictError, match="does not see") as caught:
            txn.sql("insert overwrite table t values (3, 'c')")
        assert caught.value.context["table"] == "default.t"
        txn.sql("insert overwrite table p partition (k='x') values (3, 'c')")
        with pytest.raises(ConflictError, match="p/k=y"):
            txn.sql("insert overwrite table p partition (k='y') values (3, 'c')")
    assert rows_of(other) == [(1, "a"), (2, "b")]
    assert rows_of(other, "p") == [(2, "b", "y"), (3, "c", "x")]


def test_statistics_stay_right(acid: Session) -> None:
    def known(table: str = "t") -> tuple[int | None, str]:
        found = acid.table(table).definition.properties
        return row_count(found), found["numFiles"]

    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a'), (2, 'b')")
        txn.savepoint("s")
        txn.sql("insert into t values (3, 'c')")
        txn.rollback_to("s")
        txn.table("t").merge_arrow(data_of((2, "B"), (4, "D")), on=["id"])
    assert known() == (3, "4")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table t values (1, 'a'), (2, 'b')")
        txn.table("t").merge_arrow(data_of((2, "B"), (4, "D")), on=["id"])
        txn.table("t").delete_arrow("id = 1")
    assert known() == (2, "1")
    assert len(rows_of(acid)) == 2


def test_sql_begins_and_ends_transactions_of_a_session(acid: Session, other: Session) -> None:
    acid.sql("START TRANSACTION")
    acid.sql("insert into t values (1, 'a')")
    acid.sql("savepoint x")
    acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback to savepoint X")
    acid.sql("release savepoint x")
    assert rows_of(other) == []
    acid.sql("commit work")
    assert rows_of(other) == [(1, "a")]
    acid.sql("begin")
    acid.sql("insert into t values (3, 'c')")
    acid.sql("rollback")
    assert rows_of(acid) == [(1, "a")]
    acid.sql("insert into t values (4, 'd')")  # commits itself again
    assert rows_of(other) == [(1, "a"), (4, "d")]


def test_without_autocommit_each_statement_begins_or_continues_a_transaction(
    acid: Session, other: Session
) -> None:
    acid.sql("set autocommit = false")
    assert acid.sql("set autocommit").rows == (("autocommit=false",),)
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert into u values (1, 'a')")
    assert rows_of(other) == []
    acid.sql("commit")
    assert rows_of(other) == rows_of(other, "u") == [(1, "a")]
    acid.sql("create table w (a int)")  # nothing is open
    acid.sql("insert into t values (2, 'b')")
    acid.sql("rollback")
    acid.sql("insert into t values (3, 'c')")
    acid.sql("SET AUTOCOMMIT TRUE")
    assert rows_of(other) == [(1, "a"), (3, "c")]


def test_a_closed_session_rolls_back(url: str, acid: Session, tmp_path: Path) -> None:
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        session.sql("begin")
        session.sql("insert into t values (1, 'a')")
    assert rows_of(acid) == []
    assert acid.sql("show locks").rows == ()


def test_a_closed_session_ends_the_transactions_it_handed_out_and_its_leases(
    url: str, acid: Session, tmp_path: Path
) -> None:
    acid.sql("insert into t values (1, 'a')")
    before = directories(acid)
    session = hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"))
    session.sql("set hiveacid.reads.lease = always")
    done, left = session.transaction(), session.transaction()
    done.sql("insert into t values (2, 'b')")
    done.rollback()
    left.sql("insert overwrite table t values (2, 'b')")
    reader = hiveacid.read_arrow(session.table("t"))
    states = [row[1] for row in acid.sql("show transactions").rows]
    assert states.count("OPEN") == 2
    session.close()
    assert reader is not None
    assert acid.sql("show locks").rows == ()
    assert "OPEN" not in [row[1] for row in acid.sql("show transactions").rows]
    assert directories(acid) == before
    assert not left.is_open
    for late in (left.commit, lambda: left.sql("insert into t values (3, 'c')")):
        with pytest.raises(TransactionError, match="the session was closed"):
            late()
    assert rows_of(acid) == [(1, "a")]


def test_several_transactions_of_one_session_are_apart(acid: Session) -> None:
    with acid.transaction() as one, acid.transaction() as two:
        one.sql("insert into t values (1, 'a')")
        two.sql("insert into t values (2, 'b')")
        acid.sql("insert into t values (3, 'c')")
        assert (rows_of(one), rows_of(two), rows_of(acid)) == ([(1, "a")], [(2, "b")], [(3, "c")])
    assert len(rows_of(acid)) == 3
