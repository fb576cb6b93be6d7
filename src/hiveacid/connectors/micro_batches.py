"""Micro-batches of Structured Streaming written exactly once: ``foreach_batch`` for
``DataStreamWriter.foreachBatch``.

The number of a batch is kept by the commit that brings its rows. A batch that comes again, because
a checkpoint did not hear of its commit, is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.names import written_text
from hiveacid.errors import CardinalityError, ConflictError, InvalidInputError
from hiveacid.session import Session, connect
from hiveacid.settings import Settings
from hiveacid.statements.arguments import checked
from hiveacid.statements.checks import names_in
from hiveacid.statements.matching import SEVERAL
from hiveacid.statements.values import Few, Insert, Newest
from hiveacid.table import AcidTable, equal_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.transaction import AcidTransaction

_LOG = logging.getLogger(__name__)
_MODES: Final = ("append", "upsert", "cdc")
_QUERY_ID: Final = "sql.streaming.queryId"
FEW: Final = 50_000
"""Rows of a micro-batch up to which the driver writes it."""
_PAUSE_MAX: Final = 63
"""Batches at most that Spark's workers write before the driver tries again whether one is small."""

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
    order_by: str | Sequence[str] | None = None,
    app_id: str | None = None,
    evolve: bool = False,
    also: Also | None = None,
) -> ForeachBatch:
    """What writes the micro-batches of a stream into a table, each once.

    ``append`` inserts; ``upsert`` updates the rows whose columns ``on`` are equal and inserts the
    others; ``cdc`` besides deletes the rows that a change with ``delete_where`` (SQL over ``s``)
    matches. Of several rows of one key in a batch the newest counts, the one that is highest in the
    columns ``order_by``; without them they are an error. ``also`` writes other tables in the same
    transaction. ``app_id`` names the stream; None: the id of its query, which is known where
    Spark's JVM is this process's own.

    Example:
        >>> upsert = foreach_batch(acid, "emp", mode="upsert", on="id")  # doctest: +SKIP
        >>> df.writeStream.foreachBatch(upsert).start()  # doctest: +SKIP

    Raises:
        InvalidInputError: no such mode, or ``on``, ``delete_where``, ``order_by`` do not fit it.
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
    keys = None if on is None else equal_columns(on)
    if order_by is not None and not keys:
        raise InvalidInputError("order_by needs names of columns as on=...", argument="order_by")
    return ForeachBatch(
        acid.client.metastore.url,
        written_text(acid.table(table).name),
        mode,
        on,
        tuple(keys or ()),
        delete_where,
        (order_by,) if isinstance(order_by, str) else tuple(order_by or ()),
        app_id,
        evolve,
        also,
        acid.settings,
        acid,
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
    keys: tuple[str, ...]
    delete_where: str | None
    order_by: tuple[str, ...]
    app_id: str | None
    evolve: bool
    also: Also | None
    settings: Settings = field(repr=False)
    session: Session | None = field(repr=False)
    _waits: int = field(default=0, init=False, repr=False)
    """How many batches are yet for Spark's workers, without a try."""
    _pause: int = field(default=0, init=False, repr=False)
    _begun: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """The batch of each stream that was begun last."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write the batch, unless it is there.

        Raises:
            InvalidInputError: the stream has no name, or another one writes under it.
            CardinalityError: several rows of one key, and none of them is the newest.
            AcidError: as INSERT and MERGE; nothing of the batch is visible.
        """
        if self.session is None:
            self.session = connect(rows.sparkSession, self.url, settings=self.settings)
        app_id = self.app_id or _query_id(rows)
        goes_on = self._begun.get(app_id) == batch_id - 1
        self._begun[app_id] = batch_id
        settings, clock = self.session.settings, self.session.client.clock
        pause_s = settings.conflict_backoff_s
        for attempt in range(settings.conflict_retries + 1):
            try:
                if not self._write(self.session, rows, app_id, batch_id):
                    self._tell_done(app_id, batch_id, goes_on=goes_on)
            except ConflictError as error:  # noqa: PERF203 - one try a batch, not a row
                if "batch" in error.context:  # another driver was quicker
                    self._tell_done(app_id, batch_id, goes_on=goes_on)
                    return
                if attempt == settings.conflict_retries:
                    raise
                _LOG.info("Batch %d is written again: %s", batch_id, error)
                clock.sleep_s(pause_s)
                pause_s *= 2
            except InvalidInputError as error:
                if error.message.startswith(SEVERAL):
                    raise CardinalityError(error.message) from error
                raise
            else:
                return

    def __getstate__(self) -> dict[str, Any]:
        settings = self.settings if self.session is None else self.session.settings
        return {**self.__dict__, "session": None, "settings": settings}

    def _write(self, session: Session, rows: DataFrame, app_id: str, batch_id: int) -> bool:
        """Whether the batch is new."""
        with session.transaction() as txn:
            if not txn.begin_batch(app_id, batch_id, table=self.table, checkpoint=True):
                txn.rollback()
                return False
            table = txn.table(self.table)
            few = None if self._waits else Few(FEW)
            write = self._insert if self.on is None else self._merge
            write(table, rows, few)
            if self.also is not None:
                self.also(txn, rows, batch_id)
        if few is None:
            self._waits -= 1
        else:
            self._pause = 0 if few.fits else min(2 * self._pause + 1, _PAUSE_MAX)
            self._waits = self._pause
        return True

    def _insert(self, table: AcidTable, rows: DataFrame, few: Few | None) -> None:
        insert = Insert(table.name, rows, by_name=True, evolve=self.evolve, few=few)
        table.session.execute(insert)

    def _merge(self, table: AcidTable, rows: DataFrame, few: Few | None) -> None:
        assert self.on is not None
        merge = table.merge(rows, on=self.on, evolve=self.evolve)
        new = None
        if self.delete_where is not None:
            merge = merge.when_matched_delete(where=self.delete_where)
            new = f"not (({self.delete_where}) <=> true)"
        merge = merge.when_matched_update_all().when_not_matched_insert_all(where=new)
        statement = replace(merge.statement, newest=self._newest(table), few=few)
        table.session.execute(statement)

    def _newest(self, table: AcidTable) -> Newest | None:
        """How one row of each key is chosen. Columns that only ``order_by`` names are not
        written.
        """
        if not self.keys:
            return None
        written = set(table.definition.column_names)
        where = names_in([self.delete_where or ""], "t", "s")
        order = [name.lower() for name in self.order_by]
        dropped = [name for name in order if name not in written and name not in where]
        return Newest(self.keys, self.order_by, tuple(dropped))

    def _tell_done(self, app_id: str, batch_id: int, *, goes_on: bool) -> None:
        """A batch that is there may come again as the first one of a query, and as no other.

        Raises:
            InvalidInputError: it is another one.
        """
        if goes_on:
            raise InvalidInputError(
                f"Batch {batch_id} of {app_id} is in {self.table} already, and not by this query:"
                " another one writes under the name",
                table=self.table,
                note="Each stream needs an app_id of its own. Batches that were left out before,"
                " with a warning, may be missing.",
            )
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
