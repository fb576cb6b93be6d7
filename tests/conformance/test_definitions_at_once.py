"""Two statements that change definitions, one queued behind the other, on each kind of database.

Session R locks the database; the first statement asks for its locks and waits, then the second one
does; R unlocks. Whatever comes of it must be what comes of the two one after the other, in that
order: the same definitions, partitions, directories, rows and errors. Where both may hold their
locks at once, the other order is as good.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
from tests.sampling import sampled

import hiveacid
from hiveacid.errors import AcidError
from hiveacid.model.tables import Column, TableName
from hiveacid.model.types import parse_type
from hiveacid.session import Session
from hiveacid.statements.context import Bound, define, fixed
from hiveacid.statements.ddl.views import CreateView, create_view

ACID = "stored as orc tblproperties ('transactional'='true')"
MM = "'transactional'='true','transactional_properties'='insert_only'"

TABLE = (
    f"create table t (id int, v string, constraint k primary key (id) disable novalidate) {ACID}",
    "alter table t set tblproperties ('old'='1')",
    "insert into t values (1, 'a')",
)
PLAIN = (
    "create table plain (id int, v string) stored as orc",
    "insert into plain values (1, 'a')",
)
PARTITIONED = (
    f"create table p (id int) partitioned by (k string) {ACID}",
    "insert into p partition (k='x') values (1)",
    "alter table p add partition (k='y')",
)
VIEW = ("create or replace view v: first",)

GROUPS: dict[tuple[str, ...], dict[str, str]] = {
    TABLE: {
        "set property": "alter table t set tblproperties ('{n}'='1')",
        "unset property": "alter table t unset tblproperties ('old')",
        "add columns": "alter table t add columns (c{n} int)",
        "change column": "alter table t change column v w{n} string",
        "add constraint": "alter table t add constraint n{n} unique (v) disable novalidate",
        "drop constraint": "alter table t drop constraint k",
        "set location": "alter table t set location '{root}/elsewhere{n}'",
        "rename": "alter table t rename to t{n}",
        "drop": "drop table t",
        "create": "create table if not exists t (x{n} int) " + ACID,
        "create like": "create table like{n} like t",
        "analyze": "analyze table t compute statistics noscan",
        "drop database": "drop database {database} cascade",
        "create database": "create database if not exists {database}",
    },
    PLAIN: {
        "make full acid": "alter table plain set tblproperties ('transactional'='true')",
        "make insert-only": f"alter table plain set tblproperties ({MM})",
        "alter": "alter table plain change column v w{n} string not null enable",
        "replace columns": "alter table plain replace columns (id int, v string, r{n} int)",
        "rename": "alter table plain rename to other",
        "create": "create table other (x{n} int)",
        "drop": "drop table plain",
    },
    PARTITIONED: {
        "add": "alter table p add partition (k='new')",
        "add another": "alter table p add if not exists partition (k='new{n}')",
        "drop": "alter table p drop partition (k>'w')",
        "rename": "alter table p partition (k='x') rename to partition (k='new')",
        "set location": "alter table p partition (k='x') set location '{root}/part{n}'",
        "add columns": "alter table p add columns (c{n} int)",
        "rename table": "alter table p rename to p{n}",
        "repair": "msck repair table p sync partitions",
    },
    VIEW: {
        "create": "create or replace view v: a{n}",
        "alter": "alter view v as: b{n}",
        "property": "alter view v set tblproperties ('{n}'='1')",
        "rename": "alter view v rename to v{n}",
        "drop": "drop view v",
    },
}
FIRST = [(group, kind) for group, kinds in enumerate(GROUPS.values()) for kind in kinds]
SHARING = ("set tblproperties", "add partition", "add if", "analyze", "create table", "create or")
"""What may run at the same time as others of these: either order will do."""
EITHER = (" like ", "if not exists")
"""What has no lock on what the other one changes, or is content with what it finds at first."""


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """Those that run statements one after the other, on SQLite for both: no answer depends on the
    database, and PostgreSQL takes ten times as long.
    """
    root = tmp_path_factory.mktemp("in_order")
    yield from _three(f"sqlite:///{root / 'metastore.db'}", root)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def sessions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Three]:
    root = tmp_path_factory.mktemp("at_once")
    url = f"sqlite:///{root / 'metastore.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").metastore()
    yield from _three(url, root)


def _three(url: str, root: Path) -> Iterator[Three]:
    opened: list[Session] = []

    def connect() -> Session:
        settings = {"hiveacid.lock.poll_max_s": "0.02", "hiveacid.lock.poll_min_s": "0.02"}
        opened.append(hiveacid.connect(None, url, warehouse=str(root / "wh"), settings=settings))
        return opened[-1]

    yield Three(connect)
    for session in opened:
        session.close()


class Three:
    """The sessions R, B and A, and a database for each run."""

    def __init__(self, connect: Callable[[], Session]) -> None:
        self.r, self.b, self.a = connect(), connect(), connect()
        self._runs = 0
        self.one_after_the_other = cache(self._one_after_the_other)

    def make(self, group: int) -> str:
        self._runs += 1
        name = f"d{self._runs}"
        self.r.sql(f"create database {name}")
        for session in (self.r, self.b, self.a):
            session.sql(f"use {name}")
        setup = list(GROUPS)[group]
        for text in setup:
            self._view(self.r, text) if ": " in text else self.r.sql(text)
        if setup == PARTITIONED:
            (Path(self.r.table("p").definition.location) / "k=found").mkdir()
        return name

    def run(self, session: Session, text: str, number: int, database: str) -> str:
        """What the statement says: nothing, rows, or its error."""
        root = Path(self.r.client.warehouse) / f"out_{database}"
        text = text.format(n=number, root=root, database=database)
        try:
            if ": " in text:
                return str(self._view(session, text))
            return str(session.sql(text))
        except AcidError as error:
            return f"{type(error).__name__} {error}"

    @staticmethod
    def _view(session: Session, text: str) -> object:
        """Without Spark nobody tells the columns of a view's query."""
        name = TableName(session.database, "v")
        column = text.rpartition(" ")[2]
        value = CreateView(
            name, original=f"select 1 {column}", expanded=f"select 1 {column}",
            or_replace=text.startswith("create"), alter=text.startswith("alter"),
            query_columns=(Column(column, parse_type("int")),),
        )  # fmt: skip
        context = session._context()
        return define(context, Bound.to(context.look(), fixed(value)), create_view)

    def _one_after_the_other(self, group: int, *texts: tuple[str, int]) -> tuple[str, ...]:
        database = self.make(group)
        by = {1: self.b, 2: self.a}
        said = {n: self.run(by[n], text, n, database) for text, n in texts}
        return self.state(database, said[1], said[2])

    def at_once(self, group: int, *texts: str) -> tuple[str, ...]:
        database = self.make(group)
        self.r.sql(f"lock database {database} exclusive")
        with ThreadPoolExecutor() as pool:
            runs = []
            for place, (session, text) in enumerate(zip((self.b, self.a), texts, strict=True)):
                before = self._asked()
                run = pool.submit(self.run, session, text, place + 1, database)
                while not run.done() and self._asked() <= before:
                    wait([run], timeout=0.003)
                runs.append(run)
            self.r.sql(f"unlock database {database}")
            said = [run.result(60) for run in runs]
        return self.state(database, *said)

    def _asked(self) -> set[str]:
        return {str(row[0]).partition(".")[0] for row in self.r.sql("show locks").rows}

    def state(self, database: str, *said: str) -> tuple[str, ...]:
        store = self.r.client.metastore
        for session in (self.r, self.b, self.a):
            session.sql("use default")
        told = list(said)
        if database in store.list_databases():
            for name in store.list_tables(database):
                table = store.get_table(TableName(database, name))
                told.append(repr(replace(table, properties=dict(sorted(table.properties.items())))))
                if table.partition_columns:
                    told += [
                        repr(replace(one, properties=dict(sorted(one.properties.items()))))
                        for one in store.list_partitions(table.name, statistics=True)
                    ]
        root = Path(self.r.client.warehouse, f"{database}.db")
        told += sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir())
        warehouse = str(self.r.client.warehouse)
        return tuple(_same(text.replace(warehouse, "WAREHOUSE"), database) for text in told)


def _same(text: str, database: str) -> str:
    """The text without what differs from run to run."""
    text = re.sub(rf"\b(out_)?{database}\b", "DB", text)
    return re.sub(r"created_at_ms=\d+|(?<=_v)\d{7}|, id=\d+", "", text)


def _wrong(sessions: Three, in_order: Three, group: int, first: str, second: str) -> list[str]:
    """What differs, lines of the one order after ``-``, of what was found after ``+``."""
    kinds = list(GROUPS.values())[group]
    both = (kinds[first], kinds[second])
    found = sessions.at_once(group, *both)
    wanted = [in_order.one_after_the_other(group, (both[0], 1), (both[1], 2))]
    sharing = all(any(word in one for word in SHARING) for one in both)
    if sharing or any(word in one for one in both for word in EITHER):
        wanted.append(in_order.one_after_the_other(group, (both[1], 2), (both[0], 1)))
    if found in wanted:
        return []
    return [
        f"{first}, {second}:",
        *(f"  - {line}" for line in wanted[0] if line not in found),
        *(f"  + {line}" for line in found if line not in wanted[0]),
    ]


@pytest.mark.parametrize(
    ("group", "first", "second"),
    sampled(
        [
            (0, "add columns", "set property"),
            (0, "add columns", "add columns"),
            (0, "rename", "add columns"),
            (0, "drop", "set property"),
            (0, "set location", "analyze"),
            (0, "drop database", "rename"),
            (1, "make insert-only", "rename"),
            (2, "rename", "drop"),
            (2, "add columns", "rename table"),
            (3, "rename", "alter"),
        ],
        "statements",
        "metastore",
        "txn",
        group=itemgetter(0),
    ),
)
def test_nothing_is_lost(
    sessions: Three, in_order: Three, group: int, first: str, second: str
) -> None:
    assert not _wrong(sessions, in_order, group, first, second)


@pytest.mark.long("statements", "metastore", "txn")
@pytest.mark.parametrize(
    ("sessions", "group", "first"),
    [
        *(("sqlite", group, first) for group, first in FIRST),
        *(("postgres", group, first) for group, first in FIRST[::2]),
        *(pytest.param("postgres", *one, marks=pytest.mark.long()) for one in FIRST[1::2]),
    ],
    indirect=["sessions"],
)
def test_nothing_of_any_pair_is_lost(
    sessions: Three, in_order: Three, group: int, first: str
) -> None:
    wrong: list[str] = []
    for second in list(GROUPS.values())[group]:
        wrong += _wrong(sessions, in_order, group, first, second)
    assert not wrong, "\n".join(wrong)
