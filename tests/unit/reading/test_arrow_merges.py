"""What ``merge_arrow`` reads and how it writes: key columns alone, and files side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session
from hiveacid.statements import driver_merge
from hiveacid.storage.read import TableReader
from hiveacid.table import AcidTable

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def table(acid: Session) -> AcidTable:
    acid.sql(f"create table m (id bigint, line int, v string, x double) {ACID}")
    found = acid.table("m")
    ids = list(range(100))
    rows = {"id": ids, "line": [n % 7 for n in ids], "v": ["old"] * 100, "x": [0.5] * 100}
    found.write_arrow(pa.table(rows))
    return found


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns that merges read of the table."""
    seen: list[set[str]] = []

    def reader(*arguments: Any, **named: Any) -> TableReader:
        seen.append(set(arguments[2]))
        return TableReader(*arguments, **named)

    monkeypatch.setattr(driver_merge, "TableReader", reader)
    return seen


def _changes(**columns: object) -> pa.Table:
    return pa.table({"id": [3, 4, 500], "line": [3, 4, 1], **columns})


def test_of_the_table_only_what_is_compared_is_read(
    table: AcidTable, columns: list[set[str]]
) -> None:
    result = table.merge_arrow(_changes(v=["a", "b", "c"], x=[1.0, 2.0, 3.0]), on=["id", "line"])
    assert (result.updated, result.inserted) == (2, 1)
    assert columns == [{"id", "line"}]
    found = read_arrow(table, filter="id in (3, 4, 500)").read_all().sort_by("id")
    assert found.column("v").to_pylist() == ["a", "b", "c"]


def test_columns_that_the_source_lacks_are_read_too(
    table: AcidTable, columns: list[set[str]]
) -> None:
    table.merge_arrow(_changes(v=["a", "b", "c"]), on=["id", "line"])
    assert columns == [{"id", "line", "x"}]
    found = read_arrow(table, filter="id in (3, 4, 500)").read_all().sort_by("id")
    assert found.column("x").to_pylist() == [0.5, 0.5, None]


def test_deletes_read_the_keys_alone(table: AcidTable, columns: list[set[str]]) -> None:
    result = table.merge_arrow(
        _changes(), on=["id", "line"], when_matched="delete", when_not_matched=None
    )
    assert result.deleted == 2
    assert columns == [{"id", "line"}]


def test_many_rows_are_written_side_by_side(
    table: AcidTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_merge, "_ROWS_A_FILE", 20)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    ids = list(range(200))
    rows = pa.table({"id": ids, "line": [n % 7 for n in ids], "v": [f"v{n}" for n in ids]})
    result = table.merge_arrow(rows, on=["id", "line"])
    assert (result.updated, result.inserted) == (100, 100)
    found = read_arrow(table).read_all().sort_by("id")
    assert found.column("id").to_pylist() == ids
    assert found.column("v").to_pylist() == [f"v{n}" for n in ids]
    location = Path(table.definition.location)
    files = sorted(str(one.relative_to(location)) for one in location.glob("delta_*2_*/bucket_*"))
    names = [f"{one.partition('/')[0][-4:]}/{one[-7:-2]}" for one in files]
    assert names == [f"{statement:04d}/{n:05d}" for statement in (1, 2) for n in range(3)]


@pytest.mark.parametrize("place", ["clustered by (x) into 2 buckets", "partitioned by (x double)"])
def test_nan_stays_where_it_is(acid: Session, place: str) -> None:
    column = "" if "part" in place else ", x double"
    acid.sql(f"create table n (id int, v int{column}) {place} {ACID}")
    rows = [{"id": 1, "v": 1, "x": float("nan")}, {"id": 2, "v": 2, "x": None}]
    acid.table("n").write_arrow(rows)
    changed = pa.table({"id": [1, 2], "v": [10, 20], "x": pa.array([float("nan"), None])})
    assert acid.table("n").merge_arrow(changed, on="id").updated == 2
    assert sorted(read_arrow(acid.table("n"), columns="v").read_all()["v"].to_pylist()) == [10, 20]


def test_a_data_column_may_be_called_row__id(acid: Session) -> None:
    acid.sql("""create table r (id int, `row__id` string) stored as orc
        tblproperties ('transactional'='true')""")
    table = acid.table("r")
    table.write_arrow([{"id": n, "row__id": text} for n, text in enumerate("abcd")])
    assert table.delete_arrow("row__id = 'b'").rows == 1
    assert table.delete_arrow([{"row__id": "c"}]).rows == 1
    table.merge_arrow([{"id": 3, "row__id": "x"}], on="id")
    acid.undo(table.history(limit=1)[0].txn, key="id")
    found = read_arrow(table, filter="row__id <> 'z'").read_all().to_pylist()
    assert sorted(found, key=str) == [{"id": 0, "row__id": "a"}, {"id": 3, "row__id": "d"}]
    with pytest.raises(InvalidInputError, match="column row__id of its own"):
        read_arrow(table, row_ids=True)
