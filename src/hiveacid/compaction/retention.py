"""How long what a compaction replaced is kept for time travel and ``changes``."""

from __future__ import annotations

from typing import Final

from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.properties import parse_properties
from hiveacid.model.tables import Table
from hiveacid.settings import Settings

RETENTION: Final = "hiveacid.retention"
"""The table property: seconds, or with a unit (``12h``, ``7d``)."""


def retained_until_ms(entry: CompactionInfo, table: Table, settings: Settings) -> int | None:
    """When the retention of a compaction's inputs is over; None where they need not be kept.

    Raises:
        InvalidInputError: the table's property is no length of time.
    """
    text = parse_properties(table.properties).own.get("retention")
    if text is not None:
        settings = settings.with_("hiveacid.retention_s", text)
    begins_ms = entry.committed_ms or entry.started_ms
    if begins_ms is None or not settings.retention_s:
        return None
    return begins_ms + int(settings.retention_s * 1000)
