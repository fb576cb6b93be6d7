"""``python -m tests.soak.queries --kills 20``: streaming queries of Spark that are killed at
random, JVM and Python, and started again on their checkpoints, until all is in; then a writer of
``acid.stream`` that is killed as often. A line says what came of each; 1 where anything was lost.
Another PySpark is tried by its Python, PostgreSQL by ``--database postgres``.

All sinks run in one process, a query each, so that a kill is one for each of them. Their source is
a directory of small files, one a micro-batch, that grows while the queries run. Each file has ids
of its own and changes one row that all files share (changes with deletes: every other file deletes
it); a sink that changes rows writes its number to a second table in the same transaction, so a
batch that was done twice shows even where that changes no row.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from tests.postgres import postgres_server
from tests.soak import writer
from tests.soak.streamer import check_events, make_events, streamer, told_of

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import AcidError
from hiveacid.session import Session
from hiveacid.spark.workers import local_session
from hiveacid.transaction import AcidTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS: Final = 20
"""of a file, with the shared one"""
SHARED: Final = -1
"""id of the row that each file changes"""
_AHEAD: Final = 6
"""Files that lie there unread when a query begins."""
_BATCHES_MAX: Final = 6
_WINDOW_S: Final = 3.0
"""A kill comes after up to so many batches of all queries, and within so long."""
_AWAITED_S: Final = 60.0
TIMEOUT_S: Final = 120.0
"""Long enough on a busy machine: between its last task and its commit nobody keeps the transaction
of a sink alive, and Spark starts a Python process there.
"""
_NEWEST: Final = "file"
"""Which of several rows of one key is the newest: Spark's source of files keeps a log of its own,
and one who is killed between that log's entry and the query's has the next file in the same batch,
whatever ``maxFilesPerTrigger`` says.
"""
_FAILURE: Final = "failure"
_SHOWN: Final = 6_000
_ACID: Final = "stored as orc tblproperties ('transactional'='true')"
open_session: Final = partial(writer.open_session, timeout_s=TIMEOUT_S)


def _append(acid: Session, rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(hiveacid.foreach_batch(acid, "append"))


def _upsert(acid: Session, rows: DataFrame) -> DataStreamWriter:
    also = partial(_note, "upsert_batches")
    upsert = hiveacid.foreach_batch(
        acid, "upsert", mode="upsert", on="id", order_by=_NEWEST, also=also
    )
    return rows.writeStream.foreachBatch(upsert)


def _cdc(acid: Session, rows: DataFrame) -> DataStreamWriter:
    change = hiveacid.foreach_batch(
        acid,
        "cdc",
        mode="cdc",
        on="id",
        order_by=_NEWEST,
        delete_where=f"s.id = {SHARED} and s.file % 2 = 1",
        also=partial(_note, "cdc_batches"),
    )
    return rows.writeStream.foreachBatch(change)


def _note(table: str, txn: AcidTransaction, batch: DataFrame, number: int) -> None:
    """Write the numbers of the files of a batch."""
    del number
    for row in batch.select("file").distinct().collect():
        txn.sql(f"insert into {table} values ({row[0]})")


def _sink(acid: Session, rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.format("hiveacid").options(
        **{
            "table": "sink",
            "metastore": acid.client.metastore.url,
            "hiveacid.txn.timeout_s": str(TIMEOUT_S),
        }
    )


SINKS: Final[Mapping[str, Callable[[Session, DataFrame], DataStreamWriter]]] = {
    "append": _append,
    "upsert": _upsert,
    "cdc": _cdc,
    "sink": _sink,
}
"""What is tried, by name, which is that of its table; one more is one line."""
NEEDS_SPARK_4: Final = frozenset({"sink"})
API: Final = "acid.stream"
CHANGES_ROWS: Final = frozenset({"upsert", "cdc"})
"""Sinks that change a row of their key; the others add one."""


def make_tables(url: str, directory: Path, sinks: Iterable[str]) -> None:
    """The tables of the rows and those of the numbers of files."""
    with open_session(url, str(directory)) as session:
        for sink in sinks:
            session.sql(f"create table {sink} (id int, file int) {_ACID}")
            if sink in CHANGES_ROWS:
                session.sql(f"create table {sink}_batches (file int) {_ACID}")


def add_files(directory: Path, count: int) -> None:
    """Files of the source, each there at once."""
    source = directory / "in"
    source.mkdir(exist_ok=True)
    first, first_day = len(list(source.iterdir())), 1_700_000_000
    for file in range(first, first + count):
        ids = [SHARED, *range(file * ROWS, file * ROWS + ROWS - 1)]
        text = "".join(json.dumps({"id": id, "file": file}) + "\n" for id in ids)
        hidden = directory / "new"
        hidden.write_text(text)
        # the query takes files by age; the last one is to be the newest, however fast this is
        os.utime(hidden, (first_day + file, first_day + file))
        hidden.rename(source / f"{file:05d}.json")


def queries(url: str, directory: str, sinks: Sequence[str], *, ends: bool) -> None:
    """The queries, until they have all there is, or until they are killed."""
    spark = local_session("killed", conf={"spark.master": "local[2]"})
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with open_session(url, directory, spark=spark) as acid:
        rows = (
            spark.readStream.schema("id int, file int")
            .option("maxFilesPerTrigger", 1)
            .json(f"{directory}/in")
        )
        started = []
        for sink in sinks:
            writer = SINKS[sink](acid, rows).option("checkpointLocation", f"{directory}/at/{sink}")
            started.append((writer.trigger(availableNow=True) if ends else writer).start())
        print("started", flush=True)
        try:
            for one in started:
                one.awaitTermination()
        except Exception as error:  # what the others say when the process ends would hide it
            Path(directory, _FAILURE).write_text(str(error))
            raise
    spark.stop()


def _start(url: str, directory: Path, sinks: Sequence[str], *, ends: bool) -> subprocess.Popen[str]:
    own = ["--query", url, str(directory), "--sink", *sinks]
    command = [sys.executable, "-m", "tests.soak.queries", *own]
    with (directory / "errors").open("a") as errors:
        return subprocess.Popen(
            [*command, *(["--ends"] if ends else [])],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def killed(url: str, directory: Path, *, sinks: Sequence[str], kills: int, seed: int) -> str:
    """Kill, start, and look at what is there at the end: how much was written.

    Raises:
        AssertionError: something is lost, there twice or left open; it names the sinks.
    """
    chance = random.Random(seed)
    make_tables(url, directory, sinks)
    at_work = 0
    for _ in range(kills):
        add_files(directory, _AHEAD)
        before = _batches(directory)
        process = _start(url, directory, sinks, ends=False)
        assert process.stdout is not None
        assert process.stdout.readline(), _why(directory)
        _await_batches(directory, before + chance.randint(0, _BATCHES_MAX))
        time.sleep(chance.uniform(0, _WINDOW_S))
        assert process.poll() is None, _why(directory)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        done = _batches(directory) - before
        at_work += done > 0
        print(f"  killed after {done} batches", flush=True)
    process = _start(url, directory, sinks, ends=True)
    process.communicate()
    assert process.returncode == 0, _why(directory)
    files = len(list((directory / "in").iterdir()))
    with open_session(url, str(directory)) as session:
        wrong = [found for sink in sinks if (found := _wrong_rows(session, files, sink))]
        assert not wrong, "; ".join(wrong)
        _check_what_is_left(session)
    return f"{files} batches each, {at_work} of {kills} killed after others of the same run"


def _why(directory: Path) -> str:
    """What ended the queries; where none told, the end of what their process said."""
    failure = directory / _FAILURE
    if failure.exists():
        return failure.read_text()[:_SHOWN]
    return (directory / "errors").read_text()[-_SHOWN:]


def _await_batches(directory: Path, count: int) -> None:
    until = time.monotonic() + _AWAITED_S
    while _batches(directory) < count and time.monotonic() < until:
        time.sleep(0.1)


def _batches(directory: Path) -> int:
    """How many batches the checkpoints know of."""
    return len(list(directory.glob("at/*/commits/[0-9]*")))


def killed_writer(url: str, directory: Path, *, kills: int, seed: int) -> str:
    """The same with a writer of ``acid.stream``.

    Raises:
        AssertionError: something is lost, there twice or left open.
    """
    chance = random.Random(seed)
    with open_session(url, str(directory)) as session:
        make_events(session)
    told: set[int] = set()
    for number in range(kills):
        process = multiprocessing.get_context("spawn").Process(
            target=streamer, args=(url, str(directory), number)
        )
        process.start()
        while told_of(directory, "streamed") == told:
            assert process.is_alive(), _why(directory)
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 2))
        process.kill()
        process.join()
        told = told_of(directory, "streamed")
    with open_session(url, str(directory)) as session:
        check_events(session, told)
        _check_what_is_left(session)
    return f"{len(told)} transactions"


def _wrong_rows(session: Session, files: int, sink: str) -> str:
    """What is wrong with the rows of a sink; nothing where they are all there, once."""

    def values(table: str) -> list[tuple[Any, ...]]:
        rows = read_arrow(session.table(table)).read_all().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    own = [(id, id // ROWS) for id in range(files * ROWS) if id % ROWS < ROWS - 1]
    shared = [(SHARED, file) for file in range(files)]
    if sink in CHANGES_ROWS:
        is_deleted = sink == "cdc" and files % 2 == 0
        shared = [] if is_deleted else shared[-1:]
    found, expected = Counter(values(sink)), Counter(shared + own)
    if found != expected:
        lost, more = list((expected - found).items()), list((found - expected).items())
        return f"{sink}: {len(lost)} rows lost {lost[:5]}, {len(more)} too many {more[:5]}"
    if sink in CHANGES_ROWS and values(f"{sink}_batches") != [(file,) for file in range(files)]:
        return f"{sink}: a batch was done twice, or not at all"
    return ""


def _check_what_is_left(session: Session) -> None:
    """At the latest after the time-out nothing of the killed ones is left."""
    store = session.client.own
    until = time.monotonic() + TIMEOUT_S + 1
    while True:
        store.perform_timeouts()
        locks, open_txns = store.show_locks(), store.get_open_txns().open
        if not (locks or open_txns) or time.monotonic() > until:
            break
        time.sleep(1)
    assert locks == (), "a lock is left"
    assert open_txns == (), "a transaction is left"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--sink", choices=[*SINKS, API], nargs="+", default=[*SINKS, API])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--query", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--ends", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.query:
        url, made = chosen.query
        queries(url, made, chosen.sink, ends=chosen.ends)
        return 0
    is_old = pyspark.__version__.startswith("3.")
    sinks = [one for one in chosen.sink if one != API and not (is_old and one in NEEDS_SPARK_4)]
    print(f"PySpark {pyspark.__version__}, {chosen.database}, {chosen.kills} kills each")
    failures = 0
    for tried in ([sinks] if sinks else []) + [[one] for one in chosen.sink if one == API]:
        what = ", ".join(tried)
        try:
            written = _tried(tried, chosen.database, kills=chosen.kills, seed=chosen.seed)
        except (AssertionError, AcidError, OSError) as error:
            failures += 1
            print(f"{what}: FAILED: {error}", flush=True)
        else:
            print(f"{what}: {written}; nothing lost, twice or left open", flush=True)
    return 1 if failures else 0


def _tried(sinks: Sequence[str], database: str, *, kills: int, seed: int) -> str:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{directory}/metastore.db"
        if database == "postgres":
            url = stack.enter_context(postgres_server()).metastore()
        if API in sinks:
            return killed_writer(url, directory, kills=kills, seed=seed)
        return killed(url, directory, sinks=sinks, kills=kills, seed=seed)


if __name__ == "__main__":
    sys.exit(main())
