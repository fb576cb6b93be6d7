"""The past through Spark: SQL, DataFrames, views, the data source."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.model.tables import TableName

pytestmark = pytest.mark.long("past", "spark", "sql", "storage")

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def emp(acid: Any) -> Any:
    acid.sql(f"create table emp (id int, name string) partitioned by (p int) {ACID}")
    acid.sql("insert into emp values (1, 'Ann', 1), (2, 'Joe', 2)")
    acid.sql("update emp set name = 'Jo' where id = 2")
    time.sleep(0.002)  # the versions differ in their times
    acid.sql("delete from emp where id = 1")
    return acid.table("emp")


FIRST, SECOND, LAST = [(1, "Ann"), (2, "Joe")], [(1, "Ann"), (2, "Jo")], [(2, "Jo")]


def test_a_query_names_versions(acid: Any, emp: Any, rows: Any) -> None:
    acid.sql("create tag q3 on emp as of version 1 retain 90 days")
    assert sorted(tuple(row)[:2] for row in emp.df(as_of_tag="Q3").collect()) == FIRST
    now = datetime.now(timezone.utc).isoformat()
    for clause, expected in {
        "version as of 1": FIRST,
        "for system_version as of 2": SECOND,
        "version as of '3'": LAST,
        "version as of 'q3'": FIRST,
        f"timestamp as of '{now}'": LAST,
        "": LAST,
    }.items():
        assert rows(f"select id, name from emp {clause}") == expected, clause
    assert rows(
        "select a.name, b.name from emp version as of 1 a join emp version as of 2 b on a.id = b.id"
        " where a.p = 2"
    ) == [("Joe", "Jo")]
    assert rows("select count(*) from emp version as of 1") == [(2,)]
    assert rows("select count(*) from emp") == [(1,)]
    acid.sql("insert into emp select id + 10, name, p from emp version as of 1 where id = 1")
    assert rows("select id, name from emp") == [(11, "Ann"), (2, "Jo")]


@pytest.mark.long("model", "spark", "sql")
def test_a_time_is_told_from_the_time_of_the_statement(acid: Any, emp: Any, rows: Any) -> None:
    for clause in (
        "timestamp as of current_timestamp() + interval 1 hour",
        "for system_time as of (current_timestamp - interval '1' second + interval 1 day)",
        "timestamp as of date_add(current_date(), 2)",
    ):
        assert rows(f"select id, name from emp {clause}") == LAST, clause
        assert rows(f"select e.id, f.name from emp {clause} e join emp {clause} as f on e.id = f.id"
                    " where e.id > 0") == LAST  # fmt: skip
    acid.sql("create view later as select * from emp timestamp as of now() + interval 1 minute")
    assert rows("select id, name from later") == LAST
    assert (
        rows("with c as (select * from emp timestamp as of now()) select id, name from c") == LAST
    )
    with pytest.raises(NotFoundError, match="was made later than that"):
        acid.sql("select * from emp timestamp as of date_sub(current_date(), 1)")
    acid.sql(
        "merge into emp t using (select * from emp version as of 1) s on t.id = s.id"
        " when not matched then insert values (s.id, s.name, s.p)"
    )
    assert rows("select id, name from emp timestamp as of now()") == SECOND


def test_a_view_may_be_of_then_or_read_as_of_then(acid: Any, emp: Any, rows: Any) -> None:
    acid.sql("create view old as select * from emp version as of 1")
    acid.sql("create view now as select id, name from emp where p = 2")
    acid.sql("alter table emp add columns (more int)")
    assert rows("select * from old") == [(1, "Ann", 1), (2, "Joe", 2)]
    (_, second, *_) = acid.client.own.commits(emp.name)
    at = datetime.fromtimestamp(second.committed_ms / 1000, timezone.utc).isoformat()
    assert rows(f"select * from now timestamp as of '{at}'") == [(2, "Jo")]
    with pytest.raises(InvalidInputError, match="now is a view"):
        acid.sql("select * from now version as of 1")


@pytest.mark.long("reading", "spark")
def test_frames_of_then(acid: Any, emp: Any) -> None:
    def values(frame: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row)[:2] for row in frame.collect())

    assert values(emp.df(as_of_write_id=1)) == FIRST
    assert values(emp.df(as_of_time=datetime.now(timezone.utc))) == LAST
    first, second, _ = acid.client.own.commits(TableName("default", "emp"))
    past = acid.at(second.txn)
    assert values(past.table("emp").df()) == SECOND
    assert values(past.sql("select * from emp")) == SECOND
    assert values(past.sql("select * from emp version as of 1")) == FIRST
    assert first.facts.inserted == 2
    with pytest.raises(NotFoundError, match="no version 99"):
        emp.df(as_of_write_id=99)


@pytest.mark.long("connectors", "reading", "spark")
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
def test_the_data_source_reads_versions(acid: Any, emp: Any, spark: Any) -> None:
    del emp
    reader = spark.read.format("hiveacid").option("metastore", acid.client.metastore.url)
    found = reader.option("versionAsOf", "1").load("emp")
    assert sorted(tuple(row)[:2] for row in found.collect()) == FIRST
    with pytest.raises(AnalysisException, match="not by write id and time"):
        reader.option("timestampAsOf", "2100-01-01").load("emp").collect()


@pytest.mark.long("compaction", "statements")
def test_statements_of_few_rows_are_explained_and_undone(acid: Any, emp: Any, rows: Any) -> None:
    deleted, updated, _ = emp.history()
    told = acid.explain_row("emp", where="id = 2", key="id").changes
    assert [(one.what, one.version) for one in told] == [("insert", 1), ("update", 2)]
    assert told[1].commit.statement == "update emp set name = ? where id = ?"
    frame = acid.sql("describe history emp where id = 1")
    assert [(row.version, row.change) for row in frame.collect()] == [(1, "insert"), (3, "delete")]
    assert dict(frame.dtypes)["timestamp"] == "timestamp"
    assert dict(acid.sql("describe history emp").dtypes)["inserted"] == "bigint"
    acid.sql(f"undo transaction {deleted.txn}")
    assert rows("select id, name from emp") == SECOND
    acid.sql(f"undo transaction {updated.txn}")
    assert rows("select id, name from emp") == FIRST


@pytest.mark.long("compaction", "storage")
def test_columns_of_another_type_are_restored_as_their_files_show_them(acid: Any) -> None:
    acid.sql(f"create table t (id int, s struct<x:int>, d decimal(6,2)) {ACID}")
    acid.sql("insert into t select 1, named_struct('x', 5), 1.50")
    acid.sql("alter table t change s s struct<x:bigint,y:string>")
    acid.sql("alter table t change d d string")
    before = acid.sql("select * from t").collect()
    acid.sql("truncate table t")
    acid.sql("restore table t to version as of 1")
    assert acid.sql("select * from t").collect() == before
