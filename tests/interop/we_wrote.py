"""Write tables, let real Hive read and change them, read what it did.

1. hiveacid writes each kind of table, its rows and row ids are kept, the directory is exported.
2. In one session Hive makes the same tables, learns our write ids by rows in its metastore's
   database, gets our files, finds partitions by MSCK, then reads, changes and compacts.
3. The result goes back below hiveacid's table, with the write ids and transactions Hive used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.answers import HiveAnswer, Rows, Shape, differences, without_row_ids
from tests.interop.hive_tool import HiveTool, statements
from tests.interop.kinds import Kind, Step, Workplace
from tests.interop.reading_back import check_ls, check_read_arrow, frame_rows

import hiveacid
from hiveacid.model.tables import FIRST_WRITE_ID_AFTER_CONVERSION, TableName
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_TXN = 1000
"""Hive's transactions that stand for ours."""
CHANGES = [(2, "u"), (3, "d"), (12, "u"), (17, "d"), (31, "x"), (500, "i"), (501, "i")]
FOR_HIVE_3 = "'hiveacid.compat'='hive3'"


@dataclass(frozen=True)
class Scope:
    """How much of it is done."""

    version: str
    only_read: bool
    """Hive's SELECT, but no change and no compaction"""
    quick: bool
    """one SELECT of each state, one compaction, no cleaner, nothing back"""


@dataclass(frozen=True)
class Written:
    """A table of ours: rows with row ids, the values after Hive's statements ran on our side."""

    kind: Kind
    table: str
    shape: Shape
    last_write_id: int
    files: Path
    rows: Rows
    later: Rows

    @property
    def write_ids(self) -> range:
        """Ours that Hive has to know; those of a converted table begin high."""
        high = int(FIRST_WRITE_ID_AFTER_CONVERSION)
        first = high if self.last_write_id >= high - 1 else 1
        return range(first, self.last_write_id + 1)

    def values(self, rows: Rows) -> Rows:
        """Without row ids, if it has them."""
        return without_row_ids(rows) if self.kind.has_row_ids else rows


class Writer:
    """Our side: sessions with and without Spark on one metastore."""

    def __init__(self, spark: SparkSession, scratch: Path, scope: Scope) -> None:
        spark.range(3000).selectExpr("cast(id as int) id").createOrReplaceTempView("numbers")
        spark.createDataFrame(CHANGES, "id int, op string").createOrReplaceTempView("changes")
        self.spark, self.scratch = spark, scratch
        self.more = FOR_HIVE_3 if scope.version == "3.1" else ""

    @contextmanager
    def sessions(self) -> Iterator[tuple[Session, Session]]:
        """The one with Spark, the one without."""
        with self._connect(self.spark) as acid, self._connect(None) as without_spark:
            yield acid, without_spark

    def _connect(self, spark: SparkSession | None) -> Session:
        return hiveacid.connect(
            spark,
            f"sqlite:///{self.scratch / 'metastore.db'}",
            warehouse=str(self.scratch / "ours"),
            settings={
                "hive.exec.dynamic.partition.mode": "nonstrict",
                "hiveacid.compactor.auto": "off",  # Hive shall meet what the statements wrote
            },
        )

    def write(self, acid: Session, without_spark: Session, kind: Kind) -> Written:
        """One table of a kind."""
        table = f"w_{kind.name}"
        own = self.scratch / "steps" / kind.name
        own.mkdir(parents=True)
        place = Workplace(acid, without_spark, table, own)
        acid.sql(kind.create(table, more=self.more))
        for step in kind.statements:
            _take(step, place)
        metastore = acid.client.metastore
        definition = metastore.get_table(TableName("default", table))
        shape = Shape(
            tuple((column.name, column.type) for column in definition.columns),
            tuple((column.name, column.type) for column in definition.partition_columns),
        )
        last = metastore.valid_write_ids((definition.name,))[0].hwm
        rows = our_select(acid, kind, table, shape)
        files = self.scratch / "export" / kind.name
        shutil.copytree(definition.location, files)
        if kind.exported is not None:
            kind.exported()
        for sql in kind.hive_turn:
            _take(sql, place)
        written = Written(kind, table, shape, last, files, rows, [])
        later = written.values(our_select(acid, kind, table, shape))
        return Written(kind, table, shape, last, files, rows, later)


def _take(step: Step, place: Workplace) -> None:
    if isinstance(step, str):
        place.acid.sql(step.replace("{t}", place.table))
    else:
        step(place)


def our_select(acid: Session, kind: Kind, table: str, shape: Shape) -> Rows:
    """Our rows of a table, with row ids where it has them."""
    columns = ", ".join(f"`{name}`" for name, _ in shape.all)
    columns += ", ROW__ID" if kind.has_row_ids else ""
    return frame_rows(acid.sql(f"select {columns} from {table}"), shape)


# -------------------------------------------------------------------- Hive's turn


def hive_turn(tool: HiveTool, tables: Sequence[Written], scope: Scope) -> list[str]:
    """Hive gets the tables, reads, changes and compacts them; lines of errors, with the table."""
    lines = ["set hive.query.results.cache.enabled=false", "set hive.msck.path.validation=ignore"]
    for written in tables:
        lines.append(f"!echo @{written.kind.name}: create")
        lines.append(written.kind.create(written.table, more=_more(scope)))
        lines += (ddl.replace("{t}", written.table) for ddl in written.kind.alterations)
    known = {written.table: written.write_ids for written in tables}
    lines += known_write_ids(known, version=tool.version)
    for written in tables:
        lines.append(f"!echo @{written.kind.name}: files")
        lines.append(f"!cp {written.files} {tool.warehouse / written.table}")
        if written.shape.partition_columns:
            lines.append(f"msck repair table {written.table}")
    lines += _look(tables, "read")
    if not scope.quick:
        lines.append("set hive.vectorized.execution.enabled=false")
        lines += _look(tables, "read_by_row")
        lines.append("set hive.vectorized.execution.enabled=true")
    if not scope.only_read:
        lines += _changes(tables, scope)
    return _errors(tool.run(statements(lines), "turn"))


def _more(scope: Scope) -> str:
    return FOR_HIVE_3 if scope.version == "3.1" else ""


def _look(tables: Sequence[Written], step: str) -> Iterator[str]:
    for written in tables:
        yield f"!echo @{written.kind.name}: {step}"
        yield f"!snap {written.kind.name}.{step} {written.table} {written.kind.shown}"


def _changes(tables: Sequence[Written], scope: Scope) -> Iterator[str]:
    for written in tables:
        kind, table = written.kind, written.table
        yield f"!echo @{kind.name}: changes"
        if _has_buckets(kind):
            yield from _same_rows(written)
        yield from (sql.replace("{t}", table) for sql in kind.hive_turn)
    yield from _look(tables, "changed")
    for written in tables:
        kind, table = written.kind, written.table
        yield f"!echo @{kind.name}: compaction"
        for part in compacted(kind, scope):
            which = f" partition ({part})" if part else ""
            yield f"alter table {table}{which} compact 'major'"
            yield "!worker"
    yield from _look(tables, "major")
    if not scope.quick:
        yield from ["!cleaner"] * 2
        yield from _look(tables, "cleaned")


def compacted(kind: Kind, scope: Scope) -> tuple[str, ...]:
    """The places of a table that Hive compacts."""
    return kind.compact[:1] if scope.quick else kind.compact


def _has_buckets(kind: Kind) -> bool:
    return bool(kind.clustered_by) and kind.has_row_ids


def _same_rows(written: Written) -> Iterator[str]:
    """A table with the same rows, of Hive's own making."""
    columns, keys = written.shape.all, written.shape.partition_columns
    twin = f"{written.table}_hive"
    yield written.kind.create(twin)
    yield from (ddl.replace("{t}", twin) for ddl in written.kind.alterations)
    parts = f" partition ({', '.join(f'`{name}`' for name, _ in keys)})" if keys else ""
    names = ", ".join(f"`{name}`" for name, _ in columns)
    yield f"insert into {twin}{parts} select {names} from {written.table}"
    yield f"!snap {written.kind.name}.same_rows {twin} {written.kind.shown}"


def known_write_ids(
    tables: Mapping[str, range], *, version: str, first_txn: int = FIRST_TXN
) -> Iterator[str]:
    """Rows in the metastore's database by which our write ids are committed ones, by table; what it
    knows of lower ones stays. ``first_txn`` is above those of our compactions.
    """
    end = first_txn + max(map(len, tables.values())) + 1
    if version == "3.1":
        yield f'!db update "NEXT_TXN_ID" set "NTXN_NEXT"={end}'
    else:
        rows = ",".join(f"({txn},'c',1,1,'us','us',0)" for txn in range(first_txn, end))
        yield (
            '!db insert into "TXNS" ("TXN_ID","TXN_STATE","TXN_STARTED","TXN_LAST_HEARTBEAT",'
            f'"TXN_USER","TXN_HOST","TXN_TYPE") values {rows}'
        )
        yield f'!db alter table "TXNS" alter column "TXN_ID" restart with {end}'
    for table, write_ids in tables.items():
        yield f'!db delete from "NEXT_WRITE_ID" where "NWI_TABLE"=\'{table}\''
        yield (
            f'!db delete from "TXN_TO_WRITE_ID" where "T2W_TABLE"=\'{table}\''
            f' and "T2W_WRITEID">={write_ids.start}'
        )
        which = f"'default','{table}'"
        yield (
            '!db insert into "NEXT_WRITE_ID" ("NWI_DATABASE","NWI_TABLE","NWI_NEXT")'
            f" values ({which},{write_ids.stop})"
        )
        rows = ",".join(
            f"({first_txn + number},{which},{write_id})"
            for number, write_id in enumerate(write_ids)
        )
        if rows:
            yield (
                '!db insert into "TXN_TO_WRITE_ID"'
                f' ("T2W_TXNID","T2W_DATABASE","T2W_TABLE","T2W_WRITEID") values {rows}'
            )


def _errors(lines: Sequence[str]) -> list[str]:
    found, at = [], ""
    for line in lines:
        if line.startswith("@"):
            at = line[1:]
        elif line.startswith("ERROR"):
            found.append(f"{at}: {line[6:500]}")
    return found


# -------------------------------------------------------------------- what came of it


def compare(tool: HiveTool, written: Written, scope: Scope) -> Iterator[tuple[str, list[str]]]:
    """Pairs of what was compared and how it differs."""
    for step in ("read",) if scope.quick else ("read", "read_by_row"):
        answer = answer_of(tool, written.kind, step)
        found = list(differences(answer.rows(as_spark=True), written.rows)) if answer else ["none"]
        yield f"Hive's SELECT ({step})", found
    if scope.only_read:
        return
    if _has_buckets(written.kind):
        answer = answer_of(tool, written.kind, "same_rows")
        yield "Hive's buckets", list(_buckets(answer, written)) if answer else ["no answer"]
    for step in states(scope):
        answer = answer_of(tool, written.kind, step)
        if answer is None:
            yield f"Hive's rows ({step})", ["no answer"]
            continue
        rows = written.values(answer.rows(as_spark=True))
        yield f"Hive's rows ({step})", list(differences(rows, written.later))
        if step == "major":
            places = len(compacted(written.kind, scope))
            yield "Hive's compaction", list(_not_compacted(answer, places))
        if written.kind.stored_as != "textfile" and not scope.quick:
            yield f"read_arrow ({step})", list(check_read_arrow(answer))
            yield f"ls ({step})", list(check_ls(answer))


def states(scope: Scope) -> tuple[str, ...]:
    """What Hive leaves after its changes, in order."""
    return ("changed", "major") if scope.quick else ("changed", "major", "cleaned")


def answer_of(tool: HiveTool, kind: Kind, step: str) -> HiveAnswer | None:
    """What Hive answered, if it did."""
    folder = tool.answers / f"{kind.name}.{step}"
    return HiveAnswer(folder) if (folder / "meta.json").exists() else None


def _not_compacted(answer: HiveAnswer, places: int) -> Iterator[str]:
    bases = [path for path in answer.data.rglob("base_*_v*") if path.is_dir()]
    if len(bases) < places:
        yield f"{len(bases)} of {places} places have a base of Hive's compactor"


def _buckets(answer: HiveAnswer, written: Written) -> Iterator[str]:
    """Whether Hive puts the same rows into the same buckets."""

    def placed(rows: Rows) -> Rows:
        return sorted((str(int(row[1]) >> 16 & 4095), *row[3:]) for row in rows)

    yield from differences(placed(answer.rows(as_spark=True)), placed(written.rows))
