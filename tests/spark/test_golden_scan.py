"""Tables of real Hive, taken over by CREATE TABLE ... LOCATION, read through Spark as Hive did."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.connect import arrow_of
from tests.golden import tables
from tests.recorded import golden_names, golden_path
from tests.sampling import first_letter, sampled
from tests.unit.storage.test_early_times import set_writer_zone
from tests.unit.storage.test_early_times import write as write_times
from tests.unit.storage.test_update_events import COLUMNS as OLD_COLUMNS
from tests.unit.storage.test_update_events import PLAIN, old_directory

from hiveacid.errors import FormatError
from hiveacid.layout.directories import Snapshot, SnapshotPart
from hiveacid.layout.events import EVENT_FIELDS
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import Column, Partition, Table, TableName
from hiveacid.model.types import parse_type
from hiveacid.spark import arrow_read
from hiveacid.spark.read import read
from hiveacid.spark.session import ROW_ID_COLUMN
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import discover_partitions, list_partition, with_logical_lengths
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.storage.target import FileKind

pytestmark = pytest.mark.long("layout", "model", "reading", "spark", "storage")

_TABLES = Path(__file__).parents[1] / "golden" / "tables.py"


def adopt(acid, name: str, path: Path) -> dict[str, object]:
    """Create a table over a copy of a golden table's directory, with the lists that Hive had."""
    meta = tables.golden_meta(name)
    shutil.copytree(golden_path(name) / "data", path)
    columns = ", ".join(f"`{column}` {kind}" for column, kind in meta["columns"])
    keys = ", ".join(f"`{column}` {kind}" for column, kind in meta["partition_columns"])
    partitioned = f" partitioned by ({keys})" if keys else ""
    acid.sql(
        f"create table t ({columns}){partitioned} stored as orc location '{path}'"
        " tblproperties ('transactional'='true',"
        f" 'hiveacid.valid_write_ids'='{meta['valid_write_id_list']}',"
        f" 'hiveacid.valid_txns'='{meta['valid_txn_list']}')"
    )
    return meta


def snapshot_of(name: str) -> Snapshot:
    """What Hive could see of a golden table when it answered."""
    meta = tables.golden_meta(name)
    location = str(golden_path(name) / "data")
    valid = ValidWriteIdList.parse(meta["valid_write_id_list"])
    txns = ValidTxnList.parse(meta["valid_txn_list"])
    columns, keys = (
        tuple(Column(column, parse_type(kind)) for column, kind in meta[which])
        for which in ("columns", "partition_columns")
    )
    table = Table(
        TableName(*meta["table"].split(".")),
        columns,
        location,
        partition_columns=keys,
        properties=meta["parameters"],
    )
    fs, root = Files().at(location)
    parts = []
    for found in discover_partitions(fs, root):
        entries = list_partition(fs, found.path)
        directory = with_logical_lengths(
            fs, found.path, resolve(entries, valid, txns), entries=entries
        )
        parts.append(SnapshotPart(Partition(found.values, found.path), directory))
    return Snapshot(table, valid, tuple(parts))


def spark_rows(frame, meta: dict[str, object], *, row_ids: bool) -> list[tuple[str, ...]]:
    """The rows of a DataFrame as Hive prints them."""
    table = arrow_of(frame)
    table = table.rename_columns([name.lower() for name in table.column_names])
    return tables.as_hive_prints(table, meta, row_ids=row_ids)


ACID = [
    name
    for name in golden_names()
    if tables.golden_meta(name)["acid"]  # the others have no row ids
]


@pytest.mark.parametrize("name", sampled(ACID, "spark", "storage", "layout", group=first_letter))
def test_spark_returns_the_rows_and_row_ids_of_hive(spark, name):
    meta = tables.golden_meta(name)
    _, expected = tables.golden_answer(name)
    got = spark_rows(
        read(spark, plan_scan(snapshot_of(name), files=Files()), virtual=(ROW_ID_COLUMN,)).frame,
        meta,
        row_ids=True,
    )
    assert list(tables.differences(got, expected)) == []


@pytest.mark.parametrize(
    "name",
    sampled(
        [name for name in ACID if name[0] in "adhkl"],
        *("spark", "storage", "layout", "statements"),
        group=first_letter,
    ),
)
def test_a_table_taken_over_returns_the_rows_of_hive(acid, tmp_path, name):
    meta = adopt(acid, name, tmp_path / "adopted")
    _, expected = tables.golden_answer(name)
    got = spark_rows(acid.table("t").df(row_ids=True), meta, row_ids=True)
    assert list(tables.differences(got, expected)) == []


def test_new_write_ids_start_above_those_taken_over(acid, tmp_path, rows):
    adopt(acid, "a09_major_plus", tmp_path / "adopted")
    before = rows("select * from t")
    highest = max(row.writeid for row in acid.sql("select row__id.writeid from t").collect())
    assert acid.table("t").delete(where="row__id.rowid = 0").write_id > highest
    assert 0 < len(rows("select * from t")) < len(before)


def test_a_directory_with_other_partition_columns_is_not_taken_over(acid, tmp_path):
    (tmp_path / "adopted" / "day=1" / "delta_0000001_0000001_0000").mkdir(parents=True)
    with pytest.raises(FormatError, match="is not a partition of"):
        acid.sql(
            "create table t (id int) partitioned by (p int) stored as orc"
            f" location '{tmp_path}/adopted' tblproperties ('transactional'='true')"
        )
    assert acid.sql("show tables").collect() == []


def test_renamed_columns_are_read_by_position_as_hive_does(acid, tmp_path, rows):
    acid.sql("create table r (a int, b string) stored as orc tblproperties('transactional'='true')")
    acid.sql("insert into r values (1, 'x'), (2, 'y')")
    acid.sql("alter table r change a z string")
    assert rows("select * from r") == [("1", "x"), ("2", "y")]
    acid.sql("update r set b = concat(b, z) where z = '2'")
    assert rows("select * from r") == [("1", "x"), ("2", "y2")]
    acid.detach("r")
    acid.sql(
        f"create table s (k string, v string) stored as orc location '{tmp_path}/wh/r'"
        " tblproperties ('transactional'='true', 'hiveacid.accept_all_write_ids'='true')"
    )
    assert rows("select * from s") == [("1", "x"), ("2", "y2")]
    shown = [row[0] for row in acid.sql("show tblproperties s").collect()]
    assert not any(key.startswith("hiveacid.") for key in shown)


def test_update_events_of_hive_2_are_read_through_spark(spark, tmp_path):
    """Hive before 3 (format.md 4.7): the newest event of a row counts."""
    columns = (Column("id", parse_type("int")),)
    for write_id, (operation, row_id, value) in enumerate([(0, 0, 1), (0, 1, 2), (1, 0, 7)], 1):
        directory = tmp_path / f"delta_{write_id:07d}_{write_id:07d}"
        directory.mkdir()
        original = 1 if operation else write_id
        numbers = [operation, original, 0, row_id, write_id]
        kinds = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]
        arrays = [pa.array([n], kind) for n, kind in zip(numbers, kinds, strict=True)]
        row = pa.array([{"id": value}], pa.struct([("id", pa.int32())]))
        path = str(directory / "bucket_00000")
        fs, _ = Files().at(path)
        with BucketFileWriter(fs, path, columns=columns, kind=FileKind.INSERT) as writer:
            writer.write_events(pa.record_batch([*arrays, row], list(EVENT_FIELDS)))
    rows = read(spark, full_acid(columns, tmp_path), virtual=()).frame.collect()
    assert sorted(row.id for row in rows) == [2, 7]


def full_acid(columns, root):
    """The plan of a directory of row events, all of which count."""
    valid = ValidWriteIdList.everything()
    fs, path = Files().at(str(root))
    found = resolve(list_partition(fs, path), valid, None)
    table = Table(TableName("d", "t"), columns, path, properties={"transactional": "true"})
    snapshot = Snapshot(table, valid, (SnapshotPart(Partition((), path), found),))
    return plan_scan(snapshot, files=Files())


@pytest.mark.parametrize("delete_delta", [False, True])
def test_plain_numbers_of_original_rows_fail_through_spark(spark, tmp_path, delete_delta):
    """Hive 4.1 and 3.1 do not apply such events (real-hive.md 10)."""
    old_directory(tmp_path, PLAIN, delete_delta=delete_delta)
    frame = read(spark, full_acid(OLD_COLUMNS, tmp_path)).frame
    with pytest.raises(Exception, match=r"before Hive 3.* major compaction"):
        frame.collect()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("1969-12-31 16:00:07.451", "1969-12-31 16:00:08.451"),
        ("1969-12-31 23:59:58.500", "1969-12-31 23:59:59.500"),
        ("1969-12-31 15:59:58.500", "1969-12-31 15:59:58.500"),
        ("2015-01-01 00:00:00.500", "2015-01-01 00:00:00.500"),
    ],
)
def test_times_of_a_writer_in_another_zone_through_sparks_own_reader(
    spark, tmp_path, stored, expected, monkeypatch
):
    path = tmp_path / "base_0000001" / "bucket_00000"
    path.parent.mkdir()
    column = write_times(path, "timestamp", [[datetime.fromisoformat(stored)]], orc_compress="NONE")
    set_writer_zone(path, "US/Pacific")
    plan = full_acid((column,), tmp_path)
    monkeypatch.setattr(arrow_read, "in_workers", None)
    (row,) = read(spark, plan).frame.selectExpr(f"cast({column.name} as string)").collect()
    assert row[0].ljust(23, "0") == expected


def test_originals_are_read_file_by_file_and_beside_deltas_bucket_by_bucket(
    acid, rows, spark, monkeypatch
):
    acid.sql("create table o (k int, v string) stored as orc")
    for first in (0, 10, 20):
        acid.table("o").insert(
            spark.range(first, first + 10, 1, 2).selectExpr("int(id) k", "'x' v")
        )
    acid.sql("alter table o set tblproperties ('transactional'='true')")
    taken = []
    of = arrow_read.units_of

    def units_of(plan, **asked):
        taken.append(of(plan, **asked))
        return taken[-1]

    monkeypatch.setattr(arrow_read, "units_of", units_of)
    everything = [(k, "x") for k in range(30)]
    assert rows("select * from o") == sorted(everything, key=str)
    assert [len(unit.files) for unit in taken[-1]] == [1] * 6
    with_ids = "select k, ROW__ID.writeid, ROW__ID.bucketid, ROW__ID.rowid from o"
    before = rows(with_ids)
    assert sorted(len(unit.files) for unit in taken[-1]) == [3, 3]
    assert len({row[1:] for row in before}) == 30
    acid.sql("insert into o values (30, 'x')")
    acid.sql("delete from o where k in (4, 15, 29)")
    left = [row for row in everything if row[0] not in (4, 15, 29)] + [(30, "x")]
    assert rows("select * from o") == sorted(left, key=str)
    assert [len({file.bucket for file in unit.files}) for unit in taken[-1]] == [1, 1]
    assert sum(len(unit.files) for unit in taken[-1]) == 7
    assert set(before) - set(rows(with_ids)) == {row for row in before if row[0] in (4, 15, 29)}
