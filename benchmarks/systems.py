"""The systems that are compared: hiveacid, flat ORC; beside them, where their jars are, Delta Lake
and Iceberg. All live in one Spark session; each has its tables below a directory of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import hiveacid
from benchmarks import peers
from benchmarks.data import KEYS
from benchmarks.meter import OURS
from hiveacid.spark.workers import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXTENSIONS = "spark.sql.extensions"
FILE_BYTES = 64 << 20
"""Of what a compaction writes: both cores shall have work."""

_UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_CHANGES = (
    "WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED AND s.op = 'U' THEN UPDATE SET * "
    "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT {insert}"
)


class _Names(dict[str, str]):
    """What tables are called in a query, made as a query asks for them."""

    def __init__(self, system: System, table: str) -> None:
        super().__init__()
        self._system, self._table = system, table

    def __missing__(self, name: str) -> str:
        return self._system.named(self._table if name == "table" else name)


class System:
    """Tables of one system; what it cannot do is not in ``can``."""

    name: ClassVar[str]
    can: ClassVar[frozenset[str]] = frozenset({"merge", "update", "compact", "concurrent"})
    insert_all: ClassVar[str] = "*"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root / self.name
        self.root.mkdir(parents=True, exist_ok=True)

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        """What the session needs to know; the extensions of all systems are joined."""
        del root
        return {}

    def named(self, table: str) -> str:
        """The name of a table in SQL, as it is now."""
        raise NotImplementedError

    def path(self, table: str) -> Path:
        """Its directory."""
        return self.root / table

    def create(self, table: str, columns: str, buckets: str = "") -> None:
        """Make it, anew where it is there; ``buckets`` are for who has them."""
        raise NotImplementedError

    def drop(self, table: str) -> None:
        """Table and files."""
        self.sql(f"DROP TABLE IF EXISTS {self.named(table)}")
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, rows: DataFrame) -> None:
        """Load rows."""
        rows.writeTo(self.named(table)).append()

    def insert(self, table: str, values: Sequence[object]) -> None:
        """INSERT of one row of VALUES."""
        self.sql(f"INSERT INTO {self.named(table)} VALUES ({', '.join(map(literal, values))})")

    def upsert(self, table: str, rows: DataFrame) -> None:
        """MERGE: update what is there, insert the rest."""
        self.merge(table, rows, _UPSERT)

    def apply(self, table: str, changes: DataFrame) -> None:
        """MERGE of changes with a column ``op``: I, U or D."""
        self.merge(table, changes, _CHANGES.format(insert=self.insert_all))

    def delete(self, table: str, keys: DataFrame) -> None:
        """MERGE that deletes the rows of these keys."""
        self.merge(table, keys, "WHEN MATCHED THEN DELETE")

    def merge(self, table: str, source: DataFrame, clauses: str) -> None:
        """MERGE by ``KEYS``; the source is ``s``."""
        view = f"source_{self.name}"
        source.createOrReplaceTempView(view)
        on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
        self.sql(f"MERGE INTO {self.named(table)} t USING {view} s ON {on} {clauses}")

    def update(self, table: str, values: Mapping[str, str], where: str) -> None:
        """UPDATE."""
        changes = ", ".join(f"{name} = {value}" for name, value in values.items())
        self.sql(f"UPDATE {self.named(table)} SET {changes} WHERE {where}")

    def delete_where(self, table: str, where: str) -> None:
        """DELETE."""
        self.sql(f"DELETE FROM {self.named(table)} WHERE {where}")

    def query(self, text: str, table: str) -> DataFrame:
        """A query over tables as they are now: ``{table}`` in it is one, ``{orders}`` another."""
        frame: DataFrame = self.sql(text.format_map(_Names(self, table)))
        return frame

    def compact(self, table: str) -> None:
        """All into few files without deletes beside them."""
        raise NotImplementedError

    def live_bytes(self, table: str) -> int:
        """Bytes of the files that a reader of now needs."""
        files = (Path(top, name) for top, _, names in os.walk(self.path(table)) for name in names)
        return sum(file.stat().st_size for file in files if file.suffix != ".crc")

    def sql(self, text: str) -> Any:
        """Run a statement."""
        return self.spark.sql(text)


def literal(value: object) -> str:
    """A value as SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}'='{value}'" for name, value in properties.items())


class HiveAcid(System):
    """Full ACID tables on a SQLite metastore, as they are by default (zstd)."""

    name = OURS
    insert_all = "({names}) VALUES ({values})"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        # who loses is counted, and compactions are measured by themselves
        settings = {"hiveacid.conflict.retries": "0", "hiveacid.compactor.auto": "off"}
        self.connect = partial(
            hiveacid.connect,
            spark,
            f"sqlite:///{self.root}/metastore.db",
            warehouse=str(self.root / "warehouse"),
            settings=settings,
        )
        self._of_threads = threading.local()

    @property
    def session(self) -> hiveacid.Session:
        """The calling thread's own."""
        if not hasattr(self._of_threads, "session"):
            self._of_threads.session = self.connect()
        session: hiveacid.Session = self._of_threads.session
        return session

    def named(self, table: str) -> str:
        return table

    def path(self, table: str) -> Path:
        return self.root / "warehouse" / table

    def create(self, table: str, columns: str, buckets: str = "") -> None:
        self.drop(table)
        self.sql(
            f"CREATE TABLE {table} ({columns}) {buckets} STORED AS ORC"
            " TBLPROPERTIES ('transactional'='true', 'hiveacid.retention'='0')"
        )

    def append(self, table: str, rows: DataFrame) -> None:
        self.session.table(table).insert(rows)

    def merge(self, table: str, source: DataFrame, clauses: str) -> None:
        columns = [name for name in source.columns if name != "op"]
        names, values = ", ".join(columns), ", ".join(f"s.{name}" for name in columns)
        super().merge(table, source, clauses.format(names=names, values=values))

    def compact(self, table: str) -> None:
        self.sql(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")

    def live_bytes(self, table: str) -> int:
        self.session.clean(table)
        return super().live_bytes(table)

    def sql(self, text: str) -> Any:
        return self.session.sql(text)


class DeltaVectors(System):
    """Delta Lake with deletion vectors."""

    name = "delta_dv"

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        del root
        return {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # 50 tasks by default to work out what a table holds
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
            "spark.databricks.delta.optimize.minFileSize": str(FILE_BYTES),
        }

    def named(self, table: str) -> str:
        return f"spark_catalog.default.{self.name}_{table}"

    def create(self, table: str, columns: str, buckets: str = "") -> None:
        del buckets
        self.drop(table)
        vectors = {"delta.enableDeletionVectors": "true"}
        self.sql(
            f"CREATE TABLE {self.named(table)} ({columns}) USING delta"
            f" LOCATION '{self.path(table)}' TBLPROPERTIES ({_properties(vectors)})"
        )

    def compact(self, table: str) -> None:
        """PURGE rewrites files with deletion vectors, OPTIMIZE packs small ones."""
        self.sql(f"REORG TABLE {self.named(table)} APPLY (PURGE)")
        self.sql(f"OPTIMIZE {self.named(table)}")

    def live_bytes(self, table: str) -> int:
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.named(table)}").collect()[0]
        return int(detail["sizeInBytes"])


class IcebergV3(System):
    """Iceberg with deletion vectors."""

    name = "iceberg_v3"

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        return {
            EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(root / "iceberg"),
            "spark.sql.catalog.ice.cache-enabled": "false",
        }

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        self._warehouse = root / "iceberg"

    def named(self, table: str) -> str:
        return f"ice.db.{self.name}_{table}"

    def path(self, table: str) -> Path:
        return self._warehouse / "db" / f"{self.name}_{table}"

    def create(self, table: str, columns: str, buckets: str = "") -> None:
        del buckets
        self.drop(table)
        modes = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
        properties = {
            "format-version": "3",
            "write.target-file-size-bytes": str(FILE_BYTES),
            **modes,
        }
        self.sql(
            f"CREATE TABLE {self.named(table)} ({columns}) USING iceberg"
            f" TBLPROPERTIES ({_properties(properties)})"
        )

    def compact(self, table: str) -> None:
        self.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{self.name}_{table}', options =>"
            " map('rewrite-all', 'true', 'max-concurrent-file-group-rewrites', '2',"
            f" 'target-file-size-bytes', '{FILE_BYTES}', 'remove-dangling-deletes', 'true'))"
        )

    def live_bytes(self, table: str) -> int:
        text = f"SELECT sum(file_size_in_bytes) AS bytes FROM {self.named(table)}.files"
        return int(self.spark.sql(text).collect()[0]["bytes"] or 0)


class FlatOrc(System):
    """A directory of ORC files: the floor of loads and reads; a change rewrites it all."""

    name = "orc"
    can = frozenset({"merge", "update", "compact"})

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        self.columns: dict[str, str] = {}

    def create(self, table: str, columns: str, buckets: str = "") -> None:
        del buckets
        self.drop(table)
        self.columns[table] = columns
        self.path(table).mkdir()

    def drop(self, table: str) -> None:
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, rows: DataFrame) -> None:
        rows.write.mode("append").option("compression", "zstd").orc(str(self.path(table)))

    def insert(self, table: str, values: Sequence[object]) -> None:
        self.append(table, self.spark.createDataFrame([tuple(values)], self.columns[table]))

    def merge(self, table: str, source: DataFrame, clauses: str) -> None:
        old, keys = self._read(table), list(KEYS)
        if "op" in source.columns:
            kept = old.join(source.where("op <> 'I'"), keys, "left_anti")
            updated = source.where("op = 'U'").join(old.select(*keys), keys, "left_semi")
            inserted = source.where("op = 'I'").join(old.select(*keys), keys, "left_anti")
            self._replace(table, kept.unionByName(updated.unionByName(inserted).drop("op")))
        else:
            kept = old.join(source, keys, "left_anti")
            self._replace(table, kept.unionByName(source) if "INSERT" in clauses else kept)

    def update(self, table: str, values: Mapping[str, str], where: str) -> None:
        old = self._read(table)
        kinds = dict(old.dtypes)
        new = [
            f"cast(if({where}, {values[name]}, {name}) as {kinds[name]}) as {name}"
            if name in values
            else name
            for name in old.columns
        ]
        self._replace(table, old.selectExpr(*new))

    def delete_where(self, table: str, where: str) -> None:
        self._replace(table, self._read(table).where(f"not ({where})"))

    def named(self, table: str) -> str:
        view = f"{self.name}_{table}"
        self._read(table).createOrReplaceTempView(view)
        return view

    def compact(self, table: str) -> None:
        self._replace(table, self._read(table))

    def _read(self, table: str) -> DataFrame:
        return self.spark.read.schema(self.columns[table]).orc(str(self.path(table)))

    def _replace(self, table: str, rows: DataFrame) -> None:
        beside = self.path(f"{table}.new")
        rows.write.mode("overwrite").option("compression", "zstd").orc(str(beside))
        shutil.rmtree(self.path(table))
        beside.rename(self.path(table))


SYSTEMS: dict[str, type[System]] = {
    one.name: one for one in (HiveAcid, FlatOrc, DeltaVectors, IcebergV3)
}
PEERS = (DeltaVectors.name, IcebergV3.name)


def start_spark(
    systems: Sequence[type[System]], work: Path, *, cores: int, memory: str, conf: Mapping[str, str]
) -> SparkSession:
    """One session for these systems, whose tables lie below ``work``; ``conf`` comes on top."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        # of a stream of Iceberg an expression over a long text nests deeper than 1 MiB
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xss8m",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(work / "scratch"),
        "spark.sql.warehouse.dir": str(work / "spark-warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    jars = ":".join(str(one) for one in sorted(peers.JARS.glob("*.jar")))
    if jars and any(system.name in PEERS for system in systems):
        settings["spark.driver.extraClassPath"] = jars
    extensions: list[str] = []
    for system in systems:
        own = system.conf(work / "tables")
        extensions += [one for one in [own.pop(EXTENSIONS, "")] if one]
        settings |= own
    if extensions:
        settings[EXTENSIONS] = ",".join(extensions)
    return local_session("hiveacid benchmark", conf={**settings, **conf})
