"""Names of what changed since the branch began, for ``pytest --changed``.

Rooms of the package (``storage`` for a file of ``src/hiveacid/storage``, ``session`` for
``src/hiveacid/session.py``) and paths of tests, with commas between; ``all`` where that cannot be
told, or where something changed that every test stands on. HIVEACID_BASE names the commit to
compare with: a CI that is told of a push of many commits sets it to the commit before the push.
Else it is where the branch left ``origin/main`` or ``main``. On that branch itself, and in a clone
that has no other, it is the last tag, so that nothing since the last release is left out; where
there is none, the commit before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import PurePosixPath

EVERYTHING = {"pyproject.toml", "Makefile", "tests/conftest.py"}
MAIN = ("origin/main", "origin/HEAD", "main")


def main() -> int:
    """Print them."""
    print(",".join(sorted(changed())))
    return 0


def changed() -> set[str]:
    """The names."""
    base = _base()
    files = None if base is None else _git("diff", "--name-only", base)
    new = _git("ls-files", "--others", "--exclude-standard", "--full-name") or ""
    return {"all"} if files is None else names_of([*files.splitlines(), *new.splitlines()])


def names_of(files: list[str]) -> set[str]:
    """Of changed files, paths from the root of the checkout."""
    found: set[str] = set()
    for name in files:
        parts = PurePosixPath(name).parts
        if name in EVERYTHING:
            return {"all"}
        if parts[:2] == ("src", "hiveacid"):
            found.add(parts[2].removesuffix(".py"))
        elif parts[0] == "tests":
            found.add(name)
    return found


def _base() -> str | None:
    given = os.environ.get("HIVEACID_BASE")
    if given:
        return _git("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}")
    head = _git("rev-parse", "HEAD")
    bases = [base for base in (_git("merge-base", "HEAD", name) for name in MAIN) if base]
    left_at = next((base for base in bases if base != head), None)
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD~1")
    return left_at or tag or _git("rev-parse", "--verify", "--quiet", "HEAD~1")


def _git(*arguments: str) -> str | None:
    """What git prints; None where it fails, as in a clone without history."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
