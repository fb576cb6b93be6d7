"""Two clients of one metastore, without Spark, and tables to change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hiveacid
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true','transactional_properties'='insert_only')"
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def acid(url: str, tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        session.sql(f"create table u (id int, v string) {ACID}")
        session.sql(f"create table p (id int, v string) partitioned by (k string) {ACID}")
        session.sql(f"create table m (id int, v string) {INSERT_ONLY}")
        yield session


@pytest.fixture
def other(url: str, tmp_path: Path) -> Iterator[Session]:
    """Another client of the same metastore."""
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session
