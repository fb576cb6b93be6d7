"""The tables that hiveacid writes for Hive: definition, statements of ours, then Hive's turn."""

from __future__ import annotations

from dataclasses import dataclass, field

ACID = "stored as orc tblproperties ('transactional'='true'{more})"


@dataclass(frozen=True)
class Kind:
    """One table.

    ``statements`` are ours, ``hive_turn`` are Hive's on top; ``{t}`` is the table in both. The
    views ``numbers`` (id 0..2999) and ``changes`` (id, op) are there for ours. ``partitions`` are
    rows that make Hive create the partitions, ``compact`` is what Hive compacts (partition specs
    of ``!compact``, ``""`` is the table).
    """

    name: str
    columns: str
    statements: tuple[str, ...]
    hive_turn: tuple[str, ...]
    partitioned_by: str = ""
    clustered_by: str = ""
    properties: str = ""
    partitions: tuple[str, ...] = ()
    compact: tuple[str, ...] = ("",)
    shown: str = field(default="t.*")

    def create(self, table: str) -> str:
        """The same CREATE TABLE for both."""
        parts = [f"create table {table} ({self.columns})"]
        parts += [f"partitioned by ({self.partitioned_by})"] if self.partitioned_by else []
        parts += [f"clustered by {self.clustered_by} buckets"] if self.clustered_by else []
        more = f", {self.properties}" if self.properties else ""
        return " ".join([*parts, ACID.format(more=more)])


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

KINDS = (
    Kind("flat", "id int, v string, n bigint", _DML, _HIVE_DML),
    Kind("bucket_int", "id int, v string, n bigint", _DML, _HIVE_DML, clustered_by="(id) into 3"),
    Kind("bucket_text", "id int, v string, n bigint", _DML, _HIVE_DML, clustered_by="(v) into 4"),
    Kind(
        "bucket_pairs",
        "id int, v string, d date, x decimal(12,3), b boolean, f double, ts timestamp, n bigint",
        (
            "insert into {t} select id, concat('é', id), date_add(date'2024-01-01', id - 900),"
            " cast(id / 7 as decimal(12,3)), id % 2 = 0, id / 3.0D,"
            " cast(concat('2024-02-29 01:02:0', id % 10, '.', 100000 + id) as timestamp), id"
            " from numbers where id < 200",
            "insert into {t} values (-1, null, null, null, null, null, null, 0)",
            "update {t} set n = -n where id % 10 = 4",
            "delete from {t} where id % 10 = 5",
        ),
        ("update {t} set n = 0 where id < 10", "delete from {t} where id > 180"),
        clustered_by="(v, d, x, b, f, ts) into 5",
    ),
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
        partitions=(
            "0,'','x',1",
            "0,'','x',2",
            "0,'','50% a/b=c',1",
            "0,'','ü ö',null",
            "0,'',null,7",
            "0,'',null,null",
            "0,'','new',9",
        ),
        compact=("p=x/n=1", "p=x/n=2", "p=new/n=9"),
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
        partitions=(
            "0,'',date'2024-02-28'",
            "0,'',date'2024-02-29'",
            "0,'',date'2024-03-01'",
            "0,'',date'1969-12-31'",
        ),
        compact=("d=2024-02-28", "d=2024-02-29", "d=2024-03-01", "d=1969-12-31"),
    ),
    Kind(
        "types",
        "k int, ti tinyint, si smallint, bi bigint, b boolean, f float, d double,"
        " dec_s decimal(5,2), dec_l decimal(38,10), s string, c char(6), vc varchar(8), bin binary,"
        " dt date, ts timestamp",
        (
            "insert into {t} values (1, 127, 32767, 9223372036854775807, true, 1.5, 2.5, 123.45,"
            " 1234567890123456789012345678.0123456789, 'héllo', 'ab', 'varchar', 'bytes',"
            " date'2024-02-29', timestamp'2024-02-29 23:59:59.123456'),"
            " (2, -128, -32768, -9223372036854775807, false, -0.25, -1e300, -999.99,"
            " -0.0000000001, '', '', '', '', date'1969-12-31', timestamp'1970-01-01 00:00:00'),"
            " (3, null, null, null, null, null, null, null, null, null, null, null, null, null,"
            " null)",
            "insert into {t} select id + 10, cast(id as tinyint), cast(id as smallint), id * 1000,"
            " id % 2 = 0, cast(id / 4 as float), id / 8, cast(id / 10 as decimal(5,2)),"
            " cast(id / 7 as decimal(38,10)), concat('日本', id), cast(id as char(6)),"
            " cast(concat('v', id) as varchar(8)), cast(concat('b', id) as binary),"
            " date_add(date'1900-01-01', cast(id as int) * 1000),"
            " cast(concat(1970 + cast(id % 30 as int), '-06-15 12:30:45.', 100000 + id)"
            " as timestamp)"
            " from numbers where id < 50",
            "update {t} set s = concat(s, '!'), dec_l = dec_l + 1, c = 'longer than six'"
            " where k in (1, 12, 13)",
            "delete from {t} where k in (20, 21)",
        ),
        (
            "update {t} set vc = 'hive', bi = bi - 1 where k in (1, 2, 3, 30)",
            "delete from {t} where k between 40 and 45",
        ),
        shown="k, ti, si, bi, b, f, d, dec_s, dec_l, s, c, vc, hex(bin) as bin, dt, ts",
    ),
    Kind(
        "nested",
        "id int, a array<int>, m map<string,int>, s struct<x:int,y:string,z:array<string>>,"
        " deep array<struct<p:int,q:map<string,array<int>>>>",
        (
            "insert into {t} select cast(id as int), array(cast(id as int), 2), map('k', 1),"
            " named_struct('x', cast(id as int), 'y', 'why', 'z', array('p', 'q')),"
            " array(named_struct('p', 1, 'q', map('m', array(1, 2))))"
            " from numbers where id < 10",
            "insert into {t} select 100, null, null, null, null",
            "insert into {t} select 101, array(), map(), named_struct('x', 1, 'y', '', 'z',"
            " array()), array()",
            "update {t} set a = array(9, 9), m = map('u', 5) where id in (2, 100)",
            "delete from {t} where id in (3, 4)",
        ),
        ("update {t} set a = array(7) where id in (5, 101)", "delete from {t} where id = 6"),
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
        partitions=("0,'','x'", "0,'','y'", "0,'','z'"),
        compact=("p=x", "p=y", "p=z"),
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
    ),
)
