"""Record what real Hive answers to SQL scripts: ``NAME.out`` beside each ``NAME.sql``.

python -m tests.interop.record tests/data/hive_sql/merge/new.sql
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.interop.hive_tool import HiveTool


def main() -> int:
    """Record the scripts that the command line names."""
    scripts = [Path(name).resolve() for name in sys.argv[1:]]
    if not scripts or not all(script.suffix == ".sql" for script in scripts):
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        tool = HiveTool("4.1", Path(scratch), Path(scratch) / "answers")
        tool.prepare()
        print(*tool.record(scripts), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
