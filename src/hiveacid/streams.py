"""``Session.stream``: rows inserted in many small transactions, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import AcidMode, Table, TableName
from hiveacid.spark.session import quoted
from hiveacid.statements.arguments import checked, wrong_argument

if TYPE_CHECKING:
    from hiveacid.statements.context import OpenSession
    from hiveacid.streaming import StreamingConnection
    from hiveacid.streaming.record_writers import RecordWriter

_REJECTED: Final = ("rejected_at", "record", "reason")


@checked
class StreamingMethods:
    """What a session has of it."""

    def stream(
        self: OpenSession,
        table: str,
        *,
        partition: Mapping[str, object] | None = None,
        transactions_per_batch: int = 10,
        strict: bool = True,
        record_writer: RecordWriter | None = None,
        rejected: str | None = None,
        open_files_max: int = 100,
    ) -> StreamingConnection:
        """Opens a connection that inserts rows in many small transactions; use it in ``with``.

        ``partition`` gives values of partition columns that the rows do not have, the others are
        taken from the rows. Without ``strict``, records that do not fit go to the table
        ``rejected`` (``<table>_rejected``), which is made where there is none. ``record_writer``
        makes rows of text: ``DelimitedWriter``, ``JsonWriter``, ``RegexWriter`` of
        ``hiveacid.streaming``. Up to ``open_files_max`` files of a batch are open at once, each
        with at most a stripe (an eighth of ``orc.stripe.size``) in memory.

        Raises:
            NotFoundError: no such table, or partition column.
            InvalidInputError: no rows can be streamed into it, a number is below 1, or
                ``rejected`` is given to a strict stream.
        """
        from hiveacid.streaming import StreamingConnection  # pyarrow is slow to load
        from hiveacid.streaming.record_writers import RecordWriter

        is_writer = isinstance(record_writer, RecordWriter) and not isinstance(record_writer, type)
        if record_writer is not None and not is_writer:
            raise wrong_argument("record_writer", "a record writer", record_writer)
        if rejected is not None and strict is True:
            raise InvalidInputError(
                "rejected names a table for records that do not fit: a strict stream has none",
                argument="rejected",
                note="Say strict=False, too.",
            )
        name = self.table_name(table)
        side = self.table_name(rejected) if rejected else name.rejected
        return StreamingConnection(
            self.client,
            name,
            partition=partition,
            transactions_per_batch=transactions_per_batch,
            strict=strict,
            record_writer=record_writer,
            open_files_max=open_files_max,
            make_rejected_table=partial(_made, self, side),
        )


def _made(session: OpenSession, name: TableName) -> Table:
    """The table of rejected records."""
    session.sql(
        f"create table if not exists {quoted(name.database, name.table)}"
        " (rejected_at timestamp, record string, reason string)"
        " stored as orc tblproperties ('transactional'='true')"
    )
    found = session.client.metastore.get_table(name)
    names = {column.name for column in found.columns}
    lacking = [column for column in _REJECTED if column not in names]
    if lacking or found.partition_columns or found.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{name} cannot take rejected records: it is a transactional table without"
            f" partitions that has the columns {', '.join(_REJECTED)}",
            table=str(name),
            note="Name another table with rejected=, or leave it out.",
        )
    return found
