"""What streams of a table look at before they read: that it is their table still, that their limits
can be kept, that nothing happened which they would not notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.batch_read import readable_table
from hiveacid.connectors.options import Options
from hiveacid.errors import InvalidInputError, SnapshotExpiredError, UnsupportedError
from hiveacid.model.history import Version
from hiveacid.model.tables import AcidMode, Table
from hiveacid.model.valid import RangeValidity
from hiveacid.txn.consumers import keeps_changes_since

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before Spark 4.2
    limits = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from hiveacid.session import Session

ANEW: Final = "A stream that begins anew (another checkpointLocation) reads the table as it is."


def stream_table(session: Session, options: Options) -> Table:
    """The table whose stream it is.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: it is a view, or not transactional.
    """
    table = readable_table(session, options)
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: a stream goes by write ids",
            table=str(table.name),
        )
    return table


def check_limits(options: Options) -> tuple[int | None, int | None]:
    """How many write ids, and how many bytes, a batch may have.

    Raises:
        UnsupportedError: this version of Spark knows no limits.
    """
    found = options.number("maxWriteIdsPerTrigger"), options.number("maxBytesPerTrigger")
    if limits is None and any(found):
        raise UnsupportedError(
            "maxWriteIdsPerTrigger and maxBytesPerTrigger need Spark 4.2: before, a Python"
            " source is not told where a batch begins"
        )
    return found


def identity(table: Table) -> str:
    """What a rename keeps and no other table has."""
    return f"{table.created_at_ms} {table.location}" if table.id is None else str(table.id)


def check_same(table: Table, offset: Mapping[str, Any]) -> None:
    """Raises: InvalidInputError: an offset is one of another table."""
    if offset.get("table") != identity(table):
        raise InvalidInputError(
            f"The checkpoint is one of another table than {table.name}, or that was dropped and"
            " made anew",
            table=str(table.name),
            note=ANEW,
        )


def check_told(
    session: Session, table: Table, low: Version, high: int, *, skips_changes: bool
) -> bool:
    """Looks whether directories tell which write ids after ``low`` changed rows; to be asked after
    they were listed. The answer is whether rows went with their partition.

    Raises:
        SnapshotExpiredError: those that told it are cleaned.
        UnsupportedError: rows went with their partition, and changes are not skipped.
    """
    own, name = session.client.own, table.name
    dropped = own.version(name, write_id=low.write_id).dropped
    if dropped and not skips_changes:
        what = f"Partition {dropped[0]} of {name} was" if dropped[0] else f"Files of {name} were"
        raise UnsupportedError(
            f"{what} dropped or moved after write id {low.write_id}, with rows: the source hiveacid"
            " reads appended rows",
            table=str(name),
            partitions=dropped,
            note=f".option('skipChangeCommits', 'true') goes on without them. {ANEW}",
        )
    (now,) = session.client.metastore.valid_write_ids((name,))
    lost = [
        floor.base
        for floor in own.floors(name).values()
        if (first := max(floor.first, low.valid.hwm + 1)) <= (last := min(floor.base, high))
        and now.range_validity(first, last) is not RangeValidity.NONE
    ]
    hive_cleans = session.client.transactions.hive_cleans
    if lost and not keeps_changes_since(own, name, low.valid, hive_cleans=hive_cleans):
        raise SnapshotExpiredError(
            f"The stream has read {name} up to write id {low.valid.hwm}, and files that tell which"
            f" later ones changed rows are cleaned: it can read on from version {max(lost)}",
            table=str(name),
            write_id=max(lost),
            note=f"The option consumer keeps such files for a stream. {ANEW}",
        )
    return bool(dropped)
