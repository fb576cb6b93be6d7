"""``compact``, ``compactions``, ``clean`` and ``compactor run``: compaction without a JVM."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hiveacid.cli.group import app, json_option, metastore_option, open_session, pairs
from hiveacid.cli.output import print_answer
from hiveacid.errors import InvalidInputError

if TYPE_CHECKING:
    from hiveacid.compaction.compactor import CompactionService
    from hiveacid.compaction.worker import CompactionResult
    from hiveacid.model.compactions import CompactionInfo


@app.command()
@click.argument("table")
@click.option("--partition", metavar="P=X/Q=Y", help="As SHOW PARTITIONS prints it.")
@click.option("--major", is_flag=True, help="Into one base [default].")
@click.option("--minor", is_flag=True, help="Deltas into one, the base stays.")
@click.option("--rebalance", is_flag=True, help="New row ids, even files.")
@click.option("--wait", is_flag=True, help="Do it, or wait until it is done.")
@click.option("--pool", metavar="NAME", help="For the workers of this pool.")
@click.option("--buckets", type=click.IntRange(min=1), help="Files of a rebalance.")
@click.option("--order-by", metavar="TEXT", help="Order of the rows of a rebalance.")
@metastore_option
@json_option
def compact(
    table: str,
    partition: str | None,
    major: bool,
    minor: bool,
    rebalance: bool,
    wait: bool,
    pool: str | None,
    buckets: int | None,
    order_by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Ask for a compaction of TABLE; a service does it, or with --wait this command."""
    if major + minor + rebalance > 1:
        raise click.UsageError("--major, --minor and --rebalance exclude each other")
    with open_session(url) as session:
        found = session.table(table).compact(
            "minor" if minor else "rebalance" if rebalance else "major",
            partition=_spec(partition),
            wait=wait,
            pool=pool,
            buckets=buckets,
            order_by=order_by,
        )
    _print_infos(found, as_json=as_json)


@app.command()
@click.argument("table", required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why the rest stays.")
@metastore_option
@json_option
def clean(table: str | None, dry_run: bool, url: str | None, as_json: bool) -> None:
    """Remove what no reader of TABLE (of any table) can need any more."""
    with open_session(url) as session:
        found = session.clean(table, dry_run=dry_run)
    rows = [(str(one.table), one.path, one.fate.value, one.reason) for one in found]
    print_answer(("table", "path", "fate", "reason"), rows, as_json=as_json)


@app.group()
def compactions() -> None:
    """The compactions that are asked for, under way, or done."""


@compactions.command("list")
@click.argument("table", required=False)
@click.option("--status", metavar="TEXT", help="Only these: initiated, working, failed, ...")
@click.option("--type", "kind", metavar="TEXT", help="Only these: major, minor, rebalance.")
@click.option("--pool", metavar="NAME", help="Only those of this pool.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many.")
@metastore_option
@json_option
def list_compactions(
    table: str | None,
    status: str | None,
    kind: str | None,
    pool: str | None,
    limit: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """List them, the latest first, with the columns of SHOW COMPACTIONS."""
    with open_session(url) as session:
        found = session.compactions(table, status=status, type=kind, pool=pool, limit=limit)
    _print_infos(found, as_json=as_json)


@compactions.command()
@click.argument("table")
@metastore_option
@json_option
def why(table: str, url: str | None, as_json: bool) -> None:
    """Say which threshold the partitions of TABLE meet, or what is missing."""
    with open_session(url) as session:
        found = session.table(table).why_compact()
    rows = [
        (one.partition, one.decision.type and one.decision.type.name, one.decision.reason)
        for one in found
    ]
    print_answer(("partition", "type", "reason"), rows, as_json=as_json)


@compactions.command()
@click.argument("ids", nargs=-1, required=True, type=click.IntRange(1, 2**63 - 1), metavar="ID...")
@metastore_option
@json_option
def abort(ids: tuple[int, ...], url: str | None, as_json: bool) -> None:
    """Take requests out of the queue that nobody works on yet."""
    from hiveacid.model.compactions import CompactionId
    from hiveacid.statements.compact import AbortCompactions

    with open_session(url) as session:
        value = AbortCompactions(tuple(map(CompactionId, ids)))
        found = [(one, *answer) for one, answer in session.execute(value)]
    print_answer(("compactionid", "status", "message"), found, as_json=as_json)
    if any(status != "Success" for _, status, _ in found):
        raise click.exceptions.Exit(1)


@app.group()
def compactor() -> None:
    """Initiator, workers and cleaner of a metastore's tables."""


@compactor.command("run")
@click.option("--workers", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--pool", metavar="NAME", help="Serve this pool; without it, the default pool.")
@click.option("--once", is_flag=True, help="One round of everything, for cron.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve GET /metrics here.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="On this address.")
@click.option("--spark", is_flag=True, help="Start a local Spark for large partitions.")
@click.option("--set", "texts", multiple=True, metavar="NAME=VALUE", help="A setting, as in SQL.")
@metastore_option
def run_compactor(
    workers: int,
    pool: str | None,
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    spark: bool,
    texts: tuple[str, ...],
    url: str | None,
) -> None:
    """Compact and clean until SIGTERM or Ctrl-C; what is under way is finished or given back."""
    from hiveacid.compaction.compactor import CompactionService, ServiceOptions, run_once

    if once and metrics_port is not None:
        raise click.UsageError("--once serves no metrics: leave --metrics-port out")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with open_session(url, **pairs(texts, option="--set")) as session:
        if spark:
            from hiveacid.spark.local import local_session

            session.use_spark(local_session("hiveacid compactor"))
        compactor, client = session.compacting.compactor(), session.client
        where = "the default pool" if pool is None else f"pool {pool}"
        if once:
            results = run_once(compactor, workers=workers, pool=pool, clock=client.clock)
            _print_round(results, client.metastore.show_compactions(), where)
            return
        options = ServiceOptions(
            workers=workers, pool=pool, metrics_port=metrics_port, metrics_host=metrics_host
        )
        service = CompactionService(client, compactor, options, threads=client.threads)
        print(f"initiator, cleaner and {workers} workers of {where}", flush=True)
        _serve(service, drain_s=session.settings.compactor_drain_s)


def _print_round(
    results: Sequence[CompactionResult], entries: Sequence[CompactionInfo], where: str
) -> None:
    """What one round did, and what it left; exit status 1 where a compaction failed."""
    from hiveacid.compaction.worker import Outcome
    from hiveacid.model.compactions import CompactionState

    for one in results:
        print(_line(one))
    waiting = sum(one.state is CompactionState.INITIATED for one in entries)
    print(f"{len(results)} compactions of {where} were done, {waiting} wait for a worker")
    if any(one.outcome is Outcome.FAILED for one in results):
        raise click.exceptions.Exit(1)


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
    from hiveacid.layout.names import parse_partition_name

    found = parse_partition_name(partition)
    if found is None:
        raise InvalidInputError(
            f"{partition!r} names no partition: it is p=x or p=x/q=y, as SHOW PARTITIONS prints it"
        )
    return dict(found)


def _print_infos(infos: Sequence[CompactionInfo], *, as_json: bool) -> None:
    from hiveacid.statements.compact import COLUMN_NAMES, row_of

    print_answer(COLUMN_NAMES, [row_of(info) for info in infos], as_json=as_json)
