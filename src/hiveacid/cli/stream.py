"""``stream``: lines of the standard input as rows of a table, committed every so often."""

from __future__ import annotations

import os
import select
import sys
from typing import IO, Any

import hiveacid
from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import parse_partition_name
from hiveacid.streaming import DelimitedWriter, JsonWriter, RegexWriter, StreamingConnection

_READ_BYTES = 1 << 16


def run(
    url: str,
    table: str,
    source: IO[bytes],
    *,
    form: str,
    delimiter: str,
    pattern: str,
    partition: str,
    commit_rows: int,
    commit_s: float,
    rejected: str | None,
) -> None:
    """Stream until the input ends; a line of figures comes last.

    Raises:
        AcidError: what ended it; what was committed before stays.
    """
    writers: dict[str, Any] = {
        "json": JsonWriter,
        "delimited": lambda: DelimitedWriter(delimiter=delimiter),
        "regex": lambda: RegexWriter(pattern),
    }
    with (
        hiveacid.connect(None, url) as acid,
        acid.stream(
            table,
            partition=_values(partition),
            record_writer=writers[form](),
            strict=rejected is None,
            rejected=rejected or None,
        ) as stream,
    ):
        try:
            _copy(source, _Often(stream, acid.client.clock, rows=commit_rows, seconds=commit_s))
        finally:
            done = stream.statistics
            print(
                f"{done.rows} rows in {done.committed} transactions, {done.rejected} rejected",
                file=sys.stderr,
            )


def _values(partition: str) -> dict[str, str | None] | None:
    if not partition:
        return None
    found = parse_partition_name(partition)
    if found is None:
        raise InvalidInputError(f"--partition is p=x/q=y, not {partition!r}")
    return dict(found)


class _Often:
    """Commits after so many lines, or where the first has waited so long."""

    def __init__(
        self, stream: StreamingConnection, clock: Clock, *, rows: int, seconds: float
    ) -> None:
        self._stream, self._clock = stream, clock
        self._rows, self._seconds = rows, seconds
        self._waiting, self._due_s = 0, 0.0

    def left_s(self) -> float | None:
        """Seconds until a commit is due; None where nothing waits."""
        return max(self._due_s - self._clock.monotonic_s(), 0) if self._waiting else None

    def take(self, line: bytes) -> None:
        """Write one line."""
        if not self._waiting:
            self._stream.begin()
            self._due_s = self._clock.monotonic_s() + self._seconds
        self._stream.write(line)
        self._waiting += 1
        if self._waiting >= self._rows:
            self.commit()

    def commit(self) -> None:
        """Commit what waits."""
        if self._waiting:
            self._stream.commit()
            self._waiting = 0


def _copy(source: IO[bytes], often: _Often) -> None:
    """Take line by line until the input ends."""
    rest = b""
    while True:
        ready, _, _ = select.select([source], [], [], often.left_s())
        if not ready:
            often.commit()
            continue
        data = os.read(source.fileno(), _READ_BYTES)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        for line in lines:
            if line.strip():
                often.take(line)
        if not data or often.left_s() == 0:
            often.commit()
        if not data:
            return
