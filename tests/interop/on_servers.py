"""One warehouse on HDFS or S3, by Hive and by us: Hive writes tables there; we take them over where
they are and change them; Hive reads that, and changes it; we read it back. And the same of a table
that is ours from the beginning. What each side's changes must come to is asked of Hive, which makes
them in copies of its own. Requests to S3 are counted at the server.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from tests.hdfs import hdfs_server
from tests.interop.answers import HiveAnswer, Rows, differences, our_rows
from tests.interop.hive_tool import HiveTool, statements
from tests.interop.we_wrote import known_write_ids
from tests.s3 import S3Server, s3_server, variables

import hiveacid
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import TableName
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACID: Final = "stored as orc tblproperties ('transactional'='true')"
COLUMNS: Final = "id int, name string, pay decimal(9,2)"
TABLES: Final = {
    "flat": (COLUMNS, "", ""),
    "part": (COLUMNS, "partitioned by (dept string)", ""),
    "bucketed": (COLUMNS, "", "clustered by (id) into 3 buckets"),
}
"""Columns, partition columns and buckets of the tables that Hive makes."""
OURS: Final = "ours"
COMPACTED: Final = "bucketed"
"""The table that we compact and clean."""
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
_ASKED: Final = ("GET", "LIST", "POST", "PUT")
"""Requests of changes: POST begins and completes an upload."""
_WAIT_S: Final = 60.0
_READ: Final = 5
"""So many tables are read by the changes: one by each, two by the last."""
NUMBERS: Final = ", ".join(f"({n},'n{n % 6}',{n}.25)" for n in range(30))
BROKEN: Final = "made to fail"
"""What Hive says of a statement that the tool's hook has fail before its commit."""


@dataclass(frozen=True)
class Place:
    """Where tables are: a URL, and what Hive's Hadoop has to know of it; the environment says it
    to hiveacid.
    """

    root: str
    conf: Mapping[str, str] = field(default_factory=dict)
    server: S3Server | None = None

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """How often the server was asked for what, at the end of the block; nothing of HDFS."""
        counts: Counter[str] = Counter()
        if self.server is None:
            yield counts
            return
        with self.server.requests() as made:
            yield counts
        counts.update(one.partition(" ")[0] for one in made)


@contextmanager
def place_on(way: str) -> Iterator[Place]:
    """An empty one, on HDFS or S3, for as long as the block lasts.

    Raises:
        HiveIsMissingError: the server's jar cannot be fetched.
    """
    if way == "hdfs":
        with hdfs_server() as address:
            yield Place(address)
    else:
        with s3_server() as server, variables(server.environment):
            yield Place(f"s3a://{server.bucket()}", server.hadoop, server)


def outcomes(spark: SparkSession, scratch: Path, way: str) -> Iterator[tuple[str, list[str]]]:
    """Pairs of what was compared and how it differs.

    Raises:
        HiveIsMissingError: Hive, or the server, cannot be fetched or does not start.
    """
    with place_on(way) as place:
        root = f"{place.root}/hive"
        tool = HiveTool("4.1", scratch / "hive", scratch / "answers", root, place.conf)
        tool.prepare()
        yield f"Hive writes on {way}", run_hive(tool, hive_writes(), "written")
        with hiveacid.connect(
            spark,
            f"sqlite:///{scratch}/metastore.db",
            warehouse=f"{place.root}/ours",
            settings={
                "hive.exec.dynamic.partition.mode": "nonstrict",
                "hiveacid.compactor.auto": "off",
                "hiveacid.reads.local_bytes": "0",
                "hiveacid.retention_s": "0",
            },
        ) as acid:
            acid.sql("create table numbers (id int, name string, pay decimal(9,2)) " + ACID)
            acid.sql(f"insert into numbers values {NUMBERS}")
            for table in TABLES:
                yield f"{table}: taken over", list(_taken_over(acid, tool, table))
            acid.sql(f"create table {OURS} ({COLUMNS}) partitioned by (dept string) {ACID}")
            carry_out(acid, OURS, WRITES)
            for table in (*TABLES, OURS):
                with place.counted() as counts:
                    carry_out(acid, table, CHANGES)
                yield (
                    f"{table}: we change it",
                    list(differs_from_twin(acid, tool, table, "changed")),
                )
                asked = ", ".join(f"{count} {verb}" for verb, count in sorted(counts.items()))
                yield f"{table}: asked of the server: {asked or 'not counted'}", _too_many(counts)
            yield f"{COMPACTED}: we compact and clean it", list(_compacted(acid, tool))
            known = {table: _write_ids(acid, tool, table) for table in (*TABLES, OURS)}
            location = acid.table(OURS).definition.location
            yield "Hive goes on", run_hive(tool, _hive_goes_on(known, location), "back")
            for table in (*TABLES, OURS):
                expected = HiveAnswer(tool.answers / f"{table}_twin.changed").rows(as_spark=True)
                found = values_of(HiveAnswer(tool.answers / f"{table}.read"))
                yield (
                    f"{table}: Hive reads what we changed",
                    list(differences(found, plain(expected))),
                )
                for step in ("back", "major"):
                    answer = HiveAnswer(tool.answers / f"{table}.{step}")
                    yield f"{table}: we read what Hive changed ({step})", list(_read_back(answer))
            for table in (*TABLES, OURS):
                yield f"{table}: dropped", list(_dropped(acid, table))


def hive_writes() -> Iterator[str]:
    """The tables, and copies of all four that get the same changes."""
    yield f"create table numbers (id int, name string, pay decimal(9,2)) {ACID}"
    yield f"insert into numbers values {NUMBERS}"
    for table, (columns, keys, buckets) in TABLES.items():
        yield f"create table {table} ({columns}) {keys} {buckets} {ACID}"
        yield from statements_of(WRITES[:2], table)
        yield "!hook fail"
        yield from statements_of(WRITES[:1], table)
        yield "!hook off"
        yield from statements_of(WRITES[2:], table)
    yield "!compact flat major"
    yield "delete from flat where id = 1"
    for table in TABLES:
        yield f"!snap {table}.written {table}"
        columns, keys, _ = TABLES[table]
        yield f"create table {table}_twin ({columns}) {keys} {ACID}"
        yield f"insert into {table}_twin select * from {table}"
        yield from statements_of(CHANGES, f"{table}_twin")
        yield f"!snap {table}_twin.changed {table}_twin"
    yield f"create table {OURS}_twin ({COLUMNS}) partitioned by (dept string) {ACID}"
    yield from statements_of((*WRITES, *CHANGES), f"{OURS}_twin")
    yield f"!snap {OURS}_twin.changed {OURS}_twin"


def _hive_goes_on(known: Mapping[str, range], place: str) -> Iterator[str]:
    """On the tables that we changed, and on ours."""
    keys = "partitioned by (dept string)"
    yield f"create table {OURS} ({COLUMNS}) {keys} stored as orc location '{place}' " + (
        "tblproperties ('transactional'='true')"
    )
    yield from known_write_ids(known, version="4.1")
    yield "set hive.msck.path.validation=ignore"
    for table in (*TABLES, OURS):
        if is_partitioned(table):
            yield f"msck repair table {table}"
        yield f"!snap {table}.read {table}"
        yield from statements_of(BACK, table)
        yield f"!snap {table}.back {table}"
        part = " dept=d1" if is_partitioned(table) else ""
        yield f"!compact {table} major{part}"
        yield f"!snap {table}.major {table}"


def is_partitioned(table: str) -> bool:
    return table.startswith(("part", OURS))


def statements_of(texts: tuple[str, ...], table: str) -> Iterator[str]:
    more = ", concat('d', id % 4)" if is_partitioned(table) else ""
    return (text.format(t=table, more=more) for text in texts)


def run_hive(tool: HiveTool, lines: Iterator[str], name: str) -> list[str]:
    said = tool.run(statements(list(lines)), name)
    return [line[:500] for line in said if line.startswith("ERROR") and BROKEN not in line]


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
    yield from differences(our_rows_of(acid, table, answer), answer.rows(as_spark=True))


def differs_from_twin(acid: Session, tool: HiveTool, table: str, step: str) -> Iterator[str]:
    twin = HiveAnswer(tool.answers / f"{table}_twin.{step}")
    yield from differences(plain(our_rows_of(acid, table, twin)), values_of(twin))


def _too_many(counts: Counter[str]) -> list[str]:
    """Nothing is copied, deleted or asked for by HEAD, and each statement lists each table that it
    reads once.
    """
    wrong = [f"{counts[verb]} {verb}" for verb in sorted(counts) if verb not in _ASKED]
    return [*wrong, f"{counts['LIST']} LIST"] if counts["LIST"] > _READ else wrong


def _compacted(acid: Session, tool: HiveTool) -> Iterator[str]:
    acid.sql(f"alter table {COMPACTED} compact 'major' and wait")
    until = time.monotonic() + _WAIT_S
    while not acid.clean() and time.monotonic() < until:
        time.sleep(0.2)  # what was replaced within this second stays
    fs, path = acid.client.files.at(acid.table(COMPACTED).definition.location)
    yield from (
        f"{info.path} is left"
        for info in fs.list_recursive(path)
        if "/base_" not in info.path or "/_tmp" in info.path
    )
    yield from differs_from_twin(acid, tool, COMPACTED, "changed")


def _dropped(acid: Session, table: str) -> Iterator[str]:
    fs, path = acid.client.files.at(acid.table(table).definition.location)
    acid.sql(f"drop table {table} purge")
    yield from (f"{info.path} is left" for info in fs.list_recursive(path))


def our_rows_of(acid: Session, table: str, answer: HiveAnswer) -> Rows:
    """By the two readers of ours, which agree."""
    names = ", ".join(name for name, _ in answer.shape.all)
    with acid.reading():
        without_spark = hiveacid.read_arrow(acid.table(table), row_ids=True).read_all()
        by_spark = acid.sql(f"select {names} from {table}").toArrow()
    rows = our_rows(without_spark, answer.shape)
    assert plain(rows) == sorted(our_rows(by_spark, answer.shape)), "Spark reads something else"
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


def carry_out(acid: Session, table: str, texts: tuple[str, ...]) -> None:
    for text in statements_of(texts, table):
        acid.sql(text)


def _write_ids(acid: Session, tool: HiveTool, table: str) -> range:
    """Those that Hive does not know of."""
    name, first = TableName("default", table), 1
    if table in TABLES:
        meta = HiveAnswer(tool.answers / f"{table}.written").meta
        first += ValidWriteIdList.parse(meta["valid_write_id_list"]).hwm
    return range(first, acid.client.metastore.valid_write_ids((name,))[0].hwm + 1)


def values_of(answer: HiveAnswer) -> Rows:
    return plain(answer.rows(as_spark=True))


def plain(rows: Rows) -> Rows:
    """Without row ids."""
    return sorted(row[3:] for row in rows)
