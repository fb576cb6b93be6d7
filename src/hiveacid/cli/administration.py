"""What a metastore holds: ``txns``, ``locks`` and their end, tables that come and go (``attach``,
``detach``), its own tables (``metastore``); without a JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hiveacid.cli.group import (
    app,
    json_option,
    metastore_option,
    open_metastore,
    open_session,
    required,
)
from hiveacid.cli.output import print_answer, to_json

if TYPE_CHECKING:
    from hiveacid.model.locks import LockInfo

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
_LOCK_COLUMNS = (
    "lockid",
    "database",
    "table",
    "partition",
    "lock_state",
    "blocked_by",
    "lock_type",
    "transaction_id",
    "last_heartbeat",
    "acquired_at",
    "user",
    "hostname",
    "agent_info",
)


@app.command()
@click.argument("path")
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
    import hiveacid

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
@click.argument("table")
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
    from hiveacid.model.ids import LockId, TxnId
    from hiveacid.statements.lock import AbortTransactions, abort_locks, abort_transactions

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
    with open_metastore(url) as metastore:
        rows = [_lock_row(lock) for lock in metastore.show_locks()]
    print_answer(_LOCK_COLUMNS, rows, as_json=as_json)


def _lock_row(lock: LockInfo) -> tuple[object, ...]:
    blocked_by = (
        None
        if lock.blocked_by_lock_id is None
        else f"{lock.blocked_by_lock_id}.{lock.blocked_by_component_id}"
    )
    return (
        f"{lock.lock_id}.{lock.component_id}",
        lock.database,
        lock.table,
        lock.partition,
        lock.state.name,
        blocked_by,
        lock.type.name,
        lock.txn_id or None,
        lock.last_heartbeat_ms,
        lock.acquired_at_ms,
        lock.user,
        lock.host,
        lock.agent_info,
    )


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
    from hiveacid.metastore.sql.migrations import schema_differences
    from hiveacid.metastore.sql.schema import SCHEMA_VERSION
    from hiveacid.model.transactions import TxnState
    from hiveacid.statements.unknown_directories import unknown_directories
    from hiveacid.storage.filesystem import Files

    with open_metastore(url) as metastore:
        wrong = list(schema_differences(metastore.database))
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")
        if not wrong:
            txns = metastore.show_txns()
            opened = sum(one.state is TxnState.OPEN for one in txns)
            print(f"{len(metastore.list_databases())} databases")
            print(f"{opened} open and {len(txns) - opened} aborted transactions")
            print(f"{len(metastore.show_locks())} locks")
            wrong += unknown_directories(metastore, Files()) if files else ()
    for line in wrong:
        print(line)
    if wrong:
        raise click.exceptions.Exit(1)


def _print_version(url: str, opening: str) -> None:
    from hiveacid.clock import SystemClock
    from hiveacid.metastore.connect import connect
    from hiveacid.metastore.sql.migrations import Opening
    from hiveacid.metastore.sql.schema import SCHEMA_VERSION

    with connect(url, clock=SystemClock(), opening=Opening[opening]) as metastore:
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")
