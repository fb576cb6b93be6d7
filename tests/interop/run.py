"""``make interop``: what we write, real Hive reads; what Hive wrote, we read.

    python -m tests.interop.run                          both ways, Hive 4.1
    python -m tests.interop.run --way ours --kinds flat  tables of ours in Hive, one kind
    python -m tests.interop.run --version 3.1            Hive 3.1: SELECT of our tables
    python -m tests.interop.run --way hdfs               one warehouse on HDFS, changed by both
    python -m tests.interop.run --way s3                 one warehouse on S3, changed by both
    python -m tests.interop.run --way metastore          one Metastore, Hive's own in PostgreSQL
    python -m tests.interop.run --ci                     ours, one of each kind; one Metastore
    python -m tests.interop.run --random 7               a dozen random tables, by seed
    python -m tests.interop.run --keep DIR               leave warehouses, logs and answers there

Hive is fetched on first use, into $HIVE_TOOL_HOME or `.hive-tool` of the checkout. Where it cannot
be, the run fails, or says so and succeeds with INTEROP_WITHOUT_HIVE=skip.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.changed import changed
from tests.interop import hive_wrote, on_servers, one_metastore, orc_tools, random_programs
from tests.interop.back_home import back_home
from tests.interop.hive_tool import HiveIsMissingError, HiveTool
from tests.interop.kinds import Kind
from tests.interop.kinds_compacted import COMPACTED
from tests.interop.kinds_files import FILES
from tests.interop.kinds_full import FULL
from tests.interop.kinds_past import PAST
from tests.interop.kinds_streamed import STREAMED
from tests.interop.kinds_types import TYPES
from tests.interop.we_wrote import Scope, Writer, Written, compare, hive_turn

from hiveacid.errors import AcidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 4
"""Lines of a difference that are printed."""

Outcome = tuple[str, list[str]]


def main() -> int:
    """Run; 0 where all agrees."""
    given = _arguments()
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        if given.keep:
            return _run(Path(given.keep).absolute(), given)
        with tempfile.TemporaryDirectory() as scratch:
            return _run(Path(scratch), given)
    except HiveIsMissingError as error:
        skip = os.environ.get("INTEROP_WITHOUT_HIVE") == "skip"
        print(f"interop: {'skipped' if skip else 'failed'}, {error}")
        return 0 if skip else 1


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ways = ["ours", "hives", "both", "hdfs", "s3", "metastore"]
    arguments.add_argument("--way", choices=ways, default="both")
    arguments.add_argument("--version", choices=["4.1", "3.1"], default="4.1")
    arguments.add_argument("--kinds", default="", help="names of kinds, comma between")
    arguments.add_argument("--scripts", default="", help="scripts of hive/, comma between")
    arguments.add_argument("--keep", help="an empty directory to leave everything in")
    arguments.add_argument("--ci", action="store_true", help="what .ci/run asks for")
    arguments.add_argument("--random", type=int, metavar="SEED", help="random tables instead")
    arguments.add_argument("--count", type=int, default=12, help="how many of them")
    return arguments.parse_args()


def _run(scratch: Path, given: argparse.Namespace) -> int:
    failed = total = 0
    started = time.monotonic()
    spark = _spark(scratch)
    ways = []
    if given.way in ("hdfs", "s3"):
        ways.append(on_servers.outcomes(spark, scratch / given.way, given.way))
    if given.way == "metastore" or (given.ci and {"metastore", "all"} & changed()):
        ways.append(one_metastore.outcomes(spark, scratch / "metastore"))
    if given.way in ("ours", "both"):
        ways.append(_ours(spark, scratch / "ours", given))
    if given.way in ("hives", "both") and given.version == "4.1" and not given.ci:
        ways.append(_hives(spark, scratch / "hives", given))
    for way in ways:
        for name, found in way:
            total += 1
            failed += bool(found)
            at = round(time.monotonic() - started)
            print(f"{at:4} s {'FAIL' if found else 'ok  '} {name}", flush=True)
            for line in found[:SHOWN]:
                print(f"            {line[:400]}")
            if len(found) > SHOWN:
                print(f"            and {len(found) - SHOWN} more")
    seconds = round(time.monotonic() - started)
    print(
        f"interop with Hive {given.version}: {total - failed} agree, {failed} do not, {seconds} s"
    )
    return 1 if failed else 0


def _spark(scratch: Path) -> SparkSession:
    from hiveacid.spark.workers import local_session

    return local_session(
        "hiveacid interop",
        conf={
            "spark.master": "local[2]",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(scratch / "spark"),
        },
    )


def _ours(spark: SparkSession, scratch: Path, given: argparse.Namespace) -> Iterator[Outcome]:
    scratch.mkdir(parents=True)
    only_read = given.version == "3.1"
    scope = Scope(given.version, only_read=only_read, quick=given.ci or only_read)
    tool = HiveTool(given.version, scratch / "hive", scratch / "answers")
    writer = Writer(spark, scratch, scope)
    tables: list[Written] = []
    with ThreadPoolExecutor() as pool:
        ready = pool.submit(tool.prepare)  # fetched while we write
        yield from _write(writer, _wanted(given), tables)
        ready.result()
    yield "Hive's statements run", hive_turn(tool, tables, scope)
    for written in tables:
        for what, found in compare(tool, written, scope):
            yield f"{written.kind.name}: {what}", found
    if not only_read:  # those of 3.1 know less
        yield from orc_tools.check_files(scratch / "export", given.version)
    if not scope.quick:
        for kind, what, found in back_home(writer, tool, tables, scope):
            yield f"{kind.name}: {what}", found


def _wanted(given: argparse.Namespace) -> list[Kind]:
    names = set(given.kinds.split(",")) - {""}
    if given.random is not None:
        return list(random_programs.kinds(given.random, given.count))
    return [
        kind
        for kind in (*FULL, *TYPES, *FILES, *COMPACTED, *STREAMED, *PAST)
        if (kind.name in names if names else kind.ci or not given.ci)
        and (kind.hive_3 or given.version != "3.1")
    ]


def _write(writer: Writer, kinds: list[Kind], tables: list[Written]) -> Iterator[Outcome]:
    with writer.sessions() as (acid, without_spark):
        for kind in kinds:
            try:
                tables.append(writer.write(acid, without_spark, kind))
                found = []
            except AcidError as error:
                found = [f"{type(error).__name__}: {error}"]
            yield f"{kind.name}: hiveacid writes it", found


def _hives(spark: SparkSession, scratch: Path, given: argparse.Namespace) -> Iterator[Outcome]:
    tool = HiveTool("4.1", scratch / "hive", scratch / "answers")
    if given.random is not None:
        script = random_programs.script(given.random, given.count)
        yield from hive_wrote.of_random(tool, spark, script, scratch)
    else:
        yield from hive_wrote.outcomes(tool, spark, set(given.scripts.split(",")) - {""})


if __name__ == "__main__":
    sys.exit(main())
