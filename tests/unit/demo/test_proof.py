"""The demo's proof: it accepts the right tables and notices each way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

duckdb = pytest.importorskip("duckdb")

from hiveacid.demo import program, tpch  # noqa: E402
from hiveacid.errors import InvalidInputError  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tpch.Input:
    """TPC-H input of 1500 orders."""
    return tpch.make(scale=0.001, directory=tmp_path_factory.mktemp("input"))


def tables(made: tpch.Input, folder: Path) -> dict[str, Path]:
    """Both tables as they should be."""
    files = {"orders": made.orders, "lineitem": made.lineitem, "changes": made.changes}
    for name, text in tpch._EXPECTED.items():
        (folder / name).mkdir(parents=True)
        duckdb.sql(f"copy ({text.format(**files)}) to '{folder / name / 'x.parquet'}'")
    return {name: folder / name for name in tpch._EXPECTED}


def rewrite(folder: Path, query: str) -> None:
    """Replace a table by a query over it."""
    old, new = folder / "x.parquet", folder / "y.parquet"
    duckdb.sql(f"copy ({query.format(old=old)}) to '{new}'")
    new.replace(old)


def compare(made: tpch.Input, actual: dict[str, Path], scratch: Path) -> dict[str, tpch.Finding]:
    """Compare, with the joined query's answer taken from the tables as they are."""
    with duckdb.connect() as db:
        for name, folder in actual.items():
            db.execute(f"create view {name} as select * from '{folder}/*.parquet'")
        answer: list[tuple[Any, ...]] = db.execute(program.JOINED).fetchall()
    found = tpch.compare(made, actual=actual, query=program.JOINED, answer=answer, scratch=scratch)
    return {finding.what: finding for finding in found}


def test_the_change_set_updates_deletes_and_inserts_a_tenth(made: tpch.Input) -> None:
    counts = dict(duckdb.sql(f"select op, count(*) from '{made.changes}' group by op").fetchall())
    ((orders,),) = duckdb.sql(f"select count(*) from '{made.orders}'").fetchall()
    assert set(counts) == {"U", "D", "I"}
    assert 0.07 * orders < sum(counts.values()) < 0.13 * orders
    taken = f"'{made.changes}' join '{made.orders}' using (o_orderkey) where op = 'I'"
    assert duckdb.sql(f"select count(*) from {taken}").fetchall() == [(0,)]


def test_right_tables_are_equal(made: tpch.Input, tmp_path: Path) -> None:
    found = compare(made, tables(made, tmp_path / "actual"), tmp_path)
    assert {what: finding.wrong for what, finding in found.items()} == {
        "orders": 0,
        "lineitem": 0,
        "joined query": 0,
    }
    assert found["orders"].rows > 1000


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("select * replace ('x' as o_comment) from '{old}'", None),
        ("select * from '{old}' where o_orderkey <> 1", 1),
        ("select * from '{old}' union all select * from '{old}' where o_orderkey = 1", 1),
        (
            "select * replace (case when o_orderkey = 1 then null else o_clerk end as o_clerk)"
            " from '{old}'",
            1,
        ),
        ("select * exclude (o_clerk) from '{old}'", 1),
    ],
)
def test_wrong_tables_are_not_equal(
    made: tpch.Input, tmp_path: Path, query: str, wrong: int | None
) -> None:
    actual = tables(made, tmp_path / "actual")
    rewrite(actual["orders"], query)
    finding = compare(made, actual, tmp_path)["orders"]
    assert finding.wrong == (wrong or finding.rows)
    assert finding.example


def test_a_wrong_price_shows_in_the_joined_query(made: tpch.Input, tmp_path: Path) -> None:
    actual = tables(made, tmp_path / "actual")
    rewrite(
        actual["lineitem"],
        "select * replace (cast(l_extendedprice + 0.01 as decimal(15, 2)) as l_extendedprice)"
        " from '{old}'",
    )
    assert compare(made, actual, tmp_path)["joined query"].wrong > 0


def test_a_directory_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    with pytest.raises(InvalidInputError, match="not the demo's"):
        program.run(scale=0.001, directory=tmp_path, stream_s=0)
    assert (tmp_path / "warehouse").is_dir()
