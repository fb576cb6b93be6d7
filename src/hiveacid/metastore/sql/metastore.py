"""``SqlMetastore``: the parts of this room put together."""

from __future__ import annotations

from types import TracebackType

from hiveacid.metastore.sql.cleaning import SqlCleaning
from hiveacid.metastore.sql.compactions import SqlCompactions
from hiveacid.metastore.sql.conflicts import SqlCommits
from hiveacid.metastore.sql.databases import SqlDatabases
from hiveacid.metastore.sql.engine import Database, repeats_transient
from hiveacid.metastore.sql.housekeeping import SqlHousekeeping
from hiveacid.metastore.sql.locks import SqlLocks
from hiveacid.metastore.sql.partitions import SqlPartitions
from hiveacid.metastore.sql.statistics import SqlStatistics
from hiveacid.metastore.sql.stream_batches import SqlStreamBatches
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
