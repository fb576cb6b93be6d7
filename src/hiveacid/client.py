"""What a process needs to take part in a metastore's tables, as one frozen value that is handed
on: the metastore, the transactions, the files, the clock, the settings; no Spark in it.
"""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from dataclasses import dataclass, field, replace
from typing import NoReturn

from hiveacid.clock import Clock, DaemonThreads, SystemClock, Threads
from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.metastore.api import Metastore, OwnDatabase, own
from hiveacid.metastore.connect import Opening, connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.upkeep import CompactionOptions
from hiveacid.model.tables import Database
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files
from hiveacid.storage.locations import one_name, root_of
from hiveacid.storage.stores import Lookup, names_its_server
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.view import TemporaryTables

DEFAULT_DATABASE = "default"


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a metastore; ``warehouse`` is a location without a trailing slash."""

    metastore: Metastore
    transactions: TransactionManager
    clock: Clock
    initial_settings: Settings
    """those that it was connected with; RESET goes back to them"""
    warehouse: str
    threads: Threads = field(default_factory=DaemonThreads)
    temporary: TemporaryTables = field(
        default_factory=lambda: TemporaryTables(uuid.uuid4().hex[:8]), compare=False
    )
    """The temporary tables of its session, which drops them when it closes."""

    def __reduce__(self) -> NoReturn:
        """It has connections and threads, and so have sessions and their tables: none is pickled.

        Raises:
            InvalidInputError: always.
        """
        raise InvalidInputError(
            "A session and what belongs to it cannot be sent to another process",
            note=f"Connect there: hiveacid.connect(None, {self.metastore.url!r}).",
        )

    @property
    def files(self) -> Files:
        """The files of tables, as this process reaches them."""
        return self.transactions.files

    @property
    def settings(self) -> Settings:
        """The settings as they are now. Nobody keeps them: the next SET is for all that run."""
        return self.transactions.settings

    def use_settings(self, settings: Settings) -> None:
        """Let these be the settings from now on.

        Raises:
            InvalidInputError: one differs that is fixed while a session is connected.
        """
        settings.check_unchanged(self.settings)
        self.transactions.use_settings(settings)
        chosen = _options(settings)
        self.own.use_options(
            chosen.compaction, history_ms=chosen.history_ms, retention_ms=chosen.retention_ms
        )

    def ask_of_stores(self, hadoop: Lookup) -> None:
        """Let Hadoop's configuration say how object stores are reached where settings do not."""
        self.transactions.files = replace(self.files, hadoop=hadoop)

    @property
    def own(self) -> OwnDatabase:
        """What the metastore can do because it is a database of ours.

        Raises:
            UnsupportedError: it is none.
        """
        return own(self.metastore)

    def database_location(self, name: str) -> str:
        """Where a new database goes: ``<warehouse>/<name>.db``; ``default`` is the warehouse."""
        if name.lower() == DEFAULT_DATABASE:
            return self.warehouse
        return f"{self.warehouse}/{name.lower()}.db"

    def close(self) -> None:
        """End background work and give connections back."""
        self.transactions.close()
        self.metastore.close()


def open_client(
    url: str,
    *,
    warehouse: str | None = None,
    clock: Clock | None = None,
    settings: Settings | None = None,
    threads: Threads | None = None,
    files: Files | None = None,
) -> Client:
    """Open the metastore at ``url``, with the database ``default`` made on first use.

    ``warehouse`` is where new databases and tables go; a metastore that is there already knows its
    own: the location of its database ``default``.

    Raises:
        MetastoreError: nothing usable is at the URL.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: the URL or the warehouse is none; the warehouse is a relative path, or
            not that of the metastore; a new metastore needs one.
    """
    the_clock = clock or SystemClock()
    the_settings = settings or Settings()
    the_threads = threads or DaemonThreads()
    root = None if warehouse is None else _location(warehouse)
    opening = Opening.EXISTING if warehouse is None else Opening.CREATE
    metastore = connect(url, clock=the_clock, options=_options(the_settings), opening=opening)
    try:
        location, was_there = _default_location(metastore, root)
    except BaseException:
        metastore.close()
        raise
    manager = TransactionManager(
        metastore,
        the_clock,
        the_settings,
        user=_user(),
        host=socket.gethostname(),
        threads=the_threads,
        files=files,
        session=uuid.uuid4().hex,
    )
    if was_there and names_its_server(root_of(location)):
        manager.files = replace(manager.files, reached=frozenset({root_of(location)}))
    return Client(metastore, manager, the_clock, the_settings, location, the_threads)


def _options(settings: Settings) -> MetastoreOptions:
    return MetastoreOptions(
        txn_timeout_ms=int(settings.txn_timeout_s * 1000),
        compaction=_compaction_options(settings),
        history_ms=int(settings.history_retention_s * 1000),
        retention_ms=int(settings.retention_s * 1000),
    )


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


def _default_location(metastore: Metastore, warehouse: str | None) -> tuple[str, bool]:
    """Where the database ``default`` lies, which is made where there is none; and whether it was
    there.

    Raises:
        InvalidInputError: it is to be made and there is no ``warehouse``, or lies elsewhere.
    """
    was_there = True
    try:
        database = metastore.get_database(DEFAULT_DATABASE)
    except NotFoundError:
        was_there = False
        if warehouse is None:
            raise InvalidInputError(
                f"The metastore {metastore.url} is new: where do its tables go?",
                note="hiveacid.connect(spark, url, warehouse='/data/warehouse')",
            ) from None
        made = Database(DEFAULT_DATABASE, warehouse, "Default Hive database")
        metastore.create_database(made, if_not_exists=True)
        database = metastore.get_database(DEFAULT_DATABASE)
    location = database.location
    if warehouse is not None and one_name(warehouse) not in map(one_name, database.locations):
        raise InvalidInputError(
            f"The warehouse of the metastore {metastore.url} is {location}, not {warehouse}",
            note="leave warehouse out, or give CREATE DATABASE or CREATE TABLE a LOCATION",
            warehouse=warehouse,
            location=location,
        )
    return location, was_there


def _location(warehouse: str) -> str:
    if not warehouse:
        raise InvalidInputError("The warehouse needs a location")
    if warehouse.startswith(("sqlite:", "postgresql", "postgres:", "thrift:")):
        raise InvalidInputError(
            "The warehouse is a directory, not the metastore's URL: are the two swapped?",
            warehouse=warehouse.partition(":")[0],
        )
    if "://" in warehouse or warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    if not os.path.isabs(warehouse):
        raise InvalidInputError(
            f"The warehouse {warehouse!r} is a relative path: it would be another one for a client "
            f"with another working directory; here it is {os.path.abspath(warehouse)}",
            warehouse=warehouse,
        )
    return os.path.normpath(warehouse)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
