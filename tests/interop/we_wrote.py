"""Write tables, let real Hive read and change them, read what it did.

1. hiveacid writes each kind of table, its rows and row ids are kept, the directory is exported.
2. Hive makes the same tables. Partitioned ones get a row in each partition, so that Hive knows the
   partitions. Write ids are made known by rows in Hive's metastore database.
3. The exported files take the place of Hive's. Hive reads, changes and compacts.
4. The result goes back below hiveacid's table, with the write ids and transactions Hive used.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answers import HiveAnswer, Rows, Shape, differences, without_row_ids
from hive_tool import HiveTool, statements
from kinds import KINDS, Kind
from reading_back import check_ls, check_read_arrow, check_scan, frame_rows

import hiveacid
from hiveacid.layout.names import parse_partition_name
from hiveacid.model.tables import Partition, TableName
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_TXN = 1000
"""Hive's transactions that stand for ours."""
HOLES_S = 1.5
"""Longer than ids that were left out, just below a new transaction, count as open."""
CHANGES = [(2, "u"), (3, "d"), (12, "u"), (17, "d"), (31, "x"), (500, "i"), (501, "i")]


@dataclass(frozen=True)
class Written:
    """A table of ours: rows with row ids, the values after Hive's statements ran on our side."""

    kind: Kind
    table: str
    shape: Shape
    write_ids: int
    files: Path
    rows: Rows
    later: Rows


def write(spark: SparkSession, scratch: Path, kinds: Sequence[Kind] = KINDS) -> Iterator[Written]:
    """Write each kind with hiveacid."""
    spark.range(3000).selectExpr("cast(id as int) id").createOrReplaceTempView("numbers")
    spark.createDataFrame(CHANGES, "id int, op string").createOrReplaceTempView("changes")
    with _connect(spark, scratch) as acid:
        for kind in kinds:
            yield _write(acid, kind, scratch)


def _connect(spark: SparkSession, scratch: Path) -> Session:
    return hiveacid.connect(
        spark,
        f"sqlite:///{scratch / 'metastore.db'}",
        warehouse=str(scratch / "ours"),
        settings={"hive.exec.dynamic.partition.mode": "nonstrict"},
    )


def _write(acid: Session, kind: Kind, scratch: Path) -> Written:
    table = f"w_{kind.name}"
    acid.sql(kind.create(table))
    for sql in kind.statements:
        acid.sql(sql.format(t=table))
    metastore = acid.runtime.metastore
    definition = metastore.get_table(TableName("default", table))
    shape = Shape(
        tuple((column.name, column.type) for column in definition.columns),
        tuple((column.name, column.type) for column in definition.partition_columns),
    )
    write_ids = metastore.valid_write_ids((definition.name,))[0].hwm
    rows = _rows(acid, table, shape)
    files = scratch / "export" / kind.name
    shutil.copytree(definition.location, files)
    for sql in kind.hive_turn:
        acid.sql(sql.format(t=table))
    later = without_row_ids(_rows(acid, table, shape))
    return Written(kind, table, shape, write_ids, files, rows, later)


def _rows(acid: Session, table: str, shape: Shape) -> Rows:
    columns = ", ".join(f"`{name}`" for name, _ in shape.all)
    return frame_rows(acid.sql(f"select {columns}, ROW__ID from {table}"), shape)


def hand_over(tool: HiveTool, tables: Sequence[Written]) -> list[str]:
    """Make the tables in Hive, with our files and write ids; lines of errors."""
    lines = []
    for written in tables:
        lines.append(written.kind.create(written.table))
        if written.kind.partitions:
            names = ", ".join(name for name, _ in written.shape.partition_columns)
            rows = ", ".join(f"({row})" for row in written.kind.partitions)
            lines.append(f"insert into {written.table} partition ({names}) values {rows}")
    lines += _known_write_ids(tables, version=tool.version)
    errors = _errors(tool.run(statements(lines), "create"))
    for written in tables:
        place = tool.warehouse / written.table
        if place.exists():
            shutil.rmtree(place)
        shutil.copytree(written.files, place)
        if tool.version == "3.1":
            _without_attempts(place)
    return errors


def _without_attempts(place: Path) -> None:
    """Hive 3.1 takes ``bucket_00000_0`` for no bucket at all and fails: it gets other names."""
    for path in place.rglob("bucket_*_*"):
        path.rename(path.with_name(path.name.rpartition("_")[0]))


def _known_write_ids(tables: Sequence[Written], *, version: str) -> Iterator[str]:
    """Rows in the metastore's database by which our write ids are committed ones."""
    most = max(written.write_ids for written in tables)
    end = FIRST_TXN + most + 1
    if version == "3.1":
        yield f'!db update "NEXT_TXN_ID" set "NTXN_NEXT"={end}'
    else:
        for txn in range(FIRST_TXN, end):
            yield (
                '!db insert into "TXNS" ("TXN_ID","TXN_STATE","TXN_STARTED","TXN_LAST_HEARTBEAT",'
                f"\"TXN_USER\",\"TXN_HOST\",\"TXN_TYPE\") values ({txn},'c',1,1,'us','us',0)"
            )
        yield f'!db alter table "TXNS" alter column "TXN_ID" restart with {end}'
    for written in tables:
        there = 1 if written.kind.partitions else 0
        which = f"'default','{written.table}'"
        if there:
            yield (
                f'!db update "NEXT_WRITE_ID" set "NWI_NEXT"={written.write_ids + 1}'
                f" where \"NWI_TABLE\"='{written.table}'"
            )
        else:
            yield (
                '!db insert into "NEXT_WRITE_ID" ("NWI_DATABASE","NWI_TABLE","NWI_NEXT")'
                f" values ({which},{written.write_ids + 1})"
            )
        for write_id in range(1 + there, written.write_ids + 1):
            yield (
                '!db insert into "TXN_TO_WRITE_ID"'
                ' ("T2W_TXNID","T2W_DATABASE","T2W_TABLE","T2W_WRITEID")'
                f" values ({FIRST_TXN + write_id},{which},{write_id})"
            )


def hive_turn(tool: HiveTool, tables: Sequence[Written], *, only_read: bool) -> list[str]:
    """Hive reads each table, changes it and compacts it; lines of errors."""
    lines = ["set hive.query.results.cache.enabled=false"]
    for written in tables:
        lines += list(_turn(written, only_read=only_read))
    return _errors(tool.run(statements(lines), "turn"))


def _turn(written: Written, *, only_read: bool) -> Iterator[str]:
    table, name, shown = written.table, written.kind.name, written.kind.shown
    yield f"!snap {name}.read {table} {shown}"
    yield "set hive.vectorized.execution.enabled=false"
    yield f"!snap {name}.read_by_row {table} {shown}"
    yield "set hive.vectorized.execution.enabled=true"
    if only_read:
        return
    if written.kind.clustered_by:
        yield written.kind.create(f"{table}_hive")
        names = ", ".join(column for column, _ in written.shape.all)
        into = f"insert into {table}_hive" + (
            f" partition ({', '.join(n for n, _ in written.shape.partition_columns)})"
            if written.shape.partition_columns
            else ""
        )
        yield f"{into} select {names} from {table}"
        yield f"!snap {name}.same_rows {table}_hive {shown}"
    yield from (sql.format(t=table) for sql in written.kind.hive_turn)
    yield f"!snap {name}.changed {table} {shown}"
    for part in written.kind.compact:
        yield f"!compact {table} major {part}".rstrip()
    yield f"!snap {name}.major {table} {shown}"
    yield from ["!cleaner"] * len(written.kind.compact)
    yield f"!snap {name}.cleaned {table} {shown}"


def _errors(lines: Sequence[str]) -> list[str]:
    return [line[:500] for line in lines if line.startswith("ERROR")]


def compare(
    tool: HiveTool, written: Written, *, only_read: bool
) -> Iterator[tuple[str, list[str]]]:
    """Pairs of what was compared and how it differs."""
    for step in ("read", "read_by_row"):
        answer = _answer(tool, written, step)
        rows = answer.rows(as_spark=True) if answer else []
        yield f"Hive's SELECT ({step})", list(differences(rows, written.rows))
    if only_read:
        return
    if written.kind.clustered_by:
        answer = _answer(tool, written, "same_rows")
        yield "Hive's buckets", list(_buckets(answer, written)) if answer else ["no answer"]
    for step in ("changed", "major", "cleaned"):
        answer = _answer(tool, written, step)
        if answer is None:
            yield f"Hive's rows ({step})", ["no answer"]
            continue
        rows = without_row_ids(answer.rows(as_spark=True))
        yield f"Hive's rows ({step})", list(differences(rows, written.later))
        yield f"read_arrow ({step})", list(check_read_arrow(answer))
        yield f"ls ({step})", list(check_ls(answer))


def _answer(tool: HiveTool, written: Written, step: str) -> HiveAnswer | None:
    folder = tool.answers / f"{written.kind.name}.{step}"
    return HiveAnswer(folder) if (folder / "query.tsv").exists() else None


def _buckets(answer: HiveAnswer, written: Written) -> Iterator[str]:
    """Whether Hive puts the same rows into the same buckets."""

    def placed(rows: Rows) -> Rows:
        return sorted((str(int(row[1]) >> 16 & 4095), *row[3:]) for row in rows)

    yield from differences(placed(written.rows), placed(answer.rows(as_spark=True)))


def back_home(
    spark: SparkSession, scratch: Path, tool: HiveTool, tables: Sequence[Written]
) -> Iterator[tuple[Kind, str, list[str]]]:
    """Put what Hive left below our tables: SELECT there gives Hive's rows; DML goes on."""
    with _connect(spark, scratch) as acid:
        for written in tables:
            for step in ("changed", "major", "cleaned"):
                answer = _answer(tool, written, step)
                if answer is None:
                    continue
                yield written.kind, f"scan ({step})", list(check_scan(spark, answer))
            if answer is not None:
                found = list(_continue(acid, written, answer))
                yield written.kind, "our table with Hive's files, DML on top", found


def _continue(acid: Session, written: Written, answer: HiveAnswer) -> Iterator[str]:
    name = TableName("default", written.table)
    metastore = acid.runtime.metastore
    place = Path(metastore.get_table(name).location)
    shutil.rmtree(place)
    shutil.copytree(answer.data, place)
    _know_ids(metastore, name, answer)
    known = {partition.values for partition in metastore.list_partitions(name)}
    for text in answer.meta["partitions"]:
        values = tuple(value for _, value in parse_partition_name(text) or ())
        if values not in known:
            metastore.add_partitions(name, [Partition(values, str(place / text))])
    yield from differences(_rows(acid, written.table, written.shape), answer.rows(as_spark=True))
    first = written.shape.columns[0][0]
    acid.sql(f"delete from {written.table} where {first} % 2 = 0")
    odd = [row for row in written.later if row[0] == "NULL" or int(row[0]) % 2]
    yield from differences(without_row_ids(_rows(acid, written.table, written.shape)), sorted(odd))


def _know_ids(metastore: Any, name: TableName, answer: HiveAnswer) -> None:
    """Our metastore counts Hive's transactions and write ids as its own."""
    hive_hwm = int(answer.meta["valid_txn_list"].split(":")[0])
    if _committed_txn(metastore) < hive_hwm:
        metastore.seed_txn_id(hive_hwm + 1)
        _committed_txn(metastore)
        time.sleep(HOLES_S)
    wanted = int(answer.meta["valid_write_id_list"].split(":")[1])
    while metastore.valid_write_ids((name,))[0].hwm < wanted:
        _committed_txn(metastore, name)


def _committed_txn(metastore: Any, table: TableName | None = None) -> int:
    (txn,) = metastore.open_txns(1, user="interop", host="localhost")
    if table is not None:
        metastore.allocate_write_ids([txn], table)
    metastore.commit_txn(txn)
    return int(txn)
