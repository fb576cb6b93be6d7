"""``make accept``: what real Hive answered, statement by statement and table by table.

The golden tables are read without Spark; the SQL cases run on Spark. Each passing one stands in
``required.txt``, as ``golden/NAME`` or ``AREA/NAME:STATEMENT``, and must pass from then on.

    python -m tests.acceptance.run                      the required ones decide
    python -m tests.acceptance.run --only golden -v     say what does not pass, and why
    python -m tests.acceptance.run --record             write required.txt anew from what passes
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.acceptance.golden import compare
from tests.recorded import golden_names, golden_path

ROOT = Path(__file__).parents[2]
REQUIRED = Path(__file__).with_name("required.txt")
HEADER = """\
# What must pass in `make accept`: golden tables, and statements of the SQL cases.
# `python -m tests.acceptance.run --record` writes this file from what passes; it only grows.
"""


def main() -> int:
    """Run; 0 where all that is required passes."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--only", choices=["golden", "sql"])
    arguments.add_argument("--cases", default="*/*", help="glob over AREA/NAME of the SQL cases")
    arguments.add_argument("--record", action="store_true", help="write required.txt anew")
    arguments.add_argument("-v", "--verbose", action="store_true")
    given = arguments.parse_args()
    required = _required()
    passed: set[str] = set()
    for name, why in _results(given.only, given.cases):
        if not why:
            passed.add(name)
        elif given.verbose or name in required:
            print(f"{name}: {why}")
    if given.record:
        kept = {line for line in required if not _was_run(line, given.only, given.cases)}
        REQUIRED.write_text(HEADER + "".join(f"{line}\n" for line in sorted(kept | passed)))
        print(f"{REQUIRED.relative_to(ROOT)}: {len(kept | passed)} required")
        return 0
    missed = sorted(line for line in required - passed if _was_run(line, given.only, given.cases))
    print(*[f"REQUIRED BUT NOT PASSED: {line}" for line in missed], sep="\n")
    print(f"accept: {len(passed)} passed, {len(missed)} required ones did not")
    return 1 if missed else 0


def _results(only: str | None, cases: str) -> Iterator[tuple[str, str]]:
    """Name and, where it did not pass, why."""
    if only != "sql":
        for name in golden_names():
            yield f"golden/{name}", compare(golden_path(name))
    if only == "golden":
        return
    from tests.acceptance.engine import outcomes

    of_areas: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for outcome in outcomes(cases):
        area = outcome.case.partition("/")[0]
        of_areas[area] += 1
        passed[area] += not outcome.why
        yield outcome.name, outcome.why and f"{outcome.why} <- {' '.join(outcome.sql.split())}"
    for area, count in of_areas.items():
        print(f"{area}: {passed[area]} of {count} statements as Hive answers them")


def _required() -> set[str]:
    lines = REQUIRED.read_text().splitlines() if REQUIRED.exists() else []
    return {line.partition("#")[0].strip() for line in lines} - {""}


def _was_run(line: str, only: str | None, cases: str) -> bool:
    if line.startswith("golden/"):
        return only != "sql"
    return only != "golden" and fnmatch(line.partition(":")[0], cases)


if __name__ == "__main__":
    sys.exit(main())
