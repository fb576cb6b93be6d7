"""``evolve=True`` without Spark: columns that come with rows, and go where the rows go."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import (
    AcidError,
    ConflictError,
    InvalidInputError,
    MetastoreError,
    NotFoundError,
    UnsupportedError,
)
from hiveacid.metastore.api import Metastore
from hiveacid.model.tables import TableName, TxnId
from hiveacid.model.transactions import LockState
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
)
SETTINGS = {
    "hiveacid.lock.timeout_s": "240",
    "hiveacid.lock.poll_max_s": "0.02",
    "hiveacid.compactor.auto": "off",
}
Connect = Callable[[], Session]


@pytest.fixture
def connect(metastore_url: str, tmp_path: Path) -> Iterator[Connect]:
    """Sessions of one metastore, each a client of its own."""
    sessions: list[Session] = []

    def session() -> Session:
        warehouse = str(tmp_path / "wh")
        found = hiveacid.connect(None, metastore_url, warehouse=warehouse, settings=SETTINGS)
        sessions.append(found)
        return found

    yield session
    for one in sessions:
        one.close()


@pytest.fixture
def acid(connect: Connect) -> Session:
    session = connect()
    session.sql(f"create table t (id int, v string) {ACID}")
    session.sql("insert into t values (1, 'a')")
    return session


def rows(session: Session, name: str = "t") -> list[dict[str, Any]]:
    """Rows as they are read through the catalog, by id."""
    return hiveacid.read_arrow(session.table(name)).read_all().sort_by("id").to_pylist()


def columns(session: Session, name: str = "t") -> list[str]:
    found = session.client.metastore.get_table(TableName("default", name)).all_columns
    return [f"{column.name} {column.type}" for column in found]


WIDE = pa.table({"id": pa.array([2], pa.int32()), "N": [7], "v": ["b"], "s": [{"x": 1}]})
WIDE_COLUMNS = ["id int", "v string", "n bigint", "s struct<x:bigint>"]


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.write_arrow(WIDE, evolve=True),
        lambda table: table.insert(WIDE, evolve=True),
        lambda table: table.insert(WIDE.to_pylist(), evolve=True),
        lambda table: table.merge_arrow(WIDE, on="id", evolve=True),
    ],
)
@pytest.mark.parametrize("stored", [ACID, INSERT_ONLY, "stored as orc", "stored as parquet"])
def test_columns_come_with_the_rows(
    connect: Connect, write: Callable[[Any], Any], stored: str
) -> None:
    acid = connect()
    acid.sql(f"create table t (id int, v string) {stored}")
    acid.sql("insert into t values (1, 'a')")
    try:
        write(acid.table("t"))
    except InvalidInputError as error:
        assert error.code in (10297, 10414) and stored != ACID  # no MERGE of such a table
        assert columns(acid) == WIDE_COLUMNS[:2]
        return
    assert columns(acid) == WIDE_COLUMNS
    assert rows(acid) == [
        {"id": 1, "v": "a", "n": None, "s": None},
        {"id": 2, "v": "b", "n": 7, "s": {"x": 1}},
    ]
    write(acid.table("t"))  # the same again adds nothing
    assert columns(acid) == WIDE_COLUMNS


def test_partitions_have_the_columns_too_and_what_rows_lack_gets_its_default(
    connect: Connect,
) -> None:
    acid = connect()
    acid.sql(
        "create table t (id int, v string default 'none', w int) partitioned by (k int) "
        "clustered by (id) into 2 buckets " + ACID
    )
    table = acid.table("t")
    table.write_arrow([{"id": 1, "v": "a", "w": 1, "k": 1}])
    table.insert([{"id": 2, "more": 5, "k": 1}, {"id": 3, "more": 6, "k": 2}], evolve=True)
    table.insert([{"id": 4, "extra": True}], partition={"k": 1}, evolve=True)
    table.overwrite([{"id": 3, "last": 1.5, "k": 2}], evolve=True)
    assert [tuple(row.values()) for row in rows(acid)] == [
        (1, "a", 1, None, None, None, 1),
        (2, "none", None, 5, None, None, 1),
        (3, "none", None, None, None, 1.5, 2),
        (4, "none", None, None, True, None, 1),
    ]
    with pytest.raises(InvalidInputError, match="lacks the partition columns k"):
        table.insert([{"id": 5, "y": 1}], evolve=True)
    acid.table("t").compact("major", wait=True)
    assert len(rows(acid)) == 4


def test_merge_arrow_adds_what_delete_where_does_not_name(acid: Session) -> None:
    changes = pa.table({"id": [1, 2, 3], "more": [1, 2, 3], "op": ["U", "U", "D"]})
    acid.table("t").merge_arrow(changes, on="id", delete_where="op = 'D'", evolve=True)
    assert rows(acid) == [{"id": 1, "v": "a", "more": 1}, {"id": 2, "v": None, "more": 2}]


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({"ID": [1], "V": ["b"], "New": [1]}, None, ""),
        ({"id": [1], "new": [1], "NEW": [2]}, InvalidInputError, "given twice: new"),
        ({"id": [1], "new": pa.array([1], pa.duration("s"))}, UnsupportedError, "column new.*type"),
        ({"id": [1], "new": pa.nulls(1)}, InvalidInputError, "nothing but NULLs"),
        ({"id": [1], "new": [[None]]}, InvalidInputError, "nothing but NULLs"),
        ({"id": [1], "row__id": [1]}, InvalidInputError, "virtual column"),
        ({"id": [1], "": [1]}, InvalidInputError, "no name of a column"),
        ({"id": [1], "a.b": [1]}, InvalidInputError, "no name of a column"),
        ({"id": [2**40], "new": [1]}, InvalidInputError, "column id"),
        ({"id": ["x"], "new": [1]}, InvalidInputError, "column id"),
        ({"id": [1], "k": ["x"], "new": [1]}, InvalidInputError, "static partition column"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    connect: Connect, data: dict[str, Any], error: type[AcidError] | None, said: str
) -> None:
    acid = connect()
    acid.sql(f"create table t (id int, v string) partitioned by (k int) {ACID}")
    table = acid.table("t")
    for write in (table.write_arrow, table.insert):
        if error is None:
            write(pa.table(data), partition={"k": 1}, evolve=True)
            continue
        with pytest.raises(error, match=said):
            write(pa.table(data), partition={"k": 1}, evolve=True)
        assert columns(acid) == ["id int", "v string", "k int"]
        assert rows(acid) == []
    if error is None:
        assert columns(acid) == ["id int", "v string", "new bigint", "k int"]


def test_fields_of_structs_are_not_added(connect: Connect) -> None:
    acid = connect()
    acid.sql(f"create table t (id int, s array<struct<a:int>>, m map<string,int>) {ACID}")
    table = acid.table("t")
    rows_given = [{"id": 1, "s": [{"a": 1, "b": 2}], "new": 1}]
    with pytest.raises(InvalidInputError, match=r"has no field b: evolve is for top-level"):
        table.insert(rows_given, evolve=True)
    assert "new" not in table.columns
    table.insert([{"id": 1, "s": [{"a": 1}], "new": 1}], evolve=True)
    assert rows(acid) == [{"id": 1, "s": [{"a": 1}], "m": None, "new": 1}]


def test_without_evolve_the_error_names_it(acid: Session) -> None:
    table = acid.table("t")
    for write in (
        lambda: table.write_arrow(WIDE),
        lambda: table.insert(WIDE),
        lambda: table.merge_arrow(WIDE, on="id"),
    ):
        with pytest.raises(AcidError) as caught:
            write()
        assert isinstance(caught.value, InvalidInputError | NotFoundError)
        assert "evolve=True" in " ".join(caught.value.__notes__)
    with pytest.raises(InvalidInputError) as caught:
        acid.sql("insert into t (id, n) values (1, 2)")
    assert "hiveacid.schema.evolve" in " ".join(caught.value.__notes__)
    acid.sql("create table v1 (id int)")
    with pytest.raises(InvalidInputError, match="by name"):
        table.insert(WIDE, by_name=False, evolve=True)


# -------------------------------------------------------------------- transactions


def test_rollback_takes_the_columns_back(acid: Session, connect: Connect) -> None:
    other = connect()
    before = columns(acid)
    with acid.transaction() as txn:
        table = txn.table("t")
        table.insert([{"id": 2, "v": "b", "c": 1}], evolve=True)
        assert table.columns == ("id", "v", "c")
        assert rows(txn)[1] == {"id": 2, "v": "b", "c": 1}  # type: ignore[arg-type]
        assert hiveacid.read_arrow(table, columns=["c"], filter="c = 1").read_all().num_rows == 1
        assert columns(other) == before
        txn.savepoint("a")
        table.merge_arrow([{"id": 3, "d": "x"}], on="id", evolve=True)
        assert table.columns == ("id", "v", "c", "d")
        with pytest.raises(InvalidInputError):
            table.insert([{"id": "x", "e": 1}], evolve=True)
        assert table.columns == ("id", "v", "c", "d")
        txn.rollback_to("a")
        assert table.columns == ("id", "v", "c")
        table.insert([{"id": 4, "f": 5}], evolve=True)
        txn.rollback()
    assert (columns(acid), rows(acid)) == (before, [{"id": 1, "v": "a"}])
    with acid.transaction() as txn:
        txn.table("t").insert([{"id": 2, "c": 1}], evolve=True)
        txn.savepoint("a")
        txn.table("t").insert([{"id": 3, "d": 1}], evolve=True)
        txn.rollback_to("a")
        txn.table("t").insert([{"id": 4, "e": 1}], evolve=True)
    assert columns(acid) == [*before, "c bigint", "e bigint"]
    assert [row["id"] for row in rows(acid)] == [1, 2, 4]


def test_a_commit_that_fails_leaves_neither_rows_nor_columns(
    acid: Session, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = acid.client.metastore
    before = columns(acid)

    def failing(self: Metastore, txn: TxnId, **_: Any) -> Any:
        raise ConflictError("another transaction won", txn=txn)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "commit_txn", failing)
        with pytest.raises(ConflictError):
            acid.table("t").insert([{"id": 2, "c": 1}], evolve=True)
    assert (columns(acid), len(rows(acid))) == (before, 1)

    def lost(self: Metastore, txn: TxnId, **given: Any) -> Any:
        real(self, txn, **given)
        raise MetastoreError("the reply was lost")

    real = type(store).commit_txn
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "commit_txn", lost)
        acid.table("t").insert([{"id": 2, "c": 1}], evolve=True)
    assert columns(acid) == [*before, "c bigint"]
    assert [row["c"] for row in rows(acid)] == [None, 1]
    with pytest.raises(ConflictError, match="Column c was added"), connect() as other:
        txn = other.client.transactions.begin()
        with txn:
            txn.write_id(TableName("default", "t"))
            name = TableName("default", "t")
            definition = store.get_table(name)
            txn.pending.add_columns(name, [definition.columns[-1]])
            txn.commit()
    assert columns(acid) == [*before, "c bigint"]


def _die_before_the_commit(url: str, warehouse: str) -> None:
    session = hiveacid.connect(None, url, warehouse=warehouse, settings=SETTINGS)
    type(session.client.metastore).commit_txn = lambda *_, **__: os._exit(9)  # type: ignore[method-assign,assignment]
    session.table("t").insert([{"id": 2, "c": 1}], evolve=True)


def test_a_killed_writer_leaves_no_column(
    acid: Session, metastore_url: str, tmp_path: Path
) -> None:
    before = columns(acid)
    start = multiprocessing.get_context("spawn")
    process = start.Process(
        target=_die_before_the_commit, args=(metastore_url, str(tmp_path / "wh"))
    )
    process.start()
    process.join()
    assert process.exitcode == 9
    (left,) = acid.client.metastore.get_open_txns().open
    acid.abort_transactions(int(left))
    assert (columns(acid), len(rows(acid))) == (before, 1)
    acid.table("t").insert([{"id": 3, "c": "text"}], evolve=True)
    assert columns(acid) == [*before, "c string"]
    assert rows(acid)[1] == {"id": 3, "v": None, "c": "text"}


# -------------------------------------------------------------------- beside others


def _waiting(session: Session) -> int:
    locks = session.client.metastore.show_locks()
    return len({lock.lock_id for lock in locks if lock.state is LockState.WAITING})


def _behind(session: Session, work: Callable[[], Any], pool: ThreadPoolExecutor, n: int) -> Any:
    """The work in a thread, as soon as ``n`` requests wait."""
    clock = session.client.clock
    until_s = clock.monotonic_s() + 240
    future = pool.submit(work)
    while _waiting(session) < n and not future.done():
        assert clock.monotonic_s() < until_s, "the request does not wait"
        clock.sleep_s(0.005)
    assert not future.done(), "the statement did not wait"
    return future


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"c": 1}, {"c": 2}, ["c bigint"]),
        ({"c": 1}, {"d": "x"}, ["c bigint", "d string"]),
        ({"c": 1, "d": 1}, {"d": 2, "e": 3}, ["c bigint", "d bigint", "e bigint"]),
    ],
)
def test_two_sessions_that_evolve_at_once_both_succeed(
    acid: Session,
    connect: Connect,
    first: dict[str, Any],
    second: dict[str, Any],
    expected: list[str],
) -> None:
    one, other, before = connect(), connect(), columns(acid)
    acid.sql("lock table t shared")
    with ThreadPoolExecutor(2) as pool:
        works = [
            _behind(acid, lambda s=s, d=d: s.table("t").insert([d], evolve=True), pool, n)
            for n, (s, d) in enumerate(
                [(one, {"id": 2, **first}), (other, {"id": 3, **second})], start=1
            )
        ]
        acid.sql("unlock table t")
        assert [work.result(240).rows for work in works] == [1, 1]
    assert columns(acid) == [*before, *expected]
    found = rows(acid)
    assert [row["id"] for row in found] == [1, 2, 3]
    for row, given in zip(found[1:], (first, second), strict=True):
        assert {name: row[name] for name in given} == given
    for name in acid.client.metastore.list_tables("default"):
        assert name == "t"


@pytest.mark.parametrize(
    ("definition", "outcome"),
    [
        ("alter table t rename to t2", NotFoundError),
        ("drop table t", NotFoundError),
        ("alter table t add columns (c string)", ["id int", "v string", "c string"]),
        ("alter table t change column v w string", ["id int", "w string", "c bigint"]),
    ],
)
def test_a_definition_that_changes_while_it_waits_counts(
    acid: Session, connect: Connect, definition: str, outcome: Any
) -> None:
    one, other = connect(), connect()
    acid.sql("lock table t shared")
    with ThreadPoolExecutor(2) as pool:
        changing = _behind(acid, lambda: one.sql(definition), pool, 1)
        table = other.table("t")
        writing = _behind(acid, lambda: table.insert([{"id": 2, "c": 5}], evolve=True), pool, 2)
        acid.sql("unlock table t")
        changing.result(240)
        if isinstance(outcome, type):
            with pytest.raises(outcome):
                writing.result(240)
            for name in acid.client.metastore.list_tables("default"):
                assert (name, len(rows(acid, name))) == ("t2", 1)
            return
        writing.result(240)
    assert columns(acid) == outcome
    assert rows(acid)[1]["c"] == ("5" if "c string" in outcome else 5)


def test_evolve_waits_for_readers_and_is_one_lock_request(acid: Session, connect: Connect) -> None:
    other = connect()
    acid.sql("lock table t shared")
    with ThreadPoolExecutor(1) as pool:
        work = _behind(
            acid, lambda: other.table("t").insert([{"id": 2, "c": 1}], evolve=True), pool, 1
        )
        wanted = {
            (lock.type.name, lock.table)
            for lock in acid.client.metastore.show_locks()
            if lock.state is LockState.WAITING
        }
        acid.sql("unlock table t")
        work.result(240)
    assert ("EXCLUSIVE", "t") in wanted
    assert not acid.client.metastore.show_locks()
