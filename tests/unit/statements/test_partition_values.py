"""Names of partitions: one for each value, whoever writes it (real-hive.md 9)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.session import connect
from hiveacid.statements.partition_values import normal_text


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("double", "1", "1.0"),
        ("double", "1.50", "1.5"),
        ("double", "1e+20", "1.0E20"),
        ("double", "1e-07", "1.0E-7"),
        ("double", "nan", "NaN"),
        ("double", "-inf", "-Infinity"),
        ("float", "0.10000000149011612", "0.1"),
        ("float", "1e20", "1.0E20"),
        ("decimal(10,2)", "-0.00", "0"),
        ("decimal(10,2)", "1e2", "100"),
    ],
)
def test_numbers_have_the_names_that_hive_gives_them(kind: str, text: str, name: str) -> None:
    column = Column("p", parse_type(kind))
    assert normal_text(text, column) == name
    assert normal_text(name, column) == name


@pytest.mark.parametrize("text", ["one", "1_0", "1,5"])
def test_a_text_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not of type double"):
        normal_text(text, Column("p", parse_type("double")))


def test_a_double_has_one_partition_whichever_way_it_is_written(tmp_path: Path) -> None:
    acid = connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=tmp_path / "w")
    acid.sql(
        "create table t (id int) partitioned by (p double) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    table = acid.table("t")
    table.write_arrow(pa.table({"id": [1, 2], "p": [1e20, 1.0]}))
    acid.sql("insert into t partition (p=1.0E20) values (3)")
    acid.sql("insert into t partition (p='1') values (4)")
    table.write_arrow(pa.table({"id": [5]}), partition={"p": 1e20})

    assert acid.sql("show partitions t").rows == (("p=1.0",), ("p=1.0E20",))
    table.write_arrow(pa.table({"id": [6], "p": [1e20]}), overwrite=True)
    assert read_arrow(table, filter="p > 5").read_all()["id"].to_pylist() == [6]
