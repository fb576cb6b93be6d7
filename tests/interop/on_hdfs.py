"""One warehouse on HDFS, by Hive and by us: Hive writes tables there; we take them over where they
are and change them; Hive reads that, and changes it; we read it back. And the same of a table that
is ours from the beginning. What each side's changes must come to is asked of Hive, which makes them
in copies of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from tests.hdfs import hdfs_server
from tests.interop.answers import HiveAnswer, Rows, differences, our_rows
from tests.interop.hive_tool import HiveTool, statements
from tests.interop.we_wrote import known_write_ids

import hiveacid
from hiveacid.model.tables import TableName
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACID: Final = "stored as orc tblproperties ('transactional'='true')"
_COLUMNS: Final = "id int, name string, pay decimal(9,2)"
TABLES: Final = {
    "flat": (_COLUMNS, "", ""),
    "part": (_COLUMNS, "partitioned by (dept string)", ""),
    "bucketed": (_COLUMNS, "", "clustered by (id) into 3 buckets"),
}
"""Columns, partition columns and buckets of the tables that Hive makes."""
OURS: Final = "ours"
WRITES: Final = (
    "insert into {t} select id, name, pay{more} from numbers",
    "update {t} set pay = pay + 1 where id % 3 = 0",
    "delete from {t} where id % 7 = 0",
    "insert into {t} select id + 100, upper(name), pay * 2{more} from numbers where id < 9",
)
CHANGES: Final = (
    "update {t} set name = concat(name, '-x') where id % 5 = 0",
    "delete from {t} where id between 10 and 14",
    "insert into {t} select id + 200, name, pay{more} from numbers where id > 20",
    "merge into {t} using (select id, pay from numbers) s on {t}.id = s.id and s.id < 9"
    " when matched and s.id < 4 then delete when matched then update set pay = s.pay + 0.5",
)
BACK: Final = (
    "update {t} set pay = 0 where id > 100",
    "delete from {t} where id % 2 = 0",
    "insert into {t} select id + 300, name, pay{more} from numbers where id < 5",
)
"""Statements of three turns, by the one who wrote the table, by the other, and by Hive."""
NUMBERS: Final = ", ".join(f"({n},'n{n % 6}',{n}.25)" for n in range(30))


def outcomes(spark: SparkSession, scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """Pairs of what was compared and how it differs.

    Raises:
        HiveIsMissingError: Hive, or the server, cannot be fetched or does not start.
    """
    with hdfs_server() as address:
        tool = HiveTool("4.1", scratch / "hive", scratch / "answers", root=f"{address}/hive")
        tool.prepare()
        yield "Hive writes on HDFS", _run(tool, _hive_writes(), "written")
        with hiveacid.connect(
            spark,
            f"sqlite:///{scratch}/metastore.db",
            warehouse=f"{address}/ours",
            settings={
                "hive.exec.dynamic.partition.mode": "nonstrict",
                "hiveacid.compactor.auto": "off",
            },
        ) as acid:
            acid.sql("create table numbers (id int, name string, pay decimal(9,2)) " + _ACID)
            acid.sql(f"insert into numbers values {NUMBERS}")
            for table in TABLES:
                yield f"{table}: taken over", list(_taken_over(acid, tool, table))
            acid.sql(f"create table {OURS} ({_COLUMNS}) partitioned by (dept string) {_ACID}")
            _take(acid, OURS, WRITES)
            for table in (*TABLES, OURS):
                _take(acid, table, CHANGES)
                yield f"{table}: we change it", list(_same(acid, tool, table, "changed"))
            known = {table: _write_ids(acid, table) for table in (*TABLES, OURS)}
            place = acid.table(OURS).definition.location
            yield "Hive goes on", _run(tool, _hive_goes_on(known, place), "back")
            for table in (*TABLES, OURS):
                expected = HiveAnswer(tool.answers / f"{table}_twin.changed").rows(as_spark=True)
                found = _values(HiveAnswer(tool.answers / f"{table}.read"))
                yield (
                    f"{table}: Hive reads what we changed",
                    list(differences(found, _plain(expected))),
                )
                for step in ("back", "major"):
                    answer = HiveAnswer(tool.answers / f"{table}.{step}")
                    yield f"{table}: we read what Hive changed ({step})", list(_read_back(answer))


def _hive_writes() -> Iterator[str]:
    """The tables, and copies of all four that get the same changes."""
    yield f"create table numbers (id int, name string, pay decimal(9,2)) {_ACID}"
    yield f"insert into numbers values {NUMBERS}"
    for table, (columns, keys, buckets) in TABLES.items():
        yield f"create table {table} ({columns}) {keys} {buckets} {_ACID}"
        yield from _of(WRITES, table)
    yield "!compact flat major"
    yield "delete from flat where id = 1"
    for table in TABLES:
        yield f"!snap {table}.written {table}"
        columns, keys, _ = TABLES[table]
        yield f"create table {table}_twin ({columns}) {keys} {_ACID}"
        yield f"insert into {table}_twin select * from {table}"
        yield from _of(CHANGES, f"{table}_twin")
        yield f"!snap {table}_twin.changed {table}_twin"
    yield f"create table {OURS}_twin ({_COLUMNS}) partitioned by (dept string) {_ACID}"
    yield from _of((*WRITES, *CHANGES), f"{OURS}_twin")
    yield f"!snap {OURS}_twin.changed {OURS}_twin"


def _hive_goes_on(known: Mapping[str, range], place: str) -> Iterator[str]:
    """On the tables that we changed, and on ours."""
    keys = "partitioned by (dept string)"
    yield f"create table {OURS} ({_COLUMNS}) {keys} stored as orc location '{place}' " + (
        "tblproperties ('transactional'='true')"
    )
    yield from known_write_ids(known, version="4.1")
    yield "set hive.msck.path.validation=ignore"
    for table in (*TABLES, OURS):
        if _is_partitioned(table):
            yield f"msck repair table {table}"
        yield f"!snap {table}.read {table}"
        yield from _of(BACK, table)
        yield f"!snap {table}.back {table}"
        part = " dept=d1" if _is_partitioned(table) else ""
        yield f"!compact {table} major{part}"
        yield f"!snap {table}.major {table}"


def _is_partitioned(table: str) -> bool:
    return table.startswith(("part", OURS))


def _of(texts: tuple[str, ...], table: str) -> Iterator[str]:
    more = ", concat('d', id % 4)" if _is_partitioned(table) else ""
    return (text.format(t=table, more=more) for text in texts)


def _run(tool: HiveTool, lines: Iterator[str], name: str) -> list[str]:
    said = tool.run(statements(list(lines)), name)
    return [line[:500] for line in said if line.startswith("ERROR")]


def _taken_over(acid: Session, tool: HiveTool, table: str) -> Iterator[str]:
    answer = HiveAnswer(tool.answers / f"{table}.written")
    meta, (columns, keys, buckets) = answer.meta, TABLES[table]
    acid.attach(
        meta["location"],
        name=table,
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=meta["valid_txn_list"],
        schema=f"{columns}, dept string" if keys else columns,
        partitioned_by=["dept"] if keys else (),
        bucketed_by=["id"] if buckets else (),
        buckets=3 if buckets else None,
    )
    yield from differences(_ours(acid, table, answer), answer.rows(as_spark=True))


def _same(acid: Session, tool: HiveTool, table: str, step: str) -> Iterator[str]:
    twin = HiveAnswer(tool.answers / f"{table}_twin.{step}")
    yield from differences(_plain(_ours(acid, table, twin)), _values(twin))


def _ours(acid: Session, table: str, answer: HiveAnswer) -> Rows:
    """By the two readers of ours, which agree."""
    without_spark = hiveacid.read_arrow(acid.table(table), row_ids=True).read_all()
    names = ", ".join(name for name, _ in answer.shape.all)
    by_spark = acid.sql(f"select {names} from {table}").toArrow()
    rows = our_rows(without_spark, answer.shape)
    assert _plain(rows) == sorted(our_rows(by_spark, answer.shape)), "Spark reads something else"
    return rows


def _read_back(answer: HiveAnswer) -> Iterator[str]:
    meta = answer.meta
    read: pa.Table = hiveacid.read_arrow(
        meta["location"],
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=meta["valid_txn_list"],
        row_ids=True,
    ).read_all()
    yield from differences(our_rows(read, answer.shape), answer.rows())


def _take(acid: Session, table: str, texts: tuple[str, ...]) -> None:
    for text in _of(texts, table):
        acid.sql(text)


def _write_ids(acid: Session, table: str) -> range:
    name = TableName("default", table)
    return range(1, acid.client.metastore.valid_write_ids((name,))[0].hwm + 1)


def _values(answer: HiveAnswer) -> Rows:
    return _plain(answer.rows(as_spark=True))


def _plain(rows: Rows) -> Rows:
    """Without row ids."""
    return sorted(row[3:] for row in rows)
