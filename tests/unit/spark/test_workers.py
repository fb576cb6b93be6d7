"""The zip for Spark's workers, and what is told where their Python lacks something."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import traceback
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomllib

from hiveacid.errors import AcidError, InvalidInputError, MissingExtraError, StorageError
from hiveacid.spark import workers
from hiveacid.spark.failures import statement_error
from hiveacid.spark.workers import (
    NEEDED,
    libraries,
    make_ready,
    missing_libraries,
    package_zip,
)

LAZY = "import sys; sys.path.insert(0, sys.argv[1]);"
IN_WORKER = (
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
)


def notes(error: BaseException) -> str:
    return " ".join(getattr(error, "__notes__", ()))


def test_the_zip_holds_each_module_as_text_and_compiled_for_this_python(project: Path) -> None:
    path = package_zip()
    assert path is not None and package_zip() == path
    names = set(zipfile.ZipFile(path).namelist())
    package = project / "src" / "hiveacid"
    modules = {str(one.relative_to(package.parent)) for one in package.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    assert {f"{name}c" for name in modules} == {name for name in names if name.endswith(".pyc")}


def test_what_a_task_says_to_do_is_told_by_the_driver() -> None:
    ours = StorageError("no permission for b/x", note="Keys are given by AWS_*.")
    said = "".join(traceback.format_exception_only(ours))
    text = f"{IN_WORKER}Traceback (most recent call last):\n  File x, line 1\n{said}\n\tat org."
    found = statement_error(RuntimeError(text))
    assert type(found) is StorageError and str(found) == "no permission for b/x"
    assert notes(found) == "Keys are given by AWS_*."


@pytest.mark.slow
def test_a_python_without_libraries_runs_the_question_from_the_zip() -> None:
    program = f"{LAZY} import hiveacid.spark.workers as w; print(w.__file__, w.libraries(0))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(package_zip())],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    file, _, answer = done.stdout.partition(" ")
    assert ".zip" in file
    assert json.loads(answer)["versions"] == dict.fromkeys(NEEDED)


@pytest.mark.slow
def test_what_is_compiled_in_the_zip_is_what_is_imported(tmp_path: Path) -> None:
    """A module whose text is no Python any more: it comes from what was compiled."""
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(str(package_zip())) as made, zipfile.ZipFile(broken, "w") as archive:
        for name in made.namelist():
            archive.writestr(name, made.read(name) if name.endswith(".pyc") else b"no python")
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{LAZY} import hiveacid.storage.stage", str(broken)],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    assert done.returncode == 0, done.stderr


def test_whoever_runs_python_in_the_workers_makes_them_ready(project: Path) -> None:
    texts = {path: path.read_text() for path in (project / "src/hiveacid").rglob("*.py")}
    running = {path for path, text in texts.items() if ".mapInArrow(" in text}
    assert len(running) >= 2
    assert [path for path in running if "make_ready(spark)" not in texts[path]] == []


@pytest.mark.slow
def test_two_threads_send_the_package_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As two streams do that begin at once: Spark refuses to copy a file that it is copying."""
    sent: list[str] = []

    class Application:
        master = "yarn"

        def addPyFile(self, file: str) -> None:
            sent.append(file)
            if len(sent) == 1:
                other.start()
                other.join(timeout=0.5)

    spark: Any = SimpleNamespace(sparkContext=Application())
    other = threading.Thread(target=make_ready, args=[spark])
    monkeypatch.setattr(workers, "_check_libraries", lambda _: None)
    make_ready(spark)
    other.join()
    assert sent == [package_zip()]


def test_the_least_versions_are_those_of_the_package(project: Path) -> None:
    listed = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    for name, version in NEEDED.items():
        assert f"{name}>={version}" in listed or not version


def test_these_libraries_are_here() -> None:
    assert missing_libraries("python", json.loads(libraries(0))["versions"]) is None


@pytest.mark.parametrize(
    ("versions", "said", "install"),
    [
        ({"pyarrow": None}, "lacks pyarrow", "'pyarrow>=15'"),
        ({"numpy": "1.20.3"}, "has numpy 1.20.3, older than 1.24", "'numpy>=1.24'"),
        ({"pandas": None}, "lacks pandas", "pandas"),
        (
            {"pyarrow": "9.0.0", "protobuf": None, "numpy": "2.0"},
            "has pyarrow 9.0.0, older than 15 and lacks protobuf",
            "'pyarrow>=15' 'protobuf>=4.25'",
        ),
    ],
)
def test_missing_libraries_are_named(
    versions: dict[str, str | None], said: str, install: str
) -> None:
    error = missing_libraries("/venv/bin/python", {**dict.fromkeys(NEEDED, ""), **versions})
    assert isinstance(error, MissingExtraError)
    assert str(error) == f"The Python of Spark's workers (/venv/bin/python) {said}"
    assert f"/venv/bin/python -m pip install {install}" in notes(error)


@pytest.mark.parametrize(
    ("text", "kind", "said", "note"),
    [
        (
            f"{IN_WORKER}ModuleNotFoundError: No module named 'pyarrow'",
            MissingExtraError,
            "The Python of Spark's workers lacks pyarrow",
            "pip install pyarrow",
        ),
        (
            f"{IN_WORKER}ModuleNotFoundError: No module named 'google.protobuf'",
            MissingExtraError,
            "The Python of Spark's workers lacks protobuf",
            "pip install protobuf",
        ),
        (
            "org.apache.spark.api.python.PythonException: [PACKAGE_NOT_INSTALLED] "
            "Pandas >= 2.2.0 must be installed; however, it was not found.",
            MissingExtraError,
            "The Python of Spark's workers lacks pandas",
            "'pandas>=2.2.0'",
        ),
        (
            f"{IN_WORKER}[UNSUPPORTED_PACKAGE_VERSION] PyArrow >= 18.0.0 must be installed; "
            "however, your version is 10.0.1.",
            MissingExtraError,
            "The Python of Spark's workers has pyarrow 10.0.1, which is too old",
            "'pyarrow>=18.0.0'",
        ),
        (
            f"{IN_WORKER}[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than"
            " that in driver: 3.12, PySpark cannot run with different minor versions.",
            InvalidInputError,
            "run Python 3.9, and this is Python 3.12",
            "PYSPARK_PYTHON",
        ),
        (
            f"{IN_WORKER}[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 9) "
            "than that in driver 3.11, PySpark cannot run with different minor versions.",
            InvalidInputError,
            "run Python 3.9, and this is Python 3.11",
            "PYSPARK_PYTHON",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python3.9": error=2, No such file',
            InvalidInputError,
            "Spark's workers have no /opt/python3.9",
            "PYSPARK_PYTHON",
        ),
    ],
)
def test_failures_of_the_workers_python_are_one_sentence(
    text: str, kind: type[AcidError], said: str, note: str
) -> None:
    error = statement_error(RuntimeError(text))
    assert type(error) is kind
    assert said in str(error) and "\n" not in str(error)
    assert note in notes(error)


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named 'pyarrow'",  # of this process
        f"{IN_WORKER}ModuleNotFoundError: No module named 'numpy_of_mine'",
        f"{IN_WORKER}ModuleNotFoundError: No module named 'mine'",
    ],
)
def test_what_is_not_ours_stays_as_it_is(text: str) -> None:
    error = RuntimeError(text)
    assert statement_error(error) is error
