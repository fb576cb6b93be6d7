"""Tables that are on no local disk, through Spark: on a server that speaks S3, for which its JVM
has no file system, and on HDFS, for which it has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.s3 import S3Server

import hiveacid
from hiveacid.errors import InvalidInputError
from hiveacid.spark import write
from hiveacid.spark.session import session_conf
from hiveacid.spark.write import staged_by_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

pytestmark = pytest.mark.long("spark", "statements", "storage")


@pytest.fixture
def acid(spark: SparkSession, s3: S3Server, tmp_path: Path) -> Iterator[Session]:
    """A session whose warehouse is a bucket, in which small tables are read as large ones are."""
    with hiveacid.connect(
        spark,
        f"sqlite:///{tmp_path}/metastore.db",
        warehouse=f"s3://{s3.bucket()}/a warehouse/50%+ü",
        settings={**s3.settings, "hiveacid.reads.local_bytes": "0"},
    ) as session:
        yield session


# A Connect server tells no client what its settings call a key.
@pytest.mark.parametrize("source", ["environment", pytest.param("spark", marks=pytest.mark.jvm)])
def test_where_a_bucket_is_need_not_be_a_setting(
    spark: SparkSession,
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    source: str,
) -> None:
    caplog.set_level("DEBUG")
    conf = {
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.access.key": s3.environment["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": s3.environment["AWS_SECRET_ACCESS_KEY"],
    }
    with session_conf(spark, conf if source == "spark" else {}), monkeypatch.context() as patch:
        for name, text in s3.environment.items() if source == "environment" else ():
            patch.setenv(name, text)
        warehouse = f"s3a://{s3.bucket()}/wh"
        url = f"sqlite:///{tmp_path}/metastore.db"
        with hiveacid.connect(spark, url, warehouse=warehouse) as acid:
            acid.sql("create table t (id bigint) tblproperties ('transactional'='true')")
            acid.table("t").insert(spark.range(3).repartition(2))
            assert rows(acid, "select * from t") == [(0,), (1,), (2,)]
            with pytest.raises(InvalidInputError, match="is not free"):
                acid.sql(
                    f"create table u (id int) location '{warehouse.replace('s3a', 's3')}/t'"
                    " tblproperties ('transactional'='true')"
                )
            plan = "\n".join(row[0] for row in acid.sql("explain select * from t").collect())
            assert "by hiveacid: Spark reads no files there" in plan
    logged = [one.getMessage() for one in caplog.records if one.name.startswith("hiveacid")]
    assert any("Spark reads no files of s3://" in text for text in logged)
    assert not any(s3.environment["AWS_SECRET_ACCESS_KEY"] in text for text in logged)


def rows(acid: Session, sql: str) -> list[tuple[object, ...]]:
    """Sorted."""
    return sorted((tuple(row) for row in acid.sql(sql).collect()), key=str)


@pytest.mark.parametrize(
    "clauses",
    [
        pytest.param(
            "stored as orc tblproperties ('transactional'='true')",
            marks=pytest.mark.long("storage", "spark", "statements", "compaction"),
        ),
        pytest.param(
            "clustered by (id) into 2 buckets stored as orc tblproperties ('transactional'='true')",
            marks=pytest.mark.long("storage", "spark", "compaction"),
        ),
        pytest.param(
            "stored as parquet tblproperties ('transactional'='true',"
            " 'transactional_properties'='insert_only')",
            marks=pytest.mark.long("storage", "spark", "statements"),
        ),
        "stored as orc",
    ],
    ids=["full", "bucketed", "insert-only", "plain"],
)
def test_statements_compaction_and_cleaning_on_s3(
    spark: SparkSession, acid: Session, clauses: str
) -> None:
    change(spark, acid, clauses)
    plan = "\n".join(row[0] for row in acid.sql("explain select * from t").collect())
    assert "by hiveacid: Spark reads no files there" in plan


@pytest.mark.java
@pytest.mark.long("storage", "spark")
def test_statements_compaction_and_cleaning_on_hdfs(
    spark: SparkSession, hdfs: str, tmp_path: Path
) -> None:
    with hiveacid.connect(
        spark,
        f"sqlite:///{tmp_path}/metastore.db",
        warehouse=f"{hdfs}/a warehouse/50%+ü",
        settings={"hiveacid.reads.local_bytes": "0"},
    ) as acid:
        change(spark, acid, "stored as orc tblproperties ('transactional'='true')")
        plan = "\n".join(row[0] for row in acid.sql("explain select * from t").collect())
        assert "FileScan orc" in plan and "by hiveacid" not in plan


def change(spark: SparkSession, acid: Session, clauses: str) -> None:
    """Table t, changed in all ways, compacted and cleaned."""
    acid.sql(f"create table t (id int, v string) partitioned by (p string) {clauses}")
    source = spark.range(6).selectExpr("cast(id as int) id", "concat('v', id) v", "'a b/%+é' p")
    acid.table("t").insert(source)
    acid.sql("insert into t partition (p) select id + 10, v, 'b' from t")
    expected = {n: (n, f"v{n}", "a b/%+é") for n in range(6)}
    expected |= {n + 10: (n + 10, f"v{n}", "b") for n in range(6)}
    assert rows(acid, "select * from t") == sorted(expected.values(), key=str)
    if "insert_only" in clauses or "transactional" not in clauses:
        assert rows(acid, "select count(*) from t where p = 'b'") == [(6,)]
        return
    acid.sql("update t set v = 'new' where id in (1, 11)")
    acid.sql("delete from t where id = 2")
    acid.sql(
        "merge into t using (select id + 3 as id, v, p from t where id < 2) s on t.id = s.id"
        " when matched and t.id = 3 then delete when matched then update set v = s.v"
        " when not matched then insert values (s.id, s.v, s.p)"
    )
    del expected[2], expected[3]
    for n, text in ((1, "new"), (11, "new"), (4, "new")):
        expected[n] = (n, text, expected[n][2])
    assert rows(acid, "select * from t") == sorted(expected.values(), key=str)
    for kind in ("minor", "major"):
        for p in ("a b/%+é", "b"):
            acid.sql(f"alter table t partition (p='{p}') compact '{kind}' and wait")
        assert rows(acid, "select * from t") == sorted(expected.values(), key=str)
    acid.sql("set hiveacid.retention_s = 0")
    acid.clean()
    assert rows(acid, "select * from t") == sorted(expected.values(), key=str)


@pytest.mark.long("spark", "storage")
def test_of_attempts_that_overlap_the_rows_of_one_are_there(
    spark: SparkSession, acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("create table t (id int, v string) tblproperties ('transactional'='true')")
    late: list[Callable[[], object]] = []

    def twice(*given: Any, **facts: Any) -> list[Any]:
        staged_by_spark(*given, **facts)
        late.append(lambda: staged_by_spark(*given, **facts))
        return staged_by_spark(*given, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(write, "staged_by_spark", twice)
        acid.table("t").insert(spark.range(6).selectExpr("cast(id as int) id", "uuid() v"))
        acid.sql("update t set v = uuid() where id < 3")
    expected = rows(acid, "select * from t")
    assert [row[0] for row in expected] == list(range(6)) and len(late) >= 1
    for again in late:
        again()
    assert rows(acid, "select * from t") == expected
    fs, path = acid.client.files.at(f"{acid.client.warehouse}/t")
    assert fs.uploads is not None and len(list(fs.uploads.begun(path))) >= 2
    acid.sql("set hiveacid.compactor.aborts_age_s = 0")
    acid.clean()
    assert list(fs.uploads.begun(path)) == []
    assert rows(acid, "select * from t") == expected


CHANGES = {
    "insert": "insert into t select id + 10, v from t where id < 2",
    "update": "update t set v = 'x' where id = 1",
    "merge": "merge into t using (select 1 id) s on t.id = s.id"
    " when matched then update set v = 'y'",
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_of_tasks_are_put_once_where_they_stay(
    spark: SparkSession, s3: S3Server, acid: Session, name: str
) -> None:
    acid.sql("create table t (id int, v string) tblproperties ('transactional'='true')")
    acid.table("t").insert(spark.range(4).selectExpr("cast(id as int) id", "'v' v").coalesce(1))
    with s3.requests() as made:
        acid.sql(CHANGES[name])
    assert not [one for one in made if "_hiveacid_staging_" in one]
    puts = [one for one in made if one.startswith("PUT")]
    sides = [one for one in puts if one.endswith("/_orc_acid_version")]
    files = [one for one in puts if "/bucket_" in one]
    assert len(puts) - len(sides) == len(files) == len(set(files))
    assert name == "insert" or len(files) == 2  # of an INSERT one a task
    assert len(sides) == (1 if name == "insert" else 2), "one for each directory"
    posts = [one for one in made if one.startswith("POST")]
    sent = 0 if name == "update" else len(files)
    assert len(posts) == 2 * sent, "few rows are written by the driver; the others begun, completed"
    assert sum(one.startswith("LIST") for one in made) == 1
    assert not [one for one in made if one.startswith("DELETE")]


def test_a_compaction_by_spark_sends_its_files_to_where_they_stay(
    s3: S3Server, acid: Session
) -> None:
    acid.sql("create table t (id int, v string) tblproperties ('transactional'='true')")
    for id in range(3):
        acid.sql(f"insert into t values ({id}, 'v')")
    acid.sql("set hiveacid.compactor.spark_bytes = 0")
    with s3.requests() as made:
        acid.sql("alter table t compact 'major' and wait")
    assert not [one for one in made if "_hiveacid_staging_" in one]
    assert sum(one.startswith("PUT") and "/bucket_" in one for one in made) == 1
    assert sum(one.startswith("POST") for one in made) == 2, "begun by the task, then completed"
    assert rows(acid, "select * from t") == [(0, "v"), (1, "v"), (2, "v")]


@pytest.mark.parametrize("local_bytes", ["0", "1000000"])
def test_a_select_lists_once_and_asks_for_each_file_once(
    spark: SparkSession, s3: S3Server, acid: Session, local_bytes: str
) -> None:
    acid.sql(
        "create table t (id int, v string) partitioned by (p int) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    for n in range(3):
        acid.sql(f"insert into t values ({n}, 'v', {n})")
    acid.sql("delete from t where id = 1")
    acid.sql(f"set hiveacid.reads.local_bytes = {local_bytes}")
    with s3.requests() as made:
        assert rows(acid, "select id, p from t") == [(0, 0), (2, 2)]
    count = Counter(one.partition(" ")[0] for one in made)
    assert count["LIST"] == 1
    assert set(count) == {"LIST", "GET"}, "the listing tells sizes"
    files = 4
    assert count["GET"] <= 2 * files, "a tail to plan with, and the file"
