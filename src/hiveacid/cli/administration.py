"""What a metastore holds: ``txns``, ``locks`` and their end, tables that come and go (``attach``,
``detach``), its own tables (``metastore``), compactions (``compact``, ``compactions``, ``clean``,
``compactor run``); without a JVM.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

import hiveacid
from hiveacid.cli.output import (
    app,
    json_option,
    metastore_option,
    named,
    open_metastore,
    open_session,
    pairs,
    partition_spec,
    print_answer,
    required,
    to_json,
)
from hiveacid.errors import StorageError, UnsupportedError
from hiveacid.model.compactions import CompactionId, CompactionInfo, CompactionState
from hiveacid.model.tables import LockId, TableName, TxnId

if TYPE_CHECKING:
    from hiveacid.compaction.compactor import CompactionService
    from hiveacid.compaction.worker import CompactionResult
    from hiveacid.metastore.api import Metastore

_TXN_COLUMNS = (
    "txnid",
    "state",
    "type",
    "startedtime",
    "lastheartbeattime",
    "user",
    "host",
    "reason",
)


@app.command()
@click.argument("path", callback=named)
@click.option("--name", required=True, metavar="TABLE", help="What the table will be called.")
@click.option("--valid-write-ids", metavar="TEXT", help="Hive's list of the table's write ids.")
@click.option("--valid-txns", metavar="TEXT", help="Hive's list of transactions.")
@click.option("--accept-all-write-ids", is_flag=True, help="Every write id counts as committed.")
@click.option("--schema", metavar="COLUMNS", help="As 'id int, day date'; else as the files say.")
@click.option("--partitioned-by", metavar="NAMES", help="Which of these name directories: day,x.")
@click.option("--insert-only", is_flag=True, help="The table has no row ids.")
@metastore_option
@click.option("--warehouse", envvar="HIVEACID_WAREHOUSE", help="For a metastore that is new.")
def attach(
    path: str,
    url: str | None,
    warehouse: str | None,
    insert_only: bool,
    partitioned_by: str | None,
    **options: Any,
) -> None:
    """Take over the transactional table in PATH, Hive's or that of another metastore."""

    if warehouse is None:
        with open_metastore(url) as metastore:
            warehouse = metastore.get_database("default").location
    settings = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, required(url), warehouse=warehouse, settings=settings) as session:
        table = session.attach(
            path,
            partitioned_by=[] if partitioned_by is None else partitioned_by.split(","),
            properties={"transactional_properties": "insert_only"} if insert_only else {},
            **options,
        ).definition
    columns = ", ".join(f"{column.name} {column.type}" for column in table.all_columns)
    print(f"{table.name} at {table.location}: {columns}")


@app.command()
@click.argument("table", callback=named)
@metastore_option
@json_option
def detach(table: str, url: str | None, as_json: bool) -> None:
    """Let the metastore forget TABLE, keep its files, and print what `attach` needs."""
    with open_session(url) as session:
        found = session.detach(table)
    facts = {
        "location": found.location,
        "valid_write_ids": found.valid_write_ids,
        "valid_txns": found.valid_txns,
        "create_table": found.create_table,
    }
    if as_json:
        print(to_json(facts))
        return
    for name, text in facts.items():
        if text is not None:
            print(f"{name}: {text}")


@app.command()
@metastore_option
@json_option
def txns(url: str | None, as_json: bool) -> None:
    """List the open and the aborted transactions."""
    with open_metastore(url) as metastore:
        rows = [
            (
                info.id,
                info.state.name,
                info.type.name,
                info.started_ms,
                info.last_heartbeat_ms,
                info.user,
                info.host,
                info.reason,
            )
            for info in metastore.show_txns()
        ]
    print_answer(_TXN_COLUMNS, rows, as_json=as_json)


@app.command("abort")
@click.argument("transactions", nargs=-1, type=int, metavar="TXN...")
@click.option("--lock", "locks", multiple=True, type=int, help="A lock of LOCK TABLE, by its id.")
@metastore_option
def abort_clients(transactions: tuple[int, ...], locks: tuple[int, ...], url: str | None) -> None:
    """Abort transactions, and give back locks, of clients that are gone."""
    if not transactions and not locks:
        raise click.UsageError("abort what? give ids of transactions, or --lock ID")
    from hiveacid.statements.session_state import AbortTransactions, abort_locks, abort_transactions

    with open_metastore(url) as metastore:
        if locks:
            abort_locks(metastore, tuple(map(LockId, locks)))
        if transactions:
            abort_transactions(metastore, AbortTransactions(tuple(map(TxnId, transactions))))


@app.command()
@metastore_option
@json_option
def locks(url: str | None, as_json: bool) -> None:
    """List the locks that are held or waited for."""
    from hiveacid.statements.show import LOCK_COLUMNS, lock_row

    with open_metastore(url) as metastore:
        rows = [lock_row(lock) for lock in metastore.show_locks()]
    print_answer(LOCK_COLUMNS, rows, as_json=as_json)


@app.group()
def metastore() -> None:
    """Make, upgrade or check a metastore: sqlite:///path or postgresql+psycopg://..."""


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
def init(url: str) -> None:
    """Make the tables at URL; one that is there already is left as it is."""
    _print_version(url, "CREATE")


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
def upgrade(url: str) -> None:
    """Bring the tables at URL to the version of this hiveacid."""
    _print_version(url, "UPGRADE")


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
@click.option("--files", is_flag=True, help="Also name directories that are newer than it.")
def check(url: str, *, files: bool) -> None:
    """Say what is at URL and what it lacks; exit status 1 where it lacks something."""
    from hiveacid.metastore.connect import schema_differences
    from hiveacid.metastore.sql.schema import SCHEMA_VERSION
    from hiveacid.model.transactions import TxnState

    with open_metastore(url) as metastore:
        wrong = list(schema_differences(metastore.database))
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")
        if not wrong:
            txns = metastore.show_txns()
            opened = sum(one.state is TxnState.OPEN for one in txns)
            print(f"databases: {len(metastore.list_databases())}")
            print(f"transactions: {opened} open, {len(txns) - opened} aborted")
            print(f"locks: {len(metastore.show_locks())}")
            wrong += _unknown_directories(metastore) if files else ()
    for line in wrong:
        print(line)
    if wrong:
        raise click.exceptions.Exit(1)


def _unknown_directories(metastore: Metastore) -> Iterator[str]:
    """As ``unknown_directories``, of all tables; a line for each that cannot be looked at, too."""
    from hiveacid.statements.attached_files import unknown_directories
    from hiveacid.storage.filesystem import Files

    for database in metastore.list_databases():
        for name in metastore.list_tables(database):
            try:
                table, files = metastore.get_table(TableName(database, name)), Files()
                yield from unknown_directories(metastore, files, table)
            except (StorageError, UnsupportedError) as error:  # noqa: PERF203 - one says nothing of others
                yield f"{database}.{name} cannot be looked at: {error}"


def _print_version(url: str, opening: str) -> None:
    from hiveacid.clock import SystemClock
    from hiveacid.metastore.connect import Opening, connect
    from hiveacid.metastore.sql.schema import SCHEMA_VERSION

    with connect(url, clock=SystemClock(), opening=Opening[opening]) as metastore:
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")


@app.command()
@click.argument("table", callback=named)
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
            partition=None if partition is None else partition_spec(partition),
            wait=wait,
            pool=pool,
            buckets=buckets,
            order_by=order_by,
        )
    _print_infos(found, as_json=as_json)


@app.command()
@click.argument("table", callback=named, required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why the rest stays.")
@click.option(
    "--retain-hours",
    type=click.FloatRange(0),
    help="What was replaced within these hours stays, too.",
)
@metastore_option
@json_option
def clean(
    table: str | None, dry_run: bool, retain_hours: float | None, url: str | None, as_json: bool
) -> None:
    """Remove what no reader of TABLE (of any table) can need any more."""
    with open_session(url) as session:
        found = session.clean(table, dry_run=dry_run, retain_hours=retain_hours)
    rows = [(str(one.table), one.path, one.fate.value, one.reason) for one in found]
    print_answer(("table", "path", "fate", "reason"), rows, as_json=as_json)


@app.group()
def compactions() -> None:
    """The compactions that are asked for, under way, or done."""


@compactions.command("list")
@click.argument("table", callback=named, required=False)
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
@click.argument("table", callback=named)
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
            from hiveacid.spark.workers import local_session

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

    for one in results:
        entry, outcome = one.compaction, f"{one.outcome.value} in {one.elapsed_s:.1f} s"
        where_of = f"{entry.table}/{entry.partition}" if entry.partition else str(entry.table)
        print(f"{entry.id} {entry.type.name} {where_of}: {one.message or outcome}")
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


def _print_infos(infos: Sequence[CompactionInfo], *, as_json: bool) -> None:
    from hiveacid.statements.compact import COLUMN_NAMES, row_of

    print_answer(COLUMN_NAMES, [row_of(info) for info in infos], as_json=as_json)
