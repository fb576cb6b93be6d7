"""A queue of compactions on each database, by a clock that a test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.upkeep import CompactionOptions
from hiveacid.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(metastore_url: str, clock: ManualClock) -> Iterator[SqlMetastore]:
    options = MetastoreOptions(
        durable=False,
        server_time=False,
        compaction=CompactionOptions(kept_refused=2, cleaning_retry_ms=1_000),
    )
    with connect(metastore_url, clock=clock, options=options) as opened:
        yield opened
