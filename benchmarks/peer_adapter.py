"""hiveacid as one of the systems of ``../shared/bench``, whose runner imports this module.

``adapters`` and ``workloads`` are modules of that runner; they are found beside its script.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import adapters
import workloads

import hiveacid
from benchmarks.processes import cpu_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The runner counts the CPU of JVM and driver; Spark's Python workers write our files, so count all.
workloads._cpu = cpu_s


class HiveAcid(adapters.Adapter):
    """Full ACID tables of hiveacid on a SQLite metastore, compressed like the peers' files."""

    name = "hiveacid"
    can = frozenset({"merge", "update", "delete", "compact", "txn"})

    def __init__(self, spark: SparkSession, root: str) -> None:
        super().__init__(spark, root)
        os.makedirs(self.root, exist_ok=True)
        url = f"sqlite:///{self.root}/metastore.db"
        # B9 counts who loses, and its statements of several threads go to several sessions.
        settings = {"hiveacid.conflict.retries": "0", "hiveacid.compactor.auto": "off"}
        self._connect = partial(
            hiveacid.connect, spark, url, warehouse=self.path(""), settings=settings
        )
        self._acid = self._connect()
        self._own = threading.local()
        self._own.session = self._acid

    def create(self, table: str, ddl: str) -> None:
        """A fresh table; ``ddl`` holds the columns. The big table of single-row updates is bucketed
        by their key, as a Hive table for such would be.
        """
        self.drop(table)
        buckets = "CLUSTERED BY (l_orderkey) INTO 8 BUCKETS" if table == "b8big" else ""
        self._acid.sql(
            f"CREATE TABLE {table} ({ddl}) {buckets} STORED AS ORC"
            " TBLPROPERTIES ('transactional'='true', 'orc.compress'='ZSTD',"
            " 'hiveacid.retention'='0')"
        )

    def drop(self, table: str) -> None:
        """Table and files."""
        self._acid.sql(f"DROP TABLE IF EXISTS {table}")
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, df: DataFrame) -> None:
        """Load."""
        self._acid.table(table).insert(df)

    def insert_rows(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """INSERT ... VALUES."""
        values = ", ".join(f"({', '.join(adapters._lit(one) for one in row)})" for row in rows)
        self._acid.sql(f"INSERT INTO {table} VALUES {values}")

    def merge_upsert(self, table: str, src: DataFrame, keys: Sequence[str] = adapters.KEYS) -> None:
        """Update what is there, insert the rest."""
        self._merge(
            table, src, keys, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def merge_cdc(self, table: str, src: DataFrame, keys: Sequence[str] = adapters.KEYS) -> None:
        """Changes with an operation each."""
        columns = [name for name in src.columns if name != "op"]
        values = ", ".join(f"s.{name}" for name in columns)
        self._merge(
            table,
            src,
            keys,
            "WHEN MATCHED AND s.op = 'D' THEN DELETE "
            "WHEN MATCHED AND s.op = 'U' THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.op = 'I' "
            f"THEN INSERT ({', '.join(columns)}) VALUES ({values})",
        )

    def delete_keys(self, table: str, src: DataFrame, keys: Sequence[str] = adapters.KEYS) -> None:
        """The same statement as the peers run."""
        self._merge(table, src, keys, "WHEN MATCHED THEN DELETE")

    def update(self, table: str, sets: Mapping[str, str], where: str) -> None:
        """UPDATE."""
        assignments = ", ".join(f"{name} = {value}" for name, value in sets.items())
        self._session().sql(f"UPDATE {table} SET {assignments} WHERE {where}")

    def read(self, table: str) -> DataFrame:
        """The rows of now."""
        return self._acid.table(table).df()

    def compact(self, table: str) -> None:
        """Major compaction."""
        self._session().sql(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")

    def path(self, table: str) -> str:
        """The table's directory."""
        return os.path.join(self.root, "warehouse", table)

    def live_bytes(self, table: str) -> int:
        """All bytes that are there once what is obsolete is gone."""
        self._acid.clean(table)
        return int(self.disk(table)["bytes"])

    def _session(self) -> hiveacid.Session:
        """The calling thread's own."""
        if not hasattr(self._own, "session"):
            self._own.session = self._connect()
        session: hiveacid.Session = self._own.session
        return session

    def _merge(self, table: str, src: DataFrame, keys: Sequence[str], clauses: str) -> None:
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        view = self._view(src, table)
        self._acid.sql(f"MERGE INTO {table} t USING {view} s ON {on} {clauses}")
