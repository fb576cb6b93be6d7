"""Any value of any type, written by us, is the same through Spark's scan (ORC's Java reader),
through Spark and Arrow, and through ``read_arrow``; in any time zone of the session.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from tests.connect import OVER_CONNECT, arrow_of

from hiveacid import read_arrow
from hiveacid.errors import UnsupportedError
from hiveacid.layout.directories import Snapshot, SnapshotPart
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Column, Partition, Table, TableName
from hiveacid.model.types import parse_type
from hiveacid.spark.read import read, relation_of
from hiveacid.spark.session import ROW_ID_COLUMN, takes_arrow
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import list_partition
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.orc.tail import read_tail, rewrite_tail
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.storage.target import FileKind

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

FS = Files().at("/")[0]
EPOCH = datetime.datetime(1970, 1, 1)
SECOND = datetime.timedelta(seconds=1)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MOMENT = st.datetimes(datetime.datetime(1, 1, 1), LAST).filter(
    lambda t: not -SECOND < t - EPOCH < 0 * SECOND
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}e-{scale}"))


def whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([low, high, 0, -1]) | st.integers(low, high)


TYPES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "b": ("boolean", st.booleans()),
    "t": ("tinyint", whole(8)),
    "s": ("smallint", whole(16)),
    "i": ("int", whole(32)),
    "l": ("bigint", whole(64)),
    "f": ("float", st.floats(width=32)),
    "d": ("double", st.floats() | st.sampled_from([-0.0, 4.9e-324, 1.7976931348623157e308])),
    "m": ("decimal(18,4)", decimals(18, 4)),
    "m2": ("decimal(38,18)", decimals(38, 18)),
    "m3": ("decimal(38,0)", decimals(38, 0)),
    "c": ("char(5)", TEXT.map(lambda text: text[:5].rstrip(" "))),
    "v": ("varchar(5)", TEXT.map(lambda text: text[:5])),
    "x": ("string", TEXT | st.sampled_from(["", "\0", " "])),
    "y": ("binary", st.binary(max_size=5)),
    "dt": ("date", st.dates()),
    "ts": ("timestamp", MOMENT),
    "z": ("timestamp with local time zone", MOMENT),
    "a": ("array<int>", st.lists(st.none() | whole(32), max_size=3)),
    "n": (
        "struct<p:array<struct<q:date,r:decimal(10,2)>>,u:timestamp,w:map<string,double>>",
        st.fixed_dictionaries(
            {
                "p": st.none()
                | st.lists(
                    st.none()
                    | st.fixed_dictionaries(
                        {"q": st.none() | st.dates(), "r": st.none() | decimals(10, 2)}
                    ),
                    max_size=2,
                ),
                "u": st.none() | MOMENT,
                "w": st.none()
                | st.dictionaries(TEXT, st.none() | st.floats(), max_size=2).map(
                    lambda found: list(found.items())
                ),
            }
        ),
    ),
}
COLUMNS = tuple(Column(name, parse_type(kind)) for name, (kind, _) in TYPES.items())
LAST_ROW = {
    **dict.fromkeys(TYPES),
    "f": 1.5,
    "d": 1.5,
    "n": {"p": None, "u": None, "w": [("", 1.5)]},
}
"""After the others: ORC's reader in Java takes zeros of both signs alone for the first repeated."""
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()}),
    min_size=1,
    max_size=12,
).map(lambda rows: [*rows, LAST_ROW])


def write(
    root: Path, rows: list[dict[str, Any]], columns: tuple[Column, ...] = COLUMNS
) -> Snapshot:
    directory = root / "delta_0000001_0000001_0000"
    directory.mkdir(parents=True)
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in columns])
    with BucketFileWriter(
        FS,
        str(directory / "bucket_00000"),
        columns=columns,
        kind=FileKind.INSERT,
        write_id=1,
        bucket_property=536870912,
    ) as writer:
        writer.write_rows(pa.RecordBatch.from_pylist(rows, schema=schema))
    valid = ValidWriteIdList.everything()
    found = resolve(list_partition(FS, str(root)), valid, None)
    properties = {"transactional": "true"}
    table = Table(TableName("d", "t"), columns, str(root), properties=properties)
    return Snapshot(table, valid, (SnapshotPart(Partition((), str(root)), found),))


def through_spark(spark: Any, snapshot: Snapshot) -> list[dict[str, Any]]:
    found = read(spark, plan_scan(snapshot, files=Files()), virtual=(ROW_ID_COLUMN,))
    rows = arrow_of(found.frame).to_pylist()
    rows.sort(key=lambda row: row.pop("ROW__ID")["rowid"])
    return rows


def through_text(spark: Any, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Columns of the types of which few rows go into a query's text."""
    few = plan_scan(snapshot, files=Files(), columns=TYPES.keys() - {"z", "a", "n"})
    found = read(spark, few, bytes_here=1 << 20)
    assert isinstance(relation_of(spark, found.given), str)
    assert all(field.nullable for field in found.frame.schema)
    return arrow_of(found.frame).to_pylist()


def plain(value: Any) -> Any:
    """Comparable: NaN as text, signs of zeros kept, no zones, no blanks behind a char."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return {
            name: one.rstrip(" ") if name == "c" and one is not None else plain(one)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


@pytest.mark.long("reading", "spark", "storage")
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ROWS)
def test_extreme_values_are_the_same_through_every_reader(spark, tmp_path_factory, rows):
    root = tmp_path_factory.mktemp("extreme")
    snapshot = write(root, rows)
    expected = plain(rows)
    assert plain(through_spark(spark, snapshot)) == expected
    assert plain(read_arrow(str(root)).read_all().to_pylist()) == expected
    if takes_arrow(spark):
        few = plain(through_text(spark, snapshot))
        assert few == [{name: row[name] for name in few[0]} for row in expected]


def exists(moment: datetime.datetime, zone: ZoneInfo) -> bool:
    try:
        back = moment.replace(tzinfo=zone).astimezone(datetime.timezone.utc).astimezone(zone)
    except OverflowError:
        return False
    return back.replace(tzinfo=None) == moment


@pytest.fixture
def zone(spark):
    old = spark.conf.get("spark.sql.session.timeZone")
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", old)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(MOMENT, min_size=1, max_size=20),
    st.sampled_from(["America/New_York", "Asia/Kolkata", "Europe/Berlin"]),
)
def test_a_timestamp_is_a_wall_clock_in_any_session_zone(
    spark, zone, tmp_path_factory, moments, name
):
    kept = [moment for moment in moments if exists(moment, ZoneInfo(name))]
    snapshot = write(
        tmp_path_factory.mktemp("zones"),
        [{"ts": moment} for moment in [*kept, None]],
        (Column("ts", parse_type("timestamp")),),
    )
    zone(name)
    frame = read(spark, plan_scan(snapshot, files=Files()), virtual=(ROW_ID_COLUMN,)).frame
    shown = frame.selectExpr("ROW__ID.rowid", "cast(ts as timestamp_ntz) ts").collect()
    assert [row.ts for row in sorted(shown)] == [*kept, None]


def test_statements_write_the_wall_clock_of_the_session(acid, zone, tmp_path):
    zone("America/New_York")
    acid.sql("create table w (t timestamp) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into w values (timestamp '1969-07-20 20:17:40.25')")
    acid.sql("insert into w select timestamp '1883-01-01 00:00:00'")
    wall = sorted(row["t"] for row in read_arrow(str(tmp_path / "wh/w")).read_all().to_pylist())
    assert [str(value) for value in wall] == ["1883-01-01 00:00:00", "1969-07-20 20:17:40.250000"]
    found = acid.sql("select cast(t as string) t from w order by t").collect()
    assert [row.t for row in found] == ["1883-01-01 00:00:00", "1969-07-20 20:17:40.25"]


def test_days_that_the_julian_calendar_lacks_survive_an_update_by_spark(acid, tmp_path):
    """Java's dates go from 1582-10-04 to 1582-10-15: its reader shows 10-20 for 10-10."""
    acid.sql(
        "create table g (i int, d date, a array<timestamp>)"
        " stored as orc tblproperties ('transactional'='true')"
    )
    acid.sql(
        "insert into g select 1, date '1582-10-10', array(timestamp '1582-10-05 00:00:00',"
        " timestamp '1582-10-14 23:59:59.5')"
    )
    shown = "select cast(d as string) d, cast(a as string) a from g"
    expected = ("1582-10-10", "[1582-10-05 00:00:00, 1582-10-14 23:59:59.5]")
    assert [tuple(row) for row in acid.sql(shown).collect()] == [expected]
    acid.sql("update g set i = i + 1")
    assert [tuple(row) for row in acid.sql(shown).collect()] == [expected]
    (kept,) = read_arrow(str(tmp_path / "wh/g")).read_all().to_pylist()
    assert (kept["i"], kept["d"]) == (2, datetime.date(1582, 10, 10))


def with_calendar(path: Path, calendar: int) -> None:
    """State another calendar in a file's footer; 1 is the Julian one before 1582-10-15."""
    data = path.read_bytes()
    tail = read_tail(FS, str(path))
    tail.footer.calendar = calendar
    end = rewrite_tail(tail, user_metadata={})
    path.write_bytes(data[: len(data) - tail.tail_bytes] + end)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.dates(datetime.date(1, 1, 3))
        | st.dates(datetime.date(1, 1, 3), datetime.date(1600, 1, 1)),
        min_size=1,
        max_size=30,
    )
)
def test_julian_dates_are_the_same_through_spark_and_arrow(spark, tmp_path_factory, dates):
    root = tmp_path_factory.mktemp("julian")
    columns = (Column("d", parse_type("date")), Column("a", parse_type("array<timestamp>")))
    moments = [datetime.datetime.combine(day, datetime.time(23, 59, 59)) for day in dates]
    rows = [
        {"d": day, "a": [moment]}
        for day, moment in zip(dates, moments, strict=True)
        if not -SECOND < moment - EPOCH < 0 * SECOND
    ]
    snapshot = write(root, rows, columns)
    with_calendar(root / "delta_0000001_0000001_0000" / "bucket_00000", 1)
    (part,) = snapshot.parts
    found = resolve(list_partition(FS, str(root)), snapshot.valid, None)
    snapshot = Snapshot(snapshot.table, snapshot.valid, (SnapshotPart(part.partition, found),))
    arrow = plain(read_arrow(str(root)).read_all().to_pylist())
    assert plain(through_spark(spark, snapshot)) == arrow
    for row, found_row in zip(rows, arrow, strict=True):
        assert (row["d"] != found_row["d"]) or not 400 <= row["d"].year < 1582


def numbers_that_meet(acid, rows, condition):
    """The numbers that a SELECT finds and, again, how many a DELETE does, among 0 to 4."""
    acid.sql(
        "create table t (id int, d decimal(10,2), s string, r struct<x:bigint>) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    acid.sql("insert into t select id, id, id, named_struct('x', id) from range(5)")
    found = [one for (one,) in rows(f"select id from t where {condition}")]
    joined = "select a.id from t a join t b on a.id = b.id and a.id in (3, null)"
    assert rows(joined) == [(3,)]
    assert acid.sql(f"delete from t where {condition}").rows == len(found)
    return found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("id in (1, null)", [1]),
        ("d in (2.00, NULL, 3)", [2, 3]),
        ("r.x in (null, 1, null) or s in ('4', null)", [1, 4]),
        ("not t.id in (1, null) or id = 3", [3]),
        ("id not in (1, null)", []),
        ("id in (select b.id from t b where b.id in (2, null))", [2]),
        (
            "id in (1, cast(null as int)) or t.r.x in (2, null) or (id) in (3, nullif(1, 1))",
            [1, 2, 3],
        ),
        ("d in (4, case when s = 'x' then 1.5 end)", [4]),
        ("t.r.x not in (3, 4, case when s = 'x' then 1 end)", []),
        ("coalesce(id, 0) in (1, null)", [1]),
    ],
)
def test_null_among_the_numbers_of_a_list(acid, rows, condition, found):
    """Spark's ORC reader fails on a list of literals with a NULL."""
    assert numbers_that_meet(acid, rows, condition) == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("id = (select max(id) from t where s = 'x')", []),
        ("(select max(id) from t where s = 'x') < t.id or id = 1", [1]),
        ("t.r.x between (select min(id) from t where s = 'x') and 3 or 3 < id", [4]),
        ("id between 3 and (select min(id) from t where s = 'x')", []),
        ("not (d = (select max(d) from t where s = 'x')) and id > 1", []),
        ("id in (2, (select max(id) from t where s = 'x'))", [2]),
        ("id <=> (select max(id) from t where s = 'x')", []),
        ("id = (select max(b.id) from t b where b.s = 'x' and b.id = t.id)", []),
        ("id = (select max(id) from t where s <> '4')", [3]),
        ("s = (select max(s) from t where id < 0) or s < (select max('2') from t)", [0, 1]),
    ],
)
def test_a_query_that_gives_null_is_compared(acid, rows, condition, found):
    """What such a query gives Spark hands to its ORC reader, too."""
    assert numbers_that_meet(acid, rows, condition) == found


@pytest.mark.skipif(OVER_CONNECT, reason="which does not tell where Spark failed")
def test_null_in_a_list_of_python_is_no_damaged_file(acid):
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into t select id from range(5)")
    with pytest.raises(UnsupportedError, match="NULL in a list"):
        acid.table("t").delete(where=F.col("id").isin(1, None))
