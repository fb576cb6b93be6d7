"""What the demo does, on the public handles alone: ``acid.sql`` and ``acid.table``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiveacid.demo.meter import Meter
from hiveacid.demo.tpch import Input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

CREATE_ORDERS = """
create table orders (
    o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2),
    o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, o_comment string
)
clustered by (o_orderkey) into 4 buckets
stored as orc
tblproperties ('transactional' = 'true')
"""

CREATE_LINEITEM = """
create table lineitem (
    l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int,
    l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2),
    l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date,
    l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string,
    l_comment string
)
partitioned by (l_shipyear int)
stored as orc
tblproperties ('transactional' = 'true')
"""

UPDATE_LINEITEM = """
update lineitem
set l_discount = l_discount + 0.01, l_comment = concat('by air: ', l_comment)
where l_shipmode = 'AIR' and l_quantity >= 40
"""

# 0.10 is the highest discount there is before the UPDATE: those above it are its work.
DELETE_LINEITEM = """
delete from lineitem
where l_discount > 0.10 or (l_returnflag = 'R' and l_quantity < 3)
"""

COMPACT_ORDERS = "alter table orders compact 'major' and wait"

JOINED = """
select
    l_shipyear,
    o_orderpriority,
    count(*) as line_count,
    count(distinct o_orderkey) as order_count,
    sum(l_extendedprice * (1 - l_discount)) as revenue,
    max(o_totalprice) as highest_price,
    min(l_shipdate) as first_shipped
from orders join lineitem on o_orderkey = l_orderkey
where o_orderstatus <> 'F'
group by l_shipyear, o_orderpriority
order by l_shipyear, o_orderpriority
"""


def run(acid: Session, spark: SparkSession, made: Input, meter: Meter) -> list[tuple[Any, ...]]:
    """Create, load, merge, update, delete, compact and query; returns the joined query's rows."""
    with meter.step("create both tables"):
        acid.sql(CREATE_ORDERS)
        acid.sql(CREATE_LINEITEM)
    _load(acid, spark, made, meter)
    with meter.step("MERGE changes into orders") as step:
        merged = _merge(acid, spark, made)
        step.rows = (
            f"{merged.updated:,} updated, {merged.deleted:,} deleted, {merged.inserted:,} inserted"
        )
    with meter.step("UPDATE lineitem") as step:
        step.rows = f"{acid.sql(UPDATE_LINEITEM).rows:,} updated"
    with meter.step("DELETE from lineitem") as step:
        step.rows = f"{acid.sql(DELETE_LINEITEM).rows:,} deleted"
    with meter.step("COMPACT orders") as step:
        acid.sql(COMPACT_ORDERS)
        names = [one.path.rpartition("/")[2] for one in acid.table("orders").clean(dry_run=True)]
        base = next(name for name in names if name.startswith("base"))
        step.rows = f"{base} instead of {len(names) - 1} directories, which stay for old readers"
    with meter.step("query both, joined") as step:
        rows = [tuple(row) for row in acid.sql(JOINED).collect()]
        step.rows = f"{len(rows):,} groups"
    return rows


def _load(acid: Session, spark: SparkSession, made: Input, meter: Meter) -> None:
    from pyspark.sql import functions as F

    with meter.step("load orders") as step:
        loaded = acid.table("orders").insert(spark.read.parquet(str(made.orders)))
        step.rows = f"{loaded.rows:,} inserted"
    with meter.step("load lineitem") as step:
        lines = spark.read.parquet(str(made.lineitem))
        by_year = lines.withColumn("l_shipyear", F.year("l_shipdate"))
        step.rows = f"{acid.table('lineitem').insert(by_year).rows:,} inserted"


def _merge(acid: Session, spark: SparkSession, made: Input) -> Any:
    changes = spark.read.parquet(str(made.changes))
    columns = [name for name in changes.columns if name != "op"]
    return (
        acid.table("orders")
        .merge(changes, on="t.o_orderkey = s.o_orderkey")
        .when_matched_delete(where="s.op = 'D'")
        .when_matched_update(
            {name: f"s.{name}" for name in ("o_orderstatus", "o_totalprice", "o_comment")}
        )
        .when_not_matched_insert({name: f"s.{name}" for name in columns})
        .run()
    )
