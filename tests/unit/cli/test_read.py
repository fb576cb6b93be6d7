"""``hiveacid read``: rows of a path or table, printed or written to a file, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.s3 import S3Server, variables
from tests.unit.cli.running import run

import hiveacid
from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.reading.export import export


@pytest.fixture
def table(project: Path) -> str:
    return str(project / "tests/data/golden/a02_update_delete/data")


def test_rows_of_a_path_are_printed(table: str) -> None:
    done = run("read", table, "--columns", "id,name", "--filter", "id >= 4", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["4,TWO", "5,five", "id,name"]
    first = run("read", table, "--limit", "1", "--format", "json")
    assert list(json.loads(first.stdout)) == ["id", "name", "val"]


def test_rows_are_written_to_a_file(table: str, tmp_path: Path) -> None:
    to = tmp_path / "rows.parquet"
    done = run("read", table, "--to", str(to))
    assert (done.returncode, done.stdout) == (0, "4 rows\n"), done.stderr
    assert pq.read_table(to) == hiveacid.read_arrow(table).read_all()
    csv = tmp_path / "rows.csv"
    assert export(hiveacid.read_arrow(table, columns=["id"]), str(csv)) == 4
    assert csv.read_text().splitlines()[0] == '"id"'
    arrow = tmp_path / "rows.arrow"
    export(hiveacid.read_arrow(table), str(arrow))
    assert pa.ipc.open_file(arrow).read_all().num_rows == 4


def test_a_table_is_found_in_the_metastore(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create table t (id int) partitioned by (p int) stored as orc "
                 "tblproperties ('transactional'='true')")  # fmt: skip
        acid.table("t").write_arrow(pa.table({"id": [1, 2], "p": [1, 2]}))
    done = run("read", "t", "--metastore", url, "--partitions", "p = 2", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "id,p\n2,2\n"), done.stderr
    assert run("read", "nope", "--metastore", url).returncode == 1


def test_errors_are_one_line_and_leave_no_file(table: str, tmp_path: Path) -> None:
    done = run("read", table, "--filter", "nope = 1")
    assert (done.returncode, done.stderr) == (1, "error: no column 'nope'\n")
    assert run("read", table, "--to", "x.csv", "--limit", "1").returncode == 2
    with pytest.raises(InvalidInputError, match=r"ends in none of"):
        export(hiveacid.read_arrow(table), str(tmp_path / "rows.txt"))

    def batches(schema: pa.Schema) -> pa.RecordBatchReader:
        def broken() -> object:
            yield pa.record_batch({"a": [1]})
            raise FormatError("damaged")

        return pa.RecordBatchReader.from_batches(schema, broken())

    with pytest.raises(FormatError):
        export(batches(pa.schema([("a", pa.int64())])), str(tmp_path / "rows.parquet"))
    nested = pa.table({"l": [[1]]}).to_reader()
    with pytest.raises(InvalidInputError):
        export(nested, str(tmp_path / "rows.csv"))
    assert list(tmp_path.iterdir()) == []


def test_of_rows_that_end_on_a_server_it_is_told_why(s3: S3Server) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise FormatError("damaged")

    rows = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), broken())
    with variables(s3.environment), pytest.raises(FormatError):
        export(rows, f"s3://{s3.bucket()}/rows.parquet")
