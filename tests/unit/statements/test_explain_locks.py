"""EXPLAIN LOCKS: which statement takes which lock, beside what Hive 4.1 printed for the same text.

Hive's lines are as recorded. Where ours differ the reason is given: Hive prints read locks on what
the statement writes, and locks twice, which it does not request (real-hive.md 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.session import Session, connect
from hiveacid.statements.values import Listing

ACID = "stored as orc tblproperties ('transactional'='true')"
MERGE = "merge into {} using s on {}.id = s.id "
SAME = "as Hive"
TARGET = "Hive adds read locks on what is written and repeats lines"

CASES: dict[str, tuple[str, str, str]] = {
    # statement: Hive's lines, ours, why
    "select * from t": ("t r", "t r", SAME),
    "select t.id from t join p on t.id = p.id": (
        "t r, p.k=x r, p.k=y r", "p r, t r", "all partitions of a table are locked as the table",
    ),
    "select * from p where k = 'x'": ("p.k=x r", "p.k=x r", SAME),
    "select * from plain": ("plain r", "plain r", SAME),
    "select * from ext": ("", "", SAME),
    "insert into t values (2, 'b')": ("t w", "t w", SAME),
    "insert into t select * from s": ("s r, t w", "s r, t w", SAME),
    "insert into p partition (k='x') values (2, 'b')": ("p.k=x w", "p.k=x w", SAME),
    "insert into p partition (k) values (2, 'b', 'z')": ("p w", "p w", SAME),
    "insert overwrite table t select * from s": ("s r, t x", "s r, t x", SAME),
    "insert overwrite table p partition (k='x') select * from s": (
        "s r, p.k=x x", "s r, p.k=x x", SAME,
    ),
    "insert overwrite table p partition (k) select id, v, v from s": ("s r, p x", "s r, p x", SAME),
    "update t set v='c' where id=1": ("t w, t w", "t w", TARGET),
    "update p set v='c' where k='x'": ("p.k=x r, p w, p.k=x w", "p.k=x w, p w", TARGET),
    "update p set v='c' where id=1": (
        "p.k=x r, p.k=y r, p w, p.k=y w, p.k=x w", "p w", "all partitions: the table",
    ),
    "delete from t where id=1": ("t w", "t w", SAME),
    "delete from p where id=1": (
        "p.k=x r, p.k=y r, p.k=y w, p.k=x w", "p w", "all partitions: the table",
    ),
    "delete from p where k='x'": ("p.k=x r, p.k=x w", "p.k=x w", TARGET),
    "delete from t": ("t x", "t x", SAME),
    MERGE.format("t", "t") + "when matched then update set v=s.v when not matched then insert "
    "values (s.id, s.v)": ("s r, t w, t w", "s r, t w", TARGET),
    MERGE.format("t", "t") + "when not matched then insert values (s.id, s.v)": (
        "s r, t w", "s r, t w", SAME,
    ),
    MERGE.format("p", "p") + "when matched then delete": (
        "s r, p.k=x r, p.k=y r, p.k=y w, p.k=x w", "s r, p w", "all partitions: the table",
    ),
    "insert into plain values (1)": (
        "plain e", "plain r", "Hive takes none by default; ours keeps its definition as it is",
    ),
    "insert into mm values (1)": ("mm w", "mm w", SAME),
    "insert overwrite table mm select id from s": ("s r, mm x", "s r, mm x", SAME),
    "create table c as select * from s": (
        "s r, - r, c e", "s r, - r, c r", "the table is made, then its rows are inserted",
    ),
    f"create table c {ACID} as select * from s": (
        "s r, - r, c x", "s r, - r, c w", "the table is made, then its rows are inserted",
    ),
    "create table c (id int)": ("- r", "- r", SAME),
    "truncate table t": ("t x", "t x", SAME),
    "truncate table p partition (k='x')": ("p.k=x x", "p.k=x x", SAME),
    "drop table t": ("t r, - r, t e", "t e, - r", TARGET),
    "alter table t add columns (z int)": ("t r, t e", "t e", TARGET),
    "alter table t rename to u": ("t r, t e, - r", "t e, - r", TARGET),
    "alter table p drop partition (k='x')": ("p.k=x e", "p.k=x e", SAME),
    "alter table p add partition (k='w')": ("p r", "p r", SAME),
    "alter table t set tblproperties ('a'='b')": ("t r, t r", "t r", TARGET),
    "drop database d cascade": ("- r, - e", "- e", TARGET),
    "create database d2": ("", "", SAME),
    "analyze table t compute statistics": ("t r", "t r", SAME),
    "describe t": ("t r", "", "asked of the metastore in one go"),
    "show tables": ("- r", "", "asked of the metastore in one go"),
    "alter table t compact 'major'": ("t r", "", "Hive takes none either"),
    "lock table t shared": ("", "t r", "Hive refuses LOCK TABLE (10271)"),
    "lock table p partition (k='x') exclusive": ("", "p.k=x e", "Hive refuses LOCK TABLE (10271)"),
    "unlock table t": ("", "", SAME),
    "msck repair table p": ("p e", "p r", "it only adds partitions"),
    "create view vv as select * from t": ("t r, - r", "- r", "the query is only analysed"),
}  # fmt: skip
_LETTERS = {"r": "SHARED_READ", "w": "SHARED_WRITE", "x": "EXCL_WRITE", "e": "EXCLUSIVE"}


@pytest.fixture(scope="module")
def acid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    where = tmp_path_factory.mktemp("explain_locks")
    url = f"sqlite:///{where / 'metastore.db'}"
    with connect(None, url, warehouse=str(where / "wh")) as session:
        for text in (
            f"create table t (id int, v string) {ACID}",
            f"create table s (id int, v string) {ACID}",
            f"create table p (id int, v string) partitioned by (k string) {ACID}",
            "create table plain (id int) stored as orc",
            "create external table ext (id int) stored as orc",
            "create table mm (id int) stored as orc tblproperties "
            "('transactional'='true','transactional_properties'='insert_only')",
            "create database d",
            "insert into p partition (k='x') values (1, 'a')",
            "insert into p partition (k='y') values (1, 'a')",
        ):
            session.sql(text)
        yield session


@pytest.mark.parametrize("statement", CASES)
def test_the_locks_of_each_statement(acid: Session, statement: str) -> None:
    hive, ours, why = CASES[statement]
    assert (hive == ours) is (why == SAME)
    found = acid.sql(f"explain locks {statement}")
    assert isinstance(found, Listing)
    assert found.columns == ("Explain",)
    title, *lines = [row[0] for row in found.rows]
    assert title == "LOCK INFORMATION:"
    database = "d" if "database d " in statement else "default"
    assert lines == [_line(one, database) for one in ours.split(", ") if one]


def _line(text: str, database: str) -> str:
    place, letter = text.split(" ")
    name = database if place == "-" else f"{database}.{place}"
    return f"{name} -> {_LETTERS[letter]}"


def test_explaining_does_nothing(acid: Session) -> None:
    def state() -> object:
        store, wh = acid.client.metastore, Path(acid.client.warehouse)
        names = [(d, store.list_tables(d)) for d in store.list_databases()]
        tables = [acid.table(name).definition for name in store.list_tables("default")]
        files = sorted(str(path) for path in wh.rglob("*"))
        txns = [(one.id, one.state) for one in store.show_txns()]
        return names, tables, files, txns, store.show_locks(), acid.sql("show partitions p").rows

    before = state()
    for statement in CASES:
        acid.sql(f"explain locks {statement}")
    assert state() == before


def test_what_it_would_refuse_is_refused(acid: Session) -> None:
    for text in (
        "insert into nosuch values (1)",
        "lock table nosuch shared",
        "lock table plain shared",
    ):
        with pytest.raises(Exception, match=r"nosuch|not transactional"):
            acid.sql(f"explain locks {text}")
