"""What the benchmarks measure with."""

from __future__ import annotations

import subprocess
import sys
from subprocess import PIPE

import pytest
from benchmarks import processes
from benchmarks.processes import CpuClock, Process


def test_a_process_that_nobody_saw_alive_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.2: pass"
    clock = CpuClock()
    before = clock()
    subprocess.run([sys.executable, "-c", work], check=True)
    assert clock() - before >= 0.15


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_process_that_is_waited_for_counts_once() -> None:
    work = "import time\nwhile time.process_time() < 1: pass\nprint()\ninput()"
    clock = CpuClock()
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = clock()
    assert clock() - seen < 0.7


def test_time_goes_on_after_a_process_has_left_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's JVM does whose Python ends before it."""
    mine, another = Process(1, 0, 100, 0, 0), Process(2, 1, 100, 0, 0)
    orphan = Process(3, 2, 900, 0, 0)
    later = Process(1, 0, 350, 100, 0)
    looks = iter([[mine, another, orphan], [Process(1, 0, 200, 100, 0)], [later]])
    monkeypatch.setattr(processes, "family", lambda: next(looks))
    clock = CpuClock()
    found = [round(clock() * processes._TICKS_PER_S) for _ in range(3)]
    assert found == [1100, 1100, 1250]
