"""``sql``: run statements, print what they give. Spark starts if one of them needs it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from hiveacid.cli.output import Format, print_rows
from hiveacid.errors import SparkNeededError, TransactionError
from hiveacid.session import Session, connect
from hiveacid.spark.workers import local_session
from hiveacid.sql import parse, with_arguments
from hiveacid.sql.expressions import Fragment
from hiveacid.sql.parse import Body, ParsedExplain, ParsedLater
from hiveacid.statements.handlers import handler_of
from hiveacid.statements.values import Insert, Listing, Literals


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
            print_rows(result.columns, _rows(result, form=form), form=form)
        else:
            for one in result if isinstance(result, tuple) else (result,):
                _print_result(one, form=form)


def _rows(frame: Any, *, form: Format) -> Iterable[tuple[object, ...]]:
    """The rows of a DataFrame; partition by partition where they need not all be here at once."""
    rows = frame.collect() if form is Format.TABLE else frame.toLocalIterator()
    return (tuple(row) for row in rows)


def _print_result(result: Any, *, form: Format) -> None:
    """What a statement that changes rows did, as one row of figures."""
    if is_dataclass(result):
        names = [one.name for one in fields(result) if one.repr]
        print_rows(names, [[getattr(result, name) for name in names]], form=form)
    else:
        print(result)
