"""A session without Spark and a table with rows in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.session import Session
from hiveacid.table import AcidTable


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(
        None, f"sqlite:///{tmp_path}/metastore.db", warehouse=str(tmp_path / "warehouse")
    ) as session:
        yield session


@pytest.fixture
def emp(acid: Session) -> AcidTable:
    """Bucketed by id in 4, partitioned by year (int) and city (string); four rows."""
    acid.sql(
        "create table emp (id int, name string, pay decimal(9,2)) "
        "partitioned by (year int, city string) clustered by (id) into 4 buckets stored as orc "
        "tblproperties ('transactional'='true')"
    )
    table = acid.table("emp")
    table.write_arrow(
        pa.table(
            {
                "id": [1, 2, 3, 4],
                "name": ["ann", "bob", None, "dan"],
                "pay": [1, 2, 3, 4],
                "year": [1995, 1995, 1996, None],
                "city": ["a/b", "x", "x", "y"],
            }
        )
    )
    return table
