"""Every statement of the recorded SQL cases parses, or is refused as Hive refused it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import AcidError
from hiveacid.sql import parse_one


@pytest.fixture(scope="module")
def runner(shared: Path) -> Any:
    """The cases' own runner, for how it splits scripts and reads answers."""
    spec = importlib.util.spec_from_file_location("run_cases", shared / "hive-sql/run_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_statements_that_hive_accepts_parse(shared: Path, runner: Any) -> None:
    scripts = sorted((shared / "hive-sql/cases").glob("*/*.sql"))
    assert scripts
    refused = []
    for script in scripts:
        statements = runner.split_statements(script.read_text(encoding="utf-8"))
        answers = runner.parse_out(script.with_suffix(".out").read_text(encoding="utf-8"))
        refused += [
            (script.stem, text)
            for text, (kind, _) in zip(statements, answers, strict=True)
            if kind != "error" and not _parses(text)
        ]
    assert refused == []


def _parses(text: str) -> bool:
    try:
        parse_one(text)
    except AcidError:
        return False
    return True
