"""The option ``filter`` of ``spark.read.format("hiveacid")``: right rows, and less that is read."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.session import Session

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
ACID = "stored as orc tblproperties ('transactional'='true')"


def planned(session: Session, text: str, **options: str) -> tuple[Any, Any]:
    """What reads the table, and what it planned to read."""
    from hiveacid.connectors.data_source import HiveAcidDataSource

    given = {"metastore": session.client.metastore.url, "table": "t", "filter": text, **options}
    source = HiveAcidDataSource(given)
    reader: Any = source.reader(source.schema())
    with reader._options.connect() as other:
        lease, plan = reader._plan(other)
        lease.close()
    return reader, plan


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A session without Spark, with a table of two partitions, of two stripes each."""
    root = tmp_path_factory.mktemp("alone")
    url = f"sqlite:///{root}/metastore.db"
    with hiveacid.connect(None, url, warehouse=root / "wh") as session:
        session.sql(f"create table t (id int, c char(4)) partitioned by (p int) {ACID}")
        session.sql("alter table t set tblproperties ('orc.stripe.size'='65536')")
        rows = [
            {"id": part * 100_000 + number, "c": f"n{number % 9}", "p": part}
            for part in (1, 2)
            for number in range(40_000)
        ]
        session.table("t").write_arrow(rows)
        session.sql("insert into t values (-1, null, null)")
        yield session


CASES = {
    "p = 1 and id < 100005": (1, list(range(100_000, 100_005))),
    "id = 239999": (1, [239_999]),
    "id < 0": (1, [-1]),
    "p is null": (1, [-1]),
    "id > 1000000": (0, []),
    "c = 'n3' and id between 100000 and 100010": (1, [100_003]),
}


@pytest.mark.parametrize("fresh", ["true", "false"])
@pytest.mark.parametrize("text", CASES)
def test_partitions_and_stripes_without_such_rows_are_not_read(
    alone: Session, text: str, fresh: str
) -> None:
    parts, expected = CASES[text]
    reader, plan = planned(alone, text, fresh=fresh)
    assert len(plan.parts) == parts
    _, whole = planned(alone, "id > -5")
    assert plan.amount.bytes < whole.amount.bytes / 2
    if parts and "id" in text and "p is" not in text:
        assert plan.amount.rows < 40_000
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    assert sorted(value.as_py() for batch in batches for value in batch.column(0)) == expected


@pytest.mark.long("connectors", "reading", "spark")
def test_a_frame_and_a_view_have_theirs(acid: Session, spark: SparkSession) -> None:
    acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
    acid.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'b')")
    url = acid.client.metastore.url
    frame = spark.read.format("hiveacid").options(metastore=url, filter="p = 'b'").load("t")
    assert sorted(row.id for row in frame.collect()) == [2, 3]
    assert [row.id for row in frame.where("id > 2").collect()] == [3]
    assert frame.where("p = 'a'").count() == 0
    options = f"table 't', metastore '{url}', filter 'id < 3'"
    spark.sql(f"create or replace temporary view v using hiveacid options ({options})")
    try:
        joined = "select v.id from v join v w on v.id = w.id where w.p = 'b'"
        assert [row.id for row in spark.sql(joined).collect()] == [2]
    finally:
        spark.catalog.dropTempView("v")


WRONG = {
    "no column 'nothing'": "nothing = 1",
    "does not compare": "id = 'x'",
    "is not understood here": "id = ",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_filter_that_is_none_is_named(alone: Session, words: str) -> None:
    with pytest.raises(AcidError, match=words):
        planned(alone, WRONG[words])


def test_changes_take_no_filter(alone: Session) -> None:
    with pytest.raises(InvalidInputError, match="filter does not go with readChangeFeed"):
        planned(alone, "id = 1", readChangeFeed="true", startingVersion="1")
