"""From a URL to a metastore: ``SqlMetastore``, the parts of ``sql/`` put together."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.sql.cleaning import SqlCleaning
from hiveacid.metastore.sql.compactions import SqlCompactions
from hiveacid.metastore.sql.conflicts import SqlCommits
from hiveacid.metastore.sql.dialect import Dialect
from hiveacid.metastore.sql.engine import Database, MetastoreOptions, repeats_transient
from hiveacid.metastore.sql.history import SqlHistory
from hiveacid.metastore.sql.housekeeping import SqlHousekeeping
from hiveacid.metastore.sql.locks import SqlLocks
from hiveacid.metastore.sql.migrations import Opening, no_metastore, prepare
from hiveacid.metastore.sql.partitions import SqlDatabases, SqlPartitions
from hiveacid.metastore.sql.pins import SqlPins
from hiveacid.metastore.sql.postgres import PostgresDialect
from hiveacid.metastore.sql.sqlite import SqliteDialect
from hiveacid.metastore.sql.statistics import SqlStatistics, SqlStreamBatches
from hiveacid.metastore.sql.tables import SqlTables
from hiveacid.metastore.sql.takeover import SqlTakeover
from hiveacid.metastore.sql.txns import SqlTxns
from hiveacid.metastore.sql.write_ids import SqlWriteIds


@repeats_transient
class SqlMetastore(
    SqlDatabases,
    SqlTables,
    SqlPartitions,
    SqlTakeover,
    SqlStatistics,
    SqlTxns,
    SqlWriteIds,
    SqlCommits,
    SqlHistory,
    SqlPins,
    SqlStreamBatches,
    SqlHousekeeping,
    SqlLocks,
    SqlCompactions,
    SqlCleaning,
):
    """A metastore in an SQL database; safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def own(self) -> SqlMetastore:
        """Itself: it is a database of ours."""
        return self

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._db.url

    @property
    def database(self) -> Database:
        """The database, for inspection and tests."""
        return self._db

    def close(self) -> None:
        """Give connections back."""
        self._db.close()

    def __enter__(self) -> SqlMetastore:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SqlMetastore {self.url}>"


_POSTGRES = "postgresql+psycopg"


_HIDDEN: Final = "***"
"""What stands for the password in a URL that is shown."""


def connect(
    url: str,
    *,
    clock: Clock,
    options: MetastoreOptions | None = None,
    opening: Opening = Opening.CREATE,
) -> SqlMetastore:
    """Open the metastore at ``sqlite:///path``, a plain path or ``postgresql+psycopg://``; its
    tables are made where there are none, unless ``opening`` says otherwise.

    Raises:
        MetastoreError: something that is not a metastore of hiveacid is there, its schema is newer
            or older than what this hiveacid knows, or the database cannot be opened.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: the URL is of no known kind.
    """
    chosen = options or MetastoreOptions()
    dialect, shown = _dialect(url, clock=clock, options=chosen)
    if opening is not Opening.CREATE and isinstance(dialect, SqliteDialect) and dialect.is_new():
        raise no_metastore(shown)
    return open_metastore(dialect, url=shown, clock=clock, options=chosen, opening=opening)


def open_metastore(
    dialect: Dialect, *, url: str, clock: Clock, options: MetastoreOptions, opening: Opening
) -> SqlMetastore:
    """Open the metastore behind a dialect; ``url`` is what messages show of it.

    Raises:
        MetastoreError: as ``connect``.
    """
    database = Database(dialect, url=url, clock=clock, options=options)
    try:
        prepare(database, opening)
    except BaseException:
        database.close()
        raise
    return SqlMetastore(database)


def _dialect(url: str, *, clock: Clock, options: MetastoreOptions) -> tuple[Dialect, str]:
    """The dialect, and the URL without secrets."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", "/" + url
    kind = scheme.partition("+")[0].lower()
    if kind == "thrift":
        raise UnsupportedError("A Hive metastore service (thrift://) is not built yet", url=url)
    if kind in ("postgresql", "postgres"):
        return _postgres(f"{_POSTGRES}://{rest}", options=options)
    if kind != "sqlite":
        raise InvalidInputError(
            f"{scheme}:// is no metastore; known are sqlite:///path, a plain path and "
            f"{_POSTGRES}://user:password@host/database",
            scheme=scheme,
        )
    path = rest.removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise InvalidInputError(
            "An SQLite metastore needs a file, because several processes share it", url=url
        )
    return SqliteDialect(path, clock=clock, durable=options.durable), f"sqlite:///{path}"


def _postgres(url: str, *, options: MetastoreOptions) -> tuple[Dialect, str]:
    try:
        parsed: URL = make_url(url)
    except (ArgumentError, ValueError):
        # The reason may quote the URL, and that a password.
        raise InvalidInputError(
            f"The URL of the metastore is wrong; it is {_POSTGRES}://user:password@host/database"
        ) from None
    if parsed.password == _HIDDEN:  # the URL that a session shows: PGPASSWORD says it
        parsed = parsed._replace(password=None)
    dialect = PostgresDialect(parsed, durable=options.durable, server_time=options.server_time)
    secrets = [key for key in parsed.query if "password" in key.lower()]
    shown = parsed.difference_update_query(secrets)
    return dialect, shown.render_as_string(hide_password=True)
