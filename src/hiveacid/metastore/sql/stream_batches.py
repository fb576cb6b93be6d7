"""The last micro-batch of each stream in each table, kept by the commit that brought its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import and_, bindparam, insert, select, update

from hiveacid.errors import ConflictError
from hiveacid.metastore.api import OwnDatabase
from hiveacid.metastore.sql.engine import Database, Unit
from hiveacid.metastore.sql.schema import HIVEACID_STREAM_BATCHES
from hiveacid.model.streams import StreamBatch
from hiveacid.model.tables import TableName

_B: Final = HIVEACID_STREAM_BATCHES.c
_THIS_STREAM: Final = and_(
    _B.SB_APP_ID == bindparam("app"),
    _B.SB_DATABASE == bindparam("db"),
    _B.SB_TABLE == bindparam("table"),
)
_LAST_BATCH: Final = select(_B.SB_BATCH_ID).where(_THIS_STREAM)
_RAISE_BATCH: Final = (
    update(HIVEACID_STREAM_BATCHES)
    .where(_THIS_STREAM, _B.SB_BATCH_ID < bindparam("number"))
    .values(SB_BATCH_ID=bindparam("number"))
)
_FIRST_BATCH: Final = insert(HIVEACID_STREAM_BATCHES).values(
    SB_APP_ID=bindparam("app"),
    SB_DATABASE=bindparam("db"),
    SB_TABLE=bindparam("table"),
    SB_BATCH_ID=bindparam("number"),
)


class SqlStreamBatches(OwnDatabase):
    """The part of ``OwnDatabase`` about streams."""

    _db: Database

    def last_batch(self, app_id: str, table: TableName) -> int | None:
        with self._db.query() as unit:
            found = unit.scalar(_LAST_BATCH, **_batch_key(app_id, table))
        return None if found is None else int(found)


def note_batches(unit: Unit, batches: Sequence[StreamBatch]) -> ConflictError | None:
    """Keep the batches as the last ones; the error of one that is there already or overtaken."""
    for batch in batches:
        key = _batch_key(batch.app_id, batch.table)
        if unit.count(_RAISE_BATCH, **key, number=batch.number):
            continue
        last = unit.scalar(_LAST_BATCH, **key)
        if last is not None:
            return ConflictError(
                f"Batch {batch.number} of {batch.app_id} is in {batch.table} already: the last one"
                f" is {last}",
                table=str(batch.table),
                batch=batch.number,
                last=int(last),
            )
        unit.ask(_FIRST_BATCH, **key, number=batch.number)
    return None


def _batch_key(app_id: str, table: TableName) -> dict[str, str]:
    return {"app": app_id, "db": table.database, "table": table.table}
