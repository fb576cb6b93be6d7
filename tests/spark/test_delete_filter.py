"""Rows that are deleted are left out by Spark's reader: by bits that the driver read, or, where
those would be too many, by a join with the delete files. The rows are the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.session import Session
from hiveacid.spark import delete_filter, native_read, session

pytestmark = pytest.mark.long("layout", "model", "spark", "storage")

ACID = "stored as orc tblproperties ('transactional'='true')"
Rows = Callable[[str], list[tuple[Any, ...]]]
SPANS = "select id, cast(id * 17 % 11 as int) from range({}, {}, 1, 2)"


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test sets count for its first query, too."""
    monkeypatch.setattr(session, "_KEPT", OrderedDict())


@pytest.fixture(scope="module")
def changed(lasting: Session) -> Session:
    """A table of four partitions: deleted from and updated several times, the last never."""
    lasting.sql(f"create table t (k bigint, v int) partitioned by (p int) {ACID}")
    for p in range(4):
        lasting.sql(f"insert into t partition (p = {p}) {SPANS.format(p * 500, p * 500 + 3000)}")
    lasting.sql("delete from t where p < 3 and k % 7 = p")
    lasting.sql("update t set v = -1 where p < 2 and k % 10 = 3")
    lasting.sql("delete from t where p = 1 and v = -1 and k > 1000")
    return lasting


def expected() -> dict[int, tuple[int, int, int]]:
    """Rows and sums of both columns of each partition of ``changed``."""
    found = {}
    for p in range(4):
        rows = {k: k * 17 % 11 for k in range(p * 500, p * 500 + 3000)}
        rows = {k: v for k, v in rows.items() if p == 3 or k % 7 != p}
        rows = {k: -1 if p < 2 and k % 10 == 3 else v for k, v in rows.items()}
        rows = {k: v for k, v in rows.items() if not (p == 1 and v == -1 and k > 1000)}
        found[p] = (len(rows), sum(rows), sum(rows.values()))
    return found


LONG = pytest.mark.long("spark", "storage")
BITS = [
    pytest.param({"RUN_BITS": (bits,)}, id=f"{bits} bits", marks=[LONG] if at else [])
    for at, bits in enumerate(delete_filter.RUN_BITS)
]


@pytest.mark.parametrize(
    "limits",
    [
        *BITS,
        pytest.param({"_PACKED_BITS": 0}, id="bits by columns"),
        pytest.param({"EVENTS_HERE_MAX": 10}, id="too many events"),
        pytest.param({"FILES_HERE_MAX": 2}, id="too many files", marks=LONG),
        pytest.param({"BITMAP_BYTES_MAX": 100}, id="too many bytes", marks=LONG),
        pytest.param({"EVENTS_HERE_MAX": 10, "_PACKED_BITS": 0}, id="by columns"),
    ],
)
def test_the_rows_left_are_the_same_however_the_deleted_ones_are_told(
    limits: dict[str, Any], changed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(delete_filter, name, limit)
    found = changed.sql("select p, count(*), sum(k), sum(v) from t group by p").collect()
    assert {p: tuple(rest) for p, *rest in found} == expected()


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.parametrize("limits", [{}, {"EVENTS_HERE_MAX": 0}], ids=["bits", "join"])
def test_a_partition_whose_number_does_not_fit_beside_the_rest_keeps_its_rows(
    limits: dict[str, Any], acid: Session, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(delete_filter, name, limit)
    monkeypatch.setattr(
        native_read,
        "_numbers",
        lambda snapshot: {
            p.partition.values: int(p.partition.values[0] or 0) << 61 for p in snapshot.parts
        },
    )
    acid.sql(f"create table t (k bigint, v int) partitioned by (p int) {ACID}")
    for p in range(4):
        acid.sql(f"insert into t partition (p = {p}) {SPANS.format(0, 20)}")
    acid.sql("delete from t where p = 0 and k < 5")
    acid.sql("delete from t where p = 3 and k < 7")
    assert rows("select p, count(*) from t group by p order by p") == [
        (0, 15), (1, 20), (2, 20), (3, 13)
    ]  # fmt: skip


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.parametrize("many", [32, 1], ids=["a relation each", "one relation"])
def test_partition_columns_may_be_called_as_event_columns(
    many: int, acid: Session, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_read, "_LITERAL_PARTITIONS", many)
    acid.sql(
        f"create table t (k int) partitioned by (bucket int, operation string, `row` int) {ACID}"
    )
    acid.sql("insert into t values (1, 5, 'I', 7), (2, 6, 'U', 8), (3, 6, 'U', 8)")
    acid.sql("delete from t where k + 0 = 3")
    assert rows("select * from t") == [(1, 5, "I", 7), (2, 6, "U", 8)]
    assert rows("select row__id.writeid, operation from t where bucket = 6") == [(1, "U")]


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.parametrize("many", [32, 1], ids=["a relation each", "one relation"])
def test_a_directory_may_have_letters_of_a_pattern(
    many: int, acid: Session, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_read, "_LITERAL_PARTITIONS", many)
    monkeypatch.setattr("hiveacid.spark.arrow_read.ROWS_MAX", -1)
    acid.create_table(
        "t", "k int, p string", partitioned_by=["p"], location=f"{tmp_path}/a b%41[x]{{y,z}}*é"
    )
    acid.sql("insert into t values (1, 'x}'), (2, 'x}'), (3, '[y] %'), (4, '*'), (5, null)")
    acid.sql("delete from t where k + 0 = 2")
    assert rows("select k, p from t where k > 0 order by k") == [
        (1, "x}"), (3, "[y] %"), (4, "*"), (5, "__HIVE_DEFAULT_PARTITION__")
    ]  # fmt: skip


@pytest.mark.jvm
def test_delete_files_are_no_jobs_and_no_scans_of_spark(
    changed: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scans(text: str) -> tuple[int, int]:
        changed.sql(text).explain()
        plan = capsys.readouterr().out
        return plan.count("FileScan orc"), plan.count("LeftAnti")

    changed.sql("select sum(k) from t").explain()
    assert "raise_error" not in capsys.readouterr().out  # the tails say what events there are
    assert scans("select sum(k) from t where p = 1") == (1, 1)
    assert scans("select sum(k) from t where p = 3") == (1, 0)
    assert scans("select sum(k) from t where p >= 2") == (2, 1)
    monkeypatch.setattr(delete_filter, "EVENTS_HERE_MAX", 0)
    monkeypatch.setattr(session, "_KEPT", OrderedDict())
    assert scans("select sum(k) from t where p = 1") == (2, 1)


def test_deletes_of_no_row_that_is_read_cost_nothing(
    acid: Session, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucketed table a key says which bucket's deletes can matter."""
    read: list[str] = []
    original = delete_filter.read_delete_keys

    def spy(fs: Any, path: str, **names: Any) -> Any:
        read.append(path.rpartition("/")[2])
        return original(fs, path, **names)

    monkeypatch.setattr(delete_filter, "read_delete_keys", spy)
    acid.sql(f"create table b (k bigint, v int) clustered by (k) into 4 buckets {ACID}")
    acid.sql(f"insert into b {SPANS.format(0, 1000)}")
    acid.sql("delete from b where k % 5 = 0")
    monkeypatch.setattr("hiveacid.spark.arrow_read.ROWS_MAX", -1)
    read.clear()
    assert rows("select count(*) from b where k >= 0") == [(800,)]
    assert len(read) == 4
    read.clear()
    assert rows("select v from b where k = 77") == [(77 * 17 % 11,)]
    assert len(read) == 1


def test_partition_values_are_those_of_the_time_zone_that_the_session_has_now(
    acid: Session, spark: SparkSession
) -> None:
    acid.sql(f"create table t (i int) partitioned by (p timestamp) {ACID}")
    acid.sql("insert into t values (1, '2024-01-01 12:00:00'), (2, '2024-01-01 12:00:00')")
    acid.sql("delete from t where i = 1")
    before = spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for zone in ("UTC", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            found += acid.sql("select cast(p as bigint), cast(p as string) from t").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    noon = 1_704_110_400
    assert found == [(noon, "2024-01-01 12:00:00"), (noon + 5 * 3600, "2024-01-01 12:00:00")]
