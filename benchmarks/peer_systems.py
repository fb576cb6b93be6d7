"""The systems of ``make bench-peers`` beside hiveacid: Delta Lake, Iceberg, plain files.

All live in one Spark session; each has its tables below a directory of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = ("l_orderkey", "l_linenumber")
EXTENSIONS = "spark.sql.extensions"
FILE_BYTES = 64 << 20
"""Of what a compaction writes: both cores shall have work."""

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
CHANGES = (
    "WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED AND s.op = 'U' THEN UPDATE SET * "
    "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT *"
)


class System:
    """Tables of one system; what it cannot do is not in ``can``."""

    name: ClassVar[str]
    can: ClassVar[frozenset[str]] = frozenset({"merge", "update", "compact", "concurrent"})

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root / self.name
        self.root.mkdir(parents=True, exist_ok=True)

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        """What the session needs to know; the extensions of all systems are joined."""
        del root
        return {}

    def sql_name(self, table: str) -> str:
        """The name of a table in SQL."""
        raise NotImplementedError

    def path(self, table: str) -> Path:
        """Its directory."""
        return self.root / table

    def create(self, table: str, columns: str) -> None:
        """Make it, anew where it is there."""
        raise NotImplementedError

    def drop(self, table: str) -> None:
        """Table and files."""
        self.sql(f"DROP TABLE IF EXISTS {self.sql_name(table)}")
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, rows: DataFrame) -> None:
        """Load rows."""
        rows.writeTo(self.sql_name(table)).append()

    def insert(self, table: str, values: Sequence[object]) -> None:
        """INSERT of one row of VALUES."""
        self.sql(f"INSERT INTO {self.sql_name(table)} VALUES ({', '.join(map(literal, values))})")

    def upsert(self, table: str, rows: DataFrame) -> None:
        """MERGE: update what is there, insert the rest."""
        self.merge(table, rows, UPSERT)

    def apply(self, table: str, changes: DataFrame) -> None:
        """MERGE of changes with a column ``op``: I, U or D."""
        self.merge(table, changes, CHANGES)

    def delete(self, table: str, keys: DataFrame) -> None:
        """MERGE that deletes the rows of these keys."""
        self.merge(table, keys, "WHEN MATCHED THEN DELETE")

    def merge(self, table: str, source: DataFrame, clauses: str) -> None:
        """MERGE by ``KEYS``; the source is ``s``."""
        view = f"source_{self.name}"
        source.createOrReplaceTempView(view)
        on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
        self.sql(f"MERGE INTO {self.sql_name(table)} t USING {view} s ON {on} {clauses}")

    def update(self, table: str, values: Mapping[str, str], where: str) -> None:
        """UPDATE."""
        changes = ", ".join(f"{name} = {value}" for name, value in values.items())
        self.sql(f"UPDATE {self.sql_name(table)} SET {changes} WHERE {where}")

    def read(self, table: str) -> DataFrame:
        """The rows of now."""
        return self.spark.table(self.sql_name(table))

    def compact(self, table: str) -> None:
        """All into few files without deletes beside them."""
        raise NotImplementedError

    def live_bytes(self, table: str) -> int:
        """Bytes of the files that a reader of now needs."""
        return self.disk_bytes(table)

    def disk_bytes(self, table: str) -> int:
        """Bytes of all files, needed or not."""
        files = (Path(top, name) for top, _, names in os.walk(self.path(table)) for name in names)
        return sum(file.stat().st_size for file in files if file.suffix != ".crc")

    def sql(self, text: str) -> DataFrame | None:
        """Run a statement."""
        return self.spark.sql(text)


def literal(value: object) -> str:
    """A value as SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}'='{value}'" for name, value in properties.items())


class DeltaVectors(System):
    """Delta Lake with deletion vectors."""

    name = "delta_dv"
    vectors: ClassVar[bool] = True

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

    def sql_name(self, table: str) -> str:
        return f"spark_catalog.default.{self.name}_{table}"

    def create(self, table: str, columns: str) -> None:
        self.drop(table)
        vectors = {"delta.enableDeletionVectors": str(self.vectors).lower()}
        self.sql(
            f"CREATE TABLE {self.sql_name(table)} ({columns}) USING delta"
            f" LOCATION '{self.path(table)}' TBLPROPERTIES ({_properties(vectors)})"
        )

    def compact(self, table: str) -> None:
        """PURGE rewrites files with deletion vectors, OPTIMIZE packs small ones."""
        self.sql(f"REORG TABLE {self.sql_name(table)} APPLY (PURGE)")
        self.sql(f"OPTIMIZE {self.sql_name(table)}")

    def live_bytes(self, table: str) -> int:
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.sql_name(table)}").collect()[0]
        return int(detail["sizeInBytes"])


class DeltaCopies(DeltaVectors):
    """Delta Lake that rewrites files."""

    name = "delta_cow"
    vectors = False


class IcebergV3(System):
    """Iceberg with deletion vectors."""

    name = "iceberg_v3"
    version: ClassVar[str] = "3"
    mode: ClassVar[str] = "merge-on-read"

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

    def sql_name(self, table: str) -> str:
        return f"ice.db.{self.name}_{table}"

    def path(self, table: str) -> Path:
        return self._warehouse / "db" / f"{self.name}_{table}"

    def create(self, table: str, columns: str) -> None:
        self.drop(table)
        modes = {f"write.{kind}.mode": self.mode for kind in ("delete", "update", "merge")}
        properties = {
            "format-version": self.version,
            "write.target-file-size-bytes": str(FILE_BYTES),
            **modes,
        }
        self.sql(
            f"CREATE TABLE {self.sql_name(table)} ({columns}) USING iceberg"
            f" TBLPROPERTIES ({_properties(properties)})"
        )

    def compact(self, table: str) -> None:
        self.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{self.name}_{table}', options =>"
            " map('rewrite-all', 'true', 'max-concurrent-file-group-rewrites', '2',"
            f" 'target-file-size-bytes', '{FILE_BYTES}', 'remove-dangling-deletes', 'true'))"
        )

    def live_bytes(self, table: str) -> int:
        text = f"SELECT sum(file_size_in_bytes) AS bytes FROM {self.sql_name(table)}.files"
        return int(self.spark.sql(text).collect()[0]["bytes"] or 0)


class IcebergV2(IcebergV3):
    """Iceberg with files of deleted positions."""

    name = "iceberg_v2"
    version = "2"


class IcebergCopies(IcebergV2):
    """Iceberg that rewrites files."""

    name = "iceberg_cow"
    mode = "copy-on-write"


class FlatOrc(System):
    """A directory of ORC files: the floor of loads and reads; a change rewrites it all."""

    name = "orc"
    can = frozenset({"merge", "update", "compact"})

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark, root)
        self._columns: dict[str, str] = {}

    def create(self, table: str, columns: str) -> None:
        self.drop(table)
        self._columns[table] = columns
        self.path(table).mkdir()

    def drop(self, table: str) -> None:
        shutil.rmtree(self.path(table), ignore_errors=True)

    def append(self, table: str, rows: DataFrame) -> None:
        rows.write.format(self.name).mode("append").save(str(self.path(table)))

    def insert(self, table: str, values: Sequence[object]) -> None:
        self.append(table, self.spark.createDataFrame([tuple(values)], self._columns[table]))

    def upsert(self, table: str, rows: DataFrame) -> None:
        kept = self.read(table).join(rows, list(KEYS), "left_anti")
        self._replace(table, kept.unionByName(rows))

    def apply(self, table: str, changes: DataFrame) -> None:
        old = self.read(table)
        known = old.select(*KEYS)
        kept = old.join(changes.where("op <> 'I'"), list(KEYS), "left_anti")
        updated = changes.where("op = 'U'").join(known, list(KEYS), "left_semi")
        inserted = changes.where("op = 'I'").join(known, list(KEYS), "left_anti")
        self._replace(table, kept.unionByName(updated.unionByName(inserted).drop("op")))

    def delete(self, table: str, keys: DataFrame) -> None:
        self._replace(table, self.read(table).join(keys, list(KEYS), "left_anti"))

    def update(self, table: str, values: Mapping[str, str], where: str) -> None:
        old = self.read(table)
        kinds = dict(old.dtypes)
        new = [
            f"cast(if({where}, {values[name]}, {name}) as {kinds[name]}) as {name}"
            if name in values
            else name
            for name in old.columns
        ]
        self._replace(table, old.selectExpr(*new))

    def read(self, table: str) -> DataFrame:
        reader = self.spark.read.format(self.name).schema(self._columns[table])
        return reader.load(str(self.path(table)))

    def compact(self, table: str) -> None:
        self._replace(table, self.read(table))

    def _replace(self, table: str, rows: DataFrame) -> None:
        beside = self.path(f"{table}.new")
        rows.write.format(self.name).mode("overwrite").save(str(beside))
        shutil.rmtree(self.path(table))
        beside.rename(self.path(table))


class FlatParquet(FlatOrc):
    """A directory of Parquet files."""

    name = "parquet"


PEERS: tuple[type[System], ...] = (
    *(DeltaVectors, DeltaCopies, IcebergV3, IcebergV2, IcebergCopies, FlatOrc, FlatParquet),
)
GROUPS = {
    "delta": ("delta_dv", "delta_cow"),
    "iceberg": ("iceberg_v3", "iceberg_v2", "iceberg_cow"),
    "flat": ("orc", "parquet"),
}
