"""The axes of ``benchmarks.growth``: what grows, how it is made, what is measured of it.

``make`` leaves a metastore and tables below a directory; an operation gets a ``Place``, opened anew
in a process of its own, and does one thing. Rows are made without Spark.
"""

from __future__ import annotations

import atexit
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from sqlalchemy import insert

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.schema import TXN_TO_WRITE_ID, TXNS
from hiveacid.metastore.sql.txns import highest_txn
from hiveacid.model.tables import TableName

if TYPE_CHECKING:
    from hiveacid.session import Session
    from hiveacid.table import AcidTable

_ACID: Final = "stored as orc tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
_COLUMNS: Final = "id bigint, kind int, amount double, name string"
_BATCH: Final = 1_000_000
_CHANGES: Final = 10_000
_NAME: Final = TableName("default", "t")
_SECONDS: Final = 3.0
_DELTAS_ROWS: Final = 200_000
_DELETED_ROWS: Final = 4
_PARTITION_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class Place:
    """A session on what was made; ``size`` of the axis."""

    acid: Session
    size: int
    work: Path

    @property
    def table(self) -> AcidTable:
        """The one table of most axes."""
        return self.acid.table("t")


Operation = Callable[[Place], object]


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows, in which sizes; ``larger`` ones on demand."""

    name: str
    sizes: Sequence[int]
    larger: Sequence[int]
    make: Callable[[Path, int], None]
    operations: dict[str, Operation]
    by_spark: dict[str, Operation] = field(default_factory=dict)

    def opened(self, work: Path, size: int, *, spark: bool) -> Place:
        """A session of its own."""
        session = None
        if spark:
            from hiveacid.spark.workers import local_session

            conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"}
            session = local_session("growth", conf={**conf, "spark.driver.memory": "4g"})
        return Place(open_session(work, spark=session), size, work)


def open_session(work: Path, *, spark: Any = None) -> Session:
    return hiveacid.connect(
        spark,
        f"sqlite:///{work}/metastore.db",
        warehouse=str(work / "warehouse"),
        settings={"hiveacid.compactor.auto": "off"},
    )


def rows(first: int, count: int, *, step: int = 1) -> pa.Table:
    """Of the columns above; ids are even, so odd ones are free."""
    ids = (np.arange(count) * step + first) * 2
    return pa.table(
        {
            "id": ids,
            "kind": (ids % 97).astype(np.int32),
            "amount": ids * 0.25,
            "name": pa.array(np.char.add("name ", (ids % 5003).astype(str))),
        }
    )


def load(acid: Session, count: int) -> None:
    acid.sql(f"create table t ({_COLUMNS}) clustered by (id) into 4 buckets {_ACID}")
    for first in range(0, count, _BATCH):
        acid.table("t").write_arrow(rows(first, min(_BATCH, count - first)))
    if count > _BATCH:
        acid.table("t").compact("major", wait=True)


def make_rows(work: Path, size: int) -> None:
    """One table of so many rows in four buckets."""
    with open_session(work) as acid:
        load(acid, size)


def make_partitions(work: Path, size: int) -> None:
    """So many partitions, each with two small deltas and a delete delta."""
    with open_session(work) as acid:
        load_partitions(acid, "t", size)


def load_partitions(acid: Session, name: str, count: int) -> None:
    """A table of so many partitions; without Spark."""
    acid.sql(f"create table {name} (k int, v string) partitioned by (p int) {_ACID}")
    table, numbers = acid.table(name), np.repeat(np.arange(count, dtype=np.int32), _PARTITION_ROWS)
    for write in (1, 2):
        keys = numbers * 100 + np.tile(np.arange(_PARTITION_ROWS, dtype=np.int32), count)
        found = {"k": keys + write * _PARTITION_ROWS, "v": ["x"] * len(keys), "p": numbers}
        table.write_arrow(pa.table(found))
    table.delete_arrow(pa.table({"k": np.arange(count, dtype=np.int32) * 100 + 15}))


def make_deltas(work: Path, size: int) -> None:
    """The same rows in so many deltas."""
    with open_session(work) as acid:
        acid.sql(f"create table t ({_COLUMNS}) {_ACID}")
        each = _DELTAS_ROWS // size
        for n in range(size):
            acid.table("t").write_arrow(rows(n * each, each))


def make_deletes(work: Path, size: int) -> None:
    """Rows of which a quarter, so many, are deleted, scattered over all files."""
    with open_session(work) as acid:
        load(acid, size * _DELETED_ROWS)
        keys = (np.arange(size) * _DELETED_ROWS + 1) * 2
        acid.table("t").merge_arrow(pa.table({"id": keys}), on="id", when_matched="delete",
                                    when_not_matched=None)  # fmt: skip


def make_tables(work: Path, size: int) -> None:
    """So many tables; the last one has rows."""
    with open_session(work) as acid:
        acid.sql(f"create table t ({_COLUMNS}) {_ACID}")
        for n in range(size - 1):
            acid.sql(f"create table t{n} ({_COLUMNS}) {_ACID}")
        acid.table("t").write_arrow(rows(0, _CHANGES))


def make_kept(work: Path, size: int) -> None:
    """So many transactions that committed and are still kept."""
    with open_session(work) as acid:
        acid.sql(f"create table t ({_COLUMNS}) {_ACID}")
        assert isinstance(acid.client.metastore, SqlMetastore)
        fill_committed(acid.client.metastore, size)
        acid.table("t").write_arrow(rows(0, _CHANGES))


def make_open(work: Path, size: int) -> None:
    """So many transactions with a write id, half of them open, half aborted."""
    with open_session(work) as acid:
        acid.sql(f"create table t ({_COLUMNS}) {_ACID}")
        acid.table("t").write_arrow(rows(0, _CHANGES))
        metastore = acid.client.metastore
        for first in range(0, size, 1000):
            txns = metastore.open_txns(min(1000, size - first), user="u", host="h")
            metastore.allocate_write_ids(txns, _NAME)
            metastore.abort_txns(txns[::2])


def make_nothing(work: Path, size: int) -> None:
    """A table."""
    del size
    with open_session(work) as acid:
        acid.sql(f"create table t ({_COLUMNS}) {_ACID}")


def fill_committed(metastore: SqlMetastore, count: int) -> None:
    """Committed transactions of long ago, straight into the tables."""
    fixed = {
        "TXN_STATE": "c",
        "TXN_STARTED": 1,
        "TXN_LAST_HEARTBEAT": 1,
        "TXN_USER": "u",
        "TXN_HOST": "h",
        "TXN_TYPE": 0,
    }
    of_table = {"T2W_DATABASE": _NAME.database, "T2W_TABLE": _NAME.table}
    with metastore.database.schema_change() as unit:
        first = highest_txn(unit) + 1
        for start in range(first, first + count, 10_000):
            ids = range(start, min(start + 10_000, first + count))
            txns = [{"TXN_ID": one, **fixed} for one in ids]
            written = [{"T2W_TXNID": one, "T2W_WRITEID": 100 + one, **of_table} for one in ids]
            unit.connection.execute(insert(TXNS), txns)
            unit.connection.execute(insert(TXN_TO_WRITE_ID), written)
        unit.dialect.set_next_txn_id(unit.channel, first + count)
    metastore.seed_write_id(_NAME, 100 + first + count)


def plan(place: Place) -> None:
    """A snapshot of all, and which files count; no row is read."""
    hiveacid.read_arrow(place.table).close()


def point(place: Place) -> None:
    """The row of a key."""
    found = hiveacid.read_arrow(place.table, filter="id = 4000").read_all()
    assert found.num_rows == 1, found.num_rows


def scan(place: Place) -> None:
    """Each column of each row."""
    for _ in hiveacid.read_arrow(place.table):
        pass


def merge(place: Place) -> None:
    """10,000 changes, half of them of rows that are there."""
    half = _CHANGES // 2
    changed = rows(0, half, step=_DELETED_ROWS).set_column(
        2, "amount", pa.array(np.full(half, time.perf_counter()))
    )
    fresh = rows(time.time_ns() // 1000, half)
    place.table.merge_arrow(pa.concat_tables([changed, fresh]), on="id")


def one_row(place: Place) -> None:
    """INSERT of a row."""
    place.acid.sql(f"insert into t values ({time.time_ns() | 1}, 1, 0.5, 'new')")


def major(place: Place) -> None:
    """All into one base, without Spark."""
    place.table.compact("major", wait=True)


def minor(place: Place) -> None:
    """All deltas into one, without Spark."""
    place.table.compact("minor", wait=True)


def cycle(place: Place) -> None:
    """Open, write id, commit: what each write does beside its rows."""
    metastore = place.acid.client.metastore
    (txn,) = metastore.open_txns(1, user="u", host="h")
    metastore.allocate_write_ids([txn], _NAME)
    metastore.commit_txn(txn)


def snapshot(place: Place) -> None:
    """What of a table is valid."""
    metastore = place.acid.client.metastore
    metastore.valid_write_ids((_NAME,), metastore.valid_txns())


def reconnect(place: Place) -> None:
    """A new session on the same metastore."""
    open_session(place.work).close()


def housekeep(place: Place) -> None:
    """What is kept and needed by nobody goes."""
    metastore = place.acid.client.metastore
    assert isinstance(metastore, SqlMetastore)
    metastore.run_housekeeping(interval_s=0)


def one_partition(place: Place) -> None:
    """A row of one partition."""
    hiveacid.read_arrow(place.table, filter="p = 7 and k = 17").read_all()


def merge_partition(place: Place) -> None:
    """Ten rows of one partition."""
    keys = pa.array(range(10, 20), pa.int32())
    changes = pa.table({"k": keys, "v": ["y"] * 10, "p": pa.array([7] * 10, pa.int32())})
    place.table.merge_arrow(changes, on=["k", "p"])


def insert_partition(place: Place) -> None:
    """INSERT of a row into one of them."""
    place.acid.sql("insert into t partition (p=7) values (99, 'z')")


def detail(place: Place) -> None:
    """What DESCRIBE DETAIL tells."""
    place.table.detail()


def by_sql(text: str) -> Operation:
    """A query through Spark; each row is made."""

    def run(place: Place) -> None:
        place.acid.sql(text).write.format("noop").mode("overwrite").save()

    return run


def spark_merge(place: Place) -> None:
    """As ``merge``, through Spark."""
    (
        place.table.merge(
            place.acid.spark.range(_CHANGES).selectExpr(
                f"id * {2 * _DELETED_ROWS} id", "1 kind", "rand() amount", "'changed' name"
            ),
            on="t.id = s.id",
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .run()
    )


def writers(url: Callable[[Path], str]) -> Operation:
    """Seconds a commit where so many processes open, take a write id and commit, in one table."""

    def run(place: Place) -> float:
        context = multiprocessing.get_context("spawn")
        ready, counts = context.Barrier(place.size), context.SimpleQueue()
        arguments = (url(place.work), ready, counts)
        processes = [context.Process(target=_write, args=arguments) for _ in range(place.size)]
        for one in processes:
            one.start()
        done = sum(int(counts.get()) for _ in processes)
        for one in processes:
            one.join()
        return _SECONDS / done

    return run


def _postgres(work: Path) -> str:
    """A new metastore; the server is of this process and ends with it."""
    from tests.postgres import postgres_server

    del work
    server = _SERVERS.enter_context(postgres_server())
    return server.metastore()


_SERVERS: Final = ExitStack()
atexit.register(_SERVERS.close)


def _write(url: str, ready: Any, counts: Any) -> None:
    with connect(url, clock=SystemClock()) as metastore:
        ready.wait()
        until, done = time.monotonic() + _SECONDS, 0
        while time.monotonic() < until:
            (txn,) = metastore.open_txns(1, user="u", host="h")
            metastore.allocate_write_ids([txn], _NAME)
            metastore.commit_txn(txn)
            done += 1
    counts.put(done)


_READ: Final[dict[str, Operation]] = {"plan": plan, "point read": point, "scan": scan}
_WRITE: Final[dict[str, Operation]] = {"MERGE": merge, "INSERT": one_row}
_BY_SPARK: Final[dict[str, Operation]] = {
    "Spark: point read": by_sql("select * from t where id = 4000"),
    "Spark: scan": by_sql("select * from t"),
    "Spark: MERGE": spark_merge,
}
_DIRECT: Final[dict[str, Operation]] = {"commit": cycle, "snapshot": snapshot}
_ALL: Final = {**_READ, **_WRITE, **_DIRECT}
_OF_PARTITIONS: Final[dict[str, Operation]] = {
    "plan": plan,
    "plan and read one": one_partition,
    "scan": scan,
    "MERGE into one": merge_partition,
    "INSERT into one": insert_partition,
    "detail": detail,
}
_OF_WRITERS: Final[dict[str, Operation]] = {
    "a commit, SQLite": writers(lambda work: f"sqlite:///{work}/metastore.db"),
    "a commit, PostgreSQL": writers(_postgres),
}
_MAJOR: Final[dict[str, Operation]] = {"major": major}
_BY_METASTORE: Final = {"connect": reconnect, **_ALL, "housekeeping": housekeep}
_AXES: Final = (
    Axis(
        *("rows", (100_000, 1_000_000, 4_000_000), (20_000_000, 60_000_000), make_rows),
        {**_ALL, **_MAJOR},
        _BY_SPARK,
    ),
    Axis("partitions", (10, 100, 1_000, 10_000), (100_000,), make_partitions, _OF_PARTITIONS),
    Axis("deltas", (1, 10, 100, 1_000), (), make_deltas, {**_ALL, "minor": minor}, _BY_SPARK),
    Axis(
        *("deletes", (1_000, 10_000, 100_000, 1_000_000), (10_000_000,), make_deletes),
        {**_ALL, **_MAJOR},
        _BY_SPARK,
    ),
    Axis("tables", (1, 10, 100, 1_000), (10_000,), make_tables, {"connect": reconnect, **_ALL}),
    Axis("kept", (1_000, 10_000, 100_000, 1_000_000), (10_000_000,), make_kept, _BY_METASTORE),
    Axis("open", (100, 1_000, 10_000), (100_000,), make_open, {**_READ, **_DIRECT}),
    Axis("writers", (1, 2, 4, 8, 16), (), make_nothing, _OF_WRITERS),
)
AXES: Final = {axis.name: axis for axis in _AXES}
