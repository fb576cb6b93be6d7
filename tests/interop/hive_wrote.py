"""Read what real Hive wrote: each table that the scripts in ``hive/`` leave, by each reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.answers import HiveAnswer
from tests.interop.hive_tool import HiveTool
from tests.interop.reading_back import check_ls, check_projection, check_read_arrow, check_scan

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
