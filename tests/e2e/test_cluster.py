"""Workers whose Python lacks hiveacid get it; what cannot be sent to them is named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import standalone

pytestmark = [pytest.mark.java, pytest.mark.long("spark", "session"), pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("cluster.py")
DONE = {
    "insert": 6,
    "update": 1,
    "rows": [[0, "0"], [2, "x"], [3, "3"], [4, "4"], [5, "5"]],
}


@pytest.fixture(scope="module")
def make_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes a Python with the libraries of this one and without hiveacid."""

    def make(name: str, *, without: str | None = None) -> str:
        return standalone.make_python(tmp_path_factory.mktemp("pythons") / name, without=without)

    return make


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone cluster of one worker."""
    with standalone.cluster() as cluster:
        cluster.add_worker(tmp_path_factory.mktemp("work"), cores=1)
        yield cluster.url


def came_to(where: Path, master: str, *pythons: str) -> dict[str, Any]:
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(where), master, *pythons],
        capture_output=True,
        text=True,
        check=False,
        env={**standalone.environment(), "PYTHONPATH": source},
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
