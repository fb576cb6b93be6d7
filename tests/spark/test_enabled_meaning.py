"""Texts of Spark's own calls over tables of ours mean what they do over tables of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.session import Session
from hiveacid.tables import HiveacidTable

ROWS = "(1, 'b', 2.5D), (2, null, null), (3, 'a', -1D), (null, 'c', 4D)"
QUERIES = (
    "select id, v from {t} order by v, id",
    "select id from {t} order by v desc, id desc limit 2",
    "select id, row_number() over (order by v, id) n from {t} order by 2",
    "select round(stddev(d), 6), round(std(d), 6), round(variance(d), 6) from {t}",
    "select greatest(id, d), least(id, d), sqrt(d), size(split(v, ',')) from {t} order by id",
    "select pmod(id, -3), ltrim('b', v), trim('b', v), extract(second from timestamp'2020-01-01 "
    "01:02:03.5'), trunc(date'2020-05-05', 'Q') from {t} order by id",
    "select add_months(date'2020-02-29', id), array_contains(array(1, null), id) from {t} order by"
    " id",
    "select '1' || id + 1, substr(v, -4), cast(v as char(1)), cast('abc' as varchar(2)) from {t}"
    " order by id",
    "select id from {t} where v not like all ('a', 'b') order by id",
    "select id from {t} union select 7 from {t} intersect select 8 from {t} order by id",
    "select id from {t} where id < (select max(id) from {t}) order by d desc",
    "with x as (select v, max(d) m from {t} group by v) select v from x order by m",
    "select collect_list(v), array_sort(collect_set(v)) from (select v from {t} order by v) x",
)


@pytest.fixture
def enabled(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    yield hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh")
    spark.catalog.dropTempView("g2")
    spark.sql("drop table if exists sparks")
    hiveacid.disable(spark)


def test_queries_and_changes(enabled: Session, spark: SparkSession) -> None:
    spark.sql("create table ours (id int, v string, d double) using hiveacid")
    spark.sql("create table sparks (id int, v string, d double) using parquet")
    for table in ("ours", "sparks"):
        spark.sql(f"insert into {table} values {ROWS}")
    for query in QUERIES:
        wanted = spark.sql(query.format(t="sparks"))
        found = spark.sql(query.format(t="ours"))
        assert found.columns == wanted.columns, query
        assert str(found.collect()) == str(wanted.collect()), query
    spark.sql("create temporary view g2 as select greatest(id, d) g from ours order by v limit 2")
    wanted = spark.sql("select greatest(id, d) g from sparks order by v limit 2").collect()
    assert spark.table("g2").collect() == wanted
    spark.sql("update ours set d = greatest(d, 3D) where least(id, d) = 2")
    assert spark.sql("select d from ours where id = 2").collect() == [(3.0,)]
    HiveacidTable.forName(spark, "ours").delete("least(id, d) = 4D")
    assert spark.sql("select count(*) from ours where id is null").collect() == [(0,)]
    rows = spark.sql("select 9 id, 'z' v, cast(null as double) d")
    new = rows.write.mode("overwrite").option("replaceWhere", "least(id, d) > 1")
    new.saveAsTable("ours")
    assert spark.sql("select id from ours order by id").collect() == [(1,), (3,), (9,)]
    hives = enabled.sql("select id from ours order by v limit 1").collect()
    assert hives == [(3,)], "acid.sql is Hive's"
    assert enabled.table("ours").delete("least(id, d) > 1").rows == 0
