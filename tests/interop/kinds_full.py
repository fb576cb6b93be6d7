"""Full ACID tables: with and without buckets and partitions; every statement that writes."""

from __future__ import annotations

import pyarrow as pa
from tests.interop.kinds import Kind, Workplace

_DML = (
    "insert into {t} values (1,'a',10),(2,'b',20),(3,null,30),(null,'d',40),(5,'',null)",
    "insert into {t} select id + 10, concat('row ', id), id * 1000 from numbers where id < 40",
    "update {t} set n = n + 1 where id % 3 = 0",
    "delete from {t} where id in (1, 13) or id > 45",
    "merge into {t} t using changes s on t.id = s.id"
    " when matched and s.op = 'd' then delete"
    " when matched then update set n = -s.id"
    " when not matched then insert values (s.id, concat('new ', s.op), 7)",
    "insert into {t} values (3000000, 'driver write', 0)",
)
_HIVE_DML = (
    "update {t} set n = 5 where id in (2, 20, 21, 22, 3000000)",
    "delete from {t} where id in (5, 23, 24) or id is null",
)


def _without_spark(place: Workplace) -> None:
    """Inserts, a merge with its three clauses and deletes, of Arrow data."""
    table = place.without_spark.table(place.table)
    ids = pa.array(range(60), pa.int32())
    columns = {"id": ids, "v": [f"arrow {i}" for i in range(60)], "d": [i / 4 for i in range(60)]}
    table.write_arrow(pa.table({**columns, "p": ["x" if i % 2 else "y z" for i in range(60)]}))
    one = {"id": pa.array([1000], pa.int32()), "v": [None], "d": [-0.5]}
    table.write_arrow(pa.table(one), partition={"p": "static"})
    changes = {"id": pa.array([3, 4, 2000], pa.int32()), "v": ["m", "gone", "new"]}
    more = {"d": [0.0, 0.0, 9.5], "p": ["x", "y z", "x"]}
    table.merge_arrow(pa.table({**changes, **more}), on=["id", "p"], delete_where="v = 'gone'")
    table.delete_arrow("id in (7, 8, 9)")
    table.delete_arrow(pa.table({"id": pa.array([10, 11, 5555], pa.int32())}))
    table.write_arrow(
        pa.table({"id": pa.array([77], pa.int32()), "v": ["over"], "d": [1.0]}),
        partition={"p": "static"},
        overwrite=True,
    )


FULL = (
    Kind("flat", "id int, v string, n bigint", _DML, _HIVE_DML, ci=True),
    Kind("bucket_int", "id int, v string, n bigint", _DML, _HIVE_DML, clustered_by="(id) into 3"),
    Kind("bucket_text", "id int, v string, n bigint", _DML, _HIVE_DML, clustered_by="(v) into 4"),
    Kind(
        "part",
        "id int, v string",
        (
            "insert into {t} values (1,'a','x',1),(2,'b','x',2),(3,'c','50% a/b=c',1),"
            "(4,'d','ü ö',null),(5,'e',null,7),(6,'f',null,null)",
            "insert into {t} partition (p, n) select id + 100, concat('r', id),"
            " if(id % 2 = 0, 'x', '50% a/b=c'), 1 from numbers where id < 20",
            "insert into {t} partition (p='x', n=2) values (7,'static')",
            "update {t} set v = upper(v) where id in (1, 3, 4, 5, 6, 102)",
            "delete from {t} where id in (104, 105)",
            "merge into {t} t using (select 2 id, 'x' p union all select 101, 'd'"
            " union all select 900, 'new') s on t.id = s.id"
            " when matched and s.p = 'd' then delete when matched then update set v = 'merged'"
            " when not matched then insert values (s.id, 'inserted', s.p, 9)",
        ),
        (
            "update {t} set v = 'hive' where id in (3, 5, 6, 106)",
            "delete from {t} where id in (4, 107)",
        ),
        partitioned_by="p string, n int",
        ci=True,
        compact=("p='x', n=1", "p='x', n=2"),
    ),
    Kind(
        "part_bucket",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id), date_add(date'2024-02-28', id % 3)"
            " from numbers where id < 60",
            "insert into {t} values (1000, 'one', date'1969-12-31')",
            "update {t} set v = 'u' where id % 7 = 0",
            "delete from {t} where d = '2024-02-29' and id < 20",
        ),
        ("update {t} set v = 'hive' where id < 5", "delete from {t} where id in (1000, 30, 31)"),
        partitioned_by="d date",
        clustered_by="(id) into 2",
        ci=True,
        compact=("d='2024-02-29'", "d='1969-12-31'"),
    ),
    Kind(
        "stripes",
        "id int, v string, n bigint",
        (
            "insert into {t} select id * 10 + k, concat(v, ' ', sha2(cast(id * 10 + k as string),"
            " 256)), id from numbers join (select 0 k, 'a' v union all select 1, 'b' union all"
            " select 2, 'c' union all select 3, 'd' union all select 4, 'e') on true",
            "update {t} set v = 'u' where id % 7 = 3",
            "delete from {t} where id % 11 = 5",
        ),
        ("update {t} set n = -1 where id < 40", "delete from {t} where id > 29000"),
        ci=True,
        properties="'orc.stripe.size'='65536', 'orc.row.index.stride'='1000'",
    ),
    Kind(
        "overwrite",
        "id int, v string",
        (
            "insert into {t} values (1,'gone'),(2,'gone')",
            "insert overwrite table {t} select id, concat('o', id) from numbers where id < 30",
            "insert into {t} values (100,'later')",
            "update {t} set v = 'u' where id in (3, 100)",
            "delete from {t} where id = 4",
        ),
        ("update {t} set v = 'hive' where id in (3, 5)", "delete from {t} where id = 6"),
        ci=True,
    ),
    Kind(
        "part_overwrite",
        "id int, v string",
        (
            "insert into {t} values (1,'gone','x'),(2,'stays','y'),(3,'gone','z')",
            "insert overwrite table {t} partition (p='x') values (10,'static')",
            "insert overwrite table {t} partition (p) select id + 20, 'dynamic', 'z'"
            " from numbers where id < 5",
            "update {t} set v = 'u' where id in (10, 2, 21)",
            "delete from {t} where id = 22",
        ),
        ("update {t} set v = 'hive' where id in (2, 23)", "delete from {t} where id = 24"),
        partitioned_by="p string",
        compact=("p='x'", "p='z'"),
    ),
    Kind(
        "truncated",
        "id int, v string",
        (
            "insert into {t} values (1,'gone'),(2,'gone')",
            "delete from {t}",
            "insert into {t} values (3,'after'),(4,'after')",
            "delete from {t} where id = 4",
        ),
        ("update {t} set v = 'hive' where id = 3", "delete from {t} where id = 99"),
        hive_3=False,
    ),
    Kind(
        "overwrite_empty",
        "id int, v string",
        (
            "insert into {t} values (1,'gone'),(2,'gone')",
            "insert overwrite table {t} select id, 'none' from numbers where id < 0",
            "insert into {t} values (3,'after'),(4,'after'),(5,'after')",
            "delete from {t} where id = 4",
        ),
        ("update {t} set v = 'hive' where id = 3", "insert into {t} values (6, 'hive')"),
    ),
    Kind(
        "part_overwrite_empty",
        "id int, v string",
        (
            "insert into {t} values (1,'gone','x'),(2,'stays','y'),(3,'gone','z')",
            "insert overwrite table {t} partition (p='x') select id, 'none' from numbers"
            " where id < 0",
            "insert overwrite table {t} partition (p) select id, 'none', 'y' from numbers"
            " where id < 0",
            "truncate table {t} partition (p='z')",
            "insert into {t} values (4,'after','z')",
            "insert into {t} partition (p='new') select id, 'none' from numbers where id < 0",
        ),
        ("update {t} set v = 'hive' where id > 0", "insert into {t} values (6, 'hive', 'x')"),
        partitioned_by="p string",
        compact=("p='x'", "p='z'"),
        hive_3=False,
    ),
    Kind(
        "branches",
        "id int, v string",
        (
            "from numbers insert into {t} partition (p='a') select id, 'first' where id < 5"
            " insert into {t} partition (p='b') select id, 'second' where id between 5 and 9",
            "insert into {t} partition (p='a') select 20, 'u1' union all select 21, 'u2'"
            " union all select 22, 'u3'",
            "from numbers insert overwrite table {t} partition (p='b') select id, 'third'"
            " where id between 7 and 12 insert into {t} partition (p='c') select id, 'c'"
            " where id < 3",
            "update {t} set v = concat(v, '!') where id in (3, 8, 21)",
            "delete from {t} where id in (4, 22, 12)",
        ),
        ("update {t} set v = 'hive' where id in (1, 20)", "delete from {t} where id = 9"),
        partitioned_by="p string",
        compact=("p='a'", "p='b'"),
    ),
    Kind(
        "few_rows",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id), id % 3 from numbers where id < 300",
            "insert into {t} select id + 300, concat('s', id), id % 3 from numbers where id < 300",
            "update {t} set v = 'one' where id = 7",
            "update {t} set v = concat(v, '+') where id in (8, 307, 308)",
            "delete from {t} where id = 9",
            "delete from {t} where id between 20 and 22 and p = 1",
            "update {t} set v = 'again' where id = 7",
            "delete from {t} where id = 7",
            "update {t} set v = 'nobody' where id = -1",
        ),
        ("update {t} set v = 'hive' where id in (8, 10)", "delete from {t} where id = 307"),
        partitioned_by="p int",
        clustered_by="(id) into 4",
        compact=("p=1",),
    ),
    Kind(
        "without_spark",
        "id int, v string, d double",
        (_without_spark,),
        ("update {t} set v = 'hive' where id in (3, 12)", "delete from {t} where id = 2000"),
        partitioned_by="p string",
        clustered_by="(id) into 2",
        compact=("p='x'", "p='y z'"),
        ci=True,
    ),
    Kind(
        "one_transaction",
        "id int, v string, n bigint",
        (
            "start transaction",
            *_DML,
            "savepoint here",
            "insert into {t} values (4000000, 'taken back', 0)",
            "delete from {t} where id = 3000000",
            "rollback to here",
            "update {t} set n = n + 1 where id = 3000000 or id % 6 = 0",
            "delete from {t} where id = 12",
            "commit",
        ),
        _HIVE_DML,
        clustered_by="(id) into 2",
        ci=True,
    ),
    Kind(
        "own_base",
        "id int, v string",
        (
            "insert into {t} select id, concat('r', id), id % 3 from numbers where id < 60",
            "start transaction",
            "insert into {t} values (100, 'before', 0), (101, 'before', 1)",
            "insert overwrite table {t} partition (p) select id, concat(v, '!'), p from {t}"
            " where p = 0",
            "truncate table {t} partition (p=2)",
            "insert into {t} select id + 200, v, p from {t} where id < 30",
            "insert into {t} values (300, 'filled again', 2)",
            "update {t} set v = upper(v) where id in (3, 101, 100, 203, 300)",
            "delete from {t} where id in (6, 7, 206)",
            "merge into {t} t using (select 3 id union all select 9 union all select 400) s"
            " on t.id = s.id when matched then update set v = 'merged'"
            " when not matched then insert values (s.id, 'inserted', 2)",
            "commit",
        ),
        ("update {t} set v = 'hive' where id in (3, 100, 300)", "delete from {t} where id = 203"),
        partitioned_by="p int",
        compact=("p=0", "p=2"),
        ci=True,
    ),
    Kind(
        "names_of_hive_3",
        "id int, v string, n bigint",
        _DML,
        _HIVE_DML,
        clustered_by="(id) into 2",
        properties="'hiveacid.file.names'='hive3'",
        hive_3=False,
    ),
)
