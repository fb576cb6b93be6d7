"""An insert-only table that becomes full ACID keeps its rows, or stays what it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.model.tables import TableName
from hiveacid.session import Session

FULL = "alter table t set tblproperties ('transactional_properties'='default')"


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/m.db"
    settings = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, url, warehouse=f"{tmp_path}/wh", settings=settings) as session:
        session.sql(
            "create table t (k int) stored as orc tblproperties ('transactional'='true', "
            "'transactional_properties'='insert_only')"
        )
        for value in (1, 2):
            session.sql(f"insert into t values ({value})")
        yield session


def _rows(acid: Session) -> list[int]:
    return sorted(hiveacid.read_arrow(acid.table("t")).read_all()["k"].to_pylist())


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_what_a_compaction_put_together_cannot_be_converted(acid: Session, kind: str) -> None:
    acid.table("t").compact(kind, wait=True)
    with pytest.raises(InvalidInputError, match="was made by a compaction"):
        acid.sql(FULL)
    assert _rows(acid) == [1, 2]
    acid.table("t").overwrite(pa.table({"k": [1, 2]}))
    acid.sql(FULL)
    acid.table("t").delete_arrow("k = 1")
    assert _rows(acid) == [2]


def test_what_writes_left_can(acid: Session) -> None:
    acid.sql(FULL)
    acid.table("t").delete_arrow("k = 1")
    assert _rows(acid) == [2]


def test_a_table_that_was_converted_all_the_same_has_its_rows_and_can_be_mended(
    acid: Session,
) -> None:
    acid.table("t").compact("minor", wait=True)
    full = {"transactional_properties": "default"}
    acid.client.metastore.alter_table(
        TableName("default", "t"), lambda now: replace(now, properties={**now.properties, **full})
    )
    assert _rows(acid) == [1, 2]
    with pytest.raises(FormatError, match="rows without events in a delta of several write ids"):
        acid.table("t").delete_arrow("k = 1")
    acid.table("t").overwrite(pa.table({"k": [1, 2]}))
    acid.table("t").delete_arrow("k = 1")
    assert _rows(acid) == [2]
