"""``sql``: run statements, print what they give. Spark starts if one of them needs it.

``stream``: lines of the standard input as rows of a table, committed every so often.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import partial
from typing import IO, Any, Final

import hiveacid
from hiveacid.cli.output import Format, partition_spec, print_rows
from hiveacid.clock import Clock
from hiveacid.errors import SparkNeededError, TransactionError
from hiveacid.session import Session, connect
from hiveacid.spark.workers import local_session
from hiveacid.sql import parse, with_arguments
from hiveacid.sql.expressions import Fragment
from hiveacid.sql.parse import Body, ParsedExplain, ParsedLater
from hiveacid.statements.handlers import handler_of
from hiveacid.statements.values import Insert, Listing, Literals
from hiveacid.streaming import DelimitedWriter, JsonWriter, RegexWriter, StreamingConnection


def run(
    text: str,
    *,
    form: Format,
    url: str,
    warehouse: str | None,
    settings: Mapping[str, str],
    args: Mapping[str, Any],
) -> None:
    """Run the statements of ``text`` one by one and print each one's result; ``args`` are the
    values of its parameters.

    Raises:
        SqlSyntaxError: anywhere in the text, before any statement runs.
        TransactionError: what was written last was not committed.
        AcidError: whatever a statement runs into; those before it stay done.
    """
    text = with_arguments(text, args) if args else text
    on_spark = any(needs_spark(statement.body) for statement in parse(text))
    if warehouse is not None and "://" not in warehouse:
        warehouse = os.path.abspath(warehouse)  # a shell's arguments are relative to its directory
    spark = local_session("hiveacid sql") if on_spark else None
    with connect(spark, url, warehouse=warehouse, settings=settings) as session:
        try:
            _print_all(session, text, form=form)
            if session.has_uncommitted:
                raise TransactionError(
                    "The script ended in a transaction, without COMMIT: it is rolled back"
                )
        finally:
            session.close()  # it may have to compact what was written, with Spark
            with suppress(SparkNeededError):
                session.spark.stop()


def needs_spark(body: Body) -> bool:
    """Whether a statement needs Spark; INSERT of plain VALUES, DDL, SHOW and SET do not."""
    if isinstance(body, Insert):
        return not isinstance(body.source, Literals)
    if isinstance(body, ParsedExplain):
        return body.mode != "locks"
    if isinstance(body, ParsedLater):
        return False  # that is known when its variables are
    return isinstance(body, Fragment) or handler_of(body).needs_spark(body)


def _results(session: Session, text: str) -> Iterator[Any]:
    """What each statement gives; Spark starts for one that turns out to need it."""
    for statement in parse(text):
        try:
            yield session.sql(statement.text)
        except SparkNeededError:  # noqa: PERF203 - one try a statement
            session.use_spark(local_session("hiveacid sql"))
            yield session.sql(statement.text)


def _print_all(session: Session, text: str, *, form: Format) -> None:
    for result in _results(session, text):
        if result is None:
            continue
        if isinstance(result, Listing):
            print_rows(result.columns, result.rows, form=form)
        elif hasattr(result, "toLocalIterator"):
            _print_frame(result, form=form)
        else:
            for one in result if isinstance(result, tuple) else (result,):
                if is_dataclass(one):  # what a statement that changes rows did, as figures
                    names = [field.name for field in fields(one) if field.repr]
                    print_rows(names, [[getattr(one, name) for name in names]], form=form)
                else:
                    print(one)


_NO_VALUES: Final = re.compile(r"\binterval (?:year|month)\b")
"""In types that PySpark has no values for."""


def _print_frame(frame: Any, *, form: Format) -> None:
    """The rows of a query, which runs only now.

    Raises:
        AcidError: what it runs into.
    """
    from hiveacid.spark.failures import done_by_spark
    from hiveacid.statements.spark_errors import spark_errors_mapped

    columns, kinds = frame.columns, [field.dataType.simpleString() for field in frame.schema]
    if any(map(_NO_VALUES.search, kinds)):
        numbered = frame.toDF(*map(str, range(len(kinds))))
        texts = {f"`{at}`": _NO_VALUES.search(kind) for at, kind in enumerate(kinds)}
        frame = numbered.selectExpr(
            *(f"cast({name} as string)" if text else name for name, text in texts.items())
        )
    with spark_errors_mapped(None):
        rows = map(tuple, frame.toLocalIterator())
        done_by_spark(partial(print_rows, columns, rows, form=form), at=None)


_READ_BYTES = 1 << 16


def stream(
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
    """Stream until the input ends, or somebody interrupts; a line of figures comes last.

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
            partition=partition_spec(partition) if partition else None,
            record_writer=writers[form](),
            strict=rejected is None,
            rejected=rejected or None,
        ) as connection,
    ):
        try:
            often = _Often(connection, acid.client.clock, rows=commit_rows, seconds=commit_s)
            # a blank in a value of delimited text is a value; JSON has none outside of its objects
            is_blank = bytes.isspace if form == "json" else b"\r".__eq__
            with _first_interrupt() as interrupt:
                _copy(source, often, interrupt, is_blank=is_blank)
        finally:
            done = connection.statistics
            print(
                f"{done.rows} rows in {done.committed} transactions, {done.rejected} rejected",
                file=sys.stderr,
            )


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


@contextmanager
def _first_interrupt() -> Iterator[int]:
    """What can be read once somebody interrupts the process, which does nothing else the first
    time: amid a call of the metastore an interrupt would be an error of that. SIGTERM is one, too:
    by it a service is stopped.
    """
    reading, writing = os.pipe()
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def tell(*_: object) -> None:
        restore()
        os.write(writing, b"!")

    for number in before:
        signal.signal(number, tell)
    try:
        yield reading
    finally:
        restore()
        os.close(reading)
        os.close(writing)


def _copy(
    source: IO[bytes], often: _Often, interrupt: int, *, is_blank: Callable[[bytes], bool]
) -> None:
    """Take line by line, those that are not blank, until the input ends, or an interrupt ends it.
    A line that comes in many pieces is put together once.
    """
    rest, waited = bytearray(), [source.fileno(), interrupt]
    while True:
        ready, _, _ = select.select(waited, [], [], often.left_s())
        if interrupt in ready:
            often.commit()
            return
        if not ready:
            often.commit()
            continue
        data = os.read(source.fileno(), _READ_BYTES)
        rest += data
        lines: list[bytes] = []
        if not data:
            lines = [bytes(rest)]
        elif b"\n" in data:
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
        for line in lines:
            if line and not is_blank(line):
                often.take(line)
        if not data or often.left_s() == 0:
            often.commit()
        if not data:
            return
