"""Micro-batches of Structured Streaming written exactly once: ``foreach_batch`` for
``DataStreamWriter.foreachBatch``.

The number of a batch is kept by the commit that brings its rows. A batch that comes again, because
a checkpoint did not hear of its commit, is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.session import Session, connect
from hiveacid.statements.arguments import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.transaction import AcidTransaction

_LOG = logging.getLogger(__name__)
_MODES: Final = ("append", "upsert", "cdc")
_QUERY_ID: Final = "sql.streaming.queryId"

Also = Callable[["AcidTransaction", "DataFrame", int], None]
"""What else belongs to a batch: gets its transaction, its rows and its number."""


@checked
def foreach_batch(
    acid: Session,
    table: str,
    *,
    mode: str = "append",
    on: str | Sequence[str] | None = None,
    delete_where: str | None = None,
    app_id: str | None = None,
    evolve: bool = False,
    also: Also | None = None,
) -> ForeachBatch:
    """What writes the micro-batches of a stream into a table, each once.

    ``append`` inserts; ``upsert`` updates the rows whose columns ``on`` are equal and inserts the
    others; ``cdc`` besides deletes the rows that a change with ``delete_where`` (SQL over ``s``)
    matches. ``also`` writes other tables in the same transaction. ``app_id`` names the stream;
    None: the id of its query, which is known where Spark's JVM is this process's own.

    Example:
        >>> upsert = foreach_batch(acid, "emp", mode="upsert", on="id")  # doctest: +SKIP
        >>> df.writeStream.foreachBatch(upsert).start()  # doctest: +SKIP

    Raises:
        InvalidInputError: no such mode, or ``on`` and ``delete_where`` do not fit it.
        NotFoundError: no such table.
    """
    if mode not in _MODES:
        raise InvalidInputError(
            f"mode is one of {', '.join(_MODES)}, not {mode!r}", argument="mode"
        )
    if (mode == "append") == (on is not None):
        raise InvalidInputError(
            f"mode={mode!r} {'takes no' if on is not None else 'needs'} on=...", argument="on"
        )
    if (mode == "cdc") != (delete_where is not None):
        raise InvalidInputError(
            f"mode={mode!r} {'needs' if mode == 'cdc' else 'takes no'} delete_where=...",
            argument="delete_where",
        )
    name = str(acid.table(table).name)
    return ForeachBatch(
        acid.client.metastore.url, name, mode, on, delete_where, app_id, evolve, also, acid
    )


@dataclass
class ForeachBatch:
    """A function of a micro-batch and its number. It pickles, for Spark Connect, without its
    session: there it connects again, so that the metastore is to be one that both sides reach.
    """

    url: str
    table: str
    mode: str
    on: str | Sequence[str] | None
    delete_where: str | None
    app_id: str | None
    evolve: bool
    also: Also | None
    session: Session | None = field(repr=False)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write the batch, unless it is there.

        Raises:
            InvalidInputError: the stream has no name.
            AcidError: as INSERT and MERGE; nothing of the batch is visible.
        """
        if self.session is None:
            self.session = connect(rows.sparkSession, self.url)
        app_id = self.app_id or _query_id(rows)
        settings, clock = self.session.settings, self.session.client.clock
        pause_s = settings.conflict_backoff_s
        for attempt in range(settings.conflict_retries + 1):
            try:
                self._write(self.session, rows, app_id, batch_id)
            except ConflictError as error:  # noqa: PERF203 - one try a batch, not a row
                if "batch" in error.context:  # another driver was quicker
                    self._tell_done(app_id, batch_id)
                    return
                if attempt == settings.conflict_retries:
                    raise
                _LOG.info("Batch %d is written again: %s", batch_id, error)
                clock.sleep_s(pause_s)
                pause_s *= 2
            else:
                return

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "session": None}

    def _write(self, session: Session, rows: DataFrame, app_id: str, batch_id: int) -> None:
        with session.transaction() as txn:
            if not txn.begin_batch(app_id, batch_id, table=self.table):
                txn.rollback()
                self._tell_done(app_id, batch_id)
                return
            table = txn.table(self.table)
            if self.on is None:
                table.insert(rows, evolve=self.evolve)
            else:
                merge = table.merge(rows, on=self.on, evolve=self.evolve)
                new = None
                if self.delete_where is not None:
                    merge = merge.when_matched_delete(where=self.delete_where)
                    new = f"not coalesce(({self.delete_where}), false)"
                merge.when_matched_update_all().when_not_matched_insert_all(where=new).run()
            if self.also is not None:
                self.also(txn, rows, batch_id)

    def _tell_done(self, app_id: str, batch_id: int) -> None:
        _LOG.warning("Batch %d of %s is in %s already: left out", batch_id, app_id, self.table)


def _query_id(rows: DataFrame) -> str:
    """The id of the streaming query whose batch it is.

    Raises:
        InvalidInputError: it is not known here.
    """
    context = getattr(rows.sparkSession, "_sc", None)
    found = None if context is None else context.getLocalProperty(_QUERY_ID)
    if not found:
        raise InvalidInputError(
            "The id of the streaming query is not known here",
            note="Name the stream: hiveacid.foreach_batch(..., app_id='orders').",
        )
    return str(found)
