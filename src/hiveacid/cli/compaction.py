"""``compact``, ``compactions``, ``clean`` and ``compactor run``: compaction without a JVM."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import hiveacid
from hiveacid.cli.output import Format, print_rows, to_json
from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import parse_partition_name
from hiveacid.model.compactions import CompactionId, CompactionInfo
from hiveacid.session import Session
from hiveacid.statements.compact import COLUMN_NAMES, AbortCompactions, row_of

if TYPE_CHECKING:
    from hiveacid.compaction.service import CompactionService
    from hiveacid.compaction.worker import CompactionResult

_NO_EMBEDDED = {"hiveacid.compactor.auto": "off"}
"""A command is over too soon to compact in the background."""


@contextmanager
def _session(url: str, settings: Mapping[str, str] | None = None) -> Iterator[Session]:
    """A session on a metastore that is there."""
    chosen = {**(settings or {}), **_NO_EMBEDDED}
    with hiveacid.connect(None, url, settings=chosen) as session:
        yield session


def compact(
    url: str,
    table: str,
    *,
    kind: str,
    partition: str | None,
    wait: bool,
    pool: str | None,
    buckets: int | None,
    order_by: str | None,
    as_json: bool,
) -> None:
    """Ask for a compaction and print its entry, with ``wait`` at its end.

    Raises:
        CompactionError: it was refused, or has failed.
        NotFoundError, InvalidInputError: as COMPACT.
    """
    with _session(url) as session:
        found = session.table(table).compact(
            kind,
            partition=_spec(partition),
            wait=wait,
            pool=pool,
            buckets=buckets,
            order_by=order_by,
        )
    _print_infos(found, as_json=as_json)


def show(
    url: str,
    table: str | None,
    *,
    status: str | None,
    kind: str | None,
    pool: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the queue and the history.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: no such type or status.
    """
    with _session(url) as session:
        found = session.compactions(table, status=status, type=kind, pool=pool, limit=limit)
    _print_infos(found, as_json=as_json)


def abort(url: str, ids: Sequence[int], *, as_json: bool) -> bool:
    """Take requests out of the queue; whether all could be."""
    with _session(url) as session:
        value = AbortCompactions(tuple(CompactionId(one) for one in ids))
        found = [(one, *answer) for one, answer in session.execute(value)]
    _print(("compactionid", "status", "message"), found, as_json=as_json)
    return all(status == "Success" for _, status, _ in found)


def clean(url: str, table: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Clean, or say what would be; print each directory with what becomes of it.

    Raises:
        NotFoundError: no such table.
    """
    with _session(url) as session:
        found = session.clean(table, dry_run=dry_run)
    rows = [(str(one.table), one.path, one.fate.value, one.reason) for one in found]
    _print(("table", "path", "fate", "reason"), rows, as_json=as_json)


def why(url: str, table: str, *, as_json: bool) -> None:
    """Print for each partition which threshold is met, or what is missing.

    Raises:
        NotFoundError: no such table.
    """
    with _session(url) as session:
        found = session.table(table).why_compact()
    rows = [
        (one.partition, one.decision.type and one.decision.type.name, one.decision.reason)
        for one in found
    ]
    _print(("partition", "type", "reason"), rows, as_json=as_json)


def run(
    url: str,
    *,
    workers: int,
    pool: str | None,
    once: bool,
    metrics: tuple[str, int] | None,
    on_spark: bool,
    settings: Mapping[str, str],
) -> bool:
    """Run a service until a signal ends it, or one round; False where a compaction of it failed.

    Raises:
        InvalidInputError: a wrong setting; the metrics' port cannot be used.
        NotFoundError: there is no metastore.
    """
    from hiveacid.compaction.service import CompactionService, ServiceOptions, run_once
    from hiveacid.compaction.worker import Outcome

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with _session(url, settings) as session:
        if on_spark:
            from hiveacid.spark.local import local_session

            session.use_spark(local_session("hiveacid compactor"))
        compactor = session.compacting.compactor()
        if once:
            results = run_once(compactor, pool=pool, clock=session.client.clock)
            for one in results:
                print(_line(one))
            return all(one.outcome is not Outcome.FAILED for one in results)
        host, port = metrics or ("", None)
        options = ServiceOptions(
            workers=workers, pool=pool, metrics_port=port, metrics_host=host or "127.0.0.1"
        )
        service = CompactionService(
            session.client, compactor, options, threads=session.client.threads
        )
        _serve(service, drain_s=session.settings.compactor_drain_s)
    return True


def _serve(service: CompactionService, *, drain_s: float) -> None:
    """Until the first signal; a second one ends the process at once."""
    ended = threading.Event()

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    service.start()
    if service.metrics_port is not None:
        print(f"metrics on port {service.metrics_port}", flush=True)
    ended.wait()
    given_back = service.drain(timeout_s=drain_s)
    print(f"ended; {given_back} compactions given back to the queue", flush=True)


def _line(result: CompactionResult) -> str:
    entry = result.compaction
    where = f"{entry.table}/{entry.partition}" if entry.partition else str(entry.table)
    what = result.message or f"{result.outcome.value} in {result.elapsed_s:.1f} s"
    return f"{entry.id} {entry.type.name} {where}: {what}"


def _spec(partition: str | None) -> dict[str, str | None] | None:
    if partition is None:
        return None
    found = parse_partition_name(partition)
    if found is None:
        raise InvalidInputError(
            f"{partition!r} names no partition: it is p=x or p=x/q=y, as SHOW PARTITIONS prints it"
        )
    return dict(found)


def _print_infos(infos: Sequence[CompactionInfo], *, as_json: bool) -> None:
    _print(COLUMN_NAMES, [row_of(info) for info in infos], as_json=as_json)


def _print(names: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    if as_json:
        print(to_json([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    else:
        print_rows(names, rows, form=Format.TABLE)
