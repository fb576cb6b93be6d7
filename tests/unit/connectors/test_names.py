"""Which names of a text may be tables, told without a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import hiveacid
from hiveacid.connectors.names import first_words, parts_of, relation_names
from hiveacid.connectors.namespaces import is_of_both
from hiveacid.connectors.sql import _WORDS, _creates_ours, sql
from hiveacid.model.tables import Table, TableName
from hiveacid.sql import parse_one
from hiveacid.sql.commands import _SHOWN
from hiveacid.sql.parse import _GRAMMARS, _QUERIES

CASES = {
    "select 1 -- from u\\\nfrom v\nfrom t": ["t"],
    "select /* from u /* ' */ from v */ a from t /* ' */": ["t"],
    "select r'\\', a, R\"\\\" from t where a = r'\\'": ["t"],
    "select a, b from t": ["t"],
    "select a from t, d.u x, (v join `w w` on t.a = v.a), lateral f(t.x)": [
        "t",
        "d.u",
        "v",
        "w w",
    ],
    "select f(a, b), (select max(x) from s) from t where a in (select i from r) order by y, z": [
        "s",
        "t",
        "r",
    ],
    "with c as (select * from t) insert into u (a, b) select * from c": ["t", "u", "c"],
    "merge into t using (select * from s) x on t.a = x.a when matched then update set a = b": [
        "t",
        "s",
    ],
    "merge into d . t using s on true when matched then delete": ["d.t", "s"],
    "update t set a = b where c": ["t"],
    "delete from t where exists (select 1 from u)": ["t", "u"],
    "insert overwrite table t partition (a = 1) select 1": ["t"],
    "drop table if exists t": ["t"],
    "describe extended t": ["t"],
    "desc t": ["t"],
    "select a from t order by a desc, b": ["t"],
    "show create table t": ["t"],
    "show partitions t": ["t"],
    "show columns in t in d": ["t", "d"],
    "create table if not exists t like u": ["t", "u"],
    "alter table t rename to v": ["t"],
    "truncate table t": ["t"],
    "cache lazy table t": ["t"],
    "refresh t": ["t"],
    "table t": ["t"],
    "select * from range(3), t": ["t"],
    "select 'from x', \"from y\" from t -- from z": ["t"],
    "/* from x */ select * from {df} join t": ["t"],
    "select * from `hiveacid`.`/data/t`": ["hiveacid./data/t"],
    "select * from `d.t`": ["d.t"],
    "Select 'ß' fRoM Straße jOiN ü_1 on true": ["Straße", "ü_1"],
    "select 1": [],
    "select * from values (1, 2) as x(a, b), t": ["t"],
    "select x from t where y in (z, 1) and w not in (1, 2)": ["t"],
    "set x = from": [],
    "from t |> where a > 1 |> join u using (a)": ["t", "u"],
}


@pytest.mark.parametrize("text", CASES)
def test_names_where_a_relation_can_stand(text: str) -> None:
    found = [".".join(parts) for parts in relation_names(text)]
    missing = [name for name in CASES[text] if name not in found]
    assert not missing
    assert len(found) <= len(CASES[text]) + 1  # one too many costs a look at the metastore


def test_first_words_without_comments() -> None:
    assert first_words("-- x\n/* y */ set hiveacid.a.b = 5") == ("SET", "HIVEACID.A.B", "5")
    assert first_words("(select 1)") == ()


def test_parts_of_a_name() -> None:
    assert parts_of("a . `b``c`") == ("a", "b`c")
    assert parts_of("`/data/a.b`") == ("/data/a.b",)


def test_all_names_of_a_statement_are_one_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=tmp_path / "wh") as acid:
        store = acid.client.metastore
        asked: list[object] = []
        plain = store.get_tables

        def get_tables(names: Sequence[TableName]) -> Mapping[TableName, Table]:
            asked.append([str(name) for name in names])
            return plain(names)

        monkeypatch.setattr(store, "get_tables", get_tables)
        spark: Any = lambda *_: "Spark's"  # noqa: E731
        answer: Any = sql(acid, spark, "select * from a join d.b, c where x in a")

    assert answer == "Spark's"
    assert asked == [["default.a", "d.b", "default.c"]]


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("create transactional table t (id int)", True),
        ("create or replace table t using hiveacid as select 1 id", True),
        ("create table t (id int) tblproperties ('transactional' = 'true')", True),
        ("create table t (id int) tblproperties ('a'='b', \"transactional\"='true')", True),
        ("create table t tblproperties ('transactional'='true') as select 1 id", True),
        ("create table t (a int, b int generated always as (a + 1)) using hiveacid", True),
        ("create table transactional (id int)", False),
        ("create table t select * from s where kind in ('transactional')", False),
        ("create table t as select transactional from s", False),
        ("create table t as select * from s where kind in ('transactional')", False),
        ("create table t as (select 'hiveacid' using, 'transactional' kind)", False),
        ("create table t (id int comment 'transactional') comment 'transactional'", False),
        ("create table t using parquet tblproperties ('transactional'='true')", False),
    ],
)
def test_which_new_tables_are_ours(text: str, is_ours: bool) -> None:
    assert _creates_ours(first_words(text), text) is is_ours


OURS = {
    ("VALUES",): None,  # Spark's: it names no table
    ("(",): None,
    ("CREATE",): "create tag q3 on t as of version 7",
    ("REPLACE",): "replace table t (id int) using hiveacid",
    ("DROP",): "drop consumer 'crm' on t",
    ("USE",): "use d",
    ("ABORT",): "abort transactions 5",
    ("MSCK",): "msck repair table t",
    ("LOAD",): "load data inpath '/x' into table t",
    ("ANALYZE",): "analyze table t compute statistics",
    ("START",): "start transaction",
    ("BEGIN",): "begin",
    ("COMMIT",): "commit",
    ("ROLLBACK",): "rollback to a",
    ("SAVEPOINT",): "savepoint a",
    ("SET",): "set transaction isolation level snapshot",
    ("RELEASE",): "release savepoint a",
    ("LOCK",): "lock table t shared",
    ("UNLOCK",): "unlock table t",
    ("UNDO",): "undo transaction 7",
    ("RESTORE",): "restore t to version as of 7",
    ("VACUUM",): "vacuum t retain 48 hours",
    ("PURGE",): "purge table t where id = 5",
    ("TRUNCATE",): "truncate table t",
    ("ALTER",): "alter table t compact 'major'",
    ("COMMENT",): "comment on table t is 'x'",
    ("TABLE",): "table t",
    ("DESCRIBE",): "describe history t",
    ("DESC",): "desc detail t",
    ("UPDATE",): "update t set a = 1",
    ("DELETE",): "delete from t",
    ("MERGE",): "merge into t using s on true when matched then delete",
    ("INSERT",): "insert into t values (1)",
    ("SELECT",): "select * from t",
    ("FROM",): "from t select *",
    ("WITH",): "with a as (select * from t) select * from a",
    ("SHOW", "DATABASES"): "show databases",
    ("SHOW", "SCHEMAS"): None,  # words of Spark's, answered as DATABASES
    ("SHOW", "FUNCTIONS"): None,  # Spark answers with its own
    ("SHOW", "MATERIALIZED", "VIEWS"): None,  # there are none
    ("SHOW", "TABLES"): "show tables",
    ("SHOW", "VIEWS"): "show views",
    ("SHOW", "PARTITIONS"): "show partitions t",
    ("SHOW", "COLUMNS"): "show columns in t",
    ("SHOW", "TBLPROPERTIES"): "show tblproperties t",
    ("SHOW", "CREATE", "TABLE"): "show create table t",
    ("SHOW", "CREATE", "DATABASE"): "show create database d",
    ("SHOW", "CREATE", "SCHEMA"): "show create schema d",
    ("SHOW", "TAGS"): "show tags",
    ("SHOW", "CONSUMERS"): "show consumers on t",
    ("SHOW", "TRANSACTIONS"): "show transactions",
    ("SHOW", "LOCKS"): "show locks",
    ("SHOW", "COMPACTIONS", "COMPACTIONID"): "show compactions compactionid = 5",
    ("SHOW", "COMPACTIONS"): "show compactions",
}


def test_each_statement_of_ours_is_told_from_sparks() -> None:
    """Every word of our grammar has an example here, which the enabled session takes for ours."""
    heads = {(word,) for word in (*_QUERIES, *_GRAMMARS) if word != "SHOW"}
    assert set(OURS) == heads | {("SHOW", *words) for words in _SHOWN}
    for text in filter(None, OURS.values()):
        words = first_words(text)
        by_words = _WORDS.match(" ".join(words)) or _creates_ours(words, text) or is_of_both(words)
        assert by_words or ("t",) in relation_names(text), text
        parse_one(text)
