"""Only a worker of Spark's takes what it imported from its collector's sight, and once."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc
from hiveacid.spark.jobs import settle
settle()
print(gc.get_freeze_count())
import pyspark.daemon
collected = []
gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
settle()
print(gc.get_freeze_count() > 1000, len(collected))
collected.clear()
settle()
print(len(collected))
"""


def test_what_was_imported_is_settled_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["0", "True 2", "0"]
