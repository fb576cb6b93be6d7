"""The peers' environment: ``make bench-peers`` makes it, then runs ``make bench`` in it.

It is a virtual environment with the PySpark that they support, and their jars from Maven
(``pom.xml``). ``make bench`` uses it from then on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
VENV: Final = ROOT / ".venv-peers"
PYTHON: Final = VENV / "bin" / "python"
JARS: Final = ROOT / "bench-data" / "jars"
_POM: Final = ROOT / "benchmarks" / "pom.xml"
_PACKAGES: Final = ("pyspark==4.1.4", "pandas>=2,<3")
_JAR_GROUPS: Final = "io.delta,io.unitycatalog,org.apache.iceberg"


def is_installed() -> bool:
    """Whether both are there."""
    return (VENV / ".installed").is_file() and (JARS / ".fetched").is_file()


def is_here() -> bool:
    """Whether this process runs in it."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def run(module: str) -> int:
    """The same command line, by the Python that has the PySpark of the peers."""
    if not is_installed():
        raise SystemExit("bench: the peers are not installed; `make bench-peers` does it")
    command = [str(PYTHON), "-m", module, *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "TZ": "UTC"}
    return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    """Install what is missing, then measure; 2 where it cannot be installed."""
    if shutil.which("mvn") is None:
        print("bench-peers: needs Maven for the peers' jars (apt install maven)", file=sys.stderr)
        return 2
    _make_environment()
    _fetch_jars()
    return run("benchmarks.run")


def _make_environment() -> None:
    stamp = VENV / ".installed"
    wanted = "\n".join(_PACKAGES) + (ROOT / "pyproject.toml").read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing {', '.join(_PACKAGES)} into {VENV.name}", flush=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-e", f"{ROOT}[bench]", *_PACKAGES], check=True)
    stamp.write_text(wanted)


def _fetch_jars() -> None:
    stamp = JARS / ".fetched"
    if stamp.is_file() and stamp.read_text() == _POM.read_text():
        return
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    print("fetching the peers' jars with Maven", flush=True)
    goal = "dependency:copy-dependencies"
    chosen = [f"-DincludeGroupIds={_JAR_GROUPS}", f"-DoutputDirectory={JARS}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(_POM), goal, *chosen], check=True)
    stamp.write_text(_POM.read_text())


if __name__ == "__main__":
    raise SystemExit(main())
