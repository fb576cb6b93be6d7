"""``dataset``: one object that Arrow, DuckDB and Polars read, less where they ask for less."""

from __future__ import annotations

import gc
import pickle
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import hiveacid
from hiveacid.errors import FormatError, InvalidInputError, UnsupportedError
from hiveacid.model.predicates import ANYTHING, Anything, Compare, In, IsNull, Op, Or
from hiveacid.reading.arrow_dataset import Dataset, _predicate
from hiveacid.session import Session
from hiveacid.table import AcidTable

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "a02_update_delete" / "data"


@pytest.fixture
def data(emp: AcidTable) -> Dataset:
    return hiveacid.dataset(emp)


def spoil(table: AcidTable, year: str) -> None:
    found = list(Path(table.definition.location).glob(f"year={year}/*/*/bucket_*"))
    assert found
    for path in found:
        path.write_bytes(b"damaged")


def test_polars_takes_it_as_it_takes_arrow_data(acid: Session, data: Dataset) -> None:
    frame = pl.DataFrame(pl.from_arrow(data))
    assert sorted(frame["id"]) == [1, 2, 3, 4]
    acid.sql("create table none (id int) stored as orc tblproperties ('transactional'='true')")
    empty = pl.from_arrow(hiveacid.dataset(acid.table("none")))
    assert isinstance(empty, pl.DataFrame)
    assert empty.schema == {"id": pl.Int32}


def test_one_column_may_be_named_by_a_text(data: Dataset, emp: AcidTable) -> None:
    assert data.reader(columns="ID").schema.names == ["id"]
    assert data.scanner(columns="ID").projected_schema.names == ["id"]
    assert hiveacid.read_arrow(emp, columns="Name").schema.names == ["name"]


def test_it_is_read_as_a_stream_a_table_and_batches(data: Dataset) -> None:
    assert data.schema.names == ["id", "name", "pay", "year", "city"]
    assert data.count_rows() == 4
    assert data.count_rows(filter="year = 1995") == 2
    assert data.to_table(columns=["id"]).num_rows == 4
    assert sorted(pa.table(data)["id"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(pa.RecordBatchReader.from_stream(data).read_all()["id"].to_pylist()) == [
        1, 2, 3, 4,
    ]  # fmt: skip
    assert data.reader(columns=["name"], filter="id = 2").read_all().to_pylist() == [
        {"name": "bob"}
    ]
    assert data.head(3, columns=["id"]).num_rows == 3
    assert sum(batch.num_rows for batch in data.to_batches(filter=pc.field("id") > 1)) == 3
    assert data.scanner(columns=["id"], filter=pc.field("id") == 1).to_table().to_pylist() == [
        {"id": 1}
    ]


def test_each_reading_sees_the_table_as_of_then(data: Dataset, emp: AcidTable) -> None:
    assert data.count_rows() == 4
    emp.delete_arrow("id = 1")
    assert data.count_rows() == 3


def test_what_arrow_would_open_by_itself_is_an_error_never_an_empty_table(data: Dataset) -> None:
    with pytest.raises((FileNotFoundError, OSError), match="hiveacid dataset has no files"):
        ds.Scanner.from_dataset(data).to_table()


def test_duckdb_reads_it_by_its_name_and_asks_for_less(data: Dataset, emp: AcidTable) -> None:
    found = duckdb.sql("select id, city from data where year = 1995 order by id").fetchall()
    assert found == [(1, "a/b"), (2, "x")]
    assert duckdb.sql("select count(*), sum(pay) from data").fetchall() == [(4, 10)]
    joined = duckdb.sql("select a.id from data a join data b on a.id = b.id where b.city = 'y'")
    assert joined.fetchall() == [(4,)]
    spoil(emp, "1996")
    assert duckdb.sql("select id from data where year = 1995 and id in (1, 7)").fetchall() == [(1,)]
    with pytest.raises(duckdb.Error, match="year=1996"):
        duckdb.sql("select id from data").fetchall()


def test_polars_scans_it_lazily(data: Dataset, emp: AcidTable) -> None:
    frame = data.scan_polars()
    assert dict(frame.collect_schema()) == {
        "id": pl.Int32,
        "name": pl.String,
        "pay": pl.Decimal(9, 2),
        "year": pl.Int32,
        "city": pl.String,
    }
    assert sorted(frame.select("id").collect()["id"].to_list()) == [1, 2, 3, 4]
    assert frame.filter(pl.col("id") > 3).head(1).collect()["name"].to_list() == ["dan"]
    assert frame.select(pl.len()).collect().item() == 4
    assert frame.head(2).collect().height == 2
    assert frame.head(0).collect().height == 0
    spoil(emp, "1996")
    some = frame.filter(pl.col("year").is_in([1995, 2020]), pl.col("id") <= 1).collect()
    assert some["id"].to_list() == [1]
    with pytest.raises((FormatError, pl.exceptions.ComputeError), match="year=1996"):
        frame.filter(pl.col("id") > 0).collect()


def test_polars_first_rows_then_condition_is_not_condition_then_first_rows() -> None:
    frame = hiveacid.dataset(str(GOLDEN)).scan_polars()
    first = frame.collect()["id"][0]
    assert frame.head(1).filter(pl.col("id") != first).collect().height == 0
    assert frame.filter(pl.col("id") != first).head(1).collect().height == 1


def test_polars_nan_is_a_number_of_its_own(acid: Session) -> None:
    acid.sql("create table f (x double) stored as orc tblproperties ('transactional'='true')")
    acid.table("f").write_arrow(pa.table({"x": [1.0, float("nan")]}))
    frame = hiveacid.dataset(acid.table("f")).scan_polars()
    assert frame.filter(pl.col("x") > 5).collect().height == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pl.col("a") == 2, Compare("a", Op.EQ, 2)),
        (pl.lit(2) < pl.col("a"), Compare("a", Op.GT, 2)),
        (pl.col("a").is_in(["x", "y", None]), In("a", frozenset({"x", "y"}))),
        (pl.col("a").is_null(), IsNull("a")),
        (pl.col("a").is_not_null(), IsNull("a", negated=True)),
        (pl.col("a") == date(2020, 1, 2), Compare("a", Op.EQ, date(2020, 1, 2))),
        (
            (pl.col("a") == 1) | (pl.col("b") >= "x"),
            Or((Compare("a", Op.EQ, 1), Compare("b", Op.GE, "x"))),
        ),
        ((pl.col("a") == 1) & (pl.col("b").str.len_chars() > 2), Compare("a", Op.EQ, 1)),
        ((pl.col("a") == 1) | (pl.col("b").str.len_chars() > 2), ANYTHING),
        (~(pl.col("a") == 1), ANYTHING),
        (pl.col("a") == pl.col("b"), ANYTHING),
        (pl.col("a").cast(pl.Int8) == 1, ANYTHING),
        (pl.col("a") < float("inf"), ANYTHING),
        (pl.col("a") == float("nan"), ANYTHING),
    ],
)
def test_what_is_understood_of_a_polars_condition(condition: pl.Expr, expected: Any) -> None:
    assert _predicate(condition) == expected


def test_a_form_of_polars_that_is_not_known_leaves_nothing_out() -> None:
    meta = SimpleNamespace(serialize=lambda **_: '{"Novel": 1}')
    assert isinstance(_predicate(SimpleNamespace(meta=meta)), Anything)  # type: ignore[arg-type]


def test_without_polars_the_error_names_what_to_install(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InvalidInputError) as error:
        data.scan_polars()
    assert error.value.__notes__ == ["pip install polars"]


def test_a_dataset_of_a_path_is_pickled(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(hiveacid.dataset(str(GOLDEN))))
    assert again.count_rows() == 4


def test_a_reading_that_is_given_up_ends_its_lease(
    acid: Session, data: Dataset, emp: AcidTable
) -> None:
    acid.sql("set hiveacid.reads.lease = always")
    batches = iter(data.reader())
    next(batches)
    assert len(acid.sql("show transactions").rows) == 1
    del batches
    gc.collect()
    assert len(acid.sql("show transactions").rows) == 0


def test_what_arrow_does_with_files_is_refused_by_name(data: Dataset) -> None:
    for call in (lambda: data.filter(pc.field("id") == 1), lambda: data.sort_by("id")):
        with pytest.raises(UnsupportedError, match="no files"):
            call()
