"""A standalone cluster of Spark on this machine: a master, workers with directories of their own,
and a Python for them that lacks hiveacid.
"""

from __future__ import annotations

import os
import re
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

import pyspark

LIBRARIES: Final = (
    *("pyarrow", "numpy", "pandas", "protobuf", "python-dateutil", "pytz", "tzdata", "six"),
    *("hdfs-native", "fsspec", "typing-extensions"),
)
"""What Spark's workers need besides hiveacid, which is sent to them."""
_DEPLOY: Final = "org.apache.spark.deploy"
_HERE: Final = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


def make_python(root: Path, *, without: str | None = None) -> str:
    """Makes a virtual environment with libraries of this one and without hiveacid; the path of its
    Python.
    """
    venv.create(root, with_pip=False, symlinks=True)
    (site,) = root.glob("lib/python*/site-packages")
    for library in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):  # not each pandas needs each
            if library != without:
                _link(site, library)
    python = root / "bin" / "python"
    lacking = subprocess.run([python, "-c", "import hiveacid"], capture_output=True, env={})
    assert b"No module named 'hiveacid'" in lacking.stderr
    return str(python)


def _link(site: Path, library: str) -> None:
    """Let an environment have a library of this one."""
    distribution = metadata.distribution(library)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        (site / top).symlink_to(Path(str(distribution.locate_file(top))))


def environment() -> dict[str, str]:
    """Without what leads any Python to hiveacid."""
    left = ("PYTHONPATH", "PYSPARK_PYTHON")
    kept = {name: text for name, text in os.environ.items() if name not in left}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(slots=True)
class Cluster:
    """A master, and the workers that were added to it; each takes a core for each application."""

    url: str
    _stack: ExitStack = field(repr=False)

    def add_worker(self, directory: Path, *, cores: int) -> int:
        """Another worker; its process id."""
        directory.mkdir(exist_ok=True)
        size = ("--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(directory))
        _, process = self._stack.enter_context(
            _daemon(
                *(f"{_DEPLOY}.worker.Worker", *_HERE, *size, self.url),
                until=r"(Successfully) registered",
                local=directory,
            )
        )
        return process


@contextmanager
def cluster() -> Iterator[Cluster]:
    """One without workers, for as long as the block lasts."""
    with ExitStack() as stack:
        url, _ = stack.enter_context(
            _daemon(f"{_DEPLOY}.master.Master", *_HERE, until=r"Starting Spark master at (\S+)")
        )
        yield Cluster(url, stack)


@contextmanager
def _daemon(*command: str, until: str, local: Path | None = None) -> Iterator[tuple[str, int]]:
    """A Spark daemon, from the line of its log that matches ``until`` on; what that line says, and
    the process id.
    """
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    own = {"SPARK_DAEMON_MEMORY": "256m"} | ({"SPARK_LOCAL_DIRS": str(local)} if local else {})
    with subprocess.Popen(
        [str(script), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), **own},
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found = re.search(until, line)
                if found:
                    break
            else:
                raise RuntimeError(f"{command[0]} has ended")
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
            yield found[1], process.pid
        finally:
            process.terminate()
        drain.wait()
