"""How often a statement asks the metastore: questions to a real server, fetches of definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.postgres import PostgresServer
from tests.proxy import Proxy, proxy

import hiveacid
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.tables import Table, TableName
from hiveacid.session import Session
from hiveacid.table import AcidTable

ACID = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def way(postgres: PostgresServer) -> Iterator[Proxy]:
    with proxy(postgres.metastore()) as made:
        yield made


@pytest.fixture
def acid(way: Proxy, tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(None, way.url, warehouse=str(tmp_path), settings=OFF) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        session.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
        session.sql("insert into t values (1, 'a'), (2, 'b')")
        session.sql("insert into p partition (k=1) values (1, 'a')")
        yield session


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[TableName]:
    """The definitions that were asked for, one by one or together."""
    names: list[TableName] = []
    one, several = SqlMetastore.get_table, SqlMetastore.get_tables

    def get_table(self: SqlMetastore, name: TableName) -> Table:
        names.append(name)
        return one(self, name)

    def get_tables(self: SqlMetastore, wanted: Collection[TableName]) -> Mapping[TableName, Table]:
        names.extend(wanted)
        return several(self, wanted)

    monkeypatch.setattr(SqlMetastore, "get_table", get_table)
    monkeypatch.setattr(SqlMetastore, "get_tables", get_tables)
    return names


Work = Callable[[AcidTable, AcidTable], Any]
READ_MAX, WRITE_MAX = 12, 20
READS: dict[str, Work] = {
    "a table": lambda t, _: hiveacid.read_arrow(t).read_all(),
    "a partitioned table": lambda _, p: hiveacid.read_arrow(p).read_all(),
}
WRITES: dict[str, Work] = {
    "insert": lambda t, _: _sql(t, "insert into t values (3, 'c')"),
    "insert into a partition": lambda _, p: _sql(
        p, "insert into p partition (k=1) values (3, 'c')"
    ),
    "overwrite": lambda t, _: _sql(t, "insert overwrite table t values (3, 'c')"),
    "truncate": lambda t, _: _sql(t, "truncate table t"),
    "write_arrow": lambda t, _: t.write_arrow(pa.table({"id": [3], "v": ["c"]})),
    "delete_arrow": lambda t, _: t.delete_arrow("id = 1"),
    "delete_arrow in partitions": lambda _, p: p.delete_arrow("id = 1"),
    "merge_arrow": lambda t, _: t.merge_arrow(pa.table({"id": [1, 9], "v": ["z", "n"]}), on="id"),
}


PAST: dict[str, tuple[int, Work]] = {
    "a version": (28, lambda t, _: hiveacid.read_arrow(t, as_of_write_id=1).read_all()),
    "changes": (32, lambda t, _: hiveacid.read_changes(t, since=0, until=1).read_all()),
    "history": (10, lambda t, _: t.history()),
    "a tag, made and dropped": (29, lambda t, _: (t.tag("q"), t.drop_tag("q"))),
    "detail": (23, lambda _, p: p.detail()),
}


MANY: dict[str, Callable[[Session, int], Any]] = {
    "add": lambda acid, count: acid.sql(
        "alter table p add " + " ".join(f"partition (k={10 + k})" for k in range(count))
    ),
    "insert": lambda acid, count: acid.table("p").insert(
        pa.table({"id": range(count), "v": ["a"] * count, "k": range(10, 10 + count)})
    ),
    "rename the table": lambda acid, _: [
        acid.sql(f"alter table {old} rename to {new}") for old, new in (("p", "q"), ("q", "p"))
    ],
    "list": lambda acid, _: acid.sql("show partitions p"),
    "read": lambda acid, _: hiveacid.read_arrow(acid.table("p")).read_all(),
    "repair": lambda acid, _: acid.sql("msck repair table p sync partitions"),
    "add a column": lambda acid, count: acid.sql(f"alter table p add columns (c{count} int)"),
    "truncate": lambda acid, _: acid.sql("truncate table p"),
    "drop": lambda acid, _: acid.sql("alter table p drop partition (k >= 10)"),
    "drop the table": lambda acid, _: acid.sql("drop table p"),
}
"""What is done to the table with so many partitions more, in this order."""


def _sql(table: AcidTable, text: str) -> Any:
    session: Any = table.session
    return session.sql(text)


def _round_trips(way: Proxy, work: Work, acid: Session) -> int:
    tables = acid.table("t"), acid.table("p")
    for _ in range(7):  # connections are made, statements are prepared, housekeeping is done
        work(*tables)
    before = way.round_trips
    work(*tables)
    return way.round_trips - before


@pytest.mark.parametrize("kind", READS | WRITES)
def test_how_often_a_statement_asks_the_server(way: Proxy, acid: Session, kind: str) -> None:
    most = READ_MAX if kind in READS else WRITE_MAX
    assert _round_trips(way, (READS | WRITES)[kind], acid) <= most


@pytest.mark.parametrize("kind", PAST)
def test_how_often_the_past_asks_the_server(way: Proxy, acid: Session, kind: str) -> None:
    most, work = PAST[kind]
    assert _round_trips(way, work, acid) <= most


@pytest.mark.parametrize("kind", READS | WRITES)
def test_a_definition_is_fetched_before_and_under_the_lock(
    acid: Session, fetched: list[TableName], kind: str
) -> None:
    tables = acid.table("t"), acid.table("p")
    fetched.clear()
    (READS | WRITES)[kind](*tables)
    assert Counter(fetched).most_common(1)[0][1] <= 2, fetched


def test_how_often_a_server_is_asked_does_not_grow_with_the_partitions(
    way: Proxy, acid: Session
) -> None:
    trips: dict[str, list[int]] = {kind: [] for kind in MANY}
    for count in (3, 3, 40):  # the first time statements are prepared
        for kind, work in MANY.items():
            before = way.round_trips
            work(acid, count)
            trips[kind].append(way.round_trips - before)
        acid.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
    grown = {kind: (few, many) for kind, (_, few, many) in trips.items() if many > few + 8}
    assert not grown
