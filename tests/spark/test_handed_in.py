"""What users hand in: frames of every library, Python's values, names of columns; wrong ones."""

from __future__ import annotations

import datetime
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.sampling import sampled
from tests.wrong_arguments import bare_errors

from hiveacid.errors import CardinalityError, ConversionError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hiveacid.session import Session

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

pl = pytest.importorskip("polars")
ACID = "stored as orc tblproperties ('transactional'='true')"
DATA: dict[str, list[Any]] = {"id": [2, 3], "name": ["Joe", "Jim"]}
FORMS: dict[str, Callable[[SparkSession], Any]] = {
    "spark": lambda spark: spark.createDataFrame([(2, "Joe"), (3, "Jim")], "id int, name string"),
    "pandas": lambda _: pd.DataFrame(DATA, index=[7, 8]),
    "polars": lambda _: pl.DataFrame(DATA),
    "lazy polars": lambda _: pl.LazyFrame(DATA),
    "arrow": lambda _: pa.table(DATA),
    "batch": lambda _: pa.RecordBatch.from_pydict(DATA),
    "reader": lambda _: pa.table(DATA).to_reader(),
    "dicts": lambda _: [{"id": 2, "name": "Joe"}, {"name": "Jim", "id": 3}],
    "rows": lambda spark: spark.sql("select 2 id, 'Joe' name union all select 3, 'Jim'").collect(),
}


@pytest.mark.parametrize(
    "form",
    sampled(
        FORMS,
        *("spark", "statements", "session", "table", "writing"),
        group=lambda form: form in ("spark", "rows"),
    ),
)
def test_rows_of_every_library_are_inserted_merged_and_make_tables(
    acid: Session, rows: Callable[[str], list[tuple[Any, ...]]], spark: SparkSession, form: str
) -> None:
    made = acid.create_table("made", FORMS[form](spark))
    assert made.columns == ("id", "name")
    assert rows("select * from made") == [(2, "Joe"), (3, "Jim")]
    table = acid.create_table("t", "id int, name string")
    table.insert([{"id": 1, "name": "Ann"}, {"id": 2, "name": "old"}])
    result = (
        table.merge(FORMS[form](spark), on="id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .run()
    )
    assert (result.updated, result.inserted) == (1, 1)
    assert table.insert(FORMS[form](spark)).rows == 2
    assert rows("select * from t") == [
        *((1, "Ann"), (2, "Joe"), (2, "Joe"), (3, "Jim"), (3, "Jim"))
    ]
    table.overwrite(FORMS[form](spark))
    assert rows("select * from t") == [(2, "Joe"), (3, "Jim")]


def test_values_of_python_are_assigned(
    acid: Session, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    acid.sql(
        "create table v (id int, i int, l bigint, d double, m decimal(10,2), s string, b boolean, "
        f"day date, at timestamp, raw binary, a array<int>) {ACID}"
    )
    acid.sql("insert into v (id) values (1), (2)")
    values = {
        "i": -5,
        "l": 2**40,
        "d": 1.5,
        "m": Decimal("-2.50"),
        "s": "concat('x', id)",
        "b": True,
        "day": datetime.date(2024, 2, 29),
        "at": datetime.datetime(2024, 2, 29, 1, 2, 3, 500000),
        "raw": b"\x00'",
        "a": [1, 2],
    }
    acid.table("v").update(values, where="id = 1")
    expected = {**values, "s": "x1", "raw": bytearray(b"\x00'")}
    ((_, *found),) = rows("select * from v where id = 1")
    assert dict(zip(values, found, strict=True)) == expected
    acid.table("v").update(dict.fromkeys(values))
    assert rows("select * from v where id = 1") == [(1, *[None] * len(values))]
    changes = pd.DataFrame({"id": [1, 9]})
    builder = acid.table("v").merge(changes, on=["id"]).when_matched_update({"i": 7, "b": False})
    builder.when_not_matched_insert({"id": "s.id", "m": Decimal("0.1")}).run()
    assert rows("select id, i, b, m from v") == [
        *((1, 7, False, None), (2, None, None, None), (9, None, None, Decimal("0.10")))
    ]


def test_columns_of_a_frame_that_the_table_lacks_are_named(
    acid: Session, spark: SparkSession, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    table = acid.create_table("t", "id int, name string")
    table.insert([{"id": 1, "name": "Ann"}])
    wide = spark.sql("select 1 id, 'Bob' name, 'U' op, 5 more")
    for given in (wide, wide.toPandas()):
        with pytest.raises(InvalidInputError, match=r"op, more; default\.t has id, name"):
            table.insert(given)
        merge = table.merge(given, on="id")
        with pytest.raises(InvalidInputError, match=r"lost: op, more"):
            merge.when_matched_update_all().run()
        with pytest.raises(InvalidInputError, match=r"lost: more"):
            merge.when_matched_delete(where="s.op = 'D'").when_matched_update_all().run()
    wide.createOrReplaceTempView("handed_in")
    with pytest.raises(InvalidInputError, match=r"lost: op, more"):
        acid.sql(
            "merge into t using (select * from handed_in) s on t.id = s.id "
            "when not matched then insert *"
        )
    spark.catalog.dropTempView("handed_in")
    named = wide.drop("more")
    table.merge(named, on="id").when_matched_update_all(where="s.op = 'U'").run()
    assert rows("select * from t") == [(1, "Bob")]


def test_what_does_not_fit_is_an_error_in_frames_and_null_in_sql(
    acid: Session, spark: SparkSession, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    table = acid.create_table("t", "id int, name varchar(3)")
    wrong = spark.sql("select 'many' id, 'abcd' name")
    for column, given in (("id", "3000000000L id, 'a' name"), ("name", "1 id, 'abcd' name")):
        frame = spark.sql(f"select {given}")
        for run in (
            lambda frame=frame: table.insert(frame),
            lambda frame=frame: table.merge(frame, on="id").when_not_matched_insert_all().run(),
        ):
            with pytest.raises(ConversionError, match=column):
                run()
    acid.sql("insert into t values ('many', 'abcd')")
    assert rows("select * from t") == [(None, "abc")]
    acid.sql("set hiveacid.store_assignment = hive")
    table.insert(wrong)
    assert rows("select * from t") == [(None, "abc"), (None, "abc")]
    acid.sql("set hiveacid.store_assignment = ansi")
    with pytest.raises(ConversionError):
        acid.sql("insert into t values ('many', 'abcd')")


def test_a_cardinality_violation_names_the_key_and_the_remedy(
    acid: Session, spark: SparkSession
) -> None:
    table = acid.create_table("t", "id int, day string, n int")
    table.insert([{"id": 5, "day": "mon", "n": 1}, {"id": 6, "day": "mon", "n": 1}])
    twice = spark.sql("select 5 id, 'mon' day, 2 n union all select 5, 'mon', 3")
    with pytest.raises(CardinalityError, match=r"\(id = 5, day = 'mon'\) is matched") as caught:
        table.merge(twice, on=["id", "day"]).when_matched_update_all().run()
    assert caught.value.context["keys"] == {"id": 5, "day": "mon"}
    assert "row_number() over (partition by id, day" in caught.value.__notes__[0]


@pytest.mark.jvm
def test_jobs_are_called_by_their_statement(acid: Session, spark: SparkSession) -> None:
    spark.sparkContext.setJobDescription("mine")
    seen: list[str | None] = []
    table = acid.create_table("t", "id int")

    def look(_: Any) -> int:
        seen.append(spark.sparkContext.getLocalProperty("spark.job.description"))
        return 1

    class Watched(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            look(record)

    log = logging.getLogger("hiveacid.statements")
    watched = Watched()
    log.addHandler(watched)
    log.setLevel(logging.INFO)
    try:
        table.insert(spark.range(3).selectExpr("cast(id as int) id"))
    finally:
        log.removeHandler(watched)
        log.setLevel(logging.NOTSET)
    assert seen == ["hiveacid: INSERT INTO default.t"]
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setLocalProperty("spark.job.description", None)


@pytest.mark.long(
    *("session", "table", "transaction", "writing", "takeover", "streams", "statements")
)
@pytest.mark.parametrize(
    "third", [0, *(pytest.param(third, marks=pytest.mark.long()) for third in (1, 2))]
)
def test_no_wrong_argument_ends_in_a_bare_error_with_spark(
    acid: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, third: int
) -> None:
    monkeypatch.chdir(tmp_path)  # a name is a path, too
    wrong = list(bare_errors(acid, tmp_path, third))
    assert not wrong, "\n".join(wrong)


STRUCTS = {
    "struct<a:int,b:int>": ("named_struct('B', 2, 'a', 1)", {"a": 1, "b": 2}),
    "array<struct<a:int,b:string>>": (
        "array(named_struct('b', 'x', 'a', 1), null)",
        [{"a": 1, "b": "x"}, None],
    ),
    "map<string,struct<a:bigint,b:int>>": (
        "map('k', named_struct('b', 2, 'a', 1))",
        {"k": {"a": 1, "b": 2}},
    ),
    "struct<o:int,i:struct<a:int,b:array<struct<c:int,d:int>>>>": (
        "named_struct('i', named_struct('b', array(named_struct('d', 4, 'c', 3)), 'a', 1), 'o', 9)",
        {"o": 9, "i": {"a": 1, "b": [{"c": 3, "d": 4}]}},
    ),
}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return _plain(value.asDict(recursive=True)) if hasattr(value, "asDict") else value


def test_fields_of_structs_are_found_by_name(
    acid: Session, spark: SparkSession, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    """A table with a column of each kind: one way, four values."""
    made = {f"v{number}": text for number, (text, _) in enumerate(STRUCTS.values())}
    kinds = ", ".join(f"{name} {kind}" for name, kind in zip(made, STRUCTS, strict=True))
    texts = ", ".join(f"{text} {name}" for name, text in made.items())
    acid.sql(f"create table t (id int, {kinds}) {ACID}")
    table = acid.table("t")
    swapped = spark.sql(f"select {texts}, 1 id union all select {'null, ' * len(made)} 2")
    table.insert(swapped)
    acid.sql(f"insert into t select 3, {texts}")
    table.merge(swapped.selectExpr("id + 3 id", *made), on="id").when_not_matched_insert_all().run()
    table.merge(swapped, on="id").when_matched_update_all().run()
    changes = ", ".join(f"{name} = {text}" for name, text in made.items())
    acid.sql(f"update t set {changes} where id = 4")
    found = {number: list(map(_plain, values)) for number, *values in rows("select * from t")}
    full, empty = [expected for _, expected in STRUCTS.values()], [None] * len(made)
    assert found == {1: full, 2: empty, 3: full, 4: full, 5: empty}


WITHIN = {
    "array<int>": ("array('1', 'x')", [1, None]),
    "map<string,int>": ("map('a', '1', 'b', 'x')", {"a": 1, "b": None}),
    "struct<a:int,b:int>": ("named_struct('b', 'x', 'a', '1')", {"a": 1, "b": None}),
    "array<struct<a:smallint>>": ("array(named_struct('a', 65537))", [{"a": 1}]),
    "array<varchar(2)>": ("array('abc', 'de')", ["ab", "de"]),
    "struct<a:array<decimal(3,1)>>": ("named_struct('a', array(123.44))", {"a": [None]}),
}
"""What does not fit within a value, and what it becomes by Hive's store assignment."""


@pytest.mark.parametrize("kind", WITHIN)
def test_what_does_not_fit_within_a_value_is_no_silent_null(
    acid: Session, spark: SparkSession, rows: Callable[[str], list[tuple[Any, ...]]], kind: str
) -> None:
    text, expected = WITHIN[kind]
    acid.sql(f"create table t (id int, v {kind}) {ACID}")
    with pytest.raises(ConversionError, match="column v"):
        acid.table("t").insert(spark.sql(f"select 1 id, {text} v"))
    acid.sql(f"insert into t select 2, {text}")
    assert [(number, _plain(value)) for number, value in rows("select id, v from t")] == [
        (2, expected)
    ]


def test_structs_with_other_fields_are_refused(acid: Session, spark: SparkSession) -> None:
    acid.sql(f"create table t (id int, v struct<a:int,b:int>) {ACID}")
    table = acid.table("t")
    for text in ("named_struct('a', 1, 'c', 2)", "named_struct('a', 1)"):
        with pytest.raises(ConversionError, match="column v: a struct of the fields a"):
            table.insert(spark.sql(f"select 1 id, {text} v"))
        with pytest.raises(ConversionError, match="column v: a struct of the fields a"):
            acid.sql(f"insert into t select 1, {text}")
    with pytest.raises(ConversionError, match="col1, col2"):
        table.insert(spark.sql("select 1 id, struct(1, 2) v"))
    acid.sql("insert into t select 1, struct(1, 2)")  # names of its own it has none
    assert acid.sql("select v.a, v.b from t").collect() == [(1, 2)]


@pytest.mark.parametrize(
    "form",
    sampled(["pandas", "dicts", "arrow"], *("spark", "statements", "writing"), group=type),
)
def test_rows_of_the_driver_go_where_only_spark_can_check_them(
    acid: Session, spark: SparkSession, rows: Callable[[str], list[tuple[Any, ...]]], form: str
) -> None:
    acid.sql(
        "create table t (id int check (id * 2 < 10), name varchar(5), more string default "
        f"concat('a', 'b'), at timestamp) partitioned by (k int) {ACID}"
    )
    table = acid.table("t")
    given = FORMS[form](spark)
    table.insert(given, columns=["id", "name"], partition={"k": 1})
    table.write_arrow(given, partition={"k": 2})
    expected = [(n, name, "ab", None, k) for n, name in ((2, "Joe"), (3, "Jim")) for k in (1, 2)]
    assert rows("select * from t") == expected
    for wrong in ({"id": 5, "name": "x", "k": 3}, {"id": 1, "name": "too long", "k": 3}):
        with pytest.raises(ConversionError):
            table.write_arrow([wrong])
    assert rows("select * from t") == expected


def test_scalars_of_numpy_and_pandas_are_assigned(
    acid: Session, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    acid.sql(
        "create table v (id int, i int, d double, b boolean, day date, at timestamp, s string, "
        f"n int, x timestamp) {ACID}"
    )
    acid.sql("insert into v (id, n, x) values (1, 1, timestamp '2020-01-01 00:00:00')")
    acid.table("v").update(
        {
            "i": np.int64(7),
            "d": np.float32(0.5),
            "b": np.bool_(True),
            "day": pd.Timestamp("2024-02-29").date(),
            "at": np.datetime64("2024-02-29T01:02:03.123456789"),
            "s": "'text'",
            "n": pd.NA,
            "x": pd.NaT,
        }
    )
    at = datetime.datetime(2024, 2, 29, 1, 2, 3, 123456)
    assert rows("select * from v") == [
        (1, 7, 0.5, True, datetime.date(2024, 2, 29), at, "text", None, None)
    ]
