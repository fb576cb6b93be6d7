"""The workloads as data: what is compared with what, and the limit each must keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

Q1: Final = """
select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
    sum(l_extendedprice * (1 - l_discount)),
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from {table}
where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus
order by l_returnflag, l_linestatus
"""
QUERIES: Final = {
    "q3": """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) revenue, o_orderdate, o_shippriority
from {side}customer join {side}orders on c_custkey = o_custkey
    join {table} on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15'
    and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate, l_orderkey limit 10
""",
    "q6": """
select sum(l_extendedprice * l_discount) from {table}
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
    and l_discount between 0.05 and 0.07 and l_quantity < 24
""",
    "q14": """
select 100.00
    * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
    / sum(l_extendedprice * (1 - l_discount))
from {table} join {side}part on l_partkey = p_partkey
where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
""",
    "q18": """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
from {side}customer join {side}orders on c_custkey = o_custkey
    join {table} on o_orderkey = l_orderkey
where o_orderkey in
    (select l_orderkey from {table} group by l_orderkey having sum(l_quantity) > 300)
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate, o_orderkey limit 100
""",
}
"""TPC-H's, over the same tables on both sides; ``side`` is the prefix of its views."""
COUNT: Final = "select count(*) from {table}"
ALL_COLUMNS: Final = "select * from {table}"
DELETE_KEYS: Final = """
delete from {table} where exists (
    select 1 from deleted_keys k
    where k.l_orderkey = {table}.l_orderkey and k.l_linenumber = {table}.l_linenumber
)
"""
MERGE_CHANGES: Final = """
merge into {table} t using changes s
on t.l_orderkey = s.l_orderkey and t.l_linenumber = s.l_linenumber
when matched then update set *
when not matched then insert *
"""


class Unit(Enum):
    """What a limit limits."""

    RATIO = "x"
    """our median by the other side's, both of wall and of CPU seconds"""
    PER_ROW = "x a row"
    """the same, for each row that is stored"""
    SECONDS = "s"
    """our median alone"""
    MIB = "MiB"
    """our highest peak of resident memory"""


@dataclass(frozen=True, slots=True)
class Workload:
    """``other`` names the other side, empty where the limit is on our seconds alone.

    ``jobs_max``: how many Spark jobs one statement may run; None where there is no limit.
    """

    name: str
    stage: str
    title: str
    other: str
    at_most: float
    unit: Unit
    jobs_max: int | None = None


WORKLOADS: Final = (
    Workload("load", "load", "load lineitem", "Spark's ORC writer", 0.95, Unit.RATIO),
    Workload("q1", "scan", "TPC-H q1", "flat ORC", 1.0, Unit.RATIO),
    Workload("full", "scan", "full scan of all columns", "flat ORC", 1.0, Unit.RATIO),
    Workload("count", "scan", "count(*)", "flat ORC", 3.0, Unit.RATIO),
    Workload("delete", "delete", "DELETE of scattered rows", "", 10.0, Unit.SECONDS),
    Workload("q1_deleted", "delete", "q1 after that DELETE", "q1 of clean table", 1.05, Unit.RATIO),
    Workload("full_deleted", "delete", "full scan after it", "that of clean", 1.05, Unit.RATIO),
    Workload("merge", "merge", "MERGE, 70 % update, 30 % insert", "our load", 1.5, Unit.RATIO),
    Workload("q1_merged", "merged", "q1 after three MERGEs", "flat ORC", 1.1, Unit.PER_ROW),
    Workload("full_merged", "merged", "full scan after them", "flat ORC", 1.1, Unit.PER_ROW),
    Workload("q3", "queries", "TPC-H q3", "flat ORC", 1.05, Unit.RATIO),
    Workload("q6", "queries", "TPC-H q6", "flat ORC", 1.05, Unit.RATIO),
    Workload("q14", "queries", "TPC-H q14", "flat ORC", 1.05, Unit.RATIO),
    Workload("q18", "queries", "TPC-H q18", "flat ORC", 1.05, Unit.RATIO),
    Workload("insert", "insert", "INSERT VALUES, p50", "", 0.060, Unit.SECONDS, jobs_max=0),
    Workload("insert_count", "insert", "count(*) after the INSERTs", "", 2.0, Unit.SECONDS),
    Workload("lookup", "lookup", "rows of a key, 7 x 8 buckets", "full scan", 0.3, Unit.RATIO),
    Workload("range", "lookup", "0.1 % range of a key", "full scan", 0.3, Unit.RATIO),
    Workload("partitions", "lookup", "both halves of the years", "full scan", 1.2, Unit.RATIO),
    Workload("arrow_key", "lookup", "read_arrow of a key", "", 0.3, Unit.SECONDS),
    Workload("update_one", "lookup", "UPDATE of a key", "", 1.0, Unit.SECONDS),
    Workload("deltas", "deltas", "q1, 50 deltas, 1 % deleted", "clean table", 1.3, Unit.RATIO),
    Workload("dynamic", "dynamic", "write 1,000 partitions", "Spark's ORC writer", 2, Unit.RATIO),
    Workload("plan_one", "many", "plan 1 of 10,000 partitions", "", 1.0, Unit.SECONDS),
    Workload("plan_all", "many", "plan 10,000 partitions", "", 30.0, Unit.SECONDS),
    Workload("at_once", "concurrent", "4 threads x 10 UPDATEs, own rows", "", 40.0, Unit.SECONDS),
    Workload("minor", "compaction", "minor of 50 deltas", "decoded, written", 0.2, Unit.RATIO),
    Workload("minor_read", "compaction", "q1 after it", "q1 of clean table", 1.15, Unit.RATIO),
    Workload("major", "compaction", "major, 10 % deleted", "ORC read, written", 1.25, Unit.RATIO),
    Workload("major_memory", "compaction", "major of a 1 GiB bucket", "", 1536, Unit.MIB),
)
STAGES: Final = tuple(dict.fromkeys(workload.stage for workload in WORKLOADS))
