from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.metastores import NoThreads

from hiveacid.client import Client, open_client
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(tmp_path: Path, clock: ManualClock) -> Iterator[Client]:
    opened = open_client(
        str(tmp_path / "metastore.db"),
        warehouse=str(tmp_path / "warehouse"),
        clock=clock,
        settings=Settings(lock_timeout_s=30, housekeeping_interval_s=3600),
        threads=NoThreads(),
    )
    yield opened
    opened.close()


@pytest.fixture
def table(client: Client) -> Table:
    return _make(client, "t", partitioned=False)


@pytest.fixture
def partitioned(client: Client) -> Table:
    return _make(client, "p", partitioned=True)


def _make(client: Client, name: str, *, partitioned: bool) -> Table:
    full = TableName("default", name)
    made = Table(
        full,
        (Column("a", parse_type("int")),),
        f"{client.warehouse}/{name}",
        (Column("k", parse_type("string")),) if partitioned else (),
        properties={"transactional": "true"},
    )
    client.metastore.create_table(made)
    return made
