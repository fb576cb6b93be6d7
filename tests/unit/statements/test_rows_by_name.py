"""Rows that the driver has: columns are found by name, as in a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session

FORMS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "dicts": lambda row: [row],
    "arrow": lambda row: pa.Table.from_pylist([row]),
    "pandas": lambda row: pd.DataFrame([row]),
}


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url, root = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    with hiveacid.connect(None, url, warehouse=root) as session:
        session.sql(
            "create table t (id int, v string default 'x', w date) partitioned by (p int)"
            " stored as orc tblproperties ('transactional'='true')"
        )
        yield session


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_rows_lack_get_their_default_as_in_a_stream(acid: Session, form: str) -> None:
    table, made = acid.table("t"), FORMS[form]
    table.insert(made({"P": 1, "id": 1}))
    table.insert(made({"id": 1}), partition={"p": 1})
    table.write_arrow(made({"id": 1, "p": 1}))
    with acid.stream("t") as stream, stream.transaction():
        stream.write(made({"id": 1, "p": 1}))
    found = read_arrow(table).read_all().to_pylist()
    assert found == [{"id": 1, "v": "x", "w": None, "p": 1}] * 4

    table.overwrite(made({"id": 2, "p": 1}))
    assert read_arrow(table, columns=["id", "v"]).read_all().to_pylist() == [{"id": 2, "v": "x"}]


@pytest.mark.parametrize("form", FORMS)
def test_partition_columns_that_lack_and_columns_too_many_are_errors(
    acid: Session, form: str
) -> None:
    table, made = acid.table("t"), FORMS[form]
    with pytest.raises(InvalidInputError, match="lacks the partition columns p"):
        table.insert(made({"id": 1}))
    with pytest.raises(InvalidInputError, match="would be lost: more"):
        table.insert(made({"id": 1, "more": 2, "p": 1}))
