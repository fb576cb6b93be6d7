"""A process of a rewrite and the one that asked for it."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_process_ends_with_whoever_was_killed() -> None:
    """Its order is still to come: only that its parent is gone ends it, and with it the output."""
    order, never = os.pipe()
    text = (
        "import os, subprocess, sys\n"
        "what = ['-m', 'hiveacid.compaction.process', str(os.getpid())]\n"
        "subprocess.Popen([sys.executable, *what])\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdin=order, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    parent.kill()
    assert parent.communicate(timeout=60) == (b"", None)
    os.close(order)
    os.close(never)
