"""From a URL to a metastore."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.sql.dialect import Dialect
from hiveacid.metastore.sql.engine import Database, MetastoreOptions
from hiveacid.metastore.sql.metastore import SqlMetastore
from hiveacid.metastore.sql.migrations import Opening, no_metastore, prepare
from hiveacid.metastore.sql.postgres import PostgresDialect
from hiveacid.metastore.sql.sqlite import SqliteDialect

_POSTGRES = "postgresql+psycopg"


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
    dialect = PostgresDialect(parsed, durable=options.durable, server_time=options.server_time)
    secrets = [key for key in parsed.query if "password" in key.lower()]
    shown = parsed.difference_update_query(secrets)
    return dialect, shown.render_as_string(hide_password=True)
