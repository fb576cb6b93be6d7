"""The README's example, as it stands there, prints what the README says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_example_prints_what_the_readme_says(spark: SparkSession, project: Path) -> None:
    text = (project / "README.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    code, expected = found.groups()
    assert len([line for line in code.splitlines() if line]) <= 20
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), names)
    names["acid"].close()  # type: ignore[attr-defined]
    assert "\n".join(_stripped(printed.getvalue())) == "\n".join(_stripped(expected))
    assert spark.range(1).count() == 1, "the example ended the session"


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
