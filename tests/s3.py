"""A server that speaks S3 for tests: moto, in a process of its own, over HTTP.

What was asked of it is read from its log, so requests are counted where they arrive.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

_ADDRESS: Final = re.compile(r"Running on (http://[\d.]+:\d+)")
_REQUEST: Final = re.compile(r'"(?:\x1b\[[\d;]*m)*([A-Z]+) (\S+) HTTP/')
_WAIT_S: Final = 300


class S3Server:
    """Hands out buckets; ``settings`` are those of a session that reaches them."""

    def __init__(self, endpoint: str, log: Path) -> None:
        self.endpoint = endpoint
        self._log = log
        self._numbers = count(1)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of hiveacid."""
        return {
            "hiveacid.s3.endpoint": self.endpoint,
            "hiveacid.s3.region": "us-east-1",
            "hiveacid.s3.access_key": "tester",
            "hiveacid.s3.secret_key": "tester's-secret",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "tester's-secret",
        }

    @property
    def hadoop(self) -> dict[str, str]:
        """The same as Hadoop's s3a calls them."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "tester",
            "fs.s3a.secret.key": "tester's-secret",
        }

    def bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{next(self._numbers)}"
        with urlopen(Request(f"{self.endpoint}/{name}", method="PUT")):
            return name

    @contextmanager
    def requests(self) -> Iterator[list[str]]:
        """The list is filled at the end of the block, with each request that arrived in it:
        ``PUT``, ``GET``, ``HEAD``, ``DELETE``, ``POST``, ``COPY`` or ``LIST``, and its path.
        """
        made: list[str] = []
        start = self._log.stat().st_size
        yield made
        with urlopen(f"{self.endpoint}/?end-of-block"):
            pass
        text = ""
        while "end-of-block" not in text:  # the log is written after the answer
            text = self._log.read_bytes()[start:].decode()
        for verb, path in _REQUEST.findall(text):
            if "end-of-block" not in path:
                made.append(f"{'LIST' if 'list-type=' in path else verb} {path}")


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        with log.open("wb") as out:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
            process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield S3Server(_address(log, process), log)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def variables(environment: Mapping[str, str]) -> Iterator[None]:
    """Within the block they are those of this process."""
    saved = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, text in saved.items():
            os.environ.pop(name)
            if text is not None:
                os.environ[name] = text


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and process.poll() is None:
        found = _ADDRESS.search(log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"moto did not start: {log.read_text()}")
