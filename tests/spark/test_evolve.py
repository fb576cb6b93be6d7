"""``evolve`` through Spark: INSERT, MERGE and SQL add the columns that come with the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def emp(acid: Session) -> Any:
    acid.sql(f"create table emp (id int, v string) {ACID}")
    acid.sql("insert into emp values (1, 'a')")
    return acid.table("emp")


def test_insert_and_overwrite_of_frames(
    acid: Session, spark: SparkSession, rows: Rows, emp: Any
) -> None:
    wide = spark.sql("select map('x', 1) M, 2 id, date'2024-02-29' day, 'b' v")
    assert emp.insert(wide, evolve=True).rows == 1
    assert emp.columns == ("id", "v", "m", "day")
    assert [str(column.type) for column in emp.definition.columns[2:]] == [
        "map<string,int>",
        "date",
    ]
    emp.insert(spark.sql("select 3 id, 1.5 more"), evolve=True)
    assert rows("select id, v, m['x'], cast(day as string), more from emp") == [
        (1, "a", None, None, None),
        (2, "b", 1, "2024-02-29", None),
        *[(3, None, None, None, rows("select cast(1.5 as decimal(2,1))")[0][0])],
    ]
    emp.overwrite(spark.sql("select 9 id, 'z' v, 5L last"), evolve=True)
    assert rows("select id, v, last from emp") == [(9, "z", 5)]
    emp.insert(spark.sql("select 7 id, 8 n"), columns=["id", "n"], evolve=True)
    assert rows("select n from emp where id = 7") == [(8,)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("select 1 id, 2 c, 3 C", InvalidInputError, "c is named twice"),
        ("select 1 id, interval 1 day c", UnsupportedError, "column c cannot be added.*interval"),
        ("select 1 id, null c", InvalidInputError, "nothing but NULLs"),
        ("select 3000000000L id, 2 c", ConversionError, "id"),
        ("select 1 id, 2 `row__id`", InvalidInputError, "virtual"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    spark: SparkSession, rows: Rows, emp: Any, text: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        emp.insert(spark.sql(text), evolve=True)
    assert (emp.columns, rows("select * from emp")) == (("id", "v"), [(1, "a")])


def test_merge_adds_what_all_takes_and_what_is_assigned(
    acid: Session, spark: SparkSession, rows: Rows, emp: Any
) -> None:
    changes = spark.sql(
        "select * from values (1, 'U', 10, 5), (2, 'U', 20, 6), (3, 'D', 30, 7) s(id, op, n, k)"
    )
    result = (
        emp.merge(changes, on="id", evolve=True)
        .when_matched_update_all(where="s.op = 'U'")
        .when_not_matched_insert_all(where="s.op <> 'D' and s.k > 0")
        .run()
    )
    assert (result.updated, result.inserted) == (1, 1)
    assert emp.columns == ("id", "v", "n")  # op and k are the statement's own
    assert rows("select * from emp") == [(1, "a", 10), (2, None, 20)]
    emp.merge(changes, on="id", evolve=True).when_matched_update(
        {"k": "s.k + 1", "v": "s.op"}
    ).when_not_matched_insert({"id": "s.id", "k": "s.k"}).run()
    assert emp.columns == ("id", "v", "n", "k")
    assert rows("select * from emp") == [(1, "U", 10, 6), (2, "U", 20, 7), (3, None, None, 7)]
    with pytest.raises(InvalidInputError, match="lost: op"):
        emp.merge(changes, on="id").when_matched_update_all().run()
    with pytest.raises(InvalidInputError, match='column "op" of set clause'):
        emp.merge(changes, on="id").when_matched_update({"op": "s.op"}).run()


def test_merge_adds_columns_called_like_an_alias_or_a_text_of_its_condition(
    acid: Session, spark: SparkSession, rows: Rows, emp: Any
) -> None:
    changes = spark.sql("select 1 id, 'U' op, 10 s, 11 t, 12 d, 13 upper")

    def merge(**options: Any) -> Any:
        return emp.merge(changes, on="id", **options).when_matched_update_all(
            where="upper(s.op) <> 'D'"
        )

    with pytest.raises(InvalidInputError, match="lost: s, t, d, upper"):
        merge().run()
    merge(evolve=True).run()
    assert emp.columns == ("id", "v", "s", "t", "d", "upper")
    assert rows("select * from emp") == [(1, "a", 10, 11, 12, 13)]


def test_merge_of_partitions_and_of_the_table_itself(
    acid: Session, spark: SparkSession, rows: Rows
) -> None:
    acid.sql(f"create table p (id int, v string) partitioned by (k int) {ACID}")
    acid.sql("insert into p values (1, 'a', 1), (2, 'b', 2)")
    table = acid.table("p")
    acid.sql(
        "merge with schema evolution into p t using (select p.*, 5 as n from p) s "
        "on t.id = s.id and t.k = s.k "
        "when matched and s.v = 'a' then update set n = s.n "
        "when not matched then insert *"
    )
    assert rows("select * from p") == [(1, "a", 5, 1), (2, "b", None, 2)]
    with pytest.raises(InvalidInputError, match="lacks the partition columns k"):
        table.merge(
            spark.sql("select 9 id, 1 m"), on="id", evolve=True
        ).when_not_matched_insert_all().run()
    assert table.columns == ("id", "v", "n", "k")


def test_sql_adds_the_columns_that_a_list_names(acid: Session, rows: Rows, emp: Any) -> None:
    text = "insert into emp (id, c, d) select id + 1, id * 2, concat(v, 'x') from emp"
    with pytest.raises(InvalidInputError, match="'c' in insert schema"):
        acid.sql(text)
    acid.sql("set hiveacid.schema.evolve = true")
    assert acid.sql(text).rows == 1
    assert rows("select * from emp") == [(1, "a", None, None), (2, None, 2, "ax")]
    locks = [row[0] for row in acid.sql(f"explain locks {text.replace('d)', 'e)')}").collect()]
    assert any("EXCLUSIVE" in line for line in locks), locks
    assert not any("EXCLUSIVE" in row[0] for row in acid.sql(f"explain locks {text}").collect())
    for refused in (
        "insert into emp (id, e) values (1, 2)",
        "insert into emp select 1, 'a', 2, 'b', 3",
        "insert into emp (id, e) select 1",
    ):
        with pytest.raises(InvalidInputError):
            acid.sql(refused)
    assert emp.columns == ("id", "v", "c", "d")
    acid.sql("start transaction")
    acid.sql("insert into emp (id, gone) select 5, 5")
    assert rows("select gone from emp where id = 5") == [(5,)]
    acid.sql("rollback")
    assert emp.columns == ("id", "v", "c", "d")


def test_views_and_fields_are_refused(
    acid: Session, spark: SparkSession, rows: Rows, emp: Any
) -> None:
    acid.sql("create view w as select * from emp")
    with pytest.raises(InvalidInputError, match="10090"):
        acid.table("w").insert(spark.sql("select 1 id, 'a' v, 2 c"), evolve=True)
    acid.sql(f"create table s (id int, x struct<a:int>) {ACID}")
    with pytest.raises(InvalidInputError, match="no field b: evolve is for top-level"):
        acid.table("s").insert(
            spark.sql("select 1 id, named_struct('a', 1, 'b', 2) x, 1 c"), evolve=True
        )
    assert acid.table("s").columns == ("id", "x")
