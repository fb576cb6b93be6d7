"""What a process needs to take part in a metastore's tables, as one frozen value that is handed
on: the metastore, the transactions, the clock, the settings; no Spark in it.
"""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from dataclasses import dataclass, field

from hiveacid.clock import Clock, SystemClock
from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import Metastore
from hiveacid.metastore.compaction_queue import CompactionOptions
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.tables import Database, TableName
from hiveacid.settings import Settings
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.threads import DaemonThreads, Threads

DEFAULT_DATABASE = "default"


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a metastore; ``warehouse`` is a location without a trailing slash."""

    metastore: Metastore
    transactions: TransactionManager
    clock: Clock
    settings: Settings
    warehouse: str
    threads: Threads = field(default_factory=DaemonThreads)

    def database_location(self, name: str) -> str:
        """Where a new database goes: ``<warehouse>/<name>.db``; ``default`` is the warehouse."""
        if name.lower() == DEFAULT_DATABASE:
            return self.warehouse
        return f"{self.warehouse}/{name.lower()}.db"

    def table_location(self, name: TableName) -> str:
        """Where a new table goes: below its database's location.

        Raises:
            NotFoundError: no such database.
        """
        database = self.metastore.get_database(name.database)
        return f"{database.location.rstrip('/')}/{name.table}"

    def close(self) -> None:
        """End background work and give connections back."""
        self.transactions.close()
        self.metastore.close()


def open_client(
    url: str,
    *,
    warehouse: str,
    clock: Clock | None = None,
    settings: Settings | None = None,
    threads: Threads | None = None,
) -> Client:
    """Open the metastore at ``url``, with the database ``default`` made on first use.

    ``warehouse`` is a location; a relative path is taken from the working directory.

    Raises:
        MetastoreError: nothing usable is at the URL.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: the URL or the warehouse is none.
    """
    the_clock = clock or SystemClock()
    the_settings = settings or Settings()
    the_threads = threads or DaemonThreads()
    root = _location(warehouse)
    options = MetastoreOptions(
        txn_timeout_ms=int(the_settings.txn_timeout_s * 1000),
        compaction=_compaction_options(the_settings),
    )
    metastore = connect(url, clock=the_clock, options=options)
    if DEFAULT_DATABASE not in metastore.list_databases():
        metastore.create_database(
            Database(DEFAULT_DATABASE, root, "Default Hive database"), if_not_exists=True
        )
    manager = TransactionManager(
        metastore,
        the_clock,
        the_settings,
        user=_user(),
        host=socket.gethostname(),
        threads=the_threads,
        session=uuid.uuid4().hex,
    )
    return Client(metastore, manager, the_clock, the_settings, root, the_threads)


def _compaction_options(settings: Settings) -> CompactionOptions:
    return CompactionOptions(
        pool_timeout_ms=int(settings.compactor_pool_timeout_s * 1000),
        failures_max=settings.compactor_failed_threshold,
        failures_pause_ms=int(settings.compactor_failed_retry_s * 1000),
        cleaning_retry_ms=int(settings.compactor_cleaner_retry_s * 1000),
        cleaning_attempts_max=settings.compactor_cleaner_attempts,
        kept_failed=settings.compactor_history_failed,
        kept_succeeded=settings.compactor_history_succeeded,
        kept_refused=settings.compactor_history_succeeded,
        history_ms=int(settings.compactor_history_s * 1000),
    )


def _location(warehouse: str) -> str:
    if not warehouse:
        raise InvalidInputError("The warehouse needs a location")
    if "://" in warehouse:
        return warehouse.rstrip("/")
    if warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    return os.path.abspath(warehouse)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
