"""``make size``: how much source and tests there is, counted by statements of the syntax tree.

Docstrings are no statements. Prints a line for each room of the package and of the tests, then the
totals, tests to source, and what is largest.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hiveacid"
TESTS = ROOT / "tests"
LINE = "{:<16}{:>12}{:>10}{:>11}{:>7}"


@dataclass(frozen=True)
class Count:
    """Of one file, or of several together."""

    statements: int = 0
    imports: int = 0
    functions: int = 0
    files: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.statements + other.statements,
            self.imports + other.imports,
            self.functions + other.functions,
            self.files + other.files,
        )


def count(tree: ast.Module) -> Count:
    """The statements of one file."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _is_text(node)]
    return Count(
        statements=len(nodes),
        imports=sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        files=1,
    )


def _is_text(node: ast.stmt) -> bool:
    """A docstring, of whatever it says something."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def by_room(root: Path) -> dict[str, Count]:
    """The first directory below ``root`` and what lies in it; ``.`` is ``root`` itself."""
    rooms: dict[str, Count] = defaultdict(Count)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        rooms[parts[0] if len(parts) > 1 else "."] += count(_tree(path))
    return dict(rooms)


def total(root: Path) -> Count:
    """All that lies below ``root``."""
    return sum(by_room(root).values(), Count())


def longest_file(root: Path) -> tuple[int, str]:
    """Lines and path."""
    return max(
        (len(path.read_text("utf-8").splitlines()), str(path.relative_to(ROOT)))
        for path in root.rglob("*.py")
    )


def longest_function(root: Path) -> tuple[int, str]:
    """Lines, and where it is."""
    return max(
        (lines, f"{path.relative_to(ROOT)}:{name}")
        for path in root.rglob("*.py")
        for name, lines in functions(_tree(path))
    )


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The name of each function and how many lines it has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _table(root: Path) -> Count:
    rooms = by_room(root)
    print(LINE.format(str(root.relative_to(ROOT)), "statements", "imports", "functions", "files"))
    for room, counted in sorted(rooms.items(), key=lambda item: -item[1].statements):
        print(_line(room, counted))
    together = total(root)
    print(_line("total", together))
    for what, (lines, where) in {
        "longest file": longest_file(root),
        "longest function": longest_function(root),
    }.items():
        print(f"{what}: {lines} lines, {where}")
    print()
    return together


def _line(room: str, counted: Count) -> str:
    return LINE.format(
        f"  {room}", counted.statements, counted.imports, counted.functions, counted.files
    )


def main() -> int:
    """Print it all."""
    source, tests = _table(SOURCE), _table(TESTS)
    print(f"tests : source = {tests.statements / source.statements:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
