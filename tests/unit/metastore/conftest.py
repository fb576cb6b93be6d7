from __future__ import annotations

from collections.abc import Iterator

import pytest

from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def metastore(metastore_url: str, clock: ManualClock) -> Iterator[SqlMetastore]:
    options = MetastoreOptions(durable=False, server_time=False)
    with connect(metastore_url, clock=clock, options=options) as opened:
        yield opened
