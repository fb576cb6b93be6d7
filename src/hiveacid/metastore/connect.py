"""From a URL to a metastore."""

from __future__ import annotations

from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.sql.dialect import SqliteDialect
from hiveacid.metastore.sql.engine import Database, MetastoreOptions
from hiveacid.metastore.sql.metastore import SqlMetastore


def connect(url: str, *, clock: Clock, options: MetastoreOptions | None = None) -> SqlMetastore:
    """Open the metastore at ``sqlite:///path`` or a plain path; made where it does not exist.

    Raises:
        MetastoreError: something that is not a metastore of hiveacid is there, its schema is newer
            than this hiveacid knows, or the database cannot be opened.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: the URL is of no known kind.
    """
    chosen = options or MetastoreOptions()
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", "/" + url
    kind = scheme.partition("+")[0].lower()
    if kind == "thrift":
        raise UnsupportedError("A Hive metastore service (thrift://) is not built yet", url=url)
    if kind in ("postgresql", "postgres"):
        raise UnsupportedError("A metastore on PostgreSQL is not built yet", kind=kind)
    if kind != "sqlite":
        raise InvalidInputError(
            f"{scheme}:// is no metastore; known are sqlite:///path and a plain path", scheme=scheme
        )
    path = rest.removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise InvalidInputError(
            "An SQLite metastore needs a file, because several processes share it", url=url
        )
    dialect = SqliteDialect(path, clock=clock, durable=chosen.durable)
    return SqlMetastore(Database(dialect, url=f"sqlite:///{path}", clock=clock, options=chosen))
