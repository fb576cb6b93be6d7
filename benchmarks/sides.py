"""The two sides: hiveacid's table, and a directory of flat ORC files of the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.data import COLUMNS, SUMS_SQL, Sums
from hiveacid.metastore.connect import SqlMetastore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.session import Session


class Side(Protocol):
    """What both can do."""

    def load(self, table: str, rows: DataFrame) -> int:
        """Put rows into an empty table; how many, or -1 where it does not say."""

    def query(self, text: str, table: str) -> DataFrame:
        """A query over a fresh look at the table; ``{table}`` in it stands for the table."""


class HiveAcid:
    """Full ACID tables as they are by default (zstd); unpartitioned and unbucketed if not said."""

    def __init__(self, acid: Session) -> None:
        self.acid = acid

    def synchronous(self) -> int:
        """What SQLite's connections of the metastore are set to."""
        metastore = self.acid.client.metastore
        assert isinstance(metastore, SqlMetastore)
        with metastore.database.read() as unit:
            return int(unit.channel.send("PRAGMA synchronous").rows()[0][0])

    def create(self, table: str, columns: str = COLUMNS, clauses: str = "") -> None:
        """A fresh, empty table."""
        self.drop(table)
        self.acid.sql(
            f"create table {table} ({columns}) {clauses} stored as orc"
            " tblproperties ('transactional'='true')"
        )

    def drop(self, table: str) -> None:
        """The table, if there is one."""
        self.acid.sql(f"drop table if exists {table}")

    def load(self, table: str, rows: DataFrame) -> int:
        """INSERT of a DataFrame into an empty table."""
        return self.acid.table(table).insert(rows).rows

    def run(self, text: str, table: str) -> Any:
        """A DML statement."""
        return self.acid.sql(text.format(table=table))

    def query(self, text: str, table: str) -> DataFrame:
        """A query through SQL."""
        frame: DataFrame = self.acid.sql(text.format(table=table, side=""))
        return frame


class FlatOrc:
    """What Spark itself writes and reads."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self.directory = directory

    def load(self, table: str, rows: DataFrame) -> int:
        """Spark's ORC writer with zstd, too."""
        rows.write.option("compression", "zstd").orc(self._path(table))
        return -1

    def drop(self, table: str) -> None:
        """Remove the directory."""
        shutil.rmtree(self._path(table), ignore_errors=True)

    def query(self, text: str, table: str) -> DataFrame:
        """A query over the directory; its listing is part of the work."""
        view = f"flat_{table}"
        self._spark.read.schema(COLUMNS).orc(self._path(table)).createOrReplaceTempView(view)
        return self._spark.sql(text.format(table=view, side="flat_"))

    def name(self, table: str) -> None:
        """Give another table the name that queries have for it."""
        self._spark.read.orc(self._path(table)).createOrReplaceTempView(f"flat_{table}")

    def _path(self, table: str) -> str:
        return str(self.directory / table)


def sums(side: Side, table: str) -> Sums:
    """Rows and sums of a table, to be compared with DuckDB's."""
    found = side.query(SUMS_SQL.format(rows="{table}"), table).first()
    assert found is not None
    return Sums(int(found[0]), str(found[1]), str(found[2]))


def checksum(side: Side, table: str) -> tuple[Any, ...]:
    """Rows and a sum of hashes over all columns: equal for equal bags of rows."""
    names = ", ".join(column.split()[0] for column in COLUMNS.replace("15,2", "").split(", "))
    text = (
        "select count(*), sum(cast(xxhash64(*) as decimal(38,0)))"
        f" from (select {names} from {{table}}) x"
    )
    found = side.query(text, table).first()
    assert found is not None
    return tuple(found)
