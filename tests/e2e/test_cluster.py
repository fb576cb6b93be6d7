"""Workers whose Python lacks hiveacid get it; what cannot be sent to them is named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = [pytest.mark.java, pytest.mark.long("spark", "session"), pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("cluster.py")
LIBRARIES = ("pyarrow", "numpy", "pandas", "protobuf", "python-dateutil", "pytz", "tzdata", "six")
DONE = {
    "insert": 6,
    "update": 1,
    "rows": [[0, "0"], [2, "x"], [3, "3"], [4, "4"], [5, "5"]],
}


def link(site: Path, library: str) -> None:
    """Let an environment have a library of this one."""
    distribution = metadata.distribution(library)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        (site / top).symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def make_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes a virtual environment with libraries of this one and without hiveacid; the path of its
    Python.
    """

    def make(name: str, *, without: str | None = None) -> str:
        root = tmp_path_factory.mktemp("pythons") / name
        venv.create(root, with_pip=False, symlinks=True)
        (site,) = root.glob("lib/python*/site-packages")
        for library in LIBRARIES:
            with suppress(metadata.PackageNotFoundError):  # not each pandas needs each
                if library != without:
                    link(site, library)
        python = root / "bin" / "python"
        lacking = subprocess.run([python, "-c", "import hiveacid"], capture_output=True, env={})
        assert b"No module named 'hiveacid'" in lacking.stderr
        return str(python)

    return make


def environment() -> dict[str, str]:
    """Without what leads any Python to hiveacid."""
    left = ("PYTHONPATH", "PYSPARK_PYTHON")
    return {name: text for name, text in os.environ.items() if name not in left}


@contextmanager
def started(*command: str, until: str) -> Iterator[str]:
    """A Spark daemon, from the line of its log that matches ``until`` on; what that line says."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with subprocess.Popen(
        [str(script), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found = re.search(until, line)
                if found:
                    break
            else:
                pytest.fail(f"{command[0]} has ended")
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
            yield found[1]
        finally:
            process.terminate()
        drain.wait()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone cluster of one worker."""
    work = str(tmp_path_factory.mktemp("work"))
    deploy = "org.apache.spark.deploy"
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        url = stack.enter_context(
            started(f"{deploy}.master.Master", *local, until=r"Starting Spark master at (\S+)")
        )
        size = ("--cores", "1", "--memory", "1g", "--work-dir", work)
        worker = started(
            f"{deploy}.worker.Worker", *local, *size, url, until=r"(Successfully) registered"
        )
        stack.enter_context(worker)
        yield url


def came_to(where: Path, master: str, *pythons: str) -> dict[str, Any]:
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(where), master, *pythons],
        capture_output=True,
        text=True,
        check=False,
        env={**environment(), "PYTHONPATH": source, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", ["standalone", "connect"])
def test_statements_run_on_workers_without_hiveacid(
    kind: str, request: pytest.FixtureRequest, make_python: Callable[..., str], tmp_path: Path
) -> None:
    if kind == "connect":
        pytest.importorskip("grpc")
    url = "connect" if kind == "connect" else request.getfixturevalue("master")
    whole, bare = make_python("whole"), make_python("bare", without="pyarrow")
    found = came_to(tmp_path, url, *([whole, bare] if kind == "standalone" else [whole]))
    if kind == "connect":
        found |= came_to(tmp_path, url, bare)  # a server's Python is that of its start
    assert found[whole] == DONE
    assert found[bare] == {
        "error": "MissingExtraError",
        "text": f"The Python of Spark's workers ({bare}) lacks pyarrow",
        "notes": [f"On each machine of the cluster: {bare} -m pip install 'pyarrow>=15'"],
    }
