"""Arguments of natural wrong types end in errors of ours that name them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.wrong_arguments import bare_errors

import hiveacid
from hiveacid.errors import AcidError, InvalidInputError, SparkNeededError


@pytest.mark.slow
def test_no_wrong_argument_ends_in_a_bare_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a name is a path, too
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "w")) as acid:
        wrong = list(bare_errors(acid, tmp_path))
    assert not wrong, "\n".join(wrong)


def test_arguments_too_many_are_told_with_the_function(tmp_path: Path) -> None:
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid:
        table = acid.create_table("t", "id int")
        with pytest.raises(TypeError, match=r"delete\(\) takes from 1 to 2 positional"):
            table.delete("id = 1", "id = 2")  # type: ignore[call-arg]


def test_an_empty_list_is_told_as_such(tmp_path: Path) -> None:
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid:
        table = acid.create_table("t", "id int")
        with pytest.raises(
            InvalidInputError, match="data is an empty list, which tells no columns"
        ):
            table.write_arrow([])


@pytest.mark.parametrize("value", ["'abc'", "1e3"])
def test_values_that_spark_must_cast_ask_for_it_where_pyspark_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for module in [m for m in sys.modules if m.startswith(("pyspark", "hiveacid.spark."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid:
        acid.create_table("t", "id int")
        with pytest.raises(SparkNeededError):
            acid.sql(f"insert into t values ({value})")


def test_a_url_alone_goes_without_spark(tmp_path: Path) -> None:
    url, warehouse = f"sqlite:///{tmp_path}/m.db", tmp_path / "wh"
    with hiveacid.connect(url, warehouse=warehouse) as acid:
        assert acid.sql("show tables") is not None
        with pytest.raises(SparkNeededError):
            acid.spark  # noqa: B018 - asking is what fails
    for arguments, name in ((None, None), "url"), ((url, url), "spark"):
        with pytest.raises(InvalidInputError, match=f"{name} is "):
            hiveacid.connect(*arguments)


@pytest.mark.parametrize("count", [0, -1])
def test_a_table_has_one_bucket_at_least(tmp_path: Path, count: int) -> None:
    with (
        hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid,
        pytest.raises(InvalidInputError, match=f"buckets is at least 1, not {count}"),
    ):
        acid.create_table("t", "id int", bucketed_by=["id"], buckets=count)


def test_a_list_of_the_wrong_things_is_told_by_them(tmp_path: Path) -> None:
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid:
        table = acid.create_table("t", "id int, year int", partitioned_by=["year"])
        with pytest.raises(InvalidInputError, match="a list of mappings, not a list of str"):
            hiveacid.read_arrow(table, partitions=["year=1995"])
        with pytest.raises(InvalidInputError, match="a list of dicts, not a list of tuple"):
            table.write_arrow([(1, 1995)])


def test_a_closed_session_opens_no_stream_and_finds_no_table(tmp_path: Path) -> None:
    acid = hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w")
    acid.create_table("t", "id int")
    acid.close()
    with pytest.raises(InvalidInputError, match="The session is closed"):
        acid.stream("t")
    with pytest.raises(InvalidInputError, match="The session is closed"):
        acid.table("t")


HALF = "a\ud800"


@pytest.mark.parametrize(
    "ask",
    [
        lambda acid: acid.sql(f"insert into t values (1, '{HALF}')"),
        lambda acid: acid.sql("insert into t values (1, ?)", args=[HALF]),
        lambda acid: acid.sql(f"create table u (id int comment '{HALF}')"),
        lambda acid: acid.table(HALF),
        lambda acid: acid.table("t").tag(HALF),
        lambda acid: acid.create_table("u", "id int", comment=HALF),
    ],
)
def test_half_of_a_character_is_refused_in_words(tmp_path: Path, ask) -> None:
    """As ``json.loads`` makes of a broken escape."""
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/w") as acid:
        acid.create_table("t", "id int, v string")
        with pytest.raises(AcidError, match="half of a character"):
            ask(acid)
        assert acid.sql("insert into t values (1, '\\uD83D\\uDE00')").rows == 1
