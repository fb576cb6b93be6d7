"""The recorded SQL, statement by statement: each case on an empty metastore, one Spark for all."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acceptance.scripts import Answer, Case, Recorded, read_case
from tests.acceptance.values import difference, escaped, render
from tests.recorded import case_name, sql_cases

import hiveacid
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMPACT = re.compile(r"alter\s+table\s+(?P<table>\S+).*\bcompact\s+'\w+'", re.I | re.S)
SETTINGS = {"hiveacid.compactor.auto": "off", "hiveacid.retention_s": "0"}


@dataclass(frozen=True)
class Outcome:
    """``why`` it is not what Hive answered; empty where it is."""

    case: str
    number: int
    sql: str
    why: str

    @property
    def name(self) -> str:
        """``AREA/NAME:STATEMENT``."""
        return f"{self.case}:{self.number}"


def outcomes(pattern: str) -> Iterator[Outcome]:
    """Of all statements of the cases whose ``AREA/NAME`` matches a glob pattern."""
    with tempfile.TemporaryDirectory() as scratch:
        spark = _spark(Path(scratch))
        for script in sql_cases():
            if Path(case_name(script)).match(pattern):
                yield from _of_case(read_case(script), spark)
        spark.stop()


def _spark(scratch: Path) -> SparkSession:
    from hiveacid.spark.workers import local_session

    session = local_session(
        "hiveacid accept",
        conf={
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(scratch / "spark"),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def _of_case(case: Case, spark: SparkSession) -> Iterator[Outcome]:
    with _connected(spark) as session:
        for recorded in case.statements:
            why = _difference(session, recorded, unordered=case.unordered)
            yield Outcome(case.name, recorded.number, recorded.sql, why)


@contextmanager
def _connected(spark: SparkSession) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        url, warehouse = f"sqlite:///{work}/metastore.db", f"{work}/wh"
        with hiveacid.connect(spark, url, warehouse=warehouse, settings=SETTINGS) as session:
            yield session


def _difference(session: Session, recorded: Recorded, *, unordered: bool) -> str:
    try:
        got = _run(session, recorded)
    except Exception as error:  # whatever it is, Hive says whether there had to be one
        return "" if recorded.answer is Answer.ERROR else f"{type(error).__name__}: {error}"
    if recorded.answer is Answer.ERROR:
        return f"no error; Hive: {recorded.lines[0]}"
    return difference(recorded.sql, recorded.lines, got, unordered=unordered)


def _run(session: Session, recorded: Recorded) -> list[str]:
    """The rows as lines; a compaction is carried out to its end, the cleaner's round included."""
    compaction = _COMPACT.fullmatch(recorded.sql)
    if compaction:
        session.sql(f"{recorded.sql} and wait")
        session.clean(compaction["table"])
        return []
    answer = session.sql(recorded.sql)
    return _lines(answer) if recorded.answer is Answer.ROWS else []


def _lines(frame: DataFrame | None) -> list[str]:
    if frame is None:
        return []
    kinds = [field.dataType for field in frame.schema.fields]
    # Python has no timestamps of all years
    cast = [
        f"cast(c{n} as string) c{n}" if kind.typeName().startswith("timestamp") else f"c{n}"
        for n, kind in enumerate(kinds)
    ]
    rows = frame.toDF(*[f"c{n}" for n in range(len(kinds))]).selectExpr(*cast).collect()
    return [escaped("\t".join(_cells(row, kinds))) for row in rows]


def _cells(row: Any, kinds: list[Any]) -> Iterator[str]:
    for value, kind in zip(row, kinds, strict=True):
        yield render(value, kind)
