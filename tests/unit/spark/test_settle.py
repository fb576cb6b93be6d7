"""Only a worker of Spark's takes what it imported from its collector's sight, and once; and it
does not read the contents of Spark's archives again for each task.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

_PROGRAM = """
import gc
from hiveacid.spark.jobs import settle
settle()
print(gc.get_freeze_count())
import pyspark.daemon
collected = []
gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
settle()
print(gc.get_freeze_count() > 1000, len(collected))
collected.clear()
settle()
print(len(collected))
"""


@pytest.mark.slow
def test_what_was_imported_is_settled_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["0", "True 2", "0"]


_ARCHIVES = """
import importlib, sys, zipimport
sys.path += sys.argv[1:]
import of_spark.inner, of_user.inner
from hiveacid.spark.jobs import settle
import pyspark.daemon
read = []
contents = zipimport._read_directory
zipimport._read_directory = lambda path: read.append(path) or contents(path)
settle()
importlib.invalidate_caches()
import also_of_spark.inner, also_of_user.inner
print(len([path for path in read if path.endswith("pyspark.zip")]))
"""


@pytest.mark.slow
def test_archives_of_spark_are_not_read_again_and_still_imported_from(tmp_path: Path) -> None:
    paths = [tmp_path / "pyspark.zip", tmp_path / "users.zip"]
    for path, names in zip(paths, ("of_spark", "of_user"), strict=True):
        with ZipFile(path, "w") as archive:
            for name in (names, f"also_{names}"):
                archive.writestr(f"{name}/__init__.py", "")
                archive.writestr(f"{name}/inner.py", "")
    done = subprocess.run(
        [sys.executable, "-c", _ARCHIVES, *map(str, paths)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["0"]
