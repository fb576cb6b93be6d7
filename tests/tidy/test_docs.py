"""What docs/ says is complete: every error, every command and option, every link."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.tidy.sources import ROOT, tracked_files

from hiveacid import errors
from hiveacid.cli.app import app

DOCS = ROOT / "docs"
ARCHITECTURE_LINES_MAX = 120
IN_REPOSITORY = re.compile(r"https://github\.com/hiveacid/hiveacid/(?:blob|tree)/main/")


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


def test_every_link_to_a_file_of_the_project_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in _pages()
        for target in _links(page)
        if not _leads_somewhere(page, target)
    ]
    assert not broken


def test_the_readme_links_absolutely_for_it_is_shown_on_package_indexes_too() -> None:
    links = _links(ROOT / "README.md")
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    pages = {path.name for path in DOCS.iterdir()} - {"README.md"}
    assert [name for name in sorted(pages) if f"]({name}" not in index] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/ARCHITECTURE.md"])
def test_files_and_directories_that_a_page_names_are_there(name: str) -> None:
    written = re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.toml))`", (ROOT / name).read_text("utf-8"))
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files()]
    missing = [
        path
        for path in written
        if not any(
            f"/{path}" in file if path.endswith("/") else file.endswith(f"/{path}")
            for file in files
        )
    ]
    assert written
    assert missing == []


def test_a_bug_lives_where_the_table_says() -> None:
    text = (DOCS / "ARCHITECTURE.md").read_text("utf-8")
    assert len(text.splitlines()) <= ARCHITECTURE_LINES_MAX
    rows = re.findall(r"^\| .+ \| (`.+`) \|$", text.partition("lives in ...")[2], re.M)
    named = re.findall(r"`([\w/]+\.py):?(\w*)`", text)
    wrong = [f"{path}:{name}" for path, name in named if not _is_there(path, name)]
    assert len(rows) >= 20
    assert wrong == [], "docs/ARCHITECTURE.md names what has moved"


def test_every_make_target_that_is_named_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    workflows = [*(ROOT / ".github" / "workflows").iterdir()]
    called = {
        name
        for page in [*_pages(), *workflows, ROOT / ".ci" / "run", ROOT / ".pre-commit-config.yaml"]
        for name in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.M)
    }
    listed = re.findall(r"target: \[(.*)\]", "\n".join(one.read_text("utf-8") for one in workflows))
    called |= {name.strip(' "').split(" ")[0] for line in listed for name in line.split(",")}
    assert len(called) >= 10
    assert called <= targets


def test_contributing_says_which_tests_are_of_each_room() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Which tests")[2]
    package = ROOT / "src" / "hiveacid"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py")} - {"__init__.py", "version.py"}
    assert [room for room in sorted(rooms) if f"`{room}`" not in table] == []


def _is_there(path: str, name: str) -> bool:
    """Whether a file of the package, named by the end of its path, has such a function, class or
    value.
    """
    files = (ROOT / "src" / "hiveacid").rglob(f"*{path.rpartition('/')[2]}")
    texts = [one.read_text("utf-8") for one in files if one.as_posix().endswith(f"/{path}")]
    defined = re.compile(rf"^\s*(?:(?:def|class) {name}\b|{name}\b.*=)", re.M)
    return any(not name or defined.search(text) for text in texts)


def _pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / ".github").rglob("*.md")]


def _links(page: Path) -> list[str]:
    """Targets of links, in place and by reference."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.M)


def _leads_somewhere(page: Path, target: str) -> bool:
    """Links elsewhere are not followed; those within a page are headings of it."""
    within = IN_REPOSITORY.match(target)
    name, _, heading = (target[within.end() :] if within else target).partition("#")
    if not within and re.match(r"https?://|mailto:", target):
        return True
    path = (ROOT if within else page.parent) / name if name else page
    return path.exists() and (not heading or heading in _anchors(path))


def _anchors(page: Path) -> set[str]:
    """Those that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
