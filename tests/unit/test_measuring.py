"""What the benchmarks measure with."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.processes import CpuClock


def test_a_process_that_nobody_saw_alive_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.2: pass"
    clock = CpuClock()
    before = clock()
    subprocess.run([sys.executable, "-c", work], check=True)
    assert clock() - before >= 0.15
