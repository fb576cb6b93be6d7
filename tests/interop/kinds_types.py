"""Every type, as a column, as a bucketing key, as a partition column; columns that change."""

from __future__ import annotations

from tests.interop.kinds import Kind

_KEYS = (
    "id int, ti tinyint, si smallint, bi bigint, b boolean, f float, d double, x decimal(12,3),"
    " xl decimal(38,10), s string, c char(6), vc varchar(8), bin binary, dt date, ts timestamp,"
    " a array<int>, m map<string,int>, st struct<p:int,q:string>, n bigint"
)
_KEYS_SHOWN = "id, ti, si, bi, b, f, d, x, xl, s, c, vc, hex(bin) as bin, dt, ts, a, m, st, n"
_KEYS_DML = (
    "insert into {t} select id, cast(id - 30 as tinyint), cast(id * 300 - 9000 as smallint),"
    " id * 3000000000 - 90000000000, id % 2 = 0, cast((id - 30) / 3 as float), (id - 30) / 7.0D,"
    " cast((id - 30) / 7 as decimal(12,3)), cast((id - 30) * 1234567890123.89 as decimal(38,10)),"
    " concat('é', id), cast(concat('c', id) as char(6)), cast(concat('v', id) as varchar(8)),"
    " cast(concat('b', id) as binary), date_add(date'1970-01-01', id * 700 - 20000),"
    " cast(concat(1940 + id, '-02-28 01:02:03.', 100000 + id * 13) as timestamp),"
    " array(id, -id), map(concat('k', id), id), named_struct('p', id, 'q', 'x'), id"
    " from numbers where id < 60",
    "insert into {t} select -1, null, null, null, null, null, null, null, null, null, null, null,"
    " null, null, null, null, null, null, 0",
    "update {t} set n = -n where id % 10 = 4",
    "delete from {t} where id % 10 = 5",
)
_KEYS_HIVE_TURN = ("update {t} set n = 0 where id < 10", "delete from {t} where id > 50")
_KEYS_OF_2 = "(ti, si, bi, b, f, d, x, xl, s, c, vc, bin, dt, ts, a, m, st) into 7"

TYPES = (
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
        ci=True,
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
        ci=True,
    ),
    Kind(
        "keys",
        _KEYS,
        _KEYS_DML,
        _KEYS_HIVE_TURN,
        clustered_by=_KEYS_OF_2,
        shown=_KEYS_SHOWN,
        ci=True,
    ),
    Kind(
        "keys_version_1",
        _KEYS,
        _KEYS_DML,
        _KEYS_HIVE_TURN,
        clustered_by=_KEYS_OF_2,
        properties="'bucketing_version'='1'",
        shown=_KEYS_SHOWN,
    ),
    Kind(
        "digits",
        "id int, whole decimal(15,2), later decimal(15,2), tens decimal(12,4), wide decimal(38,18),"
        " big decimal(38,2)",
        (
            "insert into {t} select /*+ coalesce(1) */ n, n - 1000, if(n < 11000, n, n / 8),"
            " if(n % 9 = 0, null, n / 10), n - 7, n * 1e22BD"
            " from (select id * 4 + m as n from numbers lateral view explode(sequence(0, 3)) as m)",
            "update {t} set later = later + 1, wide = wide / 8 where id % 2 = 0",
            "delete from {t} where id between 10 and 20",
        ),
        ("update {t} set whole = whole + 0.5 where id < 5", "delete from {t} where id > 2990"),
        ci=True,
    ),
    Kind(
        "times",
        "id int, ts timestamp, d date, a array<timestamp>, s struct<d:date,t:timestamp>",
        (
            "insert into {t} select id, t, d, array(t, null), named_struct('d', d, 't', t)"
            " from (values (1, timestamp'1969-12-31 23:59:58.5', date'1969-12-31'),"
            " (2, timestamp'1969-12-31 23:59:58.000001', date'1970-01-01'),"
            " (3, timestamp'1900-01-01 00:00:00.999999', date'1582-10-15'),"
            " (4, timestamp'1582-10-15 00:00:00.1', date'1582-10-04'),"
            " (5, timestamp'1582-10-04 12:00:00.25', date'1500-03-01'),"
            " (6, timestamp'0001-01-01 00:00:00', date'0001-01-01'),"
            " (7, timestamp'9999-12-31 23:59:59.999999', date'9999-12-31'),"
            " (8, timestamp'2024-03-31 02:30:00.123456', date'2024-02-29'),"
            " (9, null, null)) as s(id, t, d)",
            "update {t} set ts = timestamp'1677-09-21 00:12:43.145225' where id = 8",
            "delete from {t} where id = 2",
        ),
        (
            "update {t} set d = date'1400-01-01' where id in (4, 5)",
            "delete from {t} where id = 3",
        ),
    ),
    Kind(
        "extremes",
        "id int, x0 decimal(38,0), x38 decimal(38,38), x18 decimal(18,18), c1 char(1),"
        " c255 char(255), v1 varchar(1), f float, d double, s string",
        (
            "insert into {t} values (1, 99999999999999999999999999999999999999,"
            " 0.99999999999999999999999999999999999999, 0.999999999999999999, 'é', 'c', 'é',"
            " 3.4028235e38, 1.7976931348623157e308, 'tab'),"
            " (2, -99999999999999999999999999999999999999,"
            " -0.00000000000000000000000000000000000001, -0.000000000000000001, '', '', '',"
            " 1.4e-45, 4.9e-324, ''),"
            " (3, 0, 0, 0, '日', repeat('日', 255), '日', 0, 0, repeat('long ', 9000))",
            "insert into {t} select 4, null, null, null, null, null, null, float('NaN'),"
            " double('Infinity'), null",
            "update {t} set x0 = x0 - 1, c1 = 'zz' where id = 1",
            "delete from {t} where id = 99",
        ),
        ("update {t} set v1 = 'w' where id in (1, 3)", "delete from {t} where id = 2"),
    ),
    Kind(
        "deep",
        "id int, d array<map<int,struct<x:decimal(38,18),c:char(4),dt:date,ts:timestamp,"
        "l:array<array<string>>>>>, m map<string,map<string,array<bigint>>>,"
        " s struct<a:struct<b:struct<c:varchar(5),e:boolean>>,f:double>",
        (
            "insert into {t} select id, array(map(id, named_struct('x',"
            " cast(id / 7 as decimal(38,18)), 'c', cast('ab' as char(4)), 'dt',"
            " date_add(date'1960-01-01', id), 'ts', timestamp'1960-02-03 04:05:06.5', 'l',"
            " array(array('p', null), array())))), map('k', map('l', array(id, null))),"
            " named_struct('a', named_struct('b', named_struct('c', cast('v' as varchar(5)), 'e',"
            " id % 2 = 0)), 'f', id / 8.0D) from numbers where id < 20",
            "insert into {t} select 100, null, null, null",
            "insert into {t} select 101, array(), map('x', null), null",
            "update {t} set m = map('u', map('v', array(9))) where id in (3, 100)",
            "delete from {t} where id in (4, 5)",
        ),
        (
            "update {t} set m = map('h', map('i', array(cast(1 as bigint)))) where id < 3",
            "delete from {t} where id = 6",
        ),
    ),
    Kind(
        "evolved",
        "id int, v string, n smallint, f float, x decimal(5,2), vc varchar(5)",
        (
            "insert into {t} values (1,'a',10,0.5,1.25,'v'),(2,'b',20,1.5,2.5,'w'),"
            "(3,null,null,null,null,null)",
            "alter table {t} add columns (d double, w array<string>)",
            "insert into {t} select 4, 'd', 40, 2.5, 3.75, 'vc', 0.5, array('x')",
            "update {t} set d = 1.5 where id = 1",
            "alter table {t} change n n bigint",
            "alter table {t} change f f double",
            "alter table {t} change x x decimal(12,4)",
            "alter table {t} change vc vc varchar(20)",
            "insert into {t} select 5, 'e', 5000000000, 1e300, 12345678.1234, 'longer than five',"
            " null, null",
            "alter table {t} change v name string",
            "update {t} set name = 'renamed' where id = 2",
            "insert into {t} select 6, 'f', 6, 6, 6, 'six', 6, array()",
            "delete from {t} where id = 5",
        ),
        ("update {t} set name = 'hive' where id in (1, 4)", "delete from {t} where id = 3"),
        ci=True,
        hive_3=False,
    ),
    Kind(
        "evolved_parts",
        "id int, n int",
        (
            "insert into {t} values (1, 10, 'x'),(2, 20, 'y')",
            "alter table {t} add columns (c string, s struct<a:int,b:string>) cascade",
            "insert into {t} select 3, 30, 'c', named_struct('a', 1, 'b', 'bb'), 'x'",
            "alter table {t} change n n bigint cascade",
            "alter table {t} change c d string cascade",
            "insert into {t} select 4, 40000000000, 'd', null, 'y'",
            "update {t} set d = 'u' where id in (1, 4)",
        ),
        ("update {t} set n = n + 1 where id in (1, 2)", "delete from {t} where id = 3"),
        hive_3=False,
        partitioned_by="p string",
        compact=("p='x'", "p='y'"),
    ),
    Kind(
        "parts_of_types",
        "id int, v string",
        (
            "insert into {t} values"
            " (1, 'a', 5000000000, date'2024-02-29', timestamp'2024-02-29 01:02:03.5', 1.50, true,"
            " 'x y/z'),"
            " (2, 'b', -1, date'1500-03-01', timestamp'1969-12-31 23:59:58', -0.05, false,"
            " '#[]^%=:\\\\\\'\\\"*?{}'),"
            " (3, 'c', null, null, null, null, false, null),"
            " (4, 'd', 0, date'2024-03-01', timestamp'2024-03-01 00:00:00', 0, true, '')",
            "insert into {t} select id + 100, 'q', 5000000000, date'2024-02-29',"
            " timestamp'2024-02-29 01:02:03.5', 1.50, true, 'x y/z' from numbers where id < 9",
            "update {t} set v = 'u' where id in (1, 3, 101)",
            "delete from {t} where id in (2, 102)",
            "insert into {t} values (5, 'e', -1, date'1500-03-01',"
            " timestamp'1969-12-31 23:59:58', -0.05, false, 'new')",
        ),
        (
            "update {t} set v = 'hive' where id in (1, 3, 4, 5, 104)",
            "delete from {t} where id = 105",
        ),
        partitioned_by="bi bigint, d date, ts timestamp, x decimal(8,2), b boolean, s string",
        compact=(
            "bi=5000000000, d='2024-02-29', ts='2024-02-29 01:02:03.5', x=1.5, b=true, s='x y/z'",
        ),
    ),
    Kind(
        "names",
        "id int, `operation` int, `rowid` bigint, `row` string, `bucket` string, `a b` string,"
        " `select` int, `é` string, `originalTransaction` int, `currenttransaction` int",
        (
            "insert into {t} values (1, 1, 2, 'r', 'b', 'ab', 3, 'e', 4, 5, 'g', 6),"
            " (2, null, null, null, null, null, null, null, null, null, 'g', 6),"
            " (3, 2, 9, 'row', 'k', 'c', 1, 'f', 0, 0, 'h i', 7)",
            "insert into {t} select id + 10, id, id, 'n', 'n', concat('x', id), id, 'ü', id, id,"
            " 'g', 6 from numbers where id < 20",
            "update {t} set `row` = 'v', `operation` = 8, `originaltransaction` = -1"
            " where `rowid` in (2, 5)",
            "delete from {t} where `select` = 7 or `operation` = 9",
        ),
        (
            "update {t} set `é` = 'hive', `bucket` = 'x' where id in (1, 12)",
            "delete from {t} where `row` = 'row'",
        ),
        partitioned_by="`group` string, `p q` int",
        clustered_by="(`select`, `a b`) into 2",
        compact=("`group`='g', `p q`=6",),
    ),
)
