"""Read what real Hive wrote: each table that the scripts in ``hive/`` leave, by each reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.answers import HiveAnswer, differences, our_rows, without_row_ids
from tests.interop.hive_tool import HiveTool
from tests.interop.reading_back import check_ls, check_projection, check_read_arrow, check_scan

import hiveacid
from hiveacid.errors import AcidError
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPTS = Path(__file__).parent / "hive"
ORDER = (
    "dml",
    "places",
    "changes",
    "kinds",
    "unfinished",
    "unfinished2",
    "unfinished3",
    "unfinished4",
)

FAILS_IN_HIVE = {"unfinished": 5, "unfinished2": 1}
"""How many statements of a script are made to fail."""
NOT_COMPARED = {
    ("only_text", "projection"): "text files do not name their columns",
}
"""Answers, and checks of them, where the two sides differ on purpose; why."""

Check = Callable[[HiveAnswer], Iterator[str]]


def answers(folder: Path) -> list[HiveAnswer]:
    """All that Hive left in a folder, by name."""
    return [HiveAnswer(path.parent) for path in sorted(folder.glob("*/query.tsv"))]


def checks(spark: SparkSession | None) -> dict[str, Check]:
    """By name; without Spark all but the scan."""
    found: dict[str, Check] = {
        "read_arrow": check_read_arrow,
        "projection": check_projection,
        "ls": check_ls,
    }
    if spark is not None:
        found["scan"] = lambda answer: check_scan(spark, answer)
    return found


def outcomes(
    tool: HiveTool, spark: SparkSession, wanted: set[str]
) -> Iterator[tuple[str, list[str]]]:
    """Run the scripts, then yield pairs of what was compared and how it differs."""
    for name in ORDER:
        if not wanted or name.rstrip("0123456789") in wanted:
            lines = tool.run((SCRIPTS / f"{name}.sql").read_text("utf-8"), name)
            expected = FAILS_IN_HIVE.get(name, 0)
            errors = [line[:500] for line in lines if line.startswith("ERROR")]
            yield f"Hive runs {name}.sql", [] if len(errors) == expected else errors
    for answer in answers(tool.answers):
        for name, check in checks(spark).items():
            why = NOT_COMPARED.get((answer.name, name)) or NOT_COMPARED.get((answer.name, ""))
            if why is None:
                yield f"{answer.name}: {name}", list(check(answer))


def of_random(
    tool: HiveTool, spark: SparkSession, script: str, scratch: Path
) -> Iterator[tuple[str, list[str]]]:
    """Run a script of random programs, some statements of which fail on purpose, or by bugs of
    Hive's; then what Spark's scan and ``ls`` tell, and a table of ours that is attached to the
    files, also once compacted.
    """
    failed = sum(line.startswith("ERROR") for line in tool.run(script, "random"))
    taken, meant = len(answers(tool.answers)), script.count("!snap")
    found = [] if taken == meant else [f"{taken} answers of {meant}"]
    yield f"Hive runs the programs, {failed} statements fail", found
    for answer in answers(tool.answers):
        yield f"{answer.name}: ls", list(check_ls(answer))
        yield f"{answer.name}: scan", list(check_scan(spark, answer))
        # A metastore each: aborted write ids of one table would take ids of transactions that made
        # compactions of another, whose lists are of a later time.
        url = f"sqlite:///{scratch / 'attached'}-{answer.name}.db"
        with hiveacid.connect(None, url, warehouse=str(scratch / "attached")) as acid:
            yield f"{answer.name}: attached", list(_check_attached(acid, answer))


def _check_attached(acid: Session, answer: HiveAnswer) -> Iterator[str]:
    """How the rows of an attached table differ from Hive's: now, after each compaction."""
    meta, shape, name = answer.meta, answer.shape, answer.name
    expected = without_row_ids(answer.rows()) if meta["acid"] else answer.rows()
    try:
        acid.sql(_declared(answer))
        for turn in ("", "minor", "major"):
            if turn:
                acid.table(name).compact(turn, wait=True)
            rows = our_rows(hiveacid.read_arrow(acid.table(name)).read_all(), shape)
            yield from (f"{turn or 'attached'}: {line}" for line in differences(rows, expected))
    except AcidError as error:
        yield f"{type(error).__name__}: {error}"


def _declared(answer: HiveAnswer) -> str:
    """CREATE TABLE over the copy of a table's directory, with Hive's lists."""
    meta, shape = answer.meta, answer.shape
    columns, keys = (
        ", ".join(f"{name} {kind}" for name, kind in part)
        for part in (shape.columns, shape.partition_columns)
    )
    buckets = (
        f" clustered by (id) into {meta['num_buckets']} buckets" if meta["num_buckets"] > 0 else ""
    )
    properties = {
        **{
            key: text for key, text in meta["parameters"].items() if key.startswith("transactional")
        },
        "bucketing_version": meta["parameters"].get("bucketing_version", "2"),
        "hiveacid.valid_write_ids": meta["valid_write_id_list"],
        "hiveacid.valid_txns": meta["valid_txn_list"],
    }
    return (
        f"create table {answer.name} ({columns})"
        + (f" partitioned by ({keys})" if keys else "")
        + buckets
        + (" stored as parquet" if "parquet" in meta["input_format"].lower() else " stored as orc")
        + f" location '{answer.data}' tblproperties ("
        + ", ".join(f"'{key}'='{text}'" for key, text in properties.items())
        + ")"
    )
