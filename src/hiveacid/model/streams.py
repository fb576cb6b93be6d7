"""Streams whose micro-batches are written once."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A micro-batch of the stream ``app_id`` that a transaction wrote to a table; numbers rise."""

    app_id: str
    table: TableName
    number: int
