"""What users hand in without Spark, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import (
    AcidError,
    ConversionError,
    InvalidInputError,
    NotFoundError,
    SparkNeededError,
    SqlSyntaxError,
)
from hiveacid.session import Session
from hiveacid.table import AcidTable, MergeBuilder

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
)
NAME_MAX = 128


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("map<string,int>", [{"a": 1, "b": None}, {}, None], [[("a", 1), ("b", None)], [], None]),
        ("map<string,int>", [{}], [[]]),
        ("map<int,string>", [{1: "x"}, {2: "y"}], [[(1, "x")], [(2, "y")]]),
        ("array<map<string,int>>", [[{"a": 1}, {"b": 2}]], [[[("a", 1)], [("b", 2)]]]),
        ("map<string,map<string,int>>", [{"a": {"b": 1}}], [[("a", [("b", 1)])]]),
        ("map<string,struct<x:int,y:int>>", [{"a": {"y": 2, "x": 1}}], [[("a", {"x": 1, "y": 2})]]),
        ("struct<m:map<string,int>,n:int>", [{"n": 1, "m": {"k": 5}}], [{"m": [("k", 5)], "n": 1}]),
        ("map<string,int>", [{"a": 2**40}], "column v"),
        ("map<string,varchar(2)>", [{"a": "abc"}], "column v"),
        ("map<string,int>", [{"a": 1, "b": "x"}], "column v"),
        ("map<string,int>", [[5]], "column v"),
    ],
)
@pytest.mark.parametrize("call", ["insert", "write_arrow", "merge_arrow"])
def test_dicts_of_rows_are_maps_where_the_column_is_one(
    acid: Session, kind: str, given: list[Any], expected: Any, call: str
) -> None:
    acid.sql(f"create table t (id int, v {kind}) {ACID}")
    table = acid.table("t")
    data = [{"id": number, "v": value} for number, value in enumerate(given)]
    write = getattr(table, call)
    more = {"on": "id"} if call == "merge_arrow" else {}
    if isinstance(expected, str):
        with pytest.raises(InvalidInputError, match=expected):
            write(data, **more)
        expected = []
    else:
        write(data, **more)
    found = hiveacid.read_arrow(table).read_all().sort_by("id")
    assert found.column("v").to_pylist() == expected


@pytest.mark.parametrize(
    "rows",
    [pd.DataFrame({"id": [1]}), pl.DataFrame({"id": [1]}), pa.table({"id": [1]}), [{"id": 1}]],
    ids=["pandas", "polars", "arrow", "dicts"],
)
@pytest.mark.parametrize("column", ["id int check (id > 0)", "id int, v string default uuid()"])
def test_what_only_spark_evaluates_is_said_in_one_line(
    acid: Session, rows: Any, column: str
) -> None:
    acid.sql(f"create table t ({column}) {ACID}")
    for write in (acid.table("t").write_arrow, lambda r: acid.table("t").insert(r, columns=["id"])):
        with pytest.raises(SparkNeededError, match=r"A write to default\.t, which has .* Spark"):
            write(rows)
    with pytest.raises(InvalidInputError, match="Spark evaluates it, Arrow does not"):
        acid.table("t").merge_arrow(rows, on="id")
    assert hiveacid.read_arrow(acid.table("t")).read_all().num_rows == 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("insert into t values (:a, 'x')", r"line 1:22 parameter :a has no value.*args=\{'a'"),
        ("insert into t values (1, ?)", r"parameter \? has no value.*args=\[\.\.\.\]"),
        ("select * from t where id = :id", "parameter :id has no value"),
        ("delete from t where id in (:ids)", "parameter :ids has no value"),
    ],
)
def test_a_parameter_without_a_value_says_so(acid: Session, statement: str, said: str) -> None:
    acid.sql(f"create table t (id int, name string) {ACID}")
    with pytest.raises(SqlSyntaxError, match=said):
        acid.sql(statement)
    with pytest.raises(SqlSyntaxError, match="has no value"):
        list(acid.script(f"show tables;\n{statement}"))


def test_colons_and_question_marks_that_are_no_parameters(acid: Session) -> None:
    acid.sql(f"create table t (s struct<a:int,b:map<string,int>>, c string comment ':x ?') {ACID}")
    acid.sql("set some.thing = :a ?")
    acid.sql("insert into t (c) values (':a ?')")
    assert hiveacid.read_arrow(acid.table("t"), columns="c").read_all().to_pylist() == [
        {"c": ":a ?"}
    ]


@pytest.mark.parametrize(
    ("run", "title", "instead"),
    [
        (lambda acid: acid.sql("select * from t"), "SELECT", "read_arrow"),
        (lambda acid: acid.table("t").df(), "SELECT", "dataset"),
        (lambda acid: acid.sql("update t set id = 1"), "UPDATE default.t", "merge_arrow"),
        (lambda acid: acid.table("t").update({"id": 1}), "UPDATE default.t", "merge_arrow"),
        (
            lambda acid: acid.sql("delete from t where id=1"),
            "DELETE FROM default.t",
            "delete_arrow",
        ),
        (lambda acid: acid.sql("insert into t select * from t"), "INSERT INTO", "write_arrow"),
        (
            lambda acid: acid.table("t").merge([{"id": 1}], on="id").when_matched_delete().run(),
            "MERGE INTO default.t",
            "merge_arrow",
        ),
    ],
)
def test_what_needs_spark_names_what_does_without(
    acid: Session, run: Callable[[Session], Any], title: str, instead: str
) -> None:
    acid.sql(f"create table t (id int, name string) {ACID}")
    with pytest.raises(SparkNeededError, match=f"{title}.* needs Spark") as caught:
        run(acid)
    assert instead in caught.value.__notes__[-1]


@pytest.mark.parametrize(
    ("call", "error", "said", "note"),
    [
        (lambda _: hiveacid.read_arrow("emp"), InvalidInputError, "absolute", "acid.table"),
        (lambda _: hiveacid.dataset("default.emp"), InvalidInputError, "absolute", "acid.table"),
        (lambda emp: emp.write_arrow([{"id": 1}]), InvalidInputError, "year, city", "partition="),
        (lambda emp: emp.merge_arrow([{"id": 9}], on="id"), InvalidInputError, "year, city", "col"),
        (
            lambda emp: emp.write_arrow([{"id": 1, "year": 1, "city": "x"}], partition={"year": 1}),
            InvalidInputError,
            "also a static partition column",
            "",
        ),
        (
            lambda emp: emp.write_arrow([{"id": 1, "city": "x", "nope": 1}], partition={"year": 1}),
            NotFoundError,
            "no column nope",
            "evolve=True",
        ),
        (
            lambda emp: emp.write_arrow([{"id": 1, "city": "x"}], partition={"year": "abc"}),
            InvalidInputError,
            "'abc' is not of type int",
            "",
        ),
        (
            lambda emp: emp.write_arrow([{"id": 1, "city": "x", "year": "abc"}]),
            ConversionError,
            "column year",
            "",
        ),
    ],
)
def test_errors_say_what_is_true(
    emp: AcidTable,
    call: Callable[[AcidTable], Any],
    error: type[AcidError],
    said: str,
    note: str,
) -> None:
    with pytest.raises(error, match=said) as caught:
        call(emp)
    assert note in " ".join(getattr(caught.value, "__notes__", ()))


def test_what_is_shown_is_short(acid: Session, tmp_path_factory: pytest.TempPathFactory) -> None:
    deep = tmp_path_factory.mktemp("x" * 150)
    database, name = "d" * NAME_MAX, "t" * NAME_MAX
    with hiveacid.connect(None, f"sqlite:///{deep}/m.db", warehouse=str(deep)) as session:
        session.sql(f"create database {database}")
        session.sql(f"use {database}")
        columns = ", ".join(f"column_{number} int" for number in range(99))
        session.sql(f"create table {name} ({columns}) {ACID}")
        table = session.table(name)
        result = table.write_arrow([{"column_1": number} for number in range(99)])
        merge: MergeBuilder = table.merge([{"column_1": 1}], on="column_1")
        for _ in range(20):
            merge = merge.when_not_matched_insert_all()
        with session.transaction() as txn:
            shown = [session, table, merge, result, txn, hiveacid.dataset(table)]
            shown += [session.sql("show tables"), session.sql(f"describe {name}")]
            for one in shown:
                assert 10 < len(repr(one)) <= 200, repr(one)
        session.close()
        assert "closed" in repr(session)
        shown = [
            table.session,
            hiveacid.connect(None, f"sqlite:///{deep}/m.db").detach(f"{database}.{name}"),
        ]
        assert all(len(repr(one)) <= 200 for one in shown)
    assert str(acid.sql("show databases")) == "database_name\ndefault"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        *(("tinyint", "300", 44), ("tinyint", "128", -128), ("tinyint", "-129", 127)),
        *(("int", "3000000000", -1294967296), ("smallint", "70000", 4464)),
        *(
            ("int", "'3000000000'", None),
            ("tinyint", "'-129'", None),
            ("int", "3000000000.5", None),
        ),
        *(("bigint", "99999999999999999999", None), ("int", "-7", -7), ("int", "'-7'", -7)),
    ],
)
def test_literals_become_smaller_integers_as_in_hive(
    acid: Session, kind: str, text: str, expected: int | None
) -> None:
    acid.sql(f"create table t (v {kind}) {ACID}")
    acid.sql(f"insert into t values ({text})")
    found = hiveacid.read_arrow(acid.table("t")).read_all()
    assert found.column("v").to_pylist() == [expected]


def test_merge_that_only_inserts_goes_into_any_table(acid: Session) -> None:
    for number, stored in enumerate(
        (ACID, "stored as orc", "stored as parquet", "stored as textfile", INSERT_ONLY)
    ):
        name = f"t{number}"
        acid.sql(f"create table {name} (id int, v string) {stored}")
        table = acid.table(name)
        table.write_arrow([{"id": 1, "v": "a"}])
        table.merge_arrow([{"id": 1, "v": "x"}, {"id": 2, "v": "b"}], on="id", when_matched=None)
        found = hiveacid.read_arrow(table).read_all().sort_by("id").to_pylist()
        assert found == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], stored


def test_words_of_few_kinds_of_polars_are_texts(acid: Session) -> None:
    words = ["x", "y", None, "x"]
    kinds = [pl.Categorical(), pl.Enum(["x", "y"])]
    rows = {f"v{n}": pl.Series(words, dtype=kind) for n, kind in enumerate(kinds)}
    rows["w"] = pl.Series([["y", "x"], None, [], ["x"]], dtype=pl.List(kinds[1]))
    acid.create_table("t", pl.DataFrame(rows))
    acid.table("t").insert(pl.LazyFrame(rows).tail(1))
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pydict()
    assert found["v0"] == found["v1"] == [*words, "x"]
    assert found["w"] == [["y", "x"], None, [], ["x"], ["x"]]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda item: pa.list_(item, 1)])
def test_values_in_lists_of_every_kind_become_those_of_the_column(
    acid: Session, kind: Callable[[pa.DataType], pa.DataType]
) -> None:
    acid.sql(f"create table t (w array<timestamp>, d array<double>, c array<char(3)>) {ACID}")
    noon = pa.scalar(1577966400_000000, pa.timestamp("us", "Europe/Paris"))
    columns = {
        "w": pa.array([[noon], None], kind(noon.type)),
        "d": pa.array([["0.35"], None], kind(pa.string())).cast(kind(pa.decimal128(5, 2))),
        "c": pa.array([["a"], None], kind(pa.string())),
    }
    acid.table("t").insert(pa.table(columns))
    wanted = [{"w": [noon.as_py().replace(tzinfo=None)], "d": [0.35], "c": ["a  "]}]
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert found == [*wanted, {"w": None, "d": None, "c": None}]


def test_columns_of_one_name_are_refused(acid: Session) -> None:
    with pytest.raises(InvalidInputError, match="Duplicate column names"):
        acid.create_table("t", pd.DataFrame([[1, 2]], columns=["a", "a"]))
