"""Laws 6, 8, 9 and the sizes of the house style."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import ROOT, Source, sources, tracked_files

from hiveacid import errors

LINES_MAX = 500
FUNCTION_LINES_MAX = 60
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_law_6_the_banned_calls_are_found_and_named_with_their_replacement() -> None:
    ruff = [sys.executable, "-m", "ruff", "check", "--output-format", "json"]
    found = subprocess.run(
        [*ruff, "--select", "TID251", "--stdin-filename", "src/hiveacid/layout/x.py", "-"],
        input="import random, time\nrandom.random()\ntime.sleep(1)\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    messages = " ".join(item["message"] for item in json.loads(found.stdout))
    assert "ask the Clock: sleep_s()" in messages
    assert "chance is handed in" in messages


def test_law_8_every_public_name_has_a_docstring() -> None:
    inherited = _of_protocols()
    missing = [
        f"{source.module}:{node.lineno} {node.name}"
        for source in sources()
        for node in _public(source.tree)
        if not ast.get_docstring(node)
        and not _needs_none(node)
        and node not in _inheriting(source.tree, inherited)
    ]
    assert not missing, "\n".join(missing)


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[Documented]:
    for node in tree.body:
        if isinstance(node, Documented) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def _of_protocols() -> dict[str, set[str]]:
    """The documented methods of each protocol."""
    return {
        node.name: {one.name for one in _public(node) if ast.get_docstring(one)}
        for source in sources()
        for node in _public(source.tree)
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
    }


def _inheriting(tree: ast.Module, protocols: dict[str, set[str]]) -> list[Documented]:
    """The methods whose documentation is that of a protocol which their class names as a base."""
    return [
        node
        for made in tree.body
        if isinstance(made, ast.ClassDef)
        for node in _public(made)
        if any(node.name in protocols.get(ast.unparse(base), ()) for base in made.bases)
    ]


def _needs_none(node: Documented) -> bool:
    """An override says so itself; an overload's documentation is the implementation's."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"override", "overload", "setter"})


def test_law_8_every_error_raised_is_one_of_our_tree() -> None:
    ours = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.AcidError)
    }
    wrong = [
        f"{source.module}:{node.lineno} raises {name}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Raise)
        for name in [_raised(node)]
        if name[:1].isupper() and name not in ours and not _allowed(source, name)
    ]
    assert not wrong, "\n".join(wrong)


def _raised(node: ast.Raise) -> str:
    """The class named; a variable or a function that makes the error has a lower-case name."""
    target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return ast.unparse(target).rpartition(".")[2] if target else ""


def _allowed(source: Source, name: str) -> bool:
    if name == "AttributeError":  # the protocol of __getattr__, and of properties made at run time
        return "def __getattr__" in source.text or "property(" in source.text
    if source.room == "cli" and name in {"UsageError", "Exit", "BadParameter"}:
        return True
    return source.room == "testing" or name in _caught(source)


def _caught(source: Source) -> set[str]:
    """What the module itself catches: raised and mapped within it."""
    return {
        name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and node.type
        for name in re.findall(r"\w+", ast.unparse(node.type))
    }


def test_law_9_each_room_says_what_lives_here_what_never_comes_in_and_what_to_read_first() -> None:
    for source in sources():
        if source.is_package and source.module.count(".") == 1:
            text = ast.get_docstring(source.tree) or ""
            assert len(text.splitlines()) >= 3, f"{source.module} has no room docstring"
            assert re.search(r"[Nn]ever|[Nn]o |[Nn]othing", text), (
                f"{source.module}: what never comes in?"
            )
            assert re.search(r"[Rr]ead|[Ss]tart", text), f"{source.module}: what to read first?"


def test_every_module_says_what_it_is() -> None:
    assert not [s.module for s in sources() if not ast.get_docstring(s.tree)]


def test_modules_and_what_is_in_them_are_where_docstrings_and_comments_say() -> None:
    """``room.module.name`` and ``module.py``; ``spark`` and ``txn`` are names of objects, too."""
    texts = {source.module.removeprefix("hiveacid."): source.text for source in sources()}
    rooms = {name.partition(".")[0] for name in texts if "." in name} - {"spark", "txn"}
    files = {f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files()}
    dotted = [
        (module, named)
        for module, text in texts.items()
        for named in re.findall(r"``([a-z_]+(?:\.\w+)+)``", text)
        if named.partition(".")[0] in rooms
    ]
    paths = [
        (module, named)
        for module, text in texts.items()
        for named in re.findall(r"``([\w/]+\.py)(?::\w+)?``", text)
    ]
    assert not [one for one in dotted if not _is_there(one[1], texts)]
    assert not [one for one in paths if not any(file.endswith(f"/{one[1]}") for file in files)]


def _is_there(named: str, texts: dict[str, str]) -> bool:
    parts = named.split(".")
    for at in range(len(parts), 0, -1):
        text = texts.get(".".join(parts[:at]))
        if text is not None:
            return at == len(parts) or re.search(rf"\b{parts[at]}\b", text) is not None
    return False


def test_files_have_at_most_500_lines() -> None:
    counted = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in _python_files()
    }
    wrong = {name: lines for name, lines in counted.items() if lines > LINES_MAX}
    assert not wrong


def test_functions_have_at_most_60_lines() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}:{node.name}": lines
        for path in _python_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for lines in [(node.end_lineno or 0) - node.lineno + 1]
        if lines > FUNCTION_LINES_MAX
    }
    assert not wrong


def _python_files() -> Iterator[Path]:
    for top in ("src", "tests", "benchmarks", "scripts"):
        yield from sorted((ROOT / top).rglob("*.py"))


def test_no_tracked_file_names_a_machine_path_or_a_package_registry_host() -> None:
    patterns = [
        r"/(?:home|root|Users|work)/[A-Za-z]",
        r"/tmp/[a-z]+_jobs",
        r"https?://[^\s/]*(?:pypi|pythonhosted|artifactory|nexus|registry|proxy)[^\s/]*/",
        r"--(?:extra-)?index-url",
    ]
    wrong = []
    for path in tracked_files():
        if (
            path.suffix in {".orc", ".parquet", ".gz"}
            or path == ROOT / "tests/tidy/test_sources.py"
        ):
            continue
        text = path.read_text("utf-8", errors="replace")
        wrong += [f"{path.relative_to(ROOT)}: {m}" for p in patterns for m in re.findall(p, text)]
    assert not wrong, "\n".join(wrong)
