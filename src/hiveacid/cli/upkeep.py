"""``metastore init|upgrade|check``: the tables behind a URL."""

from __future__ import annotations

from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.migrations import Opening, schema_differences
from hiveacid.metastore.sql.schema import SCHEMA_VERSION
from hiveacid.model.transactions import TxnState
from hiveacid.statements.unknown_directories import unknown_directories
from hiveacid.storage.filesystem import Files


def init(url: str) -> None:
    """Make the tables where there are none.

    Raises:
        MetastoreError: something else or another version is there.
    """
    with connect(url, clock=SystemClock()) as metastore:
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")


def upgrade(url: str) -> None:
    """Bring the tables to our version.

    Raises:
        NotFoundError: there is no metastore.
        MetastoreError: there is a newer one.
    """
    with connect(url, clock=SystemClock(), opening=Opening.UPGRADE) as metastore:
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")


def check(url: str, *, files: bool) -> bool:
    """Print what is there; whether nothing is missing. With ``files`` the names of the tables'
    directories are looked at: after a restore none may be newer than the metastore.

    Raises:
        NotFoundError: there is no metastore.
        MetastoreError: there is one of another version.
    """
    with connect(url, clock=SystemClock(), opening=Opening.EXISTING) as metastore:
        missing = schema_differences(metastore.database)
        print(f"{metastore.url}: schema version {SCHEMA_VERSION}")
        for line in missing:
            print(line)
        if missing:
            return False
        txns = metastore.show_txns()
        opened = sum(one.state is TxnState.OPEN for one in txns)
        print(f"{len(metastore.list_databases())} databases")
        print(f"{opened} open and {len(txns) - opened} aborted transactions")
        print(f"{len(metastore.show_locks())} locks")
        unknown = tuple(unknown_directories(metastore, Files())) if files else ()
        for line in unknown:
            print(line)
    return not unknown
