"""Thirty steps of the public tutorial of Delta Lake (quick start, batch reads and writes, update,
merge, streaming), written anew with no change but the word: what a newcomer types on his first day.

Each is a function of the session and a directory. It ends with the rows that prove it; ``STEPS``
has what they are, and docs/spark.md the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit

from hiveacid.tables import HiveacidTable

Snippet = Callable[[SparkSession, str], Any]
PEOPLE = "id int, firstName string, country string, salary int"


@dataclass(frozen=True)
class Step:
    """One step: what it does, its code, the rows at its end; from which version of Spark on it
    runs, and whether it does ``here`` only, not where Spark Connect runs a function in its server.
    """

    part: str
    title: str
    code: Snippet
    rows: list[tuple[Any, ...]]
    spark: int = 3
    here: bool = False


STEPS: list[Step] = []


def step(
    part: str,
    title: str,
    rows: list[tuple[Any, ...]],
    *,
    spark: int = 3,
    here: bool = False,
) -> Callable[[Snippet], Snippet]:
    """Puts a function into the list."""

    def put(code: Snippet) -> Snippet:
        STEPS.append(Step(part, title, code, rows, spark, here))
        return code

    return put


def people(spark: SparkSession) -> None:
    """A table for steps that begin with one."""
    rows = [(1, "Ann", "DE", 100), (2, "Bo", "FR", 200), (3, "Cy", "FR", 300)]
    frame = spark.createDataFrame(rows, PEOPLE)
    frame.write.format("hiveacid").partitionBy("country").saveAsTable("people")


def ids(*numbers: int) -> list[tuple[int]]:
    return [(number,) for number in numbers]


QUICK, BATCH, CHANGE, STREAM = "Quick start", "Batch", "Update and merge", "Streaming"


@step(QUICK, "`df.write.format(...).save(path)`", ids(0, 1, 2, 3, 4))
def save_to_a_path(spark: SparkSession, where: str) -> DataFrame:
    data = spark.range(0, 5)
    data.write.format("hiveacid").save(f"{where}/table")
    return spark.read.format("hiveacid").load(f"{where}/table")


@step(QUICK, "``CREATE TABLE hiveacid.`path` USING hiveacid AS SELECT``", ids(0, 1, 2, 3, 4))
def create_at_a_path(spark: SparkSession, where: str) -> DataFrame:
    spark.sql(f"""
        CREATE TABLE hiveacid.`{where}/table` USING HIVEACID AS
        SELECT col1 AS id FROM VALUES 0, 1, 2, 3, 4
    """)
    return spark.sql(f"SELECT * FROM hiveacid.`{where}/table`")


@step(QUICK, "`mode('overwrite').save(path)`", ids(5, 6, 7, 8, 9))
def overwrite_a_path(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0, 5).write.format("hiveacid").save(f"{where}/table")
    data = spark.range(5, 10)
    data.write.format("hiveacid").mode("overwrite").save(f"{where}/table")
    df = spark.read.format("hiveacid").load(f"{where}/table")
    df.show()
    return df


@step(QUICK, "conditional update without overwrite, by path", ids(1, 3, 100, 102, 104))
def update_every_even_value(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0, 5).write.format("hiveacid").save(f"{where}/table")
    hiveacidTable = HiveacidTable.forPath(spark, f"{where}/table")
    hiveacidTable.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    return hiveacidTable.toDF()


@step(QUICK, "conditional delete, by path and in SQL", ids(3))
def delete_every_even_value(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0, 5).write.format("hiveacid").save(f"{where}/table")
    hiveacidTable = HiveacidTable.forPath(spark, f"{where}/table")
    hiveacidTable.delete(condition=expr("id % 2 == 0"))
    spark.sql(f"DELETE FROM hiveacid.`{where}/table` WHERE id = 1")
    return hiveacidTable.toDF()


@step(QUICK, "upsert: merge of a DataFrame", ids(*range(20)))
def upsert_new_data(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0, 5).write.format("hiveacid").save(f"{where}/table")
    hiveacidTable = HiveacidTable.forPath(spark, f"{where}/table")
    newData = spark.range(0, 20)
    hiveacidTable.alias("oldData").merge(
        newData.alias("newData"), "oldData.id = newData.id"
    ).whenMatchedUpdate(set={"id": col("newData.id")}).whenNotMatchedInsert(
        values={"id": col("newData.id")}
    ).execute()
    return hiveacidTable.toDF()


@step(QUICK, "read an older version", ids(0, 1))
def older_version(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0, 2).write.format("hiveacid").save(f"{where}/table")
    spark.range(5, 9).write.format("hiveacid").mode("overwrite").save(f"{where}/table")
    return spark.read.format("hiveacid").option("versionAsOf", 1).load(f"{where}/table")


@step(BATCH, "`CREATE TABLE IF NOT EXISTS` with columns, comments, a location", [(1, "Ann", None)])
def create_with_columns(spark: SparkSession, where: str) -> DataFrame:
    for _ in range(2):
        spark.sql(f"""
            CREATE TABLE IF NOT EXISTS default.people (
                id INT, firstName STRING COMMENT 'the first one', birthDate TIMESTAMP
            ) USING hiveacid COMMENT 'who they are' LOCATION '{where}/people'
        """)
    spark.sql("INSERT INTO people (id, firstName) VALUES (1, 'Ann')")
    return spark.table("default.people")


@step(BATCH, "`CREATE OR REPLACE TABLE`, other columns", [("x", 1)])
def create_or_replace(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    spark.sql("CREATE OR REPLACE TABLE people (name STRING, n INT) USING hiveacid")
    spark.sql("INSERT INTO people VALUES ('x', 1)")
    return spark.sql("SELECT * FROM people")


@step(BATCH, "`saveAsTable`", ids(0, 1))
def save_as_table(spark: SparkSession, where: str) -> DataFrame:
    df = spark.range(2)
    df.write.format("hiveacid").saveAsTable("default.numbers")
    return spark.read.table("default.numbers")


@step(BATCH, "the table builder", [(1, "Ann")])
def build_a_table(spark: SparkSession, where: str) -> DataFrame:
    (
        HiveacidTable.createIfNotExists(spark)
        .tableName("default.people")
        .addColumn("id", "INT")
        .addColumn("firstName", "STRING", comment="the first one")
        .property("description", "table with people data")
        .execute()
    )
    spark.sql("INSERT INTO people VALUES (1, 'Ann')")
    return HiveacidTable.forName(spark, "people").toDF()


@step(BATCH, "partitions: `PARTITIONED BY`, `partitionBy`", [(1, "a", "DE"), (2, "b", "FR")])
def partition_data(spark: SparkSession, where: str) -> DataFrame:
    spark.sql("""
        CREATE TABLE t (id INT, name STRING, country STRING) USING hiveacid PARTITIONED BY (country)
    """)
    df = spark.createDataFrame(
        [(1, "a", "DE"), (2, "b", "FR")], "id int, name string, country string"
    )
    df.write.format("hiveacid").partitionBy("country").mode("append").saveAsTable("t")
    return spark.table("t").where("country in ('DE', 'FR')")


@step(BATCH, "append: `INSERT INTO`, `mode('append')`", ids(1, 2, 3, 4, 5))
def append(spark: SparkSession, where: str) -> DataFrame:
    spark.range(1, 3).write.format("hiveacid").saveAsTable("t")
    spark.sql("INSERT INTO t SELECT id + 2 FROM t")
    spark.range(5, 6).write.format("hiveacid").mode("append").saveAsTable("t")
    return spark.table("t")


@step(BATCH, "overwrite: `INSERT OVERWRITE`, `mode('overwrite')`", [(9, "Zoe", "IT", 900)])
def overwrite(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    spark.sql("INSERT OVERWRITE TABLE people SELECT id, firstName, salary, country FROM people")
    df = spark.createDataFrame([(9, "Zoe", "IT", 900)], PEOPLE)
    df.write.mode("overwrite").saveAsTable("people")
    return spark.table("people").select("id", "firstName", "country", "salary")


@step(BATCH, "selective overwrite: `replaceWhere`", ids(1, 7))
def replace_where(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    df = spark.createDataFrame([(7, "Zoe", "FR", 900)], PEOPLE)
    (
        df.write.mode("overwrite")
        .option("replaceWhere", "country = 'FR' AND salary >= 200")
        .saveAsTable("people")
    )
    return spark.table("people").select("id")


@step(BATCH, "dynamic partition overwrite, `insertInto`", ids(1, 7, 8))
def dynamic_overwrite(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    df = spark.createDataFrame([(7, "Zoe", 900, "FR")], "id int, f string, s int, c string")
    df.write.option("partitionOverwriteMode", "dynamic").insertInto("people", overwrite=True)
    spark.createDataFrame([(8, "X", 1, "IT")], df.schema).write.insertInto("people")
    return spark.table("people").select("id")


@step(BATCH, "`writeTo`: create, append, overwritePartitions, overwrite", ids(1, 4, 5))
def write_to(spark: SparkSession, where: str) -> DataFrame:
    df = spark.createDataFrame([(1, "a"), (2, "b")], "id int, p string")
    df.writeTo("t").using("hiveacid").partitionedBy(col("p")).create()
    df.withColumn("p", lit("c")).writeTo("t").append()
    spark.createDataFrame([(3, "b"), (4, "c")], df.schema).writeTo("t").overwritePartitions()
    spark.createDataFrame([(5, "b")], df.schema).writeTo("t").overwrite(col("p") == "b")
    return spark.table("t").select("id")


@step(BATCH, "`writeTo(...).createOrReplace()`", ids(7))
def create_or_replace_frame(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    spark.range(7, 8).writeTo("people").using("hiveacid").createOrReplace()
    return spark.table("people")


@step(BATCH, "schema evolution: `mergeSchema`", [(1, None), (2, "new")])
def merge_schema(spark: SparkSession, where: str) -> DataFrame:
    spark.range(1, 2).write.format("hiveacid").saveAsTable("t")
    df = spark.createDataFrame([(2, "new")], "id bigint, more string")
    df.write.format("hiveacid").mode("append").option("mergeSchema", "true").saveAsTable("t")
    return spark.table("t")


@step(BATCH, "`overwriteSchema`", [("x",)])
def overwrite_schema(spark: SparkSession, where: str) -> DataFrame:
    spark.range(1, 2).write.format("hiveacid").saveAsTable("t")
    df = spark.createDataFrame([("x",)], "name string")
    (
        df.write.format("hiveacid")
        .mode("overwrite")
        .option("overwriteSchema", "true")
        .saveAsTable("t")
    )
    return spark.table("t")


@step(BATCH, "`ALTER TABLE`: columns, properties; `DESCRIBE`, `SHOW`", [("id",), ("more",)])
def alter(spark: SparkSession, where: str) -> DataFrame:
    spark.sql("CREATE TABLE t (id INT) USING hiveacid")
    spark.sql("ALTER TABLE t ADD COLUMNS (more STRING COMMENT 'x')")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('department' = 'accounting')")
    shown = spark.sql("SHOW TBLPROPERTIES t").collect()
    assert any("accounting" in str(row) for row in shown)
    assert any("more" in str(row) for row in spark.sql("DESCRIBE TABLE t").collect())
    assert spark.catalog.tableExists("t")
    return spark.sql("SHOW COLUMNS IN t")


@step(BATCH, "views over tables", ids(1))
def views(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    spark.sql(
        "CREATE OR REPLACE VIEW germans AS SELECT id, firstName FROM people WHERE country = 'DE'"
    )
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW first AS SELECT id FROM germans")
    return spark.sql("SELECT v.id FROM first v JOIN germans USING (id)")


@step(BATCH, "idempotent writes: `txnAppId`, `txnVersion`", ids(0))
def idempotent_writes(spark: SparkSession, where: str) -> DataFrame:
    spark.range(0).write.format("hiveacid").saveAsTable("t")
    for _ in range(2):
        (
            spark.range(1)
            .write.format("hiveacid")
            .option("txnVersion", 23)
            .option("txnAppId", "job")
            .mode("append")
            .saveAsTable("t")
        )
    return spark.table("t")


@step(CHANGE, "`UPDATE` and `DELETE`, in SQL and by `forName`", [(1, 110), (3, 310)])
def update_and_delete(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    spark.sql("UPDATE people SET salary = salary + 5 WHERE country = 'DE'")
    hiveacidTable = HiveacidTable.forName(spark, "people")
    hiveacidTable.update(condition="country = 'DE'", set={"salary": "salary + 5"})
    hiveacidTable.update(condition=col("id") == 3, set={"salary": col("salary") + 10})
    spark.sql("DELETE FROM people WHERE id = 2")
    return spark.table("people").select("id", "salary")


@step(
    CHANGE,
    "`MERGE INTO` in SQL, from a temporary view",
    [(1, "Ann"), (2, "New"), (3, "Cy"), (9, "Z")],
)
def merge_sql(spark: SparkSession, where: str) -> DataFrame:
    people(spark)
    updates = spark.createDataFrame([(2, "New"), (9, "Z")], "id int, firstName string")
    updates.createOrReplaceTempView("updates")
    spark.sql("""
        MERGE INTO people USING updates ON people.id = updates.id
        WHEN MATCHED THEN UPDATE SET firstName = updates.firstName
        WHEN NOT MATCHED THEN INSERT (id, firstName, country)
          VALUES (updates.id, updates.firstName, 'IT')
    """)
    spark.catalog.dropTempView("updates")
    return spark.sql("SELECT id, firstName FROM people")


@step(CHANGE, "insert-only merge: no duplicates", ids(1, 2, 3))
def deduplicate(spark: SparkSession, where: str) -> DataFrame:
    spark.range(1, 3).write.format("hiveacid").saveAsTable("logs")
    newLogs = spark.range(2, 4)
    hiveacidTable = HiveacidTable.forName(spark, "logs")
    hiveacidTable.alias("logs").merge(
        newLogs.alias("newLogs"), "logs.id = newLogs.id"
    ).whenNotMatchedInsertAll().execute()
    return spark.table("logs")


@step(CHANGE, "a change feed: update, delete, insert in one merge", [("a", "10"), ("c", "30")])
def change_data(spark: SparkSession, where: str) -> DataFrame:
    spark.createDataFrame([("a", "0"), ("b", "1")], "key string, value string").write.format(
        "hiveacid"
    ).saveAsTable("target")
    rows = [("a", "10", False), ("b", None, True), ("c", "30", False)]
    changes = spark.createDataFrame(rows, "key string, newValue string, deleted boolean")
    (
        HiveacidTable.forName(spark, "target")
        .alias("t")
        .merge(changes.alias("s"), "s.key = t.key")
        .whenMatchedDelete(condition="s.deleted = true")
        .whenMatchedUpdate(set={"key": "s.key", "value": "s.newValue"})
        .whenNotMatchedInsert(
            condition="s.deleted = false", values={"key": "s.key", "value": "s.newValue"}
        )
        .execute()
    )
    return spark.table("target")


@step(CHANGE, "merge of a snapshot: `whenNotMatchedBySource`", [(1, "n"), (2, "gone"), (3, "n")])
def incremental_sync(spark: SparkSession, where: str) -> DataFrame:
    spark.sql("CREATE TABLE target (id INT, status STRING) USING hiveacid")
    spark.sql("INSERT INTO target VALUES (1, 'o'), (2, 'o')")
    source = spark.createDataFrame([(1, "n"), (3, "n")], "id int, status string")
    (
        HiveacidTable.forName(spark, "target")
        .merge(source.alias("source"), "source.id = target.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceUpdate(set={"status": "'gone'"})
        .execute()
    )
    return spark.table("target")


@step(STREAM, "`writeStream` and `readStream` of tables", ids(0, 1, 2), spark=4)
def stream_between_tables(spark: SparkSession, where: str) -> DataFrame:
    spark.range(3).write.format("hiveacid").saveAsTable("events")
    spark.sql("CREATE TABLE copy (id BIGINT) USING hiveacid")
    query = (
        spark.readStream.format("hiveacid")
        .table("events")
        .writeStream.format("hiveacid")
        .outputMode("append")
        .option("checkpointLocation", f"{where}/_checkpoints/copy")
        .trigger(availableNow=True)
        .toTable("copy")
    )
    query.awaitTermination()
    return spark.table("copy")


@step(STREAM, "upsert of micro-batches: `foreachBatch` and merge", ids(0, 1, 2), here=True)
def stream_upsert(spark: SparkSession, where: str) -> DataFrame:
    spark.range(2).write.format("hiveacid").saveAsTable("t")
    spark.range(3).write.json(f"{where}/in")
    hiveacidTable = HiveacidTable.forName(spark, "t")

    def upsertToTable(microBatchOutputDF: DataFrame, batchId: int) -> None:
        (
            hiveacidTable.alias("t")
            .merge(microBatchOutputDF.alias("s"), "s.id = t.id")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
        microBatchOutputDF.createOrReplaceTempView("batch")
        microBatchOutputDF.sparkSession.sql("DELETE FROM t WHERE id NOT IN (SELECT id FROM batch)")

    query = (
        spark.readStream.schema("id bigint")
        .json(f"{where}/in")
        .writeStream.foreachBatch(upsertToTable)
        .option("checkpointLocation", f"{where}/_checkpoints/t")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table("t")
