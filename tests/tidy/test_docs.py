"""What docs/ says is complete: every error, every command and option, every link."""

from __future__ import annotations

import re
from pathlib import Path

import click
from tests.tidy.sources import ROOT

from hiveacid import errors
from hiveacid.cli.app import app

DOCS = ROOT / "docs"


def test_errors_page_lists_every_error_with_its_kind_and_retry_advice() -> None:
    text = (DOCS / "errors.md").read_text("utf-8")
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.AcidError):
            if value is errors.AcidError:
                continue
            retry = "yes" if value.retry else "no"
            row = rf"\| `{name}`[^|]*\| `{value.kind}` \| {retry} \|"
            assert re.search(row, text), f"docs/errors.md lacks {name} | {value.kind} | {retry}"


def test_command_line_page_names_every_command_and_option() -> None:
    text = (DOCS / "cli.md").read_text("utf-8")
    for name, command in app.commands.items():
        assert f"hiveacid {name}" in text
        assert command.help, f"{name} has no help"
        for option in command.params:
            if isinstance(option, click.Option):
                assert any(flag in text for flag in option.opts), f"{name} {option.opts}"


def test_every_relative_link_in_the_documentation_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
        if not target.startswith("http") and not _exists(page, target)
    ]
    assert not broken


def _exists(page: Path, target: str) -> bool:
    return (page.parent / target).exists()
