"""Hive's streaming ingest, without Spark: rows that are written in many small transactions and read
at once, while their file is still open (format.md 9).

``connection.py`` is the door, ``batch.py`` the transactions that share files, and these files,
``record_writers.py`` what makes rows of what comes in. Updates and deletes never come here.
"""

from hiveacid.streaming.connection import StreamingConnection, StreamState, StreamStatistics
from hiveacid.streaming.record_writers import DelimitedWriter, JsonWriter, RegexWriter

__all__ = [
    "DelimitedWriter",
    "JsonWriter",
    "RegexWriter",
    "StreamState",
    "StreamStatistics",
    "StreamingConnection",
]
