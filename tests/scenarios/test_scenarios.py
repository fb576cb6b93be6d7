"""The anomalies, as scripts of several connections; docs/isolation.md is the table of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.metastores import NoThreads
from tests.scenarios.running import Scenario, load_scenarios, run_scenario

from hiveacid.client import open_client
from hiveacid.settings import Settings

SCENARIOS = load_scenarios(Path(__file__).parent)


@pytest.mark.parametrize("several_tables", [False, True], ids=["one table", "several"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_scenario(
    scenario: Scenario, several_tables: bool, metastore_url: str, tmp_path: Path
) -> None:
    client = open_client(
        metastore_url,
        warehouse=str(tmp_path),
        settings=Settings(lock_timeout_s=5),
        threads=NoThreads(),
    )
    try:
        run_scenario(scenario, client, several_tables=several_tables)
    finally:
        client.close()


@pytest.mark.parametrize(
    "steps",
    [
        ("start 1:10", "now 1:11"),
        ("start 1:10", "A begin", "A read 1 = 11"),
        ("start 1:10", "A begin", "A update 1 11", "A commit loses to A on 1"),
        ("start 1:10", "A begin", "B begin", "A update 1 11", "B update 1 12", "A commit",
         "B commit loses to A on 2"),
    ],
)  # fmt: skip
def test_a_script_that_says_otherwise_fails(steps: tuple[str, ...], tmp_path: Path) -> None:
    client = open_client(
        str(tmp_path / "metastore.db"), warehouse=str(tmp_path), threads=NoThreads()
    )
    with pytest.raises(AssertionError, match="wrong step"):
        run_scenario(Scenario("wrong", "", steps), client, several_tables=False)
    client.close()


def test_the_table_in_the_docs_is_that_of_the_scenarios(project: Path) -> None:
    text = (project / "docs" / "isolation.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{one.name}` | {one.title.replace(' (possible)', '')} | "
        f"{'prevented' if one.prevented else 'possible'} |"
        for one in SCENARIOS
    ]
