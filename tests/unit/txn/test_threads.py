"""Threads in the background end in order."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import threading, time
from hiveacid.clock import DaemonThreads

begun = threading.Event()

def work():
    begun.set()
    time.sleep(0.5)
    print("ended")

DaemonThreads().every(0.0, work, name="work")
begun.wait()
"""


@pytest.mark.slow
def test_the_end_of_the_process_waits_for_work_under_way() -> None:
    """The interpreter would cut it off, which aborts the process where it is inside Arrow."""
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout == "ended\n"
