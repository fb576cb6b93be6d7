"""``make accept``: what real Hive answered, statement by statement and table by table.

The golden tables are read without Spark; the SQL cases run on Spark. Each passing one stands in
``required.txt``, as ``golden/NAME`` or ``AREA/NAME:STATEMENT``, and must pass from then on.

    python tests/acceptance/run.py                      the required ones decide
    python tests/acceptance/run.py --only golden -v     say what does not pass, and why
    python tests/acceptance/run.py --record             write required.txt anew from what passes
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared"
REQUIRED = HERE / "required.txt"
HEADER = """\
# What must pass in `make accept`: golden tables, and statements of the SQL cases.
# `python tests/acceptance/run.py --record` writes this file from what passes; it only grows.
"""


def main() -> int:
    """Run; 0 where all that is required passes."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--only", choices=["golden", "sql"])
    arguments.add_argument("--cases", default="*", help="glob over AREA/NAME of the SQL cases")
    arguments.add_argument("--record", action="store_true", help="write required.txt anew")
    arguments.add_argument("-v", "--verbose", action="store_true")
    given = arguments.parse_args()
    sql = _load(SHARED / "hive-sql" / "run_cases.py")
    required = _required()
    passed: set[str] = set()
    if given.only != "sql":
        passed |= _golden(sql, verbose=given.verbose)
    if given.only != "golden":
        passed |= _sql_cases(sql, cases=given.cases, verbose=given.verbose)
    if given.record:
        kept = {line for line in required if not _was_run(line, given.only, given.cases)}
        REQUIRED.write_text(HEADER + "".join(f"{line}\n" for line in sorted(kept | passed)))
        print(f"{REQUIRED.relative_to(ROOT)}: {len(kept | passed)} required")
        return 0
    missed = sorted(line for line in required - passed if _was_run(line, given.only, given.cases))
    print(*[f"REQUIRED BUT NOT PASSED: {line}" for line in missed], sep="\n")
    print(f"accept: {len(passed)} passed, {len(missed)} required ones did not")
    return 1 if missed else 0


def _load(path: Path) -> ModuleType:
    """The SQL runner, under the name by which it looks itself up."""
    spec = importlib.util.spec_from_file_location("run_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_cases"] = module
    spec.loader.exec_module(module)
    return module


def _required() -> set[str]:
    if not REQUIRED.exists():
        return set()
    return {line.partition("#")[0].strip() for line in REQUIRED.read_text().splitlines()} - {""}


def _was_run(line: str, only: str | None, cases: str) -> bool:
    from fnmatch import fnmatch

    if line.startswith("golden/"):
        return only != "sql"
    return only != "golden" and fnmatch(line.partition(":")[0], cases)


def _golden(sql: ModuleType, *, verbose: bool) -> set[str]:
    sys.path.insert(0, str(HERE))
    import golden

    cells = golden.Cells(render=sql.render, same_row=sql.same_row)
    passed = set()
    folders = sorted(path for path in (SHARED / "golden").iterdir() if path.is_dir())
    for folder in folders:
        why = golden.compare(folder, cells)
        if not why:
            passed.add(f"golden/{folder.name}")
        elif verbose:
            print(f"golden/{folder.name}: {why}")
    print(f"golden tables: {len(passed)} of {len(folders)} read as Hive read them")
    return passed


def _sql_cases(sql: ModuleType, *, cases: str, verbose: bool) -> set[str]:
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        sys.path.insert(0, str(HERE))
        options = ["--adapter", "adapter:HiveAcid", "--json", str(result), "--only", cases]
        sql.main([*options, *(["-v"] if verbose else [])])
        statements = json.loads(result.read_text()) if result.exists() else []
    return {f"{s['case']}:{s['index']}" for s in statements if s["status"] == "pass"}


if __name__ == "__main__":
    sys.exit(main())
