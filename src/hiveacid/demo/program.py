"""The demo from beginning to end: input, steps, a look around, proof, figures. Read this first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

import hiveacid
from hiveacid.clock import SystemClock
from hiveacid.demo import input as tpch
from hiveacid.demo import proof, show, steps
from hiveacid.demo.meter import Meter, Step
from hiveacid.errors import InvalidInputError
from hiveacid.metastore.connect import connect
from hiveacid.spark.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

_MARKER = ".hiveacid-demo"
_WIDTH = 120
"""columns, where the output goes into a file"""


def run(*, scale: float, directory: Path) -> bool:
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
            answer = steps.run(acid, spark, made, meter)
            seen = tuple(meter.seen)
            findings = _prove(acid, made, answer, meter, directory)
            acid.close()
        finally:
            spark.stop()
        show.around(console, warehouse=warehouse, metastore=metastore, seen=seen)
    console.print(Syntax(steps.JOINED.strip(), "sql", background_color="default"))
    show.answer(console, answer)
    _figures(console, meter.steps)
    return show.verdict(console, findings)


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
) -> list[proof.Finding]:
    actual = {name: directory / "actual" / name for name in ("orders", "lineitem")}
    with meter.step("read both tables in full") as step:
        for name, folder in actual.items():
            acid.sql(f"select * from {name}").write.parquet(str(folder))
    with meter.step("compute the same with DuckDB, compare") as step:
        findings = proof.compare(
            made,
            actual=actual,
            query=steps.JOINED,
            answer=answer,
            scratch=directory / "scratch",
        )
        step.rows = f"{sum(finding.values for finding in findings):,} values"
    shutil.rmtree(directory / "actual")
    return findings


def _figures(console: Console, measured: list[Step]) -> None:
    table = Table(title="Steps", title_justify="left")
    table.add_column("step")
    table.add_column("seconds", justify="right")
    table.add_column("rows")
    table.add_column("new files", justify="right")
    table.add_column("peak memory", justify="right")
    for step in measured:
        table.add_row(
            step.title,
            f"{step.seconds:.1f}",
            step.rows,
            str(step.files) if step.files else "",
            f"{step.peak_bytes / 2**20:,.0f} MiB" if step.peak_bytes else "?",
        )
    console.print(table)
    console.print(
        "[dim]Peak memory: driver, JVM and Python workers together, shared pages counted in each."
    )
