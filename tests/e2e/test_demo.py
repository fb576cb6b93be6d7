"""The demo, small, in a process of its own: it says `equal` and leaves with status 0."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.java
@pytest.mark.long("demo", "session", "statements", "streaming", "connectors")
@pytest.mark.timeout(600)
def test_the_demo_says_equal(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hiveacid.cli",
            "demo",
            "--scale",
            "0.001",
            "--stream",
            "3",
            "--dir",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT equal" not in done.stdout
    for what in ("orders", "lineitem", "orders_stream", "lineitem_stream", "joined query"):
        assert re.search(rf"equal {what}: [\d,]+ rows", done.stdout)
    assert "delete_delta_0000002_0000002_0000" in done.stdout, "the tree"
    assert re.search(r"COMPACT orders .* base_0000002_v\d+ instead of \d+ directories", done.stdout)
    assert re.search(r"MERGE .* updated, .* deleted, .* inserted", done.stdout)
