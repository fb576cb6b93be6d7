"""Values, names and shapes at the edges: all types, odd column names, many partitions, no rows."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

import hiveacid
from hiveacid.errors import ConversionError, UnsupportedError

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

ACID = "stored as orc tblproperties ('transactional'='true')"
TYPES = {
    "b": ("boolean", True),
    "t": ("tinyint", -128),
    "s": ("smallint", 32767),
    "i": ("int", -(2**31)),
    "l": ("bigint", 2**63 - 1),
    "f": ("float", 0.5),
    "d": ("double", -1.0e300),
    "m": ("decimal(38,10)", Decimal("1234567890123456789012345678.0123456789")),
    "m2": ("decimal(5,2)", Decimal("-999.99")),
    "c": ("char(5)", "ab"),
    "vc": ("varchar(7)", "é\n'\"\\x"),
    "st": ("string", "line one\nline 'two' \"three\" \\ \t ` ü €\0end"),
    "bi": ("binary", bytearray(b"\x00\xff\x01")),
    "da": ("date", date(1500, 1, 1)),
    "ts": ("timestamp", datetime(1957, 10, 4, 19, 28, 34)),
    "tf": ("timestamp", datetime(1970, 1, 1, 0, 0, 0, 123456)),
    "ar": ("array<map<string,int>>", [{"k": 1}, None, {}]),
    "ma": (
        "map<int,struct<x:string,y:array<decimal(10,3)>>>",
        {7: Row(x="z", y=[Decimal("1.500"), None])},
    ),
    "sr": (
        "struct<u:date,w:struct<q:timestamp>>",
        Row(u=date(1, 1, 1), w=Row(q=datetime(1900, 1, 1))),
    ),
}


BOTH = pytest.mark.parametrize(
    "ansi",
    [
        "true",
        # the way of the session that all other tests share
        pytest.param("false", marks=pytest.mark.long("spark", "statements", "storage")),
    ],
    ids=["ansi", "not ansi"],
    indirect=True,
)


@pytest.fixture(params=["false", "true"], ids=["not ansi", "ansi"])
def ansi(spark, request):
    """Both ways of Spark's casts and arithmetic."""
    old = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param == "true"
    spark.conf.set("spark.sql.ansi.enabled", old)


@BOTH
def test_all_types_survive_insert_update_and_merge(acid, spark, ansi, tmp_path):
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    acid.sql(f"create table every (id int, {columns}) {ACID}")
    table = acid.table("every")
    values = {name: value for name, (_, value) in TYPES.items()}
    schema = table.df().schema
    full, empty = {"id": 1, **values}, {"id": 2, **dict.fromkeys(values)}
    frame = spark.createDataFrame([tuple(full.values()), tuple(empty.values())], schema)
    assert table.insert(frame).rows == 2

    def check(ids):
        found = {row.id: row.asDict() for row in acid.sql("select * from every").collect()}
        assert sorted(found) == ids
        for number, row in found.items():
            row["c"] = row["c"].rstrip() if row["c"] else row["c"]
            assert row == {**(empty if number % 2 == 0 else full), "id": number}

    check([1, 2])
    assert acid.sql("update every set id = id + 2").rows == 2
    check([3, 4])
    merged = acid.sql(
        "merge into every t using (select * from every) s on t.id = s.id and s.id = 3"
        " when matched then update set l = s.l, ma = s.ma, ts = s.ts"
        " when not matched then insert values (s.id + 2, s.b, s.t, s.s, s.i, s.l, s.f, s.d, s.m,"
        " s.m2, s.c, s.vc, s.st, s.bi, s.da, s.ts, s.tf, s.ar, s.ma, s.sr)"
    )
    assert (merged.updated, merged.inserted) == (1, 1)
    check([3, 4, 6])
    arrow = hiveacid.read_arrow(str(tmp_path / "wh" / "every")).read_all().sort_by("id")
    assert arrow.column("m").to_pylist() == [values["m"], None, None]
    assert arrow.column("da").to_pylist() == [values["da"], None, None]
    assert arrow.column("ts").to_pylist()[0].isoformat() == "1957-10-04T19:28:34"


def test_a_fraction_in_the_last_second_before_1970_is_refused(acid, rows):
    """ORC cannot tell it from one after 1970; Hive stores it and reads it a second later."""
    acid.sql(f"create table t (ts timestamp) {ACID}")
    with pytest.raises(UnsupportedError, match="before 1970"):
        acid.sql("insert into t select timestamp '1969-12-31 23:59:59.123456'")
    with pytest.raises(UnsupportedError, match="before 1970"):
        acid.sql("insert into t values (timestamp '1969-12-31 23:59:59.123456')")
    assert acid.sql("select * from t").collect() == []
    acid.sql("insert into t values (timestamp '1957-10-04 19:28:34.123456')")
    acid.sql("insert into t select timestamp '1957-10-04 19:28:34.123456'")
    assert rows("select * from t") == [(datetime(1957, 10, 4, 19, 28, 34, 123456),)] * 2


def test_what_does_not_fit_is_null_with_and_without_ansi(acid, rows, ansi):
    acid.sql(
        f"create table t (i int, t tinyint, d date, m decimal(4,1), b boolean, v varchar(2)) {ACID}"
    )
    bad = "'x' as i, '300' as t, 'no date' as d, '99999' as m, 'y' as b, 'long' as v"
    acid.sql("insert into t values ('x', '300', 'no date', '99999', null, 'long')")
    acid.sql(f"insert into t select i, t, d, m, null, v from (select {bad}) s")
    acid.sql("insert into t values (1, 1, '2020-01-01', 1, true, 'a')")
    acid.sql("update t set t = '300', d = 'no date', m = 99999, v = 'long', i = i where i = 1")
    acid.sql(
        f"merge into t using (select {bad}, 1 as k) s on t.i = s.k when matched then update"
        " set i = s.i, m = s.m, v = s.v"
    )
    nothing = (None, None, None, None)
    assert rows("select * from t") == [
        (*nothing, None, "lo"),
        (*nothing, None, "lo"),
        (*nothing, True, "lo"),
    ]


@pytest.mark.long("reading", "spark")
@BOTH
def test_wide_identities_are_filtered_with_and_without_ansi(acid, rows, ansi, tmp_path):
    """Identities whose ranges need most of 63 bits, and partitions on top."""
    acid.sql(f"create table t (id int) partitioned by (p int) {ACID}")
    for p in (1, 2):
        acid.sql(f"insert into t select cast(id as int), {p} from range(0, 300, 1, 3)")
    acid.sql("delete from t where id % 3 = 0")
    acid.sql("delete from t where id % 3 = 1 and p = 2")
    assert rows("select count(*), sum(id), p from t group by p") == [
        (100, sum(i for i in range(300) if i % 3 == 2), 2),
        (200, sum(i for i in range(300) if i % 3), 1),
    ]


def test_ansi_store_assignment_refuses_with_and_without_ansi(acid, ansi):
    acid.sql(f"create table t (i int) {ACID}")
    acid.sql("set hiveacid.store_assignment=ansi")
    for wrong in ("'x'", "99999999999L", "cast(1e30 as double)"):
        with pytest.raises(ConversionError, match="column i of type int"):
            acid.sql(f"insert into t select {wrong}")
    acid.sql("insert into t select '7'")
    assert [row.i for row in acid.sql("select * from t").collect()] == [7]


def test_texts_are_integers_and_floats_decimals_as_in_hive(acid, rows, ansi):
    """The answers of Hive 4.1 for INSERT ... SELECT, which no session's ANSI changes."""
    wanted = {
        "1": 1, "+1": 1, "-1": -1, "01": 1, "1.5": 1, "-1.9999": -1, ".5": 0, "5.": 5, "-0.0": 0,
        "128": None, " 1 ": None, "1e3": None, "1L": None, "": None, "1_000": None, "5\n": None,
    }  # fmt: skip
    acid.sql(f"create table s (k int, v varchar(10)) {ACID}")
    acid.sql("insert into s values " + ", ".join(f"({k}, '{v}')" for k, v in enumerate(wanted)))
    acid.sql(f"create table t (k int, y tinyint, a array<bigint>) {ACID}")
    acid.sql("insert into t select k, v, array(v) from s")
    expected = dict(enumerate(wanted.values()))
    assert dict(rows("select k, y from t")) == expected
    large = {k: 128 if v == "128" else wanted[v] for k, v in enumerate(wanted)}
    assert dict(rows("select k, a[0] from t")) == large
    pairs = ", ".join(f"({k}, '{v}', null)" for k, v in enumerate(wanted))
    acid.sql(f"insert overwrite table t values {pairs}")
    assert dict(rows("select k, y from t")) == expected
    acid.sql(f"create table d (d decimal(38,18)) {ACID}")
    acid.sql("insert into d select cast(f as float) from (select explode(array(0.1, 127.9)) f) s")
    assert rows("select * from d") == [(Decimal("0.1"),), (Decimal("127.9"),)]


def test_texts_are_dates_and_times_as_in_hive(acid, spark, ansi, paris):
    """The answers of Hive 4.1 for INSERT ... SELECT; but it drops a time between T and a zone."""
    day, time = "2020-01-02", "2020-01-02 01:02:03"
    midnight = f"{day} 00:00:00"
    texts = {
        **dict.fromkeys(["2020", "2020-02", "2020-02-30", "2020-001-02", "+2020-01-02", "now"]),
        **dict.fromkeys(["10000-01-01", "99999-01-01 00:00:00", "10:11:12", "", "2020-1-0"]),
        **dict.fromkeys(
            [day, f"{day}x", f"{day} x", f"\t{day}\n", "2020-1-2", f"{day}Z"], midnight
        ),
        **dict.fromkeys([f"{day} 25:00:00", f"{day} 10:11", f"{day}  10:11:12"], midnight),
        **dict.fromkeys([f"{day} 1:2:3", f" {day} 01:02:03+02:00", f"{day}T01:02:03Z"], time),
        **dict.fromkeys([f"{time} Asia/Kolkata", f"{time} UTC"], time),
        f"{time}.1234561": f"{time}.123456",
        "2024-03-31 02:30:00": "2024-03-31 02:30:00",  # no such time in the session's zone
        "20-01-02": "0020-01-02 00:00:00",
    }
    acid.sql(f"create table s (k int, v string) {ACID}")
    acid.table("s").insert(spark.createDataFrame(list(enumerate(texts)), "k int, v string"))
    acid.sql(f"create table t (k int, d date, w timestamp, a array<timestamp>) {ACID}")
    acid.sql("insert into t select k, v, v, array(v) from s")
    found = hiveacid.read_arrow(acid.table("t")).read_all().sort_by("k").to_pylist()
    for (text, wanted), row in zip(texts.items(), found, strict=True):
        moment = wanted and datetime.fromisoformat(wanted)
        of_day = moment and moment.date()
        assert (row["d"], row["w"], row["a"]) == (of_day, moment, [moment]), text


@pytest.mark.parametrize("night", [datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30)])
def test_wall_clocks_that_a_session_skips_or_has_twice_are_stored(acid, spark, paris, night):
    """02:30 of the nights in which clocks are set, from columns without a zone."""
    acid.sql(f"create table t (w timestamp, a array<timestamp>) {ACID}")
    table, text = acid.table("t"), night.isoformat(" ")
    table.insert(spark.sql(f"select w, array(w) a from values timestamp_ntz'{text}' v(w)"))
    rows = pa.table({"w": [night], "a": [[night]]})
    table.merge(rows, on="w").when_matched_update_all().when_not_matched_insert_all().run()
    table.merge(rows, on="1 = 2").when_not_matched_insert_all().run()
    found = hiveacid.read_arrow(table).read_all().to_pylist()
    assert found == [{"w": night, "a": [night]}] * 2
    spark.conf.set("spark.sql.session.timeZone", "America/Sao_Paulo")
    acid.sql("insert overwrite table t select date'2018-11-04', array(date'2018-11-04')")
    first = datetime(2018, 11, 4)  # a day that began at one
    found = hiveacid.read_arrow(table).read_all().to_pylist()
    assert found == [{"w": first, "a": [first]}]


@pytest.mark.parametrize("call", ["insert", "overwrite", "merge", "write_arrow", "merge_arrow"])
def test_moments_are_wall_clocks_of_the_session_whoever_writes_them(acid, spark, paris, call):
    """As those of its DataFrames, whatever zone they come with; also in lists, also as keys."""
    acid.sql(
        f"create table t (w timestamp, z timestamp with local time zone, a array<timestamp>) {ACID}"
    )
    table, noon = acid.table("t"), pa.scalar(1577962800_000000, pa.timestamp("us", "Asia/Tokyo"))
    rows = pa.table({"w": [noon], "z": [noon], "a": pa.array([[noon]], pa.large_list(noon.type))})
    if call == "merge":
        table.merge(rows, on="w").when_not_matched_insert_all().run()
    else:
        getattr(table, call)(rows, **({"on": "w"} if call == "merge_arrow" else {}))
    clock = datetime(2020, 1, 2, 12)
    (row,) = hiveacid.read_arrow(table).read_all().to_pylist()
    assert (row["w"], row["a"], row["z"].timestamp()) == (clock, [clock], 1577962800)
    table.delete_arrow(rows.select(["w"]))
    assert not hiveacid.read_arrow(table).read_all().num_rows


@pytest.mark.parametrize("call", ["insert", "merge", "write_arrow", "merge_arrow"])
def test_clocks_are_moments_of_the_session_where_a_column_keeps_moments(acid, paris, call):
    """Numbers of which Hive has no type go where they fit, too."""
    acid.sql(f"create table t (id bigint, f float, z timestamp with local time zone) {ACID}")
    table, noon = acid.table("t"), datetime(2020, 1, 2, 12)
    half = pa.array([1.5], pa.float32()).cast(pa.float16())
    rows = pa.table({"id": pa.array([7], pa.uint64()), "f": half, "Z": [noon]})
    if call == "merge":
        table.merge(rows, on="id").when_not_matched_insert_all().run()
    else:
        getattr(table, call)(rows, **({"on": "id"} if call == "merge_arrow" else {}))
    (row,) = hiveacid.read_arrow(table).read_all().to_pylist()
    assert (row["id"], row["f"], row["z"].timestamp()) == (7, 1.5, 1577962800)


def test_numbers_are_moments(acid, rows, ansi):
    """As Spark casts them (Hive 4.1 does by its strict setting not)."""
    acid.sql(f"create table t (w timestamp) {ACID}")
    acid.sql("insert into t select 5")
    acid.sql("insert into t select cast(null as decimal(5,2))")
    assert rows("select w from t") == [(None,), (datetime(1970, 1, 1, 0, 0, 5),)]


def test_texts_are_floats_as_in_hive(acid, rows, ansi):
    texts = {"nan": None, "NaN": "nan", "inf": None, "-Infinity": "-inf", "1.5f": "1.5"}
    acid.sql(f"create table s (k int, v string) {ACID}")
    acid.sql("insert into s values " + ", ".join(f"({k}, '{v}')" for k, v in enumerate(texts)))
    acid.sql(f"create table t (k int, x double, y float) {ACID}")
    acid.sql("insert into t select k, v, v from s")
    found = rows("select k, cast(x as string), cast(y as string) from t")
    names = {None: None, "NaN": "nan", "-Infinity": "-inf", "1.5": "1.5"}
    assert {k: (names[x], names[y]) for k, x, y in found} == {
        k: (v, v) for k, v in enumerate(texts.values())
    }


def test_texts_are_booleans_as_in_hive(acid, rows):
    acid.sql(f"create table t (i int, b boolean) {ACID}")
    texts = ["", "0", "No", "OFF", "false", "x", "yes", "1"]
    acid.sql("insert into t values " + ", ".join(f"({i}, '{x}')" for i, x in enumerate(texts)))
    assert rows("select b from t order by i") == [(i > 4,) for i in range(8)]


def test_numbers_beside_texts_are_texts(acid, rows):
    acid.sql(f"create table t (i int, s string, d double, b boolean) {ACID}")
    some = "('5', 6, 1, 'yes'), (7.9, 'x', '2.5', true), (null, 1.50, 0, 'no')"
    acid.sql(f"insert into t values {some}")
    acid.sql("insert into t values (3000000000, 'big', 1, true), ('8', 2.0, 1, false)")
    assert rows("select * from t order by i nulls last, s") == [
        (5, "6", 1.0, True),
        (7, "x", 2.5, True),
        (8, "2", 1.0, False),
        (None, "1.5", 0.0, False),
        (None, "big", 1.0, True),
    ]


def test_dates_times_and_doubles_beside_texts_are_texts(acid, rows):
    """Spark has no common type of them in VALUES."""
    acid.sql(f"create table t (i int, s string, m decimal(5,2), d date) {ACID}")
    acid.sql("""insert into t values (1, date'2020-01-01', 1.25e1, '2020-01-01'),
        (2, 'x', '2.345', date'2020-01-02'), (3, 2e7, 1, timestamp'2020-01-03 10:00:00.5')""")
    assert rows("select *, cast(d as string) from t order by i") == [
        (1, "2020-01-01", Decimal("12.50"), date(2020, 1, 1), "2020-01-01"),
        (2, "x", Decimal("2.35"), date(2020, 1, 2), "2020-01-02"),
        (3, "2.0E7", Decimal("1.00"), date(2020, 1, 3), "2020-01-03"),
    ]
    defaults = (
        "ts timestamp default current_timestamp(), m decimal(5,2) default cast(2 as decimal(5,2))"
    )
    acid.sql(f"create table u (i int, {defaults}) {ACID}")
    acid.sql("insert into u values (1, default, default), (2, '2020-01-01 10:00:00', '7.555')")
    acid.sql("insert into u values (3, current_timestamp(), 1.5 * 2), (4, '2020-01-02', '8')")
    assert rows("select i, ts > '2024-01-01', m from u order by i") == [
        (1, True, Decimal("2.00")),
        (2, False, Decimal("7.56")),
        (3, True, Decimal("3.00")),
        (4, False, Decimal("8.00")),
    ]


def test_a_decimal_has_no_negative_zero(acid, rows):
    acid.sql(f"create table t (d double, f float) {ACID}")
    acid.sql("insert into t values (-0.0, -0.0)")
    assert rows("select cast(d as string), cast(f as string) from t") == [("0.0", "0.0")]


def test_a_number_beyond_doubles_is_an_infinity(acid, rows):
    acid.sql(f"create table t (s string, d double, m decimal(5,2)) {ACID}")
    acid.sql("insert into t values (1e400, -1e400, 1e400), (1.5e0, 1e-7, 1.5e0)")
    found = [("1.5", 1e-7, Decimal("1.50")), ("Infinity", -math.inf, None)]
    assert rows("select * from t order by s") == found


@pytest.mark.long("spark", "sql")
def test_comparisons_of_two_types_leave_no_row_out(acid, rows, ansi):
    """What Spark says of them, which differs with and without ANSI."""
    columns = "n int, m decimal(5,2), f float"
    acid.sql(f"create table t ({columns}) partitioned by (t timestamp) {ACID}")
    acid.sql("insert into t values (7, 7.00, 16777216, timestamp'2020-01-01 00:00:00')")
    acid.sql("insert into t values (8, 1.50, -16777216, timestamp'2020-01-01 00:00:01')")
    for condition in (
        "m not in (7, '1.5')", "m in (7, '1.50')", "n not in (7, '08')", "n in ('07', 8)",
        "t not in ('2020-01-01')", "t in ('2020-01-01')", "f = 16777217", "f in (-16777217, 5)",
    ):  # fmt: skip
        hidden = f"case when {condition} then true else false end"
        wanted = rows(f"select n from t where {hidden}")
        assert rows(f"select n from t where {condition}") == wanted, condition


@pytest.mark.long("spark", "sql", "statements")
def test_odd_names_of_columns(acid, spark, rows):
    names = ["select", "from", "a b", "dot.ted", "ünï", "1st", "group"]
    frame = spark.range(3).select(
        *[(F.col("id") * 10 + n).alias(name) for n, name in enumerate(names)],
        F.lit("x y").alias("p"),
    )
    table = acid.create_table("odd", frame.schema, partitioned_by=["p"])
    table.insert(frame)
    assert acid.sql("select * from odd").columns == [*names, "p"]
    assert table.update({"dot.ted": "`dot.ted` + 1"}, where="`select` = 10").rows == 1
    assert acid.sql("delete from odd where `from` = 21").rows == 1
    assert (
        acid.sql(
            "merge into odd t using (select 0 as k, 5 as n) s on t.`select` = s.k"
            " when matched then update set `a b` = s.n, `group` = s.n"
        ).updated
        == 1
    )
    assert rows("select * from odd") == [
        (0, 1, 5, 3, 4, 5, 5, "x y"),
        (10, 11, 12, 14, 14, 15, 16, "x y"),
    ]


def test_odd_names_of_fields(acid, spark, rows):
    acid.sql(
        f"create table t (id int, s struct<`x y`:int>, a array<struct<`order by`:int>>) {ACID}"
    )
    acid.sql("insert into t select 1, named_struct('x y', 5), array(named_struct('order by', 6))")
    acid.sql(
        "merge into t using (select 1 n union all select 2) s on t.id = s.n"
        " when matched then update set id = 3"
        " when not matched then insert (id) values (s.n)"
    )
    assert rows("select id, s.`x y`, a[0].`order by` from t") == [(2, None, None), (3, 5, 6)]


def test_new_rows_of_a_struct_that_has_a_map(acid, rows):
    acid.sql(f"create table t (s struct<m:map<string,int>>, id int) {ACID}")
    acid.sql("insert into t select named_struct('m', map('a', 5)), 1")
    acid.sql(
        "merge into t using (select s as s, id + n as id from t, (select explode(array(0, 1)) n) q)"
        " x on t.id = x.id when matched then update set id = 7"
        " when not matched then insert values (x.s, x.id)"
    )
    assert rows("select id, s.m['a'] from t") == [(2, 5), (7, 5)]


@pytest.mark.long("spark")
def test_upper_case_in_a_frame(acid, spark, rows):
    frame = spark.createDataFrame([(1, "a", "X")], "ID int, Name string, PART string")
    table = acid.create_table("UP", frame, partitioned_by=["PART"])
    table.insert(frame.select("Part", "NAME", "iD"))
    assert table.update({"NAME": "upper(Name)"}).rows == 2
    assert rows("select id, NAME, Part from Up") == [(1, "A", "X")] * 2


@pytest.mark.long("layout", "spark", "statements")
def test_odd_partition_values(acid, rows, layout):
    acid.sql(f"create table t (id int) partitioned by (p string, q int) {ACID}")
    values = [
        "a/b",
        "a=b",
        "100%",
        "it's",
        'say "x"',
        "ü ",
        "{x}*?",
        "new\nline",
        None,
        "back\\slash",
    ]
    frame = acid.spark.createDataFrame(
        [(n, value, n if n % 2 else None) for n, value in enumerate(values)],
        "id int, p string, q int",
    )
    acid.table("t").insert(frame)
    acid.sql("update t set id = id + 100 where id >= 0")
    acid.sql("insert into t select id + 100, p, q from t where id = 100")
    found = sorted(tuple(row) for row in acid.sql("select id, p, q from t").collect())
    default = "__HIVE_DEFAULT_PARTITION__"  # how it reads in a column of text, as in Hive
    wanted = [(n + 100, v or default, n if n % 2 else None) for n, v in enumerate(values)]
    assert found == [*wanted, (200, "a/b", None)]
    assert (
        acid.sql("delete from t where p = '__HIVE_DEFAULT_PARTITION__' or p like '%line'").rows == 2
    )


def test_no_rows(acid, spark, rows, layout):
    empty = spark.createDataFrame([], "id int, v string, p string")
    table = acid.create_table("t", empty, partitioned_by=["p"])
    assert table.insert(empty).rows == 0
    assert acid.sql("update t set v = 'x' where id = 1").rows == 0
    assert acid.sql("delete from t where id = 1").rows == 0
    merged = table.merge(empty, on="t.id = s.id").when_matched_delete().run()
    assert (merged.updated, merged.deleted, merged.inserted) == (0, 0, 0)
    assert rows("select * from t") == []
    plain = acid.create_table("u", "id int, v string")
    plain.overwrite(empty.select("id", "v"))
    assert rows("select count(*) from u") == [(0,)]


@pytest.mark.long("spark", "storage")
def test_wide_rows(acid, spark, rows):
    frame = spark.range(50).select(*[(F.col("id") + n).alias(f"c{n}") for n in range(120)])
    acid.create_table("wide", frame)
    assert acid.sql("update wide set c119 = -1 where c0 = 7").rows == 1
    assert rows("select c0, c60, c119 from wide where c0 in (7, 8)") == [
        (7, 67, -1),
        (8, 68, 127),
    ]


@pytest.mark.long("spark", "storage")
def test_a_frame_of_more_partitions_than_there_are_buckets(acid, spark, rows, monkeypatch):
    monkeypatch.setattr("hiveacid.spark.write.WRITERS_MAX", 3)
    frame = spark.range(0, 20, 1, 8).selectExpr("cast(id as int) id")
    table = acid.create_table("many", frame.schema)
    assert table.insert(frame).rows == 20
    assert rows(
        "select count(distinct id), max(shiftright(row__id.bucketid, 16) & 4095) from many"
    ) == [(20, 2)]


def test_years_that_python_lacks_are_read(acid, rows):
    """Of few rows, which become the text of a query."""
    acid.sql(f"create table t (k int, d date, at timestamp) {ACID}")
    days = pa.array([-719_528, 2_933_297, 0], pa.int32()).cast(pa.date32())
    seconds = pa.array([-62_167_219_200, 253_435_000_000, 0]).cast(pa.timestamp("s"))
    acid.table("t").insert(pa.table({"k": [1, 2, 3], "d": days, "at": seconds}))
    shown = "select k, cast(d as string), cast(at as string) from t"
    far = (2, "+10001-02-04", "+10001-01-13 11:06:40")
    assert rows(f"{shown} where at > timestamp'2020-01-01 00:00:00'") == [far]
    acid.sql("update t set d = date_add(d, 1) where k = 2")
    acid.sql("merge into t using (select 1 as k) s on t.k = s.k when matched then delete")
    far = (2, "+10001-02-05", "+10001-01-13 11:06:40")
    assert rows(f"{shown} order by k") == [far, (3, "1970-01-01", "1970-01-01 00:00:00")]
