"""What the benchmarks measure with."""

from __future__ import annotations

import subprocess
import sys
from subprocess import PIPE

from benchmarks.processes import CpuClock


def test_a_process_that_nobody_saw_alive_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.2: pass"
    clock = CpuClock()
    before = clock()
    subprocess.run([sys.executable, "-c", work], check=True)
    assert clock() - before >= 0.15


def test_a_process_that_ends_without_anybody_waiting_still_counts() -> None:
    """Spark's daemon of Python workers lets the system reap them."""
    daemon = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    while time.process_time() < 0.3: pass
    print("busy", flush=True)
    time.sleep(60)
sys.stdin.readline()
os.kill(pid, signal.SIGKILL)
try:
    os.wait()
except ChildProcessError:
    print("reaped", flush=True)
sys.stdin.readline()
"""
    clock = CpuClock()
    command = [sys.executable, "-c", daemon]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        seen = clock()
        process.stdin.write("\n")
        assert process.stdout.readline() == "reaped\n"
        work = "import time\nwhile time.process_time() < 0.2: pass"
        subprocess.run([sys.executable, "-c", work], check=True)
        assert clock() - seen >= 0.15
        process.stdin.write("\n")


def test_a_process_that_is_waited_for_counts_once() -> None:
    work = "import time\nwhile time.process_time() < 1: pass\nprint()\ninput()"
    clock = CpuClock()
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = clock()
    assert clock() - seen < 0.7
