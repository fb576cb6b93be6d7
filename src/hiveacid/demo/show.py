"""What the demo shows: directories, transactions, locks, the query's answer, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from hiveacid.demo.proof import Finding
from hiveacid.model.tables import TableName

if TYPE_CHECKING:
    from hiveacid.demo.meter import Seen
    from hiveacid.metastore.api import Metastore

_TABLES = ("orders", "lineitem")


def around(
    console: Console, *, warehouse: Path, metastore: Metastore, seen: Sequence[Seen]
) -> None:
    """The directories as they lie on disk, and what the metastore says."""
    tree = Tree(str(warehouse), highlight=False)
    for name in _TABLES:
        _add_directory(tree, warehouse / name)
    console.print(tree)
    _print_txns(console, metastore)
    _print_locks(console, seen)


def _add_directory(tree: Tree, path: Path) -> None:
    """Partitions as branches; an ACID directory is one line with its files counted."""
    folders = sorted(child for child in path.iterdir() if child.is_dir())
    files = [child for child in path.iterdir() if child.is_file()]
    data = [file for file in files if not file.name.startswith(("_", "."))]
    size = sum(file.stat().st_size for file in data) / 2**20
    label = f"{path.name}  [dim]{len(data)} files, {size:,.1f} MiB" if data else path.name
    branch = tree.add(label)
    for folder in folders:
        if not folder.name.startswith("."):
            _add_directory(branch, folder)


def _print_txns(console: Console, metastore: Metastore) -> None:
    table = Table(title="What a reader sees now", title_justify="left")
    table.add_column("list")
    table.add_column("in Hive's text form", overflow="fold")
    txns = metastore.valid_txns()
    table.add_row("transactions (hwm:minOpen:open:aborted)", str(txns))
    names = [TableName("default", name) for name in _TABLES]
    for name, valid in zip(names, metastore.valid_write_ids(names, txns), strict=True):
        table.add_row(f"write ids of {name}", str(valid))
    console.print(table)


def _print_locks(console: Console, seen: Sequence[Seen]) -> None:
    table = Table(title="Transactions and locks, caught while a step ran", title_justify="left")
    for name in ("step", "transaction", "state", "lock", "on", "lock state", "lock type"):
        table.add_column(name)
    shown: set[tuple[int, int]] = set()
    for moment in seen:
        states = {info.id: info.state.name for info in moment.txns}
        for lock in moment.locks:
            if (lock.lock_id, lock.component_id) in shown:
                continue  # a lease of a step before
            shown.add((lock.lock_id, lock.component_id))
            where = ".".join(part for part in (lock.database, lock.table) if part)
            table.add_row(
                moment.step,
                str(lock.txn_id),
                states.get(lock.txn_id, ""),
                f"{lock.lock_id}.{lock.component_id}",
                f"{where}/{lock.partition}" if lock.partition else where,
                lock.state.name,
                lock.type.name,
            )
    console.print(table)


def answer(console: Console, rows: Sequence[tuple[Any, ...]], *, shown: int = 10) -> None:
    """The first rows of the joined query."""
    names = ("shipped", "priority", "lines", "orders", "revenue", "highest price", "first shipped")
    table = Table()
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place in (1, 6) else "right")
    for row in rows[:shown]:
        table.add_row(*map(str, row))
    if len(rows) > shown:
        table.add_row("...")
    console.print(table)


def verdict(console: Console, findings: Sequence[Finding]) -> bool:
    """Say for each comparison whether it is equal, and whether all are."""
    for finding in findings:
        size = f"{finding.rows:,} rows, {finding.values:,} values"
        if finding.wrong:
            console.print(f"[bold red]NOT equal[/] {finding.what}: {finding.wrong:,} rows differ")
            console.print(f"  for example {finding.example}", highlight=False)
        else:
            console.print(f"[bold green]equal[/] {finding.what}: {size}", highlight=False)
    good = not any(finding.wrong for finding in findings)
    if good:
        console.print("[bold green]equal[/]: hiveacid's result is DuckDB's, value by value.")
    else:
        console.print("[bold red]NOT equal[/]: hiveacid's result is not DuckDB's.")
    return good
