"""One of the drivers of ``tests.soak.cluster``: statements of each kind on rows of its own.

    cluster_driver.py DIRECTORY NUMBER

It goes on where the one before it was killed. In its journal is what it began, and what it knows to
be done; its rows are as a model says after these, and after the last one that was begun, or not.
Where something is to be killed in the middle of a statement, a file ``running`` of that statement
says so while its tasks run, and holds the id of an executor; the task goes on once there is ``go``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hiveacid
from hiveacid.errors import TransactionError
from hiveacid.session import Session
from hiveacid.spark import write
from hiveacid.txn.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS: Final = 200
"""new ones of a statement"""
OWN: Final = 1_000_000
"""ids of one driver"""
PARTITIONS: Final = 2
BATCH_ROWS: Final = ROWS // 2
COLUMNS: Final = "id bigint, v bigint, p int"
WAIT_S: Final = 60.0
IN_COMMIT: Final = ("uncommitted", "committed")
"""When the driver kills itself: before its commit, and before it knows of it."""

Rows = dict[int, int]


def after(kind: str, step: int, rows: Rows, *, driver: int) -> Rows:
    """The model: values by id after a statement."""
    first = driver * OWN + step * 1000
    new = {first + n: 0 for n in range(ROWS)}
    match kind:
        case "insert" | "stream":
            return rows | new
        case "update":
            return {id: v + 1 if id % 3 == step % 3 else v for id, v in rows.items()}
        case "delete":
            return {id: v for id, v in rows.items() if id % 5 != step % 5}
        case "merge":
            return {id: v + 10 if id % 4 == step % 4 else v for id, v in rows.items()} | new
        case "minor" | "major":
            return rows
    raise AssertionError(kind)


def parents(pid: int) -> Iterator[int]:
    """A process, the one that started it, and so on."""
    with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended meanwhile
        while pid > 1:
            yield pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_executor(pid: int, application: str = "") -> bool:
    """Whether it is one of Spark's, of an application."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    named = any(word.endswith("CoarseGrainedExecutorBackend") for word in command)
    return named and (not application or application in command)


def tell(mark: Path, executor: int) -> bool:
    """Says that a statement is running; False where that was said before."""
    own = mark.with_name(f"{mark.name}-{os.getpid()}")
    own.write_text(str(executor))
    try:
        os.link(own, mark)
    except FileExistsError:
        return False
    finally:
        own.unlink()
    return True


def wait(mark: str) -> None:
    """In a task: the first one waits until somebody was killed."""
    running = Path(f"{mark}/running")
    if running.exists() or not running.parent.is_dir():
        return
    if tell(running, next(filter(is_executor, parents(os.getpid())), 0)):
        until = time.monotonic() + WAIT_S
        while not Path(f"{mark}/go").exists() and time.monotonic() < until:
            time.sleep(0.05)


class Driver:
    """A session, and what its statements need."""

    def __init__(self, where: Path, number: int, spark: SparkSession, acid: Session) -> None:
        self.number, self.spark, self.acid = number, spark, acid
        self.where, self.first = where, number * OWN
        self.journal = where / f"journal{number}"
        self.mark = ""

    def note(self, *words: object) -> None:
        """In the journal, on disk before it goes on."""
        with self.journal.open("a") as file:
            print(*words, file=file, flush=True)

    def rows(self) -> Rows:
        """What is there of its own, each once."""
        low, high = self.first, self.first + OWN
        read = hiveacid.read_arrow(self.acid.table("t"), filter=f"id >= {low} and id < {high}")
        pairs = [(row["id"], row["v"]) for row in read.read_all().to_pylist()]
        found = dict(pairs)
        assert len(found) == len(pairs), "rows are there twice"
        return found

    def waiting(self, ids: list[int], *, tasks: int = 2) -> Any:
        """A DataFrame of ids whose tasks wait."""
        mark = self.mark

        def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                half = batch.num_rows // 2
                yield batch.slice(0, half)
                wait(mark)
                yield batch.slice(half)

        frame = self.spark.createDataFrame([(id,) for id in ids], "id bigint")
        return frame.repartition(tasks).mapInArrow(slow, "id bigint")

    def new(self, step: int) -> list[int]:
        """Ids of new rows."""
        return [self.first + step * 1000 + n for n in range(ROWS)]

    def insert(self, step: int, rows: Rows) -> None:
        """New rows."""
        del rows
        columns = ("id", "cast(0 as bigint) v", f"cast(id % {PARTITIONS} as int) p")
        self.acid.table("t").insert(self.waiting(self.new(step)).selectExpr(*columns))

    def update(self, step: int, rows: Rows) -> None:
        """Of one row in three."""
        del rows
        own = f"id >= {self.first} and id < {self.first + OWN}"
        self.acid.sql(f"update t set v = v + 1 + waits(id) where {own} and id % 3 = {step % 3}")

    def delete(self, step: int, rows: Rows) -> None:
        """Of one row in five."""
        del rows
        own = f"id >= {self.first} and id < {self.first + OWN}"
        self.acid.sql(f"delete from t where {own} and id % 5 = {step % 5} and waits(id) = 0")

    def merge(self, step: int, rows: Rows) -> None:
        """One row in four changes, others are new."""
        ids = [id for id in rows if id % 4 == step % 4]
        source = self.waiting([*ids, *self.new(step)])
        values = {"id": "s.id", "v": "0", "p": f"cast(s.id % {PARTITIONS} as int)"}
        builder = self.acid.table("t").merge(source, on="t.id = s.id")
        builder = builder.when_matched_update({"v": "t.v + 10"})
        builder.when_not_matched_insert(values).run()

    def compact(self, kind: str, step: int) -> None:
        """Of one partition, by Spark's tasks; it is running when they begin."""
        given, mark = write.staged_by_spark, Path(self.mark)

        def staged(*arguments: Any, **facts: Any) -> Any:
            if mark.is_dir():
                own = self.spark.sparkContext.applicationId
                pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
                tell(mark / "running", next((pid for pid in pids if is_executor(pid, own)), 0))
            return given(*arguments, **facts)

        write.staged_by_spark = staged
        try:
            partition = f"partition (p={(step + self.number) % PARTITIONS})"
            self.acid.sql(f"alter table t {partition} compact '{kind}' and wait")
        finally:
            write.staged_by_spark = given

    def minor(self, step: int, rows: Rows) -> None:
        """Deltas become one."""
        del rows
        self.compact("minor", step)

    def major(self, step: int, rows: Rows) -> None:
        """All becomes a base."""
        del rows
        self.compact("major", step)

    def stream(self, step: int, rows: Rows) -> None:
        """Two micro-batches of a sink; what is there of them stays."""
        del rows
        source = self.where / f"in{self.number}"
        source.mkdir(exist_ok=True)
        for n in range(0, ROWS, BATCH_ROWS):
            text = "".join(json.dumps({"id": id}) + "\n" for id in self.new(step)[n:][:BATCH_ROWS])
            file = source / f"{step:05d}-{n:05d}.json"
            if not file.exists():
                (source / "_new").write_text(text)
                (source / "_new").rename(file)
        mark = self.mark

        def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                wait(mark)
                yield batch

        columns = ("id", "cast(0 as bigint) v", f"cast(id % {PARTITIONS} as int) p")
        stream = self.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
        frame = stream.json(str(source)).mapInArrow(slow, "id bigint").selectExpr(*columns)
        writer = frame.writeStream.format("hiveacid").option("table", "t")
        writer = writer.option("metastore", self.acid.client.metastore.url)
        timeout = "hiveacid.txn.timeout_s"  # the same of all clients
        writer = writer.option(timeout, str(self.acid.client.settings.txn_timeout_s))
        writer = writer.option("checkpointLocation", str(self.where / f"checkpoint{self.number}"))
        started = writer.trigger(availableNow=True).start()
        try:
            started.awaitTermination()
        except Exception as error:
            if "TransactionError" not in str(error):
                raise
            self.note("again", error)  # a machine so slow that it timed out
            writer.trigger(availableNow=True).start().awaitTermination()

    def run(self, kind: str, step: int, victim: str, rows: Rows) -> None:
        """A statement, in whose middle something may be killed."""
        self.mark = str(self.where / f"step{self.number}-{step}-{victim}")
        if victim not in ("", *IN_COMMIT):
            Path(self.mark).mkdir(exist_ok=True)
        commit = Transaction.commit

        def dying(txn: Transaction, *arguments: Any, **facts: Any) -> None:
            if victim == "committed":
                commit(txn, *arguments, **facts)
            os.killpg(0, signal.SIGKILL)

        def waits(_: int) -> int:
            wait(mark)
            return 0

        mark = self.mark
        self.spark.udf.register("waits", waits, "bigint")
        if victim in IN_COMMIT and kind != "stream":
            Transaction.commit = dying  # type: ignore[method-assign, assignment]
        statement: Callable[[int, Rows], None] = getattr(self, kind)
        statement(step, rows)


def recovered(driver: Driver, plan: list[tuple[str, str]], rows: Rows) -> tuple[int, Rows]:
    """The step that comes next, and its rows, which are as the journal says; ``rows`` were there
    before the first one.
    """
    lines = driver.journal.read_text().splitlines() if driver.journal.exists() else []
    begun = sum(line.startswith("begun") for line in lines)
    skipped = {int(line.split()[1]) for line in lines if line.startswith("undone")}
    for step in range(begun - 1):
        if step not in skipped:
            rows = after(plan[step][0], step, rows, driver=driver.number)
    if not begun:
        assert driver.rows() == rows
        return 0, rows
    last, kind = begun - 1, plan[begun - 1][0]
    if f"done {last}" not in lines and kind == "stream":
        driver.run(kind, last, "", rows)
        driver.note("done", last)
    then = after(kind, last, rows, driver=driver.number)
    found = driver.rows()
    if found != then:
        assert found == rows, difference(found, rows, then, kind)
        assert f"done {last}" not in lines, f"{kind} is lost although it was done"
        driver.note("undone", last)
    return begun, found


def difference(found: Rows, before: Rows, then: Rows, kind: str) -> str:
    """What is wrong, in short."""
    wrong = {
        id: (before.get(id), then.get(id), found.get(id))
        for id in sorted({*found, *before, *then})
        if found.get(id) != then.get(id)
    }
    return (
        f"{kind}: {len(wrong)} rows of {len(then)}: before, after, found: {list(wrong.items())[:9]}"
    )


def work(driver: Driver, plan: list[tuple[str, str]], first: Rows) -> None:
    """Statements, from where the last one stopped; ``first`` are the rows before all of them."""
    step, rows = recovered(driver, plan, first)
    while step < len(plan):
        kind, victim = plan[step]
        driver.note("begun", step)
        try:
            driver.run(kind, step, victim, rows)
        except TransactionError as error:  # a machine so slow that it timed out
            found = driver.rows()
            assert found == rows, difference(found, rows, rows, kind)
            driver.note("undone", step, error)
        else:
            then = after(kind, step, rows, driver=driver.number)
            found = driver.rows()
            assert found == then, difference(found, rows, then, kind)
            rows = then
            driver.note("done", step)
        step += 1
    low, high = driver.first, driver.first + OWN
    read = driver.acid.sql(f"select id, v from t where id >= {low} and id < {high}").collect()
    assert sorted(map(tuple, read)) == sorted(rows.items()), "Spark reads something else"
    (driver.where / f"rows{driver.number}").write_text(json.dumps(rows))


def main() -> None:
    """The program."""
    from pyspark.sql import SparkSession

    where, number = Path(sys.argv[1]), int(sys.argv[2])
    given = json.loads((where / "drivers.json").read_text())
    builder = SparkSession.builder.master(given["master"]).appName(f"driver {number}")
    for name, text in given["conf"].items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = {int(id): v for id, v in given["rows"].items() if int(id) // OWN == number}
    with hiveacid.connect(spark, given["url"], settings=given["settings"]) as acid:
        work(Driver(where, number, spark, acid), given["plans"][number], rows)
    spark.stop()


if __name__ == "__main__":
    main()
