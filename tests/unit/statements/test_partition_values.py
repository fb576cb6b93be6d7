"""Names of partitions: one for each value, whoever writes it (real-hive.md 9)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid import read_arrow
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.session import Session, connect
from hiveacid.statements.partition_values import normal_text, sort_key


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("double", "1", "1.0"),
        ("double", "1.50", "1.5"),
        ("double", "1e+20", "1.0E20"),
        ("double", "1e-07", "1.0E-7"),
        ("double", "nan", "NaN"),
        ("double", "-inf", "-Infinity"),
        ("float", "0.10000000149011612", "0.1"),
        ("float", "1e20", "1.0E20"),
        ("decimal(10,2)", "-0.00", "0"),
        ("decimal(10,2)", "1e2", "100"),
        ("decimal(4,2)", "1.555", "1.56"),
        ("decimal(4,2)", "-0.005", "-0.01"),
        ("decimal(2,2)", "0", "0"),
        ("decimal(38,0)", "9" * 38, "9" * 38),
        ("tinyint", "-0128", "-128"),
        ("boolean", "yes", "true"),
        ("boolean", "OFF", "false"),
        ("boolean", "0", "false"),
        ("date", "2020-1-02", "2020-01-02"),
        ("char(3)", "abcdef", "abc"),
        ("char(3)", "b", "b  "),
        ("varchar(3)", "abcdef", "abc"),
        ("varchar(3)", "b ", "b "),
        ("timestamp", "2020-01-02", "2020-01-02 00:00:00"),
        ("timestamp", "2020-01-02T03:04", "2020-01-02 03:04:00"),
        ("timestamp", "0001-01-01 00:00:00.120000000", "0001-01-01 00:00:00.12"),
    ],
)
def test_numbers_have_the_names_that_hive_gives_them(kind: str, text: str, name: str) -> None:
    column = Column("p", parse_type(kind))
    assert normal_text(text, column) == name
    assert normal_text(name, column) == name


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("double", ["one", "1_0", "1,5", "\uff11"]),
        ("int", ["1_0", "\uff11", "1.0", "2147483648"]),
        ("tinyint", ["128"]),
        ("boolean", ["junk", "2"]),
        ("decimal(3,2)", ["1_0", "\uff11", "NaN", "Infinity", "10", "9.995"]),
        ("date", ["2020-1_0-01", "\uff12020-01-01", "2020-02-30", "20200101", "2020-01-01-01"]),
        ("timestamp", ["junk", "2020-02-30 00:00:00", "2020-01-01 25:00", "2020-01-01 00:00:00Z"]),
    ],
)
def test_a_text_that_is_no_value_is_refused(kind: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(InvalidInputError, match="is not of type") as caught:
            normal_text(text, Column("p", parse_type(kind)))
        assert caught.value.code == 10248


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("double", [None, "-Infinity", "1.0", "1.0E20", "Infinity", "NaN"]),
        ("decimal(9,2)", [None, "-1.5", "10", "NaN", "junk"]),
        ("int", [None, "-1", "10", "junk"]),
    ],
)
def test_names_are_in_the_order_of_their_values(kind: str, texts: list[str | None]) -> None:
    """Also those of directories that somebody else has named."""
    column = Column("p", parse_type(kind))
    mixed = [*texts[1:], texts[0]]
    assert sorted(mixed, key=lambda text: sort_key(text, column)) == texts


def test_a_double_has_one_partition_whichever_way_it_is_written(tmp_path: Path) -> None:
    acid = connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=tmp_path / "w")
    acid.sql(
        "create table t (id int) partitioned by (p double) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    table = acid.table("t")
    table.write_arrow(pa.table({"id": [1, 2], "p": [1e20, 1.0]}))
    acid.sql("insert into t partition (p=1.0E20) values (3)")
    acid.sql("insert into t partition (p='1') values (4)")
    table.write_arrow(pa.table({"id": [5]}), partition={"p": 1e20})

    assert acid.sql("show partitions t").rows == (("p=1.0",), ("p=1.0E20",))
    table.write_arrow(pa.table({"id": [6], "p": [1e20]}), overwrite=True)
    assert read_arrow(table, filter="p > 5").read_all()["id"].to_pylist() == [6]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("d != 3", ["c=A/d=3", "c=A/d=NULL", "c=NULL/d=3"]),
        ("c = 'A', d != 3", ["c=A/d=3", "c=A/d=NULL", "c=NULL/d=2", "c=NULL/d=3"]),
        ("d != '__HIVE_DEFAULT_PARTITION__'", ["c=A/d=NULL"]),
        ("d = '__HIVE_DEFAULT_PARTITION__'", ["c=A/d=2", "c=A/d=3", "c=NULL/d=2", "c=NULL/d=3"]),
        ("c != 'A'", ["c=A/d=2", "c=A/d=3", "c=A/d=NULL"]),
        ("c > 'A'", ["c=A/d=2", "c=A/d=3", "c=A/d=NULL"]),
        ("c <= 'A'", ["c=NULL/d=2", "c=NULL/d=3"]),
        ("d < 9", ["c=A/d=NULL"]),
    ],
)
def test_null_is_not_unequal_to_a_number_and_a_text_is_to_its_name(
    condition: str, left: list[str], metastore_url: str, tmp_path: Path
) -> None:
    """As in Hive's drop_partitions_filter4.q; the default partition of a text is its name."""
    null = "__HIVE_DEFAULT_PARTITION__"
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        every = _made(acid, (("A", "2"), ("A", "3"), ("A", null), (null, "2"), (null, "3")))
        chosen = acid.sql(f"show partitions t where {condition.replace(',', ' and')}")
        acid.sql(f"alter table t drop partition ({condition})")
        assert _partitions(acid) == left
        shown = {row[0].replace(null, "NULL") for row in chosen.rows}
        assert shown == set(every) - set(left)


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("c = 'A' and d = 2 or d = 3 and c = 'B'", ["c=A/d=2", "c=B/d=3"]),
        ("c = 'A' and (d = 2 or d = 3)", ["c=A/d=2", "c=A/d=3"]),
        ("c in ('B', 'C') and d between 2 and 3", ["c=B/d=3"]),
        ("c not in ('A', 'B')", ["c=NULL/d=2"]),
        ("not (c = 'A' or d not between 3 and 9)", ["c=B/d=3"]),
        ("not d = 2", ["c=A/d=3", "c=B/d=3"]),
        ("not not d < 3", ["c=A/d=2", "c=NULL/d=2"]),
        ("c like '_' and not d > 2", ["c=A/d=2"]),
        (
            " and ".join(["(c = 'A' or d = 3)"] * 60),
            ["c=A/d=2", "c=A/d=3", "c=A/d=NULL", "c=B/d=3"],
        ),
        ("c not like 'A%' and d not like '2%'", ["c=B/d=3"]),
    ],
)
def test_filters_of_partitions_take_or_not_in_between_and_like(
    where: str, chosen: list[str], metastore_url: str, tmp_path: Path
) -> None:
    null = "__HIVE_DEFAULT_PARTITION__"
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        every = _made(acid, (("A", "2"), ("A", "3"), ("A", null), (null, "2"), ("B", "3")))
        shown = acid.sql(f"show partitions t where {where}").rows
        assert [row[0].replace(null, "NULL") for row in shown] == chosen
        acid.sql(f"alter table t drop partition ({where})")
        assert _partitions(acid) == [one for one in every if one not in chosen]
        assert not (tmp_path / "wh/t" / chosen[0].replace("NULL", null)).exists()


def test_msck_takes_the_partitions_that_its_filters_choose(
    metastore_url: str, tmp_path: Path
) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create external table t (a int) partitioned by (c string, d int)")
        acid.sql("alter table t add partition (c='A', d=1) partition (c='B', d=1)")
        for name in ("c=A/d=2", "c=B/d=2", "c=B/d=3"):
            (tmp_path / "wh/t" / name).mkdir(parents=True)
        (tmp_path / "wh/t/c=B/d=1").rmdir()
        (tmp_path / "wh/t/c=A/d=1").rmdir()
        acid.sql("msck repair table t sync partitions (c='B', d<3)")
        assert _partitions(acid) == ["c=A/d=1", "c=B/d=2"]


@pytest.mark.parametrize("how", ["msck", "attach"])
def test_a_directory_spelled_otherwise_is_the_partition_of_its_value(
    how: str, metastore_url: str, tmp_path: Path
) -> None:
    """As with Hive's MSCK (real-hive.md 9)."""
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        enter = _let_go(acid, how)
        for old, new in (("d=1", "d=01"), ("d=2", "d=0002"), ("d=3", "d=03")):
            (tmp_path / "wh/t" / old).rename(tmp_path / "wh/t" / new)
        acid.sql(enter)
        acid.sql("msck repair table t sync partitions")
        assert _partitions(acid) == ["d=1", "d=2", "d=3"]
        acid.sql("insert into t values (4, 1)")
        acid.sql("insert overwrite table t partition (d=2) values (5)")
        acid.sql("alter table t drop partition (d=3)")
        assert _partitions(acid) == ["d=1", "d=2"]
        assert _rows(acid) == [(1, 1), (4, 1), (5, 2)]
        assert not (tmp_path / "wh/t/d=1").exists()


@pytest.mark.parametrize("how", ["msck", "attach"])
def test_two_directories_of_one_value_are_both_read(
    how: str, metastore_url: str, tmp_path: Path
) -> None:
    """A Hive before 4 has other names for timestamps: one table may have both."""
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        enter = _let_go(acid, how)
        (tmp_path / "wh/t/d=2").rename(tmp_path / "wh/t/d=01")
        (tmp_path / "wh/t/d=3").rename(tmp_path / "wh/t/d=03")
        acid.sql(enter)
        assert _partitions(acid) == ["d=01", "d=1", "d=3"]
        assert _rows(acid) == [(1, 1), (2, 1), (3, 3)]


@pytest.mark.parametrize(("how", "found"), [("", ["d=01", "d=1"]), (" sync partitions", ["d=1"])])
def test_msck_finds_the_partition_of_a_directory_that_was_renamed(
    how: str, found: list[str], metastore_url: str, tmp_path: Path
) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create external table t (a int) partitioned by (d int) stored as orc")
        acid.sql("insert into t values (1, 1), (2, 2)")
        (tmp_path / "wh/t/d=1").rename(tmp_path / "wh/t/d=01")
        acid.sql(f"msck repair table t{how}")
        assert _partitions(acid) == [*found, "d=2"]
        assert _rows(acid) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("condition", ["d != 3", "d > 3", "d >= 3"])
def test_a_name_that_its_type_cannot_say_is_as_null_as_reads_have_it(
    condition: str, metastore_url: str, tmp_path: Path
) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create table t (a int) partitioned by (d int) stored as orc")
        acid.sql("insert into t values (1, 4)")
        (tmp_path / "wh/t/d=4").rename(tmp_path / "wh/t/d=junk")
        acid.sql("msck repair table t")
        assert read_arrow(acid.table("t")).read_all().to_pylist() == [{"a": 1, "d": None}]
        acid.sql(f"alter table t drop partition ({condition})")
        assert _partitions(acid) == ["d=junk"]


@pytest.mark.parametrize(
    "change", ["add columns (b int)", "change a b int", "replace columns (b int)"]
)
def test_a_partition_has_no_columns_of_its_own(
    change: str, metastore_url: str, tmp_path: Path
) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create table t (a int) partitioned by (d int) stored as orc")
        acid.sql("insert into t values (1, 4)")
        with pytest.raises(UnsupportedError, match="a partition has the columns of its table"):
            acid.sql(f"alter table t partition (d=4) {change}")
        acid.sql(f"alter table t {change}")


def test_truncate_takes_columns_without_a_value(metastore_url: str, tmp_path: Path) -> None:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql("create table t (a int) partitioned by (d int, h int) stored as orc")
        acid.sql("insert into t values (1, 4, 1), (2, 4, 2), (3, 5, 2)")
        for unknown in ("dd, h=2", "dd"):
            with pytest.raises(InvalidInputError, match="no partition column dd"):
                acid.sql(f"truncate table t partition ({unknown})")
        acid.sql("truncate table t partition (d, h=2)")
        rows = read_arrow(acid.table("t")).read_all().to_pylist()
        assert rows == [{"a": 1, "d": 4, "h": 1}]
        acid.sql("truncate table t partition (d, h)")
        assert read_arrow(acid.table("t")).read_all().num_rows == 0


def _partitions(acid: Session) -> list[str]:
    rows = acid.sql("show partitions t").rows
    return [row[0].replace("__HIVE_DEFAULT_PARTITION__", "NULL") for row in rows]


def _made(acid: Session, values: tuple[tuple[str, str], ...]) -> list[str]:
    """A table t of these partitions, and what they are called."""
    acid.sql("create table t (a int) partitioned by (c string, d int)")
    for c, d in values:
        acid.sql(f"alter table t add partition (c='{c}', d='{d}')")
    return _partitions(acid)


def _let_go(acid: Session, how: str) -> str:
    """The table t of three partitions lies there and is not known, or they are not; the statement
    that enters them.
    """
    keys = "(a int) partitioned by (d int) stored as orc"
    acid.sql(
        f"create table t {keys} tblproperties ('transactional'='true')"
        if how == "attach"
        else f"create external table t {keys}"
    )
    acid.sql("insert into t values (1, 1), (2, 2), (3, 3)")
    if how == "attach":
        return acid.detach("t").create_table
    acid.sql("drop table t")
    acid.sql(f"create external table t {keys}")
    return "msck repair table t"


def _rows(acid: Session) -> list[tuple[object, ...]]:
    rows = read_arrow(acid.table("t")).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_numbers_and_booleans_are_texts_in_a_text_partition_column(tmp_path: Path) -> None:
    """As Hive has these literals as texts; DROP PARTITION finds the same."""
    with connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.sql("create table t (id int) partitioned by (p string)")
        names = {
            "08": "8",
            "1.50": "1.5",
            "1e2": "100.0",
            "1234567890123456789012345678901.50": "1234567890123456789012345678901.5",
            "TRUE": "TRUE",
            "-5L": "-5",
            "'08'": "08",
        }
        for literal in names:
            acid.sql(f"insert into t partition (p={literal}) values (1)")
        shown = acid.sql("show partitions t")
        assert sorted(row[0] for row in shown.rows) == sorted(f"p={one}" for one in names.values())
        for literal in names:
            acid.sql(f"alter table t drop partition (p={literal})")
        assert not acid.sql("show partitions t").rows


def test_decimals_beside_texts_keep_all_digits(tmp_path: Path) -> None:
    with connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.sql("create table t (s string) stored as orc tblproperties ('transactional'='true')")
        acid.sql("insert into t values ('a'), (1234567890123456789012345678901.50), (-0.00)")
        found = read_arrow(acid.table("t")).read_all()["s"].to_pylist()
        assert found == ["a", "1234567890123456789012345678901.5", "0"]
