"""How long what a compaction replaced is kept for time travel and ``changes``."""

from __future__ import annotations

from hiveacid.errors import InvalidInputError
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.tables import RETENTION, Table
from hiveacid.settings import Settings, parse_seconds


def retained_until_ms(entry: CompactionInfo, table: Table, settings: Settings) -> int | None:
    """When the retention of a compaction's inputs is over; None where they need not be kept.

    Raises:
        InvalidInputError: the table's property is no length of time.
    """
    retention_s = _retention_s(table, settings)
    begins_ms = entry.committed_ms or entry.started_ms
    if begins_ms is None or not retention_s:
        return None
    return begins_ms + int(retention_s * 1000)


def _retention_s(table: Table, settings: Settings) -> float:
    text = table.properties.get(RETENTION)
    if text is None:
        return settings.retention_s
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InvalidInputError(
            f"Property {RETENTION} of {table.name} is no length of time: {text!r}",
            table=str(table.name),
        ) from error
