"""The package's source files, parsed once: what the tests of the laws look at."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hiveacid"


@dataclass(frozen=True)
class Source:
    """One module: its dotted name, room (`hiveacid.sql.parse` lives in `sql`), text and tree."""

    path: Path
    module: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The first name below `hiveacid`; empty for the package itself."""
        return self.module.partition(".")[2].partition(".")[0]

    @property
    def is_package(self) -> bool:
        """Whether this is an `__init__.py`."""
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Import:
    """`target` is the module, or the name in it, that the statement on `line` names."""

    source: Source
    line: int
    target: str

    @property
    def top(self) -> str:
        """The distribution's top-level name."""
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.source.path.relative_to(ROOT)}:{self.line} imports {self.target}"


@cache
def sources() -> tuple[Source, ...]:
    """All modules of the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        text = path.read_text(encoding="utf-8")
        found.append(Source(path, ".".join(parts), text, ast.parse(text)))
    return tuple(found)


@cache
def imports() -> tuple[Import, ...]:
    """Every import, those inside functions and under TYPE_CHECKING included."""
    found = []
    for source in sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                found += [Import(source, node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.module, "relative imports are banned"
                found += [
                    Import(source, node.lineno, f"{node.module}.{alias.name}")
                    for alias in node.names
                ]
    return tuple(found)


def tracked_files() -> Iterator[Path]:
    """What the repository holds."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return (ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())
