"""A definition that changes while a statement waits for its locks, on each kind of database.

R holds ``LOCK TABLE SHARED``, B's definition waits for it, then A's statement waits behind B, then
R unlocks: what A does must follow from the definitions as B left them. Each request is seen to wait
before the next is made, so the order does not depend on time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import AcidError, NotFoundError
from hiveacid.model.locks import LockState
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = {
    "hiveacid.lock.timeout_s": "60",
    "hiveacid.lock.poll_max_s": "0.02",
    "hiveacid.compactor.auto": "off",
}
WAITS_S = 30.0


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


@pytest.fixture
def trio(metastore_url: str, tmp_path: Path) -> Iterator[Trio]:
    found = Trio(metastore_url, tmp_path / "wh")
    found.r.sql(f"create table t (id int, v string) {ACID}")
    found.r.sql("insert into t values (1, 'a'), (2, 'b')")
    found.r.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
    found.r.sql("insert into p partition (k=1) values (1, 'a')")
    found.r.sql("insert into p partition (k=2) values (2, 'b')")
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
    "insert in a transaction": lambda acid: _in_transaction(acid, "insert into t values (3, 'c')"),
}


def _in_transaction(acid: Session, text: str) -> Any:
    with acid.transaction() as txn:
        txn.sql("insert into p partition (k=9) values (9, 'before')")
        return txn.sql(text)


@pytest.mark.parametrize("definition", ["alter table t rename to t2", "drop table t"])
@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_table_that_is_gone_is_not_found(trio: Trio, kind: str, definition: str) -> None:
    answer = trio.run(definition, STATEMENTS[kind])
    assert isinstance(answer, NotFoundError), answer
    assert not (trio.root / "t").exists()
    if "rename" in definition:
        assert sorted(rows_of(trio.r, "t2")) == [(1, "a"), (2, "b")]
    assert trio.r.client.metastore.show_locks() == ()
