"""``args=`` and variables in statements that run."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from hiveacid.errors import SqlSyntaxError

ACID = "stored as orc tblproperties ('transactional'='true')"
HOSTILE = "'); delete from t; -- \\' ${x} \n\"`?:a"
VALUES = {
    "id": 7,
    "name": HOSTILE,
    "n": Decimal("-12.50"),
    "x": 0.1,
    "day": datetime.date(2020, 2, 29),
    "at": datetime.datetime(1999, 12, 31, 23, 59, 59, 123456),
    "raw": b"\x00'\xff",
    "tags": ["a'b", None],
    "yes": True,
}
COLUMNS = (
    "id bigint, name string, n decimal(10,2), x double, day date, at timestamp, raw binary, "
    "tags array<string>, yes boolean"
)
MARKERS = ", ".join(f":{name}" for name in VALUES)


def test_values_of_every_kind_come_back_as_they_were_given(acid):
    acid.sql(f"create table t ({COLUMNS}) {ACID}")
    acid.sql(f"insert into t values ({MARKERS})", args=VALUES)
    where = " and ".join(f"{name} = :{name}" for name in VALUES if name != "tags")
    query = f"select * from t where {where} and tags[0] = :tags[0]"
    (found,) = acid.sql(query, args=VALUES).collect()
    assert found.asDict() == VALUES
    nothing = dict.fromkeys(VALUES)
    acid.sql(f"insert into t select {MARKERS}", args=nothing)
    (found,) = acid.sql("select * from t where id is null").collect()
    assert found.asDict() == nothing


def test_rows_of_plain_values_need_no_spark_job(acid, rows):
    acid.sql(f"create table t (id int, name string) {ACID}")
    acid.sql("insert into t values (?, ?), (?, ?)", [1, HOSTILE, 2, None])
    assert rows("select * from t") == [(1, HOSTILE), (2, None)]


@pytest.mark.long("spark", "sql", "statements")
def test_every_statement_that_changes_rows_takes_parameters(acid, rows):
    acid.sql(f"create table t (id int, name string) {ACID}")
    acid.sql("insert into t values (1,'a'),(2,'b'),(3,'c')")
    acid.sql("update t set name = :n where id in (:ids)", {"n": "x'y", "ids": [1, 2]})
    acid.sql("delete from t where name = ?", ["x'y' or true --"])
    acid.sql(
        "merge into t using (select :id id) s on t.id = s.id "
        "when matched then update set name = :n when not matched then insert values (s.id, :n)",
        {"id": 3, "n": "merged"},
    )
    with acid.transaction() as txn:
        txn.sql("insert into t values (:id, :name)", {"id": 4, "name": "${x}"})
        assert txn.sql("select name from t where id = ?", [4]).head()[0] == "${x}"
    assert rows("select * from t") == [(1, "x'y"), (2, "x'y"), (3, "merged"), (4, "${x}")]
    assert (
        acid.sql("select id from t where id >= :a order by id limit :n", {"a": 2, "n": 1}).head()[0]
        == 2
    )


def test_variables_are_replaced_before_spark_sees_the_text(acid):
    acid.sql("set hivevar:x=7")
    acid.sql("set some.conf=${hivevar:x}0")
    found = acid.sql("select ${x}, '${hivevar:x}', '${hiveconf:some.conf}', '${nope}', \"${nope}\"")
    assert tuple(found.head()) == (7, "7", "70", "${nope}", "${nope}")
    assert acid.sql("set hivevar:x").head()[0] == "hivevar:x=7"
    with pytest.raises(SqlSyntaxError, match="variable"):
        acid.sql("select ${nope}")
    acid.sql("set hive.variable.substitute=false")
    assert acid.sql("select '${x}'").head()[0] == "${x}"
