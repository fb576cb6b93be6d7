"""Names that need quotes, wherever a text is made of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import InvalidInputError
from hiveacid.spark.session import quoted
from hiveacid.statements.values import MatchedUpdate, NotMatchedInsert
from hiveacid.table import equal_columns

OFF = {"hiveacid.compactor.auto": "off"}


@pytest.mark.slow
def test_streams_erasure_and_histories_of_rows_take_any_name(tmp_path: Path) -> None:
    name = "s`el ect;'%20ü"
    url, warehouse = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    with hiveacid.connect(None, url, warehouse=warehouse, settings=OFF) as acid:
        acid.sql(
            f"create table {quoted(name)} ({quoted(name)} int) stored as orc"
            " tblproperties ('transactional'='true')"
        )
        with acid.stream(quoted(name), strict=False) as stream, stream.transaction():
            stream.write([{name: 1}, {name: 2}, {name: "x"}])
        assert hiveacid.read_arrow(acid.table(quoted(f"{name}_rejected"))).read_all().num_rows == 1
        condition = f"{quoted(name)} = 1"
        told = acid.sql(f"describe history {quoted(name)} where {condition}")
        assert len(told.rows) == 1
        assert acid.table(quoted(name)).purge(where=condition).rows_deleted == 1


def test_columns_that_are_equal_may_be_quoted() -> None:
    assert equal_columns("`a``b`") == ["a`b"]
    assert equal_columns(["`a`", " b "]) == ["a", "b"]


@pytest.mark.parametrize("name", ["a.b", "`a.b`", "t.`a.b`", "`T`.a.b", " t.a.b"])
def test_columns_that_are_assigned_may_be_quoted_and_stand_behind_the_tables_name(
    tmp_path: Path, name: str
) -> None:
    url, warehouse = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    with hiveacid.connect(None, url, warehouse=warehouse, settings=OFF) as acid:
        table = acid.create_table("t", pa.table({"id": [1], "a.b": ["x"]}))
        builder = table.merge(pa.table({"id": [1]}), on="id").when_matched_update({name: "'y'"})
        builder = builder.when_not_matched_insert({"t.id": "s.id", name: "'z'"})
        update, insert = builder.statement.clauses
        assert isinstance(update, MatchedUpdate) and isinstance(insert, NotMatchedInsert)
        assert [column for column, _ in update.assignments] == ["a.b"]
        assert insert.columns == ("id", "a.b")


def test_an_assignment_names_a_column(tmp_path: Path) -> None:
    url, warehouse = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    with hiveacid.connect(None, url, warehouse=warehouse, settings=OFF) as acid:
        table = acid.create_table("t", pa.table({"id": [1]}))
        merge = table.merge(pa.table({"id": [1]}), on="id")
        for call in (table.update, merge.when_matched_update, merge.when_not_matched_insert):
            with pytest.raises(InvalidInputError, match="no column to assign"):
                call({})
