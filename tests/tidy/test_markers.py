"""Where tests run: markers name rooms that there are, and what changed is told by rooms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy.sources import PACKAGE, ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import changed

ROOMS_OF_FILE = re.compile(r"^ROOMS = \((.*?)\)$", re.M | re.S)
ROOMS = {path.stem for path in PACKAGE.iterdir()}


def test_long_tests_name_the_rooms_that_they_cover() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {written}"
        for path in sorted((ROOT / "tests").glob("[!t]*/**/*.py"))
        for text in [path.read_text("utf-8")]
        for written in re.findall(r"pytest\.mark\.long\b(?:\([^)]*\))?", text)
        for rooms in [_names(ROOMS_OF_FILE.findall(text)[0] if "*ROOMS" in written else written)]
        if written != "pytest.mark.long()" and (not rooms or rooms - ROOMS)
    ]
    assert wrong == []


def _names(text: str) -> set[str]:
    return set(re.findall(r'"(\w+)"', text))


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["src/hiveacid/storage/orc/tail.py", "README.md"], {"storage"}),
        (["src/hiveacid/session.py", "docs/sql.md"], {"session"}),
        (["tests/spark/test_views.py"], {"tests/spark/test_views.py"}),
        (["src/hiveacid/sql/parse.py", "tests/conftest.py"], {"all"}),
        (["pyproject.toml"], {"all"}),
        ([], set()),
    ],
)
def test_changed_files_are_told_by_room(files: list[str], names: set[str]) -> None:
    assert changed.names_of(files) == names


def test_in_a_clone_without_history_everything_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVEACID_BASE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert changed.changed() == {"all"}
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    _git("init", "--quiet", "--initial-branch=main")
    _git(*author, "commit", "--quiet", "--allow-empty", "-m", "first")
    assert changed.changed() == {"all"}
    (tmp_path / "src/hiveacid/sql").mkdir(parents=True)
    (tmp_path / "src/hiveacid/sql/parse.py").touch()
    _git("add", "--all")
    _git(*author, "commit", "--quiet", "-m", "second")
    assert changed.changed() == {"sql"}, "on the main branch: since the commit before"
    _git("switch", "--quiet", "--create", "branch")
    (tmp_path / "src/hiveacid/cli.py").touch()
    _git("add", "--all")
    _git(*author, "commit", "--quiet", "-m", "third")
    _git(*author, "commit", "--quiet", "--allow-empty", "-m", "fourth")
    assert changed.changed() == {"cli"}, "on a branch: since it left main"
    (tmp_path / "src/hiveacid/table.py").touch()
    assert changed.changed() == {"cli", "table"}, "a file that is in no commit yet"
    (tmp_path / "src/hiveacid/table.py").unlink()
    _git("branch", "--quiet", "--delete", "--force", "main")
    assert changed.changed() == set(), "no other branch, no tag: since the commit before"
    _git("tag", "v1", "HEAD~2")
    assert changed.changed() == {"cli"}, "since the last tag"
    _git("tag", "v2")
    assert changed.changed() == {"cli"}, "a tag of the commit itself is no base"
    monkeypatch.setenv("HIVEACID_BASE", "HEAD~1")
    assert changed.changed() == set(), "since the commit that is named"
    monkeypatch.setenv("HIVEACID_BASE", "0000000000000000000000000000000000000000")
    assert changed.changed() == {"all"}, "a new branch has no commit before the push"


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)
