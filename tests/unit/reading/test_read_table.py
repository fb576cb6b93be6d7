"""``read_arrow`` of a session's table: typed partitions, conditions, what is not opened, leases."""

from __future__ import annotations

import gc
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.type_changes import changed_table, wrong_answers

from hiveacid import read_arrow
from hiveacid.errors import (
    FormatError,
    InvalidInputError,
    NotFoundError,
    SqlSyntaxError,
    UnsupportedError,
)
from hiveacid.session import Session
from hiveacid.table import AcidTable

pytestmark = pytest.mark.slow


def ids(table: AcidTable | str, **options: object) -> list[int]:
    rows = read_arrow(table, columns=["id"], **options).read_all()  # type: ignore[arg-type]
    return sorted(rows["id"].to_pylist())


def test_columns_have_the_catalogs_types_partition_columns_too(emp: AcidTable) -> None:
    reader = read_arrow(emp)
    assert reader.schema == pa.schema(
        [
            ("id", pa.int32()),
            ("name", pa.string()),
            ("pay", pa.decimal128(9, 2)),
            ("year", pa.int32()),
            ("city", pa.string()),
        ]
    )
    assert sorted(reader.read_all().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "ann", "pay": Decimal(1), "year": 1995, "city": "a/b"},
        {"id": 2, "name": "bob", "pay": Decimal(2), "year": 1995, "city": "x"},
        {"id": 3, "name": None, "pay": Decimal(3), "year": 1996, "city": "x"},
        {"id": 4, "name": "dan", "pay": Decimal(4), "year": None, "city": "y"},
    ]


MANY = range(5000, 25000)
"""As many comparisons in one chain, and Arrow's recursion ends the process."""
LONG = pytest.mark.long("model", "reading", "storage")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("name in ('bob', 'x" + "', 'x".join(map(str, MANY)) + "')", [2]),
        pytest.param("pay in (2, " + ".5, ".join(map(str, MANY)) + ")", [2], marks=LONG),
        ("id = 2 or id = " + " or id = ".join(map(str, MANY)), [2]),
        pytest.param("year not in (1995, " + ", ".join(map(str, MANY)) + ")", [3], marks=LONG),
    ],
    ids=("texts", "decimals", "or", "not in"),
)
def test_a_condition_may_be_as_long_as_a_program_makes_it(
    emp: AcidTable, condition: str, expected: list[int]
) -> None:
    assert ids(emp, filter=condition) == expected


def test_many_partitions_may_be_chosen(emp: AcidTable) -> None:
    assert ids(emp, partitions=[{"year": 1996}, *({"year": n} for n in MANY)]) == [3]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 2", [2]),
        ("ID in (1, 3, 9)", [1, 3]),
        ("id = 2 and year in (1995, 1996)", [2]),
        ("year = 1996 or name = 'dan'", [3, 4]),
        ("name is null", [3]),
        ("not (name is null) and year is not null", [1, 2]),
        ("id not in (1, 2)", [3, 4]),
        ("year is null", [4]),
        ("city = 'a/b'", [1]),
        ("pay between 1.5 and 3", [2, 3]),
        ("pay > '2'", [3, 4]),
        ("3 < id", [4]),
        ("city <> 'x' and year < 2000", [1]),
        ("id = 2 and id = 3", []),
        ("id in (1, null)", [1]),
        ("id not in (1, null)", []),
        ("id = null or id = 4", [4]),
        ("not (id = null)", []),
        ("id = 9223372036854775808 or id in (2, 9223372036854775808)", [2]),
        ("id < 9223372036854775808 and year <> -9223372036854775809", [1, 2, 3]),
        ("id > 1e30 or id < -1e30", []),
        ("year <=> null", [4]),
        ("not (year <=> 1995)", [3, 4]),
        ("emp.id = 1", [1]),
        ("Default.EMP.year = 1996", [3]),
        (pc.field("id") > 2, [3, 4]),
        (pc.field("year") == 1995, [1, 2]),
        ((pc.field("year") == 1995) | (pc.field("id") == 4), [1, 2, 4]),
        (pc.field("year").is_null(), [4]),
        (pc.utf8_upper(pc.field("name")) == "BOB", [2]),
    ],
)
def test_a_condition_keeps_the_rows_it_is_true_for(
    emp: AcidTable, condition: object, expected: list[int]
) -> None:
    assert ids(emp, filter=condition) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"year": 1995}, [1, 2]),
        ({"YEAR": "1995", "city": "x"}, [2]),
        ([{"year": 1996}, {"city": "a/b"}], [1, 3]),
        ({"year": None}, [4]),
        ("year >= 1996 or city = 'y'", [3, 4]),
        ([], []),
        ({}, [1, 2, 3, 4]),
    ],
)
def test_partitions_are_chosen_by_value_or_text(
    emp: AcidTable, chosen: object, expected: list[int]
) -> None:
    assert ids(emp, partitions=chosen) == expected


TIMES = [datetime(1500, 1, 1), datetime(2020, 1, 1, 1, 2, 3, 4), datetime(9999, 12, 31)]


@pytest.mark.parametrize("seconds", [True, False])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("ts < '1600-01-01 00:00:00'", [0]),
        ("ts = '9999-12-31 00:00:00'", [2]),
        ("ts <> '9999-12-31 00:00:00'", [0, 1]),
        ("ts > timestamp'2020-01-01 01:02:03.000003'", [1, 2]),
        ("ts = timestamp'2020-01-01 01:02:03.000004'", [1]),
        ("ts >= date'2020-01-02'", [2]),
        ("ts in ('1500-01-01', '9999-12-31')", [0, 2]),
        ("d < timestamp'1500-01-01 00:00:01'", [0]),
        ("d = timestamp'2020-01-01 00:00:01'", []),
        ("d >= '9999-12-31'", [2]),
    ],
)
def test_timestamps_of_all_years_compare(
    acid: Session, condition: str, expected: list[int], seconds: bool
) -> None:
    """With early and late rows columns are read as microseconds, without as nanoseconds."""
    acid.sql(
        "create table times (id int, ts timestamp, d date) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    places = [0, 1, 2] if seconds else [1]
    moments = pa.array([TIMES[i] for i in places], pa.timestamp("us"))
    days = moments.cast(pa.date32(), safe=False)
    table = acid.table("times")
    table.write_arrow(pa.table({"id": places, "ts": moments, "d": days}))
    unit = "us" if seconds else "ns"
    assert read_arrow(table).schema.field("ts").type == pa.timestamp(unit)
    assert ids(table, filter=condition) == [i for i in expected if i in places]


@pytest.mark.parametrize("by_path", [True, False])
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"x": 1.5}, [1, 2]),
        ({"x": Decimal("1.50")}, [1, 2]),
        ({"x": np.float32(1.5)}, [1, 2]),
        ({"x": np.int64(2)}, [3]),
        ({"b": True}, [1, 3]),
        ({"b": np.bool_(False)}, [2]),
        ({"day": date(2020, 1, 1)}, [1, 2]),
        ({"day": "2020-01-02"}, [3]),
        ("x = 1.5 and b = true", [1]),
    ],
)
def test_values_of_partitions_mean_what_the_text_means(
    acid: Session, chosen: object, expected: list[int], by_path: bool
) -> None:
    acid.sql(
        "create table kinds (id int) partitioned by (x decimal(6,2), b boolean, day date)"
        " stored as orc tblproperties ('transactional'='true')"
    )
    table = acid.table("kinds")
    days = [date(2020, 1, 1), date(2020, 1, 1), date(2020, 1, 2)]
    table.write_arrow(
        pa.table(
            {
                "id": [1, 2, 3],
                "x": [Decimal("1.5"), Decimal("1.5"), Decimal(2)],
                "b": [True, False, True],
                "day": days,
            }
        )
    )
    root = Path(table.definition.location)
    if by_path:  # another writer's spelling
        (root / "x=1.5" / "b=false").rename(root / "b=false")
        (root / "x=1.50").mkdir()
        (root / "b=false").rename(root / "x=1.50" / "b=FALSE")
    assert ids(str(root) if by_path else table, partitions=chosen) == expected


@pytest.mark.parametrize("value", ["abc", [1], object(), True])
def test_what_is_no_value_of_a_partition_column_is_an_error(emp: AcidTable, value: object) -> None:
    with pytest.raises(InvalidInputError, match="no value of partition column year of type int"):
        ids(emp, partitions={"year": value})


def damage(table: AcidTable, pattern: str) -> None:
    found = [
        path
        for path in Path(table.definition.location).rglob("bucket_*")
        if pattern in str(path.parent)
    ]
    assert found
    for path in found:
        path.write_bytes(b"damaged")


@pytest.mark.parametrize(
    "options",
    [
        {"filter": "year = 1996"},
        {"filter": pc.field("year") == 1996},
        {"filter": "id = 3 and year > 1995"},
        {"partitions": {"year": 1996}},
        {"partitions": "year > 1995"},
    ],
)
def test_files_of_other_partitions_are_not_opened(
    emp: AcidTable, options: dict[str, object]
) -> None:
    damage(emp, "year=1995")
    damage(emp, "year=__HIVE_DEFAULT")
    assert ids(emp, **options) == [3]
    with pytest.raises(FormatError, match="year=1995"):
        ids(emp)


def test_by_path_partition_values_are_text_and_conditions_work_too(emp: AcidTable) -> None:
    path = emp.definition.location
    reader = read_arrow(path)
    assert reader.schema.field("year").type == pa.string()
    reader.read_all()
    damage(emp, "year=1996")
    # the newest file of each partition is looked into for the columns
    with pytest.raises(FormatError):
        ids(path, filter="year = 1995")


def test_by_path_partition_columns_may_begin_with_an_underscore(acid: Session) -> None:
    acid.sql("""create table t (id int) partitioned by (`_p` int, `_q` string) stored as orc
        tblproperties ('transactional'='true')""")
    table = acid.table("t")
    table.write_arrow(pa.table({"id": [1, 2], "_p": [1, 2], "_q": ["_a", ".b"]}))
    path = Path(table.definition.location)
    for name in ("_hiveacid_staging_9_p=1", ".p=1", "-tmp.p=1", "_tmp_1"):
        (path / name / "delta_0000001_0000001").mkdir(parents=True)
    found = read_arrow(str(path)).read_all().to_pylist()
    assert sorted(found, key=str) == [
        {"id": 1, "_p": "1", "_q": "_a"},
        {"id": 2, "_p": "2", "_q": ".b"},
    ]


def test_by_path_a_number_is_compared_with_text_as_a_number(emp: AcidTable) -> None:
    path = emp.definition.location
    assert ids(path, filter="year = 1995") == [1, 2]
    assert ids(path, filter="year = '1995' and city = 'x'") == [2]
    assert ids(path, partitions={"year": 1996}) == [3]
    assert ids(path, filter="city > 5") == []


def test_wrong_conditions_are_refused_before_anything_is_read(emp: AcidTable) -> None:
    for condition, error in (
        ("nope = 1", NotFoundError),
        ("id = ", UnsupportedError),
        ("id = 1 and upper(name) = 'X'", UnsupportedError),
        ("id = 'x'", InvalidInputError),
        ("id = 'unclosed", SqlSyntaxError),
        (pc.field("nope") == 1, NotFoundError),
        (pc.field("name") == 1, InvalidInputError),
    ):
        with pytest.raises(error):
            read_arrow(emp, filter=condition)
    with pytest.raises(NotFoundError):
        read_arrow(emp, partitions={"id": 1})
    with pytest.raises(InvalidInputError):
        read_arrow(emp, partitions={"year": "x"})
    with pytest.raises(NotFoundError):
        read_arrow(emp, columns=["nope"])
    with pytest.raises(InvalidInputError):
        read_arrow(emp, valid_write_ids="default.emp:1:1:1:")
    with pytest.raises(InvalidInputError):
        read_arrow(5)  # type: ignore[arg-type]


def open_transactions(acid: Session) -> int:
    return len(acid.sql("show transactions").rows)


def test_a_reader_is_a_lease_until_it_is_exhausted_or_dropped(
    acid: Session, emp: AcidTable
) -> None:
    acid.sql("set hiveacid.reads.lease = always")
    before = open_transactions(acid)
    reader = read_arrow(emp)
    assert open_transactions(acid) == before + 1
    reader.read_all()
    assert open_transactions(acid) == before
    unread = read_arrow(emp)
    begun = read_arrow(emp)
    begun.read_next_batch()
    assert open_transactions(acid) == before + 2
    del unread, begun
    gc.collect()
    assert open_transactions(acid) == before
    with pytest.raises(InvalidInputError):
        read_arrow(emp, filter="id = 'x'")
    assert open_transactions(acid) == before


def test_a_reader_sees_the_table_as_it_was_when_it_was_made(emp: AcidTable) -> None:
    reader = read_arrow(emp)
    emp.delete_arrow("id in (1, 2)")
    emp.write_arrow(pa.table({"id": [9], "year": [1995], "city": ["x"]}))
    assert sorted(reader.read_all()["id"].to_pylist()) == [1, 2, 3, 4]
    assert ids(emp) == [3, 4, 9]


def test_dropping_a_table_need_not_wait_for_a_reader(acid: Session, emp: AcidTable) -> None:
    reader = read_arrow(emp)
    acid.sql("drop table emp")
    with pytest.raises(NotFoundError):
        read_arrow(emp)
    del reader


def test_a_plain_table_is_read_too(acid: Session) -> None:
    acid.sql("create table p (id int, s string) stored as orc")
    acid.sql("insert into p values (1, 'a'), (2, 'b')")
    assert ids(acid.table("p"), filter="s = 'b'") == [2]


MEMORY = """
import resource, sys
import numpy as np, pyarrow as pa, hiveacid
url, warehouse = sys.argv[1:3]
acid = hiveacid.connect(None, url, warehouse=warehouse)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
reader = hiveacid.read_arrow(acid.table("big"), columns=["k", "text"], filter="k >= 0")
rows = text = 0
for number, batch in enumerate(reader):
    rows += batch.num_rows
    text += batch.nbytes
    del batch
    if number == 2:  # the first stripe is small
        early = peak()
print(rows, text / 2**20, peak() - early)
"""


@pytest.mark.long("reading", "storage")
def test_memory_is_bounded_by_a_stripe_not_by_the_table(acid: Session, tmp_path: Path) -> None:
    acid.sql(
        "create table big (k bigint, text string) stored as orc "
        "tblproperties ('transactional'='true', 'orc.stripe.size'='4194304', "
        "'orc.compress'='ZSTD')"
    )
    count = 200_000
    numbers = pa.array(range(count))
    text = pc.binary_join_element_wise("row", numbers.cast(pa.string()), pa.scalar("x" * 400), "-")
    for _ in range(2):
        acid.table("big").write_arrow(pa.table({"k": numbers, "text": text}))
    url = f"sqlite:///{tmp_path}/metastore.db"
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, url, str(tmp_path / "warehouse")],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, text_mib, grown_mib = map(float, done.stdout.split())
    assert rows == 2 * count
    assert text_mib > 150
    assert grown_mib < 90  # a few stripes and what is decoded of them, not the table


def test_timestamps_that_nanoseconds_do_not_reach_name_partitions(acid: Session) -> None:
    acid.sql(
        "create table moments (id int) partitioned by (p timestamp) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    acid.sql(
        "insert into moments values (1, '0001-01-01 00:00:00.0'), (2, '9999-12-31 23:59:59.5'),"
        " (3, '2020-01-02 03:04:05')"
    )
    moments = acid.table("moments")
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 500_000)
    found = read_arrow(moments).read_all()
    assert sorted(found.column("p").to_pylist()) == [first, datetime(2020, 1, 2, 3, 4, 5), last]
    early = read_arrow(moments, filter="p < '1999-01-01'").read_all()
    assert early.column("id").to_pylist() == [1]
    keys = pa.table({"p": pa.array([first], pa.timestamp("us"))})
    assert moments.delete_arrow(keys).rows == 1
    middle = read_arrow(moments, filter="p < '2021-01-01'").read_all()
    assert middle.column("id").to_pylist() == [3]


ROWS_OF_BUCKETS = [
    60,  # a file for each; some have numbers that no row id can name
    pytest.param(6000, marks=pytest.mark.long("reading", "statements", "storage", "writing")),
]


@pytest.mark.parametrize("count", ROWS_OF_BUCKETS)
def test_more_buckets_than_row_ids_can_name_are_for_plain_tables_only(
    acid: Session, count: int
) -> None:
    table = "(id int) clustered by (id) into 5000 buckets stored as orc"
    with pytest.raises(InvalidInputError, match=r"5000 buckets; .* at most 4096"):
        acid.sql(f"create table b {table} tblproperties ('transactional'='true')")
    acid.sql(f"create table b {table}")
    ids = list(range(count))
    acid.table("b").write_arrow(pa.table({"id": ids}))
    assert sorted(read_arrow(acid.table("b")).read_all().column("id").to_pylist()) == ids
    names = [path.name for path in Path(acid.table("b").definition.location).iterdir()]
    assert max(names) > "004095"
    with pytest.raises(InvalidInputError, match="5000 buckets"):
        acid.sql("alter table b set tblproperties ('transactional'='true')")


def test_changed_types_are_read_as_hive_reads_them(acid: Session) -> None:
    changes = changed_table(acid, "stored as orc tblproperties ('transactional'='true')")
    table = acid.table("changed")
    assert len(changes) > 70
    assert not wrong_answers(read_arrow(table).read_all().sort_by("n"), changes)


def test_a_directory_of_tables_is_not_read_as_one(acid: Session, emp: AcidTable) -> None:
    warehouse = emp.definition.location.rpartition("/")[0]
    with pytest.raises(FormatError, match="is no table, but holds the directory of one"):
        read_arrow(warehouse)


def test_bytes_that_are_no_text_are_replaced_at_any_depth(acid: Session) -> None:
    acid.sql("create table t (s string, a array<string>, m map<string,int>) stored as textfile")
    directory = Path(acid.table("t").definition.location.removeprefix("file:"))
    directory.mkdir(exist_ok=True)
    (directory / "f").write_bytes(b"caf\xe9\x01x\x02\xff\x01k\xe9\x031\nok\x01\\N\x01\\N\n")
    assert read_arrow(acid.table("t")).read_all().to_pylist() == [
        {"s": "caf\ufffd", "a": ["x", "\ufffd"], "m": [("k\ufffd", 1)]},
        {"s": "ok", "a": None, "m": None},
    ]


def test_unions_and_maps_are_written_as_they_are_read(acid: Session) -> None:
    acid.sql(
        "create table u (u uniontype<int,string>, m array<map<string,int>>) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    table = acid.table("u")
    one = {"u": {"tag": 0, "field0": 5, "field1": None}, "m": [{"k": 1, "l": None}, None]}
    table.write_arrow([one, {"u": None, "m": [{}]}])
    rows = read_arrow(table).read_all().to_pylist()
    table.write_arrow(rows, overwrite=True)
    assert read_arrow(table).read_all().to_pylist() == rows
    assert rows[0] == {"u": one["u"], "m": [[("k", 1), ("l", None)], None]}
