"""``make interop``: what we write, real Hive reads; what Hive wrote, we read.

    python tests/interop/run.py                          both ways, Hive 4.1
    python tests/interop/run.py --way ours --kinds flat  tables of ours in Hive, one kind
    python tests/interop/run.py --version 3.1 --way ours Hive 3.1: SELECT only
    python tests/interop/run.py --keep DIR               leave warehouses, logs and answers there

Hive is fetched on first use, into $HIVE_TOOL_HOME or `.hive-tool` of the checkout.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["TZ"] = "UTC"
time.tzset()
sys.path.insert(0, str(Path(__file__).parent))

import hive_wrote  # noqa: E402
import orc_tools  # noqa: E402
import we_wrote  # noqa: E402
from hive_tool import HiveTool, why_not  # noqa: E402
from kinds import KINDS  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 4
"""Lines of a difference that are printed."""

Outcome = tuple[str, list[str]]


def main() -> int:
    """Run; 0 where all agrees."""
    given = _arguments()
    missing = why_not()
    if missing:
        print(f"interop: skipped, {missing}")
        return 0
    if given.keep:
        return _run(Path(given.keep).absolute(), given)
    with tempfile.TemporaryDirectory() as scratch:
        return _run(Path(scratch), given)


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--way", choices=["ours", "hives", "both"], default="both")
    arguments.add_argument("--version", choices=["4.1", "3.1"], default="4.1")
    arguments.add_argument("--kinds", default="", help="names of kinds, comma between")
    arguments.add_argument("--scripts", default="", help="scripts of hive/, comma between")
    arguments.add_argument("--keep", help="an empty directory to leave everything in")
    return arguments.parse_args()


def _run(scratch: Path, given: argparse.Namespace) -> int:
    failed = total = 0
    spark = _spark(scratch)
    ways = []
    if given.way != "hives":
        ways.append(_ours(spark, scratch / "ours", given))
    if given.way != "ours" and given.version == "4.1":
        ways.append(_hives(spark, scratch / "hives", given))
    for way in ways:
        for name, found in way:
            total += 1
            failed += bool(found)
            print(f"{'FAIL' if found else 'ok  '} {name}", flush=True)
            for line in found[:SHOWN]:
                print(f"       {line[:400]}")
            if len(found) > SHOWN:
                print(f"       and {len(found) - SHOWN} more")
    print(f"interop with Hive {given.version}: {total - failed} agree, {failed} do not")
    return 1 if failed else 0


def _spark(scratch: Path) -> SparkSession:
    from hiveacid.spark.local import local_session

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
    wanted = set(given.kinds.split(",")) - {""}
    kinds = [kind for kind in KINDS if not wanted or kind.name in wanted]
    only_read = given.version == "3.1"
    if only_read:  # knows no base with Hive 4's mark `truncated`
        kinds = [kind for kind in kinds if kind.name != "truncated"]
    tool = HiveTool(given.version, scratch / "hive", scratch / "answers")
    tables = []
    for written in we_wrote.write(spark, scratch, kinds):
        tables.append(written)
        print(f"wrote {written.table}: {len(written.rows)} rows", flush=True)
    yield "Hive makes the tables", we_wrote.hand_over(tool, tables)
    yield "Hive's statements run", we_wrote.hive_turn(tool, tables, only_read=only_read)
    for written in tables:
        for what, found in we_wrote.compare(tool, written, only_read=only_read):
            yield f"{written.kind.name}: {what}", found
    if not only_read:
        yield from orc_tools.check_files(scratch / "export", given.version)
        for kind, what, found in we_wrote.back_home(spark, scratch, tool, tables):
            yield f"{kind.name}: {what}", found


def _hives(spark: SparkSession, scratch: Path, given: argparse.Namespace) -> Iterator[Outcome]:
    tool = HiveTool("4.1", scratch / "hive", scratch / "answers")
    yield from hive_wrote.outcomes(tool, spark, set(given.scripts.split(",")) - {""})


if __name__ == "__main__":
    sys.exit(main())
