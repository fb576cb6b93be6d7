from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.sql.metastore import SqlMetastore
from hiveacid.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def metastore(tmp_path: Path, clock: ManualClock) -> Iterator[SqlMetastore]:
    options = MetastoreOptions(durable=False)
    with connect(str(tmp_path / "metastore.db"), clock=clock, options=options) as opened:
        yield opened
