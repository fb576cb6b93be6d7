"""A definition that changes while a statement waits for its locks, on each kind of database.

R holds ``LOCK TABLE SHARED``, B's definition waits for it, then A's statement waits behind B, then
R unlocks: what A does must follow from the definitions as B left them. Each request is seen to wait
before the next is made, so the order does not depend on time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.e2e.tables import rows_of
from tests.sampling import sampled

import hiveacid
from hiveacid.errors import AcidError, LockError, NotFoundError
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import LockState
from hiveacid.session import Session
from hiveacid.statements.values import MergeResult
from hiveacid.txn.footprint import alter_table

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = {
    "hiveacid.lock.timeout_s": "300",
    "hiveacid.lock.poll_max_s": "0.02",
    "hiveacid.compactor.auto": "off",
}
WAITS_S = 240.0
ROOMS = ("metastore", "reading", "session", "statements", "txn", "writing")


class Trio:
    """R, who holds the table; B, who changes its definition; A, whose statement waits behind B."""

    def __init__(self, url: str, root: Path) -> None:
        self.root = root
        self.r, self.b, self.a = (
            hiveacid.connect(None, url, warehouse=str(root), settings=SETTINGS) for _ in range(3)
        )
        self._pool = ThreadPoolExecutor(2)

    def close(self) -> None:
        self._pool.shutdown()
        for session in (self.a, self.b, self.r):
            session.close()

    def waiting(self) -> int:
        locks = self.r.client.metastore.show_locks()
        return len({lock.lock_id for lock in locks if lock.state is LockState.WAITING})

    def behind(self, work: Callable[[], Any], *, waiting: int) -> Future[Any]:
        """Do the work in a thread; returns when so many requests wait, or the work has ended."""
        clock = self.r.client.clock
        until_s = clock.monotonic_s() + WAITS_S
        future = self._pool.submit(work)
        while self.waiting() < waiting and not future.done():
            assert clock.monotonic_s() < until_s, "the request does not wait"
            clock.sleep_s(0.005)
        return future

    def run(self, definition: str, statement: Callable[[Session], Any], *, table: str = "t") -> Any:
        """The statement's answer, or the error of ours that it ended in."""
        self.r.sql(f"lock table {table} shared")
        changing = self.behind(lambda: self.b.sql(definition), waiting=1)
        assert not changing.done(), "the definition did not wait"
        doing = self.behind(lambda: statement(self.a), waiting=2)
        assert not doing.done(), "the statement did not wait"
        self.r.sql(f"unlock table {table}")
        changing.result(WAITS_S)
        try:
            return doing.result(WAITS_S)
        except AcidError as error:
            return error

    def behind_definitions(
        self, definitions: Sequence[str], statement: Callable[[Session], Any], *, table: str
    ) -> Any:
        """The answer of a statement that waits while B, which holds the table, changes it."""
        b = self.b.client.transactions
        lock = b.lock(alter_table(TableName("default", table)))
        doing = self.behind(lambda: statement(self.a), waiting=1)
        assert not doing.done(), "the statement did not wait"
        for text in definitions:
            self.b.sql(text)
        b.unlock(lock)
        try:
            return doing.result(WAITS_S)
        except AcidError as error:
            return error


@pytest.fixture
def trio(metastore_url: str, tmp_path: Path) -> Iterator[Trio]:
    found = Trio(metastore_url, tmp_path / "wh")
    found.r.sql(f"create table t (id int, v string) {ACID}")
    found.r.sql("insert into t values (1, 'a'), (2, 'b')")
    found.r.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
    found.r.sql("insert into p partition (k=1) values (1, 'a')")
    found.r.sql("insert into p partition (k=2) values (2, 'b')")
    found.r.sql("create table plain (id int, v string) stored as orc")
    found.r.sql("insert into plain values (1, 'a')")
    found.r.sql(
        "create table some (id int, v string) stored as orc tblproperties "
        "('transactional'='true', 'transactional_properties'='insert_only')"
    )
    found.r.sql("insert into some values (1, 'a')")
    yield found
    found.close()


def _arrow(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


STATEMENTS: dict[str, Callable[[Session], Any]] = {
    "insert": lambda acid: acid.sql("insert into t values (3, 'c')"),
    "overwrite": lambda acid: acid.sql("insert overwrite table t values (3, 'c')"),
    "truncate": lambda acid: acid.sql("truncate table t"),
    "write_arrow": lambda acid: acid.table("t").write_arrow(_arrow(id=[3], v=["c"])),
    "delete_arrow": lambda acid: acid.table("t").delete_arrow("id = 1"),
    "delete_arrow by keys": lambda acid: acid.table("t").delete_arrow(_arrow(id=[1])),
    "merge_arrow": lambda acid: acid.table("t").merge_arrow(_arrow(id=[1], v=["z"]), on="id"),
    "read_arrow": lambda acid: hiveacid.read_arrow(acid.table("t")).read_all(),
    "analyze": lambda acid: acid.sql("analyze table t compute statistics noscan"),
    "restore": lambda acid: acid.table("t").restore(write_id=1),
    "insert in a transaction": lambda acid: _in_transaction(acid, "insert into t values (3, 'c')"),
}


def _in_transaction(acid: Session, text: str) -> Any:
    with acid.transaction() as txn:
        txn.sql("insert into p partition (k=9) values (9, 'before')")
        return txn.sql(text)


PURGE = {"purge": lambda acid: acid.table("t").purge(where="id = 1")}
"""It is refused where another statement has begun to wait."""


@pytest.mark.parametrize("definition", ["alter table t rename to t2", "drop table t"])
@pytest.mark.parametrize("kind", sampled(STATEMENTS, *ROOMS, group=str.islower))
def test_a_table_that_is_gone_is_not_found(trio: Trio, kind: str, definition: str) -> None:
    answer = trio.run(definition, STATEMENTS[kind])
    assert isinstance(answer, NotFoundError), answer
    assert not (trio.root / "t").exists()
    if "rename" in definition:
        assert sorted(rows_of(trio.r, "t2")) == [(1, "a"), (2, "b")]
    assert trio.r.client.metastore.show_locks() == ()


SAME = ("drop table t", f"create table t (id int, v string) {ACID}")
OTHER = ("drop table t", f"create table t (x date) {ACID}")
WIDER = ("alter table t add columns (c int)",)
EXCHANGED = (
    "alter table t change v x string",
    "alter table t change id v int",
    "alter table t change x id string",
)
BACK = ("alter table t rename to t2", f"create table t (id int, v string, c int) {ACID}")
TO_THE_TABLE_THERE_IS: dict[tuple[str, tuple[str, ...]], tuple[Any, list[tuple[Any, ...]]]] = {
    # statement, definitions: the answer's rows or error code, what the table holds then
    ("insert", SAME): (1, [(3, "c")]),
    ("overwrite", SAME): (1, [(3, "c")]),
    ("truncate", SAME): (None, []),
    ("write_arrow", SAME): (1, [(3, "c")]),
    ("delete_arrow", SAME): (0, []),
    ("delete_arrow by keys", SAME): (0, []),
    ("merge_arrow", SAME): (1, [(1, "z")]),
    ("read_arrow", SAME): (0, []),
    ("restore", SAME): ("NotFoundError", []),
    ("restore", EXCHANGED): ("ConflictError", [(1, "a"), (2, "b")]),
    ("purge", SAME): ("ConflictError", []),
    ("insert in a transaction", SAME): (1, [(3, "c")]),
    ("insert", OTHER): (10044, []),
    ("overwrite", OTHER): (10044, []),
    ("write_arrow", OTHER): ("NotFoundError", []),
    ("delete_arrow", OTHER): ("NotFoundError", []),
    ("delete_arrow by keys", OTHER): ("NotFoundError", []),
    ("merge_arrow", OTHER): ("NotFoundError", []),
    ("read_arrow", OTHER): (0, []),
    ("insert in a transaction", OTHER): (10044, []),
    ("insert", WIDER): (10044, [(1, "a", None), (2, "b", None)]),
    ("write_arrow", WIDER): (1, [(1, "a", None), (2, "b", None), (3, "c", None)]),
    ("delete_arrow", WIDER): (1, [(2, "b", None)]),
    ("delete_arrow by keys", WIDER): (1, [(2, "b", None)]),
    ("merge_arrow", WIDER): (1, [(1, "z", None), (2, "b", None)]),
    ("read_arrow", WIDER): (2, [(1, "a", None), (2, "b", None)]),
    ("restore", WIDER): ("ConflictError", [(1, "a", None), (2, "b", None)]),
    ("restore", BACK): ("NotFoundError", []),
    ("insert", BACK): (10044, []),
    ("write_arrow", BACK): (1, [(3, "c", None)]),
    ("delete_arrow", BACK): (0, []),
}


@pytest.mark.parametrize(
    ("kind", "definitions"), sampled(TO_THE_TABLE_THERE_IS, *ROOMS, group=itemgetter(1))
)
def test_a_statement_goes_to_the_table_of_that_name_if_it_fits(
    trio: Trio, kind: str, definitions: tuple[str, ...]
) -> None:
    wanted, rows = TO_THE_TABLE_THERE_IS[kind, definitions]
    statement = (STATEMENTS | PURGE)[kind]
    answer = trio.behind_definitions(definitions, statement, table="t")
    assert _short(answer) == wanted, answer
    assert rows_of(trio.r, "t") == rows
    if definitions is BACK:
        assert rows_of(trio.r, "t2") == [(1, "a"), (2, "b")]
    assert not list(trio.root.rglob("*staging*")), "nothing is left"
    assert trio.r.client.metastore.show_locks() == ()


def _short(answer: Any) -> Any:
    """Rows changed, inserted or read; an error's code, its class where Hive has no code for it."""
    if isinstance(answer, AcidError):
        return answer.code or type(answer).__name__
    if isinstance(answer, MergeResult):
        return answer.updated + answer.inserted + answer.deleted
    return answer.num_rows if isinstance(answer, pa.Table) else answer.rows


PARTITIONS: dict[str, tuple[str, Callable[[Session], Any], Any, list[tuple[Any, ...]]]] = {
    "dropped, then written": (
        "alter table p drop partition (k=1)",
        lambda acid: acid.sql("insert into p partition (k=1) values (3, 'c')"),
        1,
        [(2, "b", 2), (3, "c", 1)],
    ),
    "dropped, then deleted from": (
        "alter table p drop partition (k=1)",
        lambda acid: acid.table("p").delete_arrow("k = 1"),
        0,
        [(2, "b", 2)],
    ),
    "dropped, then truncated": (
        "alter table p drop partition (k=1)",
        lambda acid: acid.sql("truncate table p partition (k=1)"),
        10006,
        [(2, "b", 2)],
    ),
    "renamed, then written": (
        "alter table p partition (k=1) rename to partition (k=5)",
        lambda acid: acid.sql("insert into p partition (k=5) values (3, 'c')"),
        1,
        [(1, "a", 5), (2, "b", 2), (3, "c", 5)],
    ),
    "renamed, then deleted from": (
        "alter table p partition (k=1) rename to partition (k=5)",
        lambda acid: acid.table("p").delete_arrow("id = 1"),
        1,
        [(2, "b", 2)],
    ),
    "renamed, then merged into": (
        "alter table p partition (k=1) rename to partition (k=5)",
        lambda acid: acid.table("p").merge_arrow(_arrow(id=[1], v=["z"]), on="id",
                                                 when_not_matched=None),
        1,
        [(1, "z", 5), (2, "b", 2)],
    ),
    "added, then truncated with all": (
        "alter table p add partition (k=7)",
        lambda acid: acid.sql("truncate table p"),
        None,
        [],
    ),
    "dropped, then read": (
        "alter table p drop partition (k=1)",
        lambda acid: hiveacid.read_arrow(acid.table("p"), partitions="k < 9").read_all(),
        1,
        [(2, "b", 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTITIONS)
def test_partitions_are_those_under_the_lock(trio: Trio, case: str) -> None:
    definition, statement, wanted, rows = PARTITIONS[case]
    answer = trio.behind_definitions([definition], statement, table="p")
    assert _short(answer) == wanted, answer
    assert rows_of(trio.r, "p") == rows
    if "renamed" in case:
        assert not (trio.root / "p" / "k=1").exists()
    assert trio.r.client.metastore.show_locks() == ()


INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"


@pytest.mark.parametrize(
    ("table", "properties"),
    [
        ("plain", "'transactional'='true'"),
        ("plain", INSERT_ONLY),
        ("some", "'transactional_properties'='default'"),
    ],
)
@pytest.mark.parametrize("kind", ["insert", "overwrite", "write_arrow"])
def test_a_table_is_written_as_what_it_was_converted_to(
    trio: Trio, kind: str, table: str, properties: str
) -> None:
    statement: Callable[[Session], Any] = {
        "insert": lambda acid: acid.sql(f"insert into {table} values (3, 'c')"),
        "overwrite": lambda acid: acid.sql(f"insert overwrite table {table} values (3, 'c')"),
        "write_arrow": lambda acid: acid.table(table).write_arrow(_arrow(id=[3], v=["c"])),
    }[kind]
    conversion = f"alter table {table} set tblproperties ({properties})"
    answer = trio.behind_definitions([conversion], statement, table=table)
    assert _short(answer) == 1, answer
    assert answer.write_id > 0
    rows = [(3, "c")] if kind == "overwrite" else [(1, "a"), (3, "c")]
    assert rows_of(trio.r, table) == rows
    if "insert_only" not in properties:
        assert trio.r.table(table).delete_arrow("id = 3").rows == 1


def test_each_statement_of_a_transaction_has_the_definitions_of_its_own_locks(trio: Trio) -> None:
    with trio.a.transaction() as txn:
        txn.sql("insert into p partition (k=2) values (8, 'x')")
        trio.b.sql("alter table t add columns (c int)")
        assert txn.table("t").write_arrow(_arrow(id=[3], v=["c"], c=[1])).rows == 1
    assert rows_of(trio.r, "t") == [(1, "a", None), (2, "b", None), (3, "c", 1)]


def test_two_replace_one_table_one_after_the_other(trio: Trio) -> None:
    rows = _arrow(n=[7])
    answer = trio.run(
        f"create or replace table t (id int, w string) {ACID}",
        lambda acid: acid.create_table("t", rows, or_replace=True),
    )
    assert not isinstance(answer, AcidError), answer
    assert rows_of(trio.r, "t") == [(7,)]
    _only_what_was_there(trio)


def test_a_replace_that_does_not_get_the_table_leaves_nothing(trio: Trio) -> None:
    trio.r.sql("lock table t shared")
    trio.b.sql("set hiveacid.lock.timeout_s = 0.05")
    for replaced in (
        lambda: trio.b.sql(f"create or replace table t (id int, w string) {ACID}"),
        lambda: trio.b.create_table("t", _arrow(n=[7]), or_replace=True),
    ):
        with pytest.raises(LockError):
            replaced()
    trio.r.sql("unlock table t")
    assert rows_of(trio.r, "t") == [(1, "a"), (2, "b")]
    _only_what_was_there(trio)


def _only_what_was_there(trio: Trio) -> None:
    store = trio.r.client.metastore
    names = store.list_tables("default")
    assert sorted(names) == ["p", "plain", "some", "t"]
    places = {store.get_table(TableName("default", name)).location for name in names}
    assert {str(path) for path in trio.root.iterdir()} == places
    assert store.show_locks() == () and store.get_open_txns().open == ()
