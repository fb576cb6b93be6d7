"""The demo from beginning to end: input, steps, a look around, proof, figures. Read this first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.tree import Tree

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.demo import tpch
from hiveacid.demo.meter import Meter, Seen, Step
from hiveacid.demo.tpch import Input
from hiveacid.errors import InvalidInputError
from hiveacid.metastore.connect import connect
from hiveacid.model.tables import TableName
from hiveacid.spark.workers import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.metastore.api import Metastore
    from hiveacid.session import Session


CREATE_ORDERS = """
create table orders (
    o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2),
    o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, o_comment string
)
clustered by (o_orderkey) into 4 buckets
stored as orc
tblproperties ('transactional' = 'true')
"""

CREATE_LINEITEM = """
create table lineitem (
    l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int,
    l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2),
    l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date,
    l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string,
    l_comment string
)
partitioned by (l_shipyear int)
stored as orc
tblproperties ('transactional' = 'true')
"""

UPDATE_LINEITEM = """
update lineitem
set l_discount = l_discount + 0.01, l_comment = concat('by air: ', l_comment)
where l_shipmode = 'AIR' and l_quantity >= 40
"""

# 0.10 is the highest discount there is before the UPDATE: those above it are its work.
DELETE_LINEITEM = """
delete from lineitem
where l_discount > 0.10 or (l_returnflag = 'R' and l_quantity < 3)
"""

COMPACT_ORDERS = "alter table orders compact 'major' and wait"

JOINED = """
select
    l_shipyear,
    o_orderpriority,
    count(*) as line_count,
    count(distinct o_orderkey) as order_count,
    sum(l_extendedprice * (1 - l_discount)) as revenue,
    max(o_totalprice) as highest_price,
    min(l_shipdate) as first_shipped
from orders join lineitem on o_orderkey = l_orderkey
where o_orderstatus <> 'F'
group by l_shipyear, o_orderpriority
order by l_shipyear, o_orderpriority
"""


def carry_out(
    acid: Session, spark: SparkSession, made: Input, meter: Meter
) -> list[tuple[Any, ...]]:
    """Create, load, merge, update, delete, compact and query; returns the joined query's rows."""
    with meter.step("create both tables"):
        acid.sql(CREATE_ORDERS)
        acid.sql(CREATE_LINEITEM)
    _load(acid, spark, made, meter)
    with meter.step("MERGE changes into orders") as step:
        merged = _merge(acid, spark, made)
        step.rows = (
            f"{merged.updated:,} updated, {merged.deleted:,} deleted, {merged.inserted:,} inserted"
        )
    with meter.step("UPDATE lineitem") as step:
        step.rows = f"{acid.sql(UPDATE_LINEITEM).rows:,} updated"
    with meter.step("DELETE from lineitem") as step:
        step.rows = f"{acid.sql(DELETE_LINEITEM).rows:,} deleted"
    with meter.step("COMPACT orders") as step:
        acid.sql(COMPACT_ORDERS)
        names = [one.path.rpartition("/")[2] for one in acid.table("orders").clean(dry_run=True)]
        base = next(name for name in names if name.startswith("base"))
        step.rows = f"{base} instead of {len(names) - 1} directories, which stay for old readers"
    with meter.step("query both, joined") as step:
        rows = [tuple(row) for row in acid.sql(JOINED).collect()]
        step.rows = f"{len(rows):,} groups"
    return rows


def _stream(
    acid: Session, spark: SparkSession, made: Input, meter: Meter, *, seconds: float, scratch: Path
) -> int:
    """Two streams side by side: the changes into a copy of orders by micro-batches of Spark, lines
    into a copy of lineitem without it. How many lines were committed.
    """
    for text, name in zip((CREATE_ORDERS, CREATE_LINEITEM), _STREAMED, strict=True):
        acid.sql(text.replace(name.removesuffix("_stream"), name, 1))
    with meter.step("load orders once more"):
        acid.table(_STREAMED[0]).insert(spark.read.parquet(str(made.orders)))
    source = scratch / "changes"
    source.mkdir(parents=True)
    with meter.step(f"stream for {seconds:g} s") as step:
        upsert = hiveacid.foreach_batch(
            acid, _STREAMED[0], mode="cdc", on="o_orderkey", delete_where="s.op = 'D'"
        )
        schema = spark.read.parquet(str(made.changes)).schema
        query = (
            spark.readStream.schema(schema)
            .parquet(str(source))
            .writeStream.foreachBatch(upsert)
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .start()
        )
        lines, commits = _stream_lines(acid, made, source, seconds=seconds)
        query.processAllAvailable()
        batches = (query.lastProgress or {"batchId": 0})["batchId"] + 1
        query.stop()
        step.rows = f"{lines:,} lines in {commits:,} commits; the changes in {batches} batches"
    return lines


def _stream_lines(acid: Session, made: Input, source: Path, *, seconds: float) -> tuple[int, int]:
    """Commit lines ten times a second, and hand in a file of changes each second."""
    file, changes = pq.ParquetFile(made.lineitem), pq.read_table(made.changes)
    ticks = max(int(seconds * _TICKS_A_SECOND), 1)
    rows = -(-file.metadata.num_rows // ticks)
    files = -(-ticks // _TICKS_A_SECOND)
    begin = time.monotonic()
    with acid.stream(_STREAMED[1], transactions_per_batch=100) as connection:
        for tick, batch in enumerate(file.iter_batches(batch_size=rows)):
            if tick % _TICKS_A_SECOND == 0:
                _hand_in(changes, source, tick // _TICKS_A_SECOND, of=files)
            with connection.transaction():
                years = pc.year(batch.column("l_shipdate"))
                connection.write(
                    pa.table([*batch.columns, years], [*batch.schema.names, "l_shipyear"])
                )
            time.sleep(max(0.0, begin + (tick + 1) / _TICKS_A_SECOND - time.monotonic()))
        done = connection.statistics
    return done.rows, done.committed


def _hand_in(changes: pa.Table, source: Path, number: int, *, of: int) -> None:
    """One of so many parts; there at once."""
    size = -(-changes.num_rows // of)
    hidden = source / f".{number}"
    pq.write_table(changes.slice(number * size, size), hidden)
    hidden.rename(source / f"{number:05d}.parquet")


def _load(acid: Session, spark: SparkSession, made: Input, meter: Meter) -> None:
    from pyspark.sql import functions as F

    with meter.step("load orders") as step:
        loaded = acid.table("orders").insert(spark.read.parquet(str(made.orders)))
        step.rows = f"{loaded.rows:,} inserted"
    with meter.step("load lineitem") as step:
        lines = spark.read.parquet(str(made.lineitem))
        by_year = lines.withColumn("l_shipyear", F.year("l_shipdate"))
        step.rows = f"{acid.table('lineitem').insert(by_year).rows:,} inserted"


def _merge(acid: Session, spark: SparkSession, made: Input) -> Any:
    changes = spark.read.parquet(str(made.changes))
    columns = [name for name in changes.columns if name != "op"]
    return (
        acid.table("orders")
        .merge(changes, on="t.o_orderkey = s.o_orderkey")
        .when_matched_delete(where="s.op = 'D'")
        .when_matched_update(
            {name: f"s.{name}" for name in ("o_orderstatus", "o_totalprice", "o_comment")}
        )
        .when_not_matched_insert({name: f"s.{name}" for name in columns})
        .run()
    )


_TABLES = ("orders", "lineitem")
_MARKER = ".hiveacid-demo"
_STREAMED: Final = ("orders_stream", "lineitem_stream")
_TICKS_A_SECOND: Final = 10
_WIDTH = 120
"""columns, where the output goes into a file"""


def run(*, scale: float, directory: Path, stream_s: float) -> bool:
    """See ``hiveacid.demo.run``."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    directory = directory.absolute()
    _clear(directory)
    warehouse = directory / "warehouse"
    url = f"sqlite:///{directory / 'metastore.db'}"
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True) as progress,
        connect(url, clock=SystemClock()) as metastore,
    ):
        task = progress.add_task("")

        def ended(step: Step) -> None:
            done = f"[green]done[/] {step.title}  [dim]{step.seconds:.1f} s[/]  {step.rows}"
            console.print(done, highlight=False)

        meter = Meter(
            warehouse=warehouse,
            metastore=metastore,
            begun=lambda title: progress.reset(task, description=title),
            ended=ended,
        )
        with meter.step(f"make TPC-H input, scale {scale:g}"):
            made = tpch.make(scale=scale, directory=directory / f"input-{scale:g}")
        with meter.step("start Spark"):
            spark = _spark(directory, scale)
        try:
            # Each step's figures are its own, and it is shown: nothing goes on in the background.
            settings = {"hiveacid.compactor.auto": "off", "hiveacid.progress": "false"}
            acid = hiveacid.connect(spark, url, warehouse=str(warehouse), settings=settings)
            answer = carry_out(acid, spark, made, meter)
            seen = tuple(meter.seen)
            streamed = 0
            if stream_s:
                scratch = directory / "scratch" / "stream"
                streamed = _stream(acid, spark, made, meter, seconds=stream_s, scratch=scratch)
            findings = _prove(acid, made, answer, meter, directory, streamed=streamed)
            acid.close()
        finally:
            spark.stop()
        _around(console, warehouse=warehouse, metastore=metastore, seen=seen)
    console.print(Syntax(JOINED.strip(), "sql", background_color="default"))
    _print_answer(console, answer)
    _figures(console, meter.steps)
    return _verdict(console, findings)


def _clear(directory: Path) -> None:
    """Take away what a former demo left; never what is not the demo's."""
    marker = directory / _MARKER
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        raise InvalidInputError(
            f"{directory} holds something that is not the demo's",
            note="name an empty or new directory with --dir",
            path=str(directory),
        )
    directory.mkdir(parents=True, exist_ok=True)
    marker.touch()
    for name in ("warehouse", "actual", "scratch"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for path in directory.glob("metastore.db*"):
        path.unlink()
    (directory / "warehouse").mkdir()


def _spark(directory: Path, scale: float) -> SparkSession:
    return local_session(
        "hiveacid demo",
        conf={
            "spark.master": "local[*]",
            "spark.driver.memory": "2g" if scale <= 0.5 else "4g",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(directory / "scratch"),
            "spark.sql.warehouse.dir": str(directory / "scratch" / "spark"),
        },
    )


def _prove(
    acid: Session,
    made: tpch.Input,
    answer: list[tuple[Any, ...]],
    meter: Meter,
    directory: Path,
    *,
    streamed: int,
) -> list[tpch.Finding]:
    tables = (*_TABLES, *(_STREAMED if streamed else ()))
    actual = {name: directory / "actual" / name for name in tables}
    with meter.step("read all tables in full") as step:
        for name, folder in actual.items():
            acid.sql(f"select * from {name}").write.parquet(str(folder))
    with meter.step("compute the same with DuckDB, compare") as step:
        findings = tpch.compare(
            made,
            actual=actual,
            query=JOINED,
            answer=answer,
            scratch=directory / "scratch",
            streamed=streamed,
        )
        step.rows = f"{sum(finding.values for finding in findings):,} values"
    shutil.rmtree(directory / "actual")
    return findings


def _figures(console: Console, measured: list[Step]) -> None:
    rows = [
        (
            step.title,
            f"{step.seconds:.1f}",
            step.rows,
            step.files or "",
            f"{step.peak_bytes / 2**20:,.0f} MiB" if step.peak_bytes else "?",
        )
        for step in measured
    ]
    names = ("step", "seconds", "rows", "new files", "peak memory")
    _print_table(console, "Steps", names, rows, right=(1, 3, 4))
    console.print(
        "[dim]Peak memory: driver, JVM and Python workers together, shared pages counted in each."
    )


def _print_table(
    console: Console,
    title: str | None,
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
) -> None:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def _around(
    console: Console, *, warehouse: Path, metastore: Metastore, seen: Sequence[Seen]
) -> None:
    """The directories as they lie on disk, and what the metastore says."""
    tree = Tree(str(warehouse), highlight=False)
    for name in _TABLES:
        _add_directory(tree, warehouse / name)
    console.print(tree)
    _print_txns(console, metastore)
    _print_locks(console, seen)


def _add_directory(tree: Tree, path: Path) -> None:
    """Partitions as branches; an ACID directory is one line with its files counted."""
    folders = sorted(child for child in path.iterdir() if child.is_dir())
    files = [child for child in path.iterdir() if child.is_file()]
    data = [file for file in files if not file.name.startswith(("_", "."))]
    size = sum(file.stat().st_size for file in data) / 2**20
    label = f"{path.name}  [dim]{len(data)} files, {size:,.1f} MiB" if data else path.name
    branch = tree.add(label)
    for folder in folders:
        if not folder.name.startswith("."):
            _add_directory(branch, folder)


def _print_txns(console: Console, metastore: Metastore) -> None:
    txns = metastore.valid_txns()
    names = [TableName("default", name) for name in _TABLES]
    lists = zip(names, metastore.valid_write_ids(names, txns), strict=True)
    rows = [
        ("transactions (hwm:minOpen:open:aborted)", txns),
        *((f"write ids of {name}", valid) for name, valid in lists),
    ]
    _print_table(console, "What a reader sees now", ("list", "in Hive's text form"), rows)


def _print_locks(console: Console, seen: Sequence[Seen]) -> None:
    rows: dict[tuple[int, int], tuple[object, ...]] = {}
    for moment in seen:
        states = {info.id: info.state.name for info in moment.txns}
        for lock in moment.locks:
            where = ".".join(part for part in (lock.database, lock.table) if part)
            facts = (
                moment.step,
                lock.txn_id,
                states.get(lock.txn_id, ""),
                f"{lock.lock_id}.{lock.component_id}",
                f"{where}/{lock.partition}" if lock.partition else where,
                lock.state.name,
                lock.type.name,
            )
            rows.setdefault((lock.lock_id, lock.component_id), facts)  # else of a step before
    names = ("step", "transaction", "state", "lock", "on", "lock state", "lock type")
    title = "Transactions and locks, caught while a step ran"
    _print_table(console, title, names, rows.values())


def _print_answer(console: Console, rows: Sequence[tuple[Any, ...]]) -> None:
    """The first rows of the joined query."""
    names = ("shipped", "priority", "lines", "orders", "revenue", "highest price", "first shipped")
    more = [("...",)] if len(rows) > 10 else []
    _print_table(console, None, names, [*rows[:10], *more], right=(0, 2, 3, 4, 5))


def _verdict(console: Console, findings: Sequence[tpch.Finding]) -> bool:
    """Say for each comparison whether it is equal, and whether all are."""
    for finding in findings:
        size = f"{finding.rows:,} rows, {finding.values:,} values"
        if finding.wrong:
            console.print(f"[bold red]NOT equal[/] {finding.what}: {finding.wrong:,} rows differ")
            console.print(f"  for example {finding.example}", highlight=False)
        else:
            console.print(f"[bold green]equal[/] {finding.what}: {size}", highlight=False)
    good = not any(finding.wrong for finding in findings)
    equal = "[bold green]equal[/]: hiveacid's result is DuckDB's, value by value."
    console.print(equal if good else "[bold red]NOT equal[/]: hiveacid's result is not DuckDB's.")
    return good
