"""What tests look into of a metastore, and what they run it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from hiveacid.metastore.connect import SqlMetastore
from hiveacid.metastore.sql.schema import METADATA


def table_rows(metastore: Any, name: str) -> list[dict[str, Any]]:
    """All rows of one table of its database."""
    assert isinstance(metastore, SqlMetastore)
    with metastore.database.read() as unit:
        table = METADATA.tables[name]
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in unit.rows(select(table))]


class NoThreads:
    """No background work: whoever made this does it."""

    def every(self, seconds: float, work: Callable[[], None], *, name: str) -> Callable[[], None]:
        """Nothing is started."""
        del seconds, work, name
        return lambda: None
