"""The command line, in this process or in one of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from hiveacid.cli import main

Done = subprocess.CompletedProcess[str]


def run(*arguments: str) -> Done:
    """As ``hiveacid ARGUMENTS`` does, without another interpreter: output and status."""
    command = ["hiveacid", *arguments]
    out, errors = _Text(), _Text()
    status: Any = 0
    with redirect_stdout(out), redirect_stderr(errors), patch.object(sys, "argv", command):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    return subprocess.CompletedProcess(command, status, out.text(), errors.text())


def run_apart(*arguments: str) -> Done:
    """The same in a process of its own."""
    command: Sequence[str] = [sys.executable, "-m", "hiveacid.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class _Text(io.TextIOWrapper):
    """A stream with a buffer below it, as that of a process has."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """All that was written."""
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8")
