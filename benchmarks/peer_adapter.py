"""hiveacid as one of the systems of ``make bench-peers``."""

from __future__ import annotations

import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hiveacid
from benchmarks.peer_systems import System

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETED = {"b8big": "CLUSTERED BY (l_orderkey) INTO 8 BUCKETS"}
"""As a Hive table would be of which single rows are updated."""
CHANGES_OF_OURS = (
    "WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED AND s.op = 'U' THEN UPDATE SET * "
    "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT ({names}) VALUES ({values})"
)


class HiveAcid(System):
    """Full ACID tables on a SQLite metastore, compressed like the peers' files."""

    name = "hiveacid"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        # B9 counts who loses; compactions are measured by themselves
        settings = {"hiveacid.conflict.retries": "0", "hiveacid.compactor.auto": "off"}
        self._connect = partial(
            hiveacid.connect,
            spark,
            f"sqlite:///{self.root}/metastore.db",
            warehouse=str(self.root / "warehouse"),
            settings=settings,
        )
        self._of_threads = threading.local()

    @property
    def _session(self) -> hiveacid.Session:
        """The calling thread's own."""
        if not hasattr(self._of_threads, "session"):
            self._of_threads.session = self._connect()
        session: hiveacid.Session = self._of_threads.session
        return session

    def sql_name(self, table: str) -> str:
        return table

    def path(self, table: str) -> Path:
        return self.root / "warehouse" / table

    def create(self, table: str, columns: str) -> None:
        self.drop(table)
        self.sql(
            f"CREATE TABLE {table} ({columns}) {BUCKETED.get(table, '')} STORED AS ORC"
            " TBLPROPERTIES ('transactional'='true', 'orc.compress'='ZSTD',"
            " 'hiveacid.retention'='0')"
        )

    def drop(self, table: str) -> None:
        self.sql(f"DROP TABLE IF EXISTS {table}")
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, rows: DataFrame) -> None:
        self._session.table(table).insert(rows)

    def apply(self, table: str, changes: DataFrame) -> None:
        columns = [name for name in changes.columns if name != "op"]
        names, values = ", ".join(columns), ", ".join(f"s.{name}" for name in columns)
        self.merge(table, changes, CHANGES_OF_OURS.format(names=names, values=values))

    def read(self, table: str) -> DataFrame:
        return self._session.table(table).df()

    def compact(self, table: str) -> None:
        self.sql(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")

    def live_bytes(self, table: str) -> int:
        self._session.clean(table)
        return self.disk_bytes(table)

    def sql(self, text: str) -> DataFrame | None:
        answer: DataFrame | None = self._session.sql(text)
        return answer
