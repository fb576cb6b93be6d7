"""Tables whose files hold rows and no events: insert-only and plain, in ORC, Parquet and text.

File trees, texts and errors are those that Hive 4.1 gave for the same statements.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from tests.recorded import golden_names, golden_path
from tests.sampling import sampled

import hiveacid
from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import FileFormat
from hiveacid.spark.session import session_conf

FORMATS = sampled(("orc", "parquet", "textfile"), "spark", "storage", "statements", group=type)
INSERT_ONLY = "tblproperties('transactional'='true','transactional_properties'='insert_only')"
ALL_TYPES = (
    "i int, ti tinyint, si smallint, bi bigint, f float, d double, b boolean, s string, c char(5),"
    " v varchar(5), bn binary, da date, ts timestamp, de decimal(10,2), a array<int>,"
    " m map<string,int>, st struct<x:int,y:string>, n array<array<string>>"
)
ROWS = [
    "1, 2Y, 3S, 4L, 1.5F, 1e7D, true, 'abc', 'ab', 'abcde', X'62696E', date'2020-01-02',"
    " timestamp_ntz'2020-01-02 03:04:05.12', 1.5BD, array(1, 2, null), map('k', 1, 'l', null),"
    " named_struct('x', 1, 'y', 'z'), array(array('a', 'b'), array('c'))",
    "-1, -128Y, null, -9223372036854775807L, null, 1e-5D, false, '', '', '', X'', date'0001-01-01',"
    " timestamp_ntz'1500-01-02 03:04:05.123456', -100BD, array(), map(), named_struct('x', null,"
    " 'y', null), array(array('q'))",
    ", ".join(["null"] * 18),
]


def fill(acid, spark, table: str) -> None:
    names = [one.split(" ")[0] for one in ALL_TYPES.replace(", ", "\n").split("\n")]
    text = " union all ".join(f"select {row}" for row in ROWS)
    typed = spark.sql(text).toDF(*names).coalesce(1)
    acid.table(table).insert(typed, by_name=False)


def load_orc(path: Path, rows: dict[str, list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table(rows), str(path))


@pytest.mark.parametrize("format", FORMATS)
def test_all_types_come_back_the_same_with_and_without_spark(acid, spark, format):
    acid.sql(f"create table t ({ALL_TYPES}) stored as {format} {INSERT_ONLY}")
    fill(acid, spark, "t")
    found = sorted(acid.sql("select * from t").collect(), key=lambda r: (r.i is None, -(r.i or 0)))
    assert found[0][:6] == (1, 2, 3, 4, 1.5, 1e7)
    assert found[0].s == "abc" and found[0].c.rstrip() == "ab" and bytes(found[0].bn) == b"bin"
    assert found[0].da == datetime.date(2020, 1, 2)
    assert found[0].ts == datetime.datetime(2020, 1, 2, 3, 4, 5, 120000)
    assert found[0].de == Decimal("1.50") and found[0].a == [1, 2, None]
    assert found[0].m == {"k": 1, "l": None} and found[0].st == (1, "z")
    assert found[0].n == [["a", "b"], ["c"]]
    assert found[1].da == datetime.date(1, 1, 1) and found[1].a == [] and found[1].m == {}
    assert found[1].ts == datetime.datetime(1500, 1, 2, 3, 4, 5, 123456)
    assert found[1].st == (None, None) and found[1].bi == -9223372036854775807
    assert all(value is None for value in found[2])
    table = hiveacid.read_arrow(acid.table("t")).read_all()
    assert table.num_rows == 3
    by_i = {row["i"]: row for row in table.to_pylist()}
    assert by_i[1]["n"] == found[0].n and by_i[-1]["d"] == 1e-5
    assert by_i[-1]["da"] == datetime.date(1, 1, 1) and by_i[1]["c"].rstrip() == "ab"


@pytest.mark.parametrize("format", FORMATS)
def test_overwrite_append_and_an_overwrite_without_rows_make_hives_files(
    acid, format, rows, layout
):
    acid.sql(f"create table t (id int, v string) stored as {format} {INSERT_ONLY}")
    acid.sql("insert into t values (1, 'a'), (2, null)")
    acid.sql("insert into t select id + 10, v from t")
    acid.sql("insert overwrite table t select id, v from t where id > 10")
    assert rows("select * from t") == [(11, "a"), (12, None)]
    acid.sql("insert overwrite table t select id, v from t where id > 100")
    assert rows("select * from t") == []
    found = [path.partition("/") for path in layout("t")]
    assert [directory for directory, _, _ in found] == [
        "base_0000003",
        "base_0000004",
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0000",
    ]
    assert all(re.fullmatch("00000[0-9]_N", name) for _, _, name in found)
    (empty,) = Path(acid.table("t").definition.location).glob("base_0000004/*")
    assert (empty.stat().st_size == 0) == (format != "parquet")


@pytest.mark.parametrize("format", FORMATS)
def test_partitions_static_dynamic_and_empty(acid, format, rows, layout):
    acid.sql(
        f"create table t (id int, v string) partitioned by (p string) stored as {format}"
        f" {INSERT_ONLY}"
    )
    acid.sql("insert into t partition (p) values (1, 'a', 'x'), (2, 'b', null), (3, 'c', 'a/b')")
    acid.sql("insert into t partition (p='y') select id, v from t where id > 100")
    acid.sql("insert overwrite table t partition (p='x') values (9, 'ow')")
    default = "__HIVE_DEFAULT_PARTITION__"
    assert rows("select * from t") == [(2, "b", default), (3, "c", "a/b"), (9, "ow", "x")]
    assert layout("t") == [
        "p=__HIVE_DEFAULT_PARTITION__/delta_0000001_0000001_0000/000000_N",
        "p=a%2Fb/delta_0000001_0000001_0000/000000_N",
        "p=x/base_0000003/000000_N",
        "p=x/delta_0000001_0000001_0000/000000_N",
    ]
    names = [row[0] for row in acid.sql("show partitions t").collect()]
    assert "p=y" in names


@pytest.mark.parametrize("format", FORMATS)
def test_values_of_partitions_are_those_of_their_columns_types(acid, format, rows):
    acid.sql(
        "create table t (id int) partitioned by (de decimal(10,2), wide decimal(38,10), d double,"
        f" b boolean, da date, v varchar(5)) stored as {format} {INSERT_ONLY}"
    )
    acid.sql("insert into t values (1, 1.50, 7, 0.5, true, date'2020-02-29', '1.50')")
    acid.sql("insert into t values (2, -0.01, 1.5, 1e20, false, date'0001-01-01', '07')")
    acid.sql("insert into t values (3, null, null, null, null, null, 'a')")
    wanted = [
        (1, Decimal("1.50"), Decimal(7), 0.5, True, datetime.date(2020, 2, 29), "1.50"),
        (2, Decimal("-0.01"), Decimal("1.5"), 1e20, False, datetime.date(1, 1, 1), "07"),
        (3, None, None, None, None, None, "a"),
    ]
    assert sorted(rows("select * from t")) == wanted
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == wanted
    assert rows("select id from t where de = 1.5 and wide = 7") == [(1,)]


@pytest.mark.parametrize("format", FORMATS)
def test_minus_zero_is_found_as_zero(acid, format, rows):
    acid.sql(f"create table t (id int, d double) partitioned by (p int) stored as {format}")
    for place in ("", " location '{}/other'".format(acid.table("t").definition.location)):
        acid.sql(f"alter table t add partition (p={len(place)}){place}")
        for value in ("-0.0D", "0.0D"):
            acid.sql(
                f"insert into t select 1, {value}, {len(place)} union all select 2, {value}, 9"
            )
    for condition in ("d = 0", "d >= 0", "d <= -0.0D", "d in (0, 5)"):
        assert len(rows(f"select id from t where {condition}")) == 8, condition


@pytest.mark.long("spark", "storage")
@pytest.mark.parametrize("format", FORMATS)
def test_floating_numbers_in_structs_are_compared_as_queries_do(acid, format, rows):
    acid.sql(
        "create table t (id int, s struct<d:double,x:struct<`e f`:float>>)"
        f" stored as {format} {INSERT_ONLY}"
    )
    acid.sql("insert into t values (9, null)")
    for values in ("-0.0D", "0.0D", "1.0D, double('NaN')"):
        acid.sql(
            "insert into t select 1,"
            " named_struct('d', v, 'x', named_struct('e f', cast(v as float)))"
            f" from (select explode(array({values})) v)"
        )
    for field in ("s.d", "s.x.`e f`"):
        found = {"= 0": 2, ">= 0": 4, "<= -0.0D": 2, "in (0, 5)": 2, "> 5": 1, "is null": 1}
        for condition, count in found.items():
            assert len(rows(f"select id from t where {field} {condition}")) == count, condition
    assert rows("select id from t where s is null") == [(9,)]


@pytest.mark.parametrize("format", FORMATS)
def test_buckets_have_their_numbers_and_no_files_without_rows(acid, spark, format, layout, rows):
    acid.sql(
        "create table t (id int, v string) clustered by (id) into 4 buckets"
        f" stored as {format} {INSERT_ONLY}"
    )
    acid.table("t").insert(spark.range(1, 3).selectExpr("cast(id as int) id", "'a' v"))
    assert layout("t") == [
        "delta_0000001_0000001_0000/000000_N",
        "delta_0000001_0000001_0000/000001_N",
    ]
    assert rows("select * from t") == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_sorted_table_is_sorted_within_its_buckets(acid, spark, tmp_path, direction):
    acid.sql(
        f"create table t (id int, v int) clustered by (id) sorted by (v {direction}) into 2 buckets"
        f" stored as orc {INSERT_ONLY}"
    )
    rows = spark.range(0, 300).selectExpr("cast(id as int) id", "cast(id * 7919 % 300 as int) v")
    acid.table("t").insert(rows)
    acid.sql("insert into t values (1, 5), (3, 2), (5, null)")
    files = [orc.read_table(str(path)) for path in (tmp_path / "wh/t").glob("delta_*/*_[0-9]")]
    assert sum(file.num_rows for file in files) == 303
    assert max(file.num_rows for file in files) > 100
    for file in files:
        found = [-1 if v is None else v for v in file["v"].to_pylist()]
        assert found == sorted(found, reverse=direction == "desc")


@pytest.mark.parametrize("format", FORMATS)
def test_plain_tables_are_appended_to_and_overwritten(acid, format, rows, layout):
    acid.sql(f"create table t (id int, v string) stored as {format}")
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert into t select id + 1, v from t")
    assert rows("select * from t") == [(1, "a"), (2, "a")]
    assert layout("t") == ["000000_0", "000000_0_copy_1"]
    acid.sql("insert overwrite table t values (7, 'z')")
    assert rows("select * from t") == [(7, "z")]


def test_a_multi_insert_and_a_ctas_into_insert_only_tables(acid, rows):
    acid.sql(f"create table a (id int) stored as parquet {INSERT_ONLY}")
    acid.sql(f"create table s stored as textfile {INSERT_ONLY} as select 1 id union all select 2")
    acid.sql(f"create table b (id int) partitioned by (p int) stored as textfile {INSERT_ONLY}")
    acid.sql(
        "from s insert into table a select id insert into table b partition (p=1) select id + 10"
    )
    assert (rows("select * from a"), rows("select * from b")) == ([(1,), (2,)], [(11, 1), (12, 1)])


@pytest.mark.long("spark", "statements")
def test_branches_of_a_multi_insert_go_to_one_plain_table(acid, rows):
    acid.sql("create table s (id int, p string) stored as orc")
    acid.sql("insert into s values (1, 'a'), (2, 'b'), (3, 'c')")
    acid.sql("create table t (id int) partitioned by (p string, q int) stored as orc")
    acid.sql(
        "from s insert overwrite table t partition (p, q) select id, p, 1 where id < 3"
        " insert overwrite table t partition (p='z', q) select id, 2 where id > 1"
        " insert into table t partition (p='z', q=3) select id"
    )
    some = [(1, "a", 1), (2, "b", 1), (2, "z", 2), (3, "z", 2)]
    assert rows("select * from t where q < 3") == some
    assert rows("select id, p from t where q = 3") == [(1, "z"), (2, "z"), (3, "z")]


def test_delimiters_that_the_table_names_are_read_and_written(acid, layout, rows, tmp_path):
    acid.sql(
        "create table t (s string, a array<string>, m map<string,string>, i int) row format"
        " delimited fields terminated by ',' escaped by '\\\\' collection items terminated by '|'"
        " map keys terminated by ':' lines terminated by '\\n' null defined as 'NUL'"
        " stored as textfile"
    )
    line = b"a\\,b,x\\|y|z\\:w|NUL,k\\:1:v\\|2,5\n"
    (tmp_path / "given.txt").write_bytes(line)
    acid.sql(f"load data local inpath '{tmp_path}/given.txt' into table t")
    acid.sql("insert into t select * from t")
    assert layout("t") == ["000000_0", "given.txt"]
    assert (tmp_path / "wh/t/000000_0").read_bytes() == line
    expected = ("a,b", ["x|y", "z:w", None], {"k:1": "v|2"}, 5)
    assert rows("select * from t") == [expected, expected]


@pytest.mark.parametrize("name", golden_names("f"))
def test_insert_only_tables_of_hive_are_read_through_spark(acid, name, tmp_path):
    meta = json.loads((golden_path(name) / "meta.json").read_text())
    place = tmp_path / "taken"
    shutil.copytree(golden_path(name) / "data", place)
    kinds = {"Orc": "orc", "Parq": "parquet", "Text": "textfile"}
    format = next(word for key, word in kinds.items() if key in meta["input_format"])
    columns = ", ".join(f"{column} {kind}" for column, kind in meta["columns"])
    taken = INSERT_ONLY.removesuffix(")") + ", 'hiveacid.accept_all_write_ids'='true')"
    acid.sql(f"create table t ({columns}) stored as {format} location '{place}' {taken}")
    lines = (golden_path(name) / "query.tsv").read_text().split("\n")[1:-1]
    # a compaction that is not committed for a reader of our transactions is not read by it
    got = sorted(
        "\t".join("NULL" if value is None else str(value) for value in row)
        for row in acid.sql("select * from t").collect()
    )
    assert got == sorted(lines)


# -------------------------------------------------------------------- LOAD DATA


def test_loaded_files_of_a_table_with_row_ids_are_numbered(acid, tmp_path, rows, layout):
    load_orc(tmp_path / "in/data.orc", {"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
    load_orc(tmp_path / "in/other.orc", {"id": pa.array([3], pa.int32()), "v": ["c"]})
    acid.sql(
        "create table t (id int, v string) stored as orc tblproperties('transactional'='true')"
    )
    acid.sql(f"load data local inpath '{tmp_path}/in' into table t")
    ids = "row__id.writeid, row__id.bucketid, row__id.rowid"
    assert rows(f"select {ids}, * from t") == [
        (1, 536870912, 0, 1, "a"), (1, 536870912, 1, 2, "b"), (1, 536936448, 0, 3, "c"),
    ]  # fmt: skip
    acid.sql("delete from t where id = 1")
    acid.sql(f"load data inpath '{tmp_path}/in/other.orc' into table t")
    assert rows("select * from t") == [(2, "b"), (3, "c"), (3, "c")]
    assert not (tmp_path / "in/other.orc").exists() and (tmp_path / "in/data.orc").exists()
    acid.table("t").load(f"{tmp_path}/in/data.orc", overwrite=True, local=True)
    assert rows(f"select {ids}, * from t")[0] == (4, 536870912, 0, 1, "a")
    loaded = [path for path in layout("t") if path.endswith("_N") and "bucket" not in path]
    assert loaded == [
        "base_0000004/000000_N",
        "delta_0000001_0000001_0000/000000_N",
        "delta_0000001_0000001_0000/000001_N",
        "delta_0000003_0000003_0000/000000_N",
    ]


def test_loaded_files_of_other_tables_keep_their_names(acid, tmp_path, rows, layout):
    load_orc(tmp_path / "in/data.orc", {"id": pa.array([1], pa.int32())})
    (tmp_path / "in/_hidden").write_text("x")
    acid.sql(f"create table t (id int) stored as orc {INSERT_ONLY}")
    acid.sql("create table p (id int) stored as orc")
    for table in ("t", "p", "p"):
        acid.sql(f"load data local inpath '{tmp_path}/in' into table {table}")
    assert layout("t") == ["delta_0000001_0000001_0000/data.orc"]
    assert layout("p") == ["data.orc", "data_copy_1.orc"]
    acid.sql(f"load data local inpath '{tmp_path}/in/*.orc' overwrite into table p")
    # the old files have their names until the new one is there
    assert (layout("p"), rows("select * from p")) == (["data_copy_2.orc"], [(1,)])


def test_a_load_whose_rows_must_be_looked_at_is_an_insert(acid, tmp_path, rows, layout):
    load_orc(tmp_path / "in/sub/x.orc", {"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
    full = "tblproperties('transactional'='true')"
    acid.sql(
        f"create table b (id int, v string) clustered by (id) into 2 buckets stored as orc {full}"
    )
    acid.sql(f"create table p (id int, v string) partitioned by (p int) stored as orc {full}")
    acid.sql(f"create table t (id int, v string) stored as orc {INSERT_ONLY}")
    acid.sql(f"load data local inpath '{tmp_path}/in/sub/x.orc' into table b")
    acid.sql(f"load data local inpath '{tmp_path}/in/sub/x.orc' into table p partition (p='007')")
    acid.sql(f"load data local inpath '{tmp_path}/in/sub/x.orc' into table p")
    acid.sql(f"load data local inpath '{tmp_path}/in' into table t")
    assert rows("select row__id.bucketid, id from b") == [(536870912, 2), (536936448, 1)]
    assert rows("select * from p") == [
        (1, "a", 7), (1, "a", None), (2, "b", 7), (2, "b", None)
    ]  # fmt: skip
    assert rows("select * from t") == [(1, "a"), (2, "b")]
    assert "p=7/delta_0000001_0000001_0000/000000_N" in layout("p")


def test_loads_that_hive_refuses(acid, tmp_path):
    (tmp_path / "text.txt").write_text("1\n")
    load_orc(tmp_path / "a.orc", {"id": pa.array([1], pa.int32())})
    acid.sql("create table t (id int) stored as orc tblproperties('transactional'='true')")
    acid.sql(f"create table q (id int) stored as parquet {INSERT_ONLY}")
    acid.sql("insert into t values (1)")
    event_file = next((tmp_path / "wh/t").glob("delta_*/bucket_*"))
    refused = {
        f"'{tmp_path}/text.txt' into table t": "does not match the file format",
        f"'{tmp_path}/a.orc' into table q": "does not match the file format",
        f"'{tmp_path}/nosuch' into table t": "No files matching path",
        f"'{tmp_path}/a.orc' into table t partition (k=1)": "is not partitioned",
        f"'{event_file}' into table t": "was created by Acid write",
    }
    for tail, message in refused.items():
        with pytest.raises(InvalidInputError, match=message):
            acid.sql(f"load data local inpath {tail}")
    assert acid.sql("select count(*) from t").collect()[0][0] == 1


# -------------------------------------------------------------------- conversion


@pytest.mark.parametrize("format", FORMATS)
def test_a_plain_table_becomes_insert_only_its_files_the_first_delta(acid, format, rows, layout):
    acid.sql(f"create table t (id int) partitioned by (p int) stored as {format}")
    acid.sql("insert into t partition (p) values (1, 1), (2, 2)")
    acid.sql(f"alter table t set {INSERT_ONLY}")
    assert layout("t") == [
        "p=1/delta_0000001_0000001_0000/000000_N",
        "p=2/delta_0000001_0000001_0000/000000_N",
    ]
    acid.sql("insert into t partition (p=1) values (3)")
    assert rows("select * from t") == [(1, 1), (2, 2), (3, 1)]
    assert "p=1/delta_0000002_0000002_0000/000000_N" in layout("t")
    with pytest.raises(InvalidInputError) as caught:
        acid.sql("delete from t where id = 1")
    assert caught.value.code == 10414


def test_an_insert_only_orc_table_becomes_full_acid_in_place(acid, rows):
    acid.sql(f"create table t (id int) stored as orc {INSERT_ONLY}")
    acid.sql("insert into t values (1), (2)")
    acid.sql("insert into t values (3)")
    acid.sql("alter table t set tblproperties ('transactional_properties'='default')")
    acid.sql("delete from t where id = 2")
    acid.sql("update t set id = 30 where id = 3")
    assert rows("select * from t") == [(1,), (30,)]
    acid.sql(f"create table x (id int) stored as textfile {INSERT_ONLY}")
    with pytest.raises(InvalidInputError, match="Cannot convert an ACID table to non-ACID"):
        acid.sql("alter table x set tblproperties ('transactional_properties'='default')")
    assert acid.table("x").definition.format is FileFormat.TEXT


def test_a_file_whose_name_gives_no_row_ids_stops_the_conversion(acid, tmp_path):
    load_orc(tmp_path / "data.orc", {"id": pa.array([1], pa.int32())})
    for table, properties in (("i", INSERT_ONLY), ("p", "")):
        acid.sql(f"create table {table} (id int) stored as orc {properties}")
        acid.sql(f"load data local inpath '{tmp_path}/data.orc' into table {table}")
        with pytest.raises(InvalidInputError, match="Unexpected data file name format"):
            acid.sql(
                f"alter table {table} set tblproperties"
                " ('transactional'='true', 'transactional_properties'='default')"
            )
        assert acid.sql(f"select * from {table}").collect()[0][0] == 1


# -------------------------------------------------------------------- a LOCATION of its own


@pytest.mark.long("layout", "spark", "statements")
@pytest.mark.parametrize("properties", ["'transactional'='true'", "'x'='y'"])
def test_a_partition_with_a_location_of_its_own_is_written_there(
    acid, spark, tmp_path, rows, layout, properties
):
    acid.sql(
        "create table t (id int) partitioned by (p string) stored as orc"
        f" tblproperties ({properties})"
    )
    acid.sql(f"alter table t add partition (p='far') location '{tmp_path}/far away'")
    acid.sql("insert into t partition (p='far') values (1)")
    acid.table("t").insert(spark.sql("select 2 id, 'far' p union all select 3, 'near'"))
    assert rows("select * from t") == [(1, "far"), (2, "far"), (3, "near")]
    assert not (tmp_path / "wh/t/p=far").exists()
    if "transactional" in properties:
        acid.sql("update t set id = 20 where id = 2")
        acid.sql("delete from t where id = 1")
        assert rows("select * from t") == [(20, "far"), (3, "near")]
    acid.sql("insert overwrite table t partition (p='far') values (9)")
    assert rows("select * from t") == [(3, "near"), (9, "far")]
    assert all("far" not in path for path in layout("t"))
    assert [path for path in (tmp_path / "far away").rglob("*") if "staging" in path.name] == []


@pytest.mark.parametrize("kind", ["textfile", "parquet", f"textfile {INSERT_ONLY}"])
def test_columns_of_other_files_than_orc_are_dropped_by_replacing_them(acid, rows, kind):
    acid.sql(
        "create table t (i int, s string not null, c int default 7, "
        f"primary key (s) disable novalidate) stored as {kind}"
    )
    acid.sql("insert into t values (1, 'a', 10)")
    acid.sql("alter table t replace columns (i int)")
    acid.sql("insert into t values (2)")
    assert sorted(rows("select * from t")) == [(1,), (2,)]
    acid.sql("alter table t add columns (s string, c int)")
    acid.sql("insert into t (i) values (3)")
    assert sorted(rows("select * from t")) == [(1, "a", 10), (2, None, None), (3, None, None)]
    acid.sql("create table o (i int, c int) stored as orc")
    with pytest.raises(InvalidInputError) as refused:
        acid.sql("alter table o replace columns (i int)")
    assert refused.value.code == 10313


@pytest.mark.parametrize("calendar", ["LEGACY", "CORRECTED"])
def test_dates_of_parquet_files_are_of_the_calendar_that_spark_wrote_them_in(
    acid, spark, rows, tmp_path, calendar
):
    with session_conf(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": calendar}):
        spark.sql("select date'1500-01-02' d").write.parquet(f"{tmp_path}/f")
    acid.sql(f"create external table f (d date) stored as parquet location '{tmp_path}/f'")
    assert rows("select d from f") == [(datetime.date(1500, 1, 2),)]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp with local time zone"])
def test_times_before_1970_of_orc_files_by_arrow(acid, rows, tmp_path, kind):
    """Its C++ writer stores fractions that ORC's Java reader refuses."""
    time = datetime.datetime(1965, 1, 2, 3, 4, 5, 500000)
    (tmp_path / "f").mkdir()
    given = pa.array([time], pa.timestamp("us", None if kind == "timestamp" else "UTC"))
    table = pa.table({"t": given, "s": pa.StructArray.from_arrays([given], ["t"])})
    orc.write_table(table, tmp_path / "f" / "x")
    columns = f"t {kind}, s struct<t:{kind}>"
    acid.sql(f"create external table f ({columns}) stored as orc location '{tmp_path}/f'")
    assert rows("select t, s.t from f") == [(time, time)]
