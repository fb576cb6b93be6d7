"""Texts and names that settings of a session make mean something else to Spark: strings in double
quotes, names with a variable in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.session import Session
from hiveacid.spark.session import session_conf
from hiveacid.tables import HiveacidTable

NAMES = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
}
Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def names(spark: SparkSession) -> Iterator[None]:
    with session_conf(spark, NAMES):
        yield


@pytest.fixture
def table(acid: Session) -> str:
    acid.sql("""create table t (id int, a string, b string default "b's", check (a <> "no"))
        stored as orc tblproperties ('transactional'='true')""")
    acid.sql("""insert into t values (1, "a", default), (2, "b", "b"), (3, "c", "it's \\"b\\"")""")
    return "t"


CHANGES = {
    """delete from t where a = "b" """: {1, 3},
    """delete from t where "b" = a or length(b) = 100""": {1, 3},
    """delete from t where a in ("b", 'c')""": {1},
    """delete from t where concat(b, "") = "it's " '"b"' -- "b" """: {1, 2},
    """merge into t using (select "b" as k) s on t.a = s.k when matched then delete""": {1, 3},
}


@pytest.mark.parametrize("text", CHANGES)
def test_a_condition_means_the_same_with_and_without_spark(
    acid: Session, table: str, rows: Rows, text: str
) -> None:
    acid.sql(text)
    assert {one for (one,) in rows("select id from t")} == CHANGES[text]


def test_queries_views_defaults_and_checks_have_strings(
    acid: Session, table: str, rows: Rows
) -> None:
    assert rows("""select id, "a" || `a` from t where a = "a" """) == [(1, "aa")]
    acid.sql("""create view v as select id, "b" as c from t where b = "b's" """)
    assert rows("select * from v") == [(1, "b")]
    acid.sql("""update t set b = default where a like "b%" """)
    assert rows("""select id from t where b = "b's" """) == [(1,), (2,)]
    acid.table("t").update({"b": '"a"'}, where='a = "c"')
    assert rows("select b from t where id = 3") == [("a",)]


def test_strings_side_by_side_are_one_in_defaults_and_checks_too(acid: Session, rows: Rows) -> None:
    """As Hive reads them; Spark 4 reads a quote between them."""
    acid.sql(
        """create table u (id int, s string default 'it''s', check (s <> 'x''y'))
        stored as orc tblproperties ('transactional'='true')"""
    )
    acid.sql("insert into u (id) values (1)")
    with pytest.raises(ConversionError, match="CHECK"):
        acid.sql("insert into u values (2, 'xy')")
    acid.sql("""insert into u values (3, "x'y")""")
    assert rows("select * from u order by id") == [(1, "its"), (3, "x'y")]


def test_texts_of_spark_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    off = {"hiveacid.compactor.auto": "off"}
    hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh", settings=off)
    try:
        spark.sql("create table t (a string, b string) using hiveacid")
        spark.sql("insert into t values ('a', 'b')")
        for text in ('delete from t where "a" = "b"', 'select "a" from t'):
            with pytest.raises(UnsupportedError, match="double quotes"):
                spark.sql(text)
        rows = spark.sql("select * from t")
        with pytest.raises(UnsupportedError, match="double quotes"):
            rows.write.mode("overwrite").option("replaceWhere", '"a" = "b"').saveAsTable("t")
        assert spark.sql("select a from t where a = '\"'  or `b` = 'b'").collect() == [("a",)]
    finally:
        hiveacid.disable(spark)


def test_strings_in_double_quotes_are_strings_where_spark_says_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh")
    try:
        spark.sql("create table t (a string, b string) using hiveacid")
        spark.sql("""insert into t values ("a", "b's"), ("c", "d")""")
        spark.sql("""delete from t where b = "d" """)
        assert spark.sql("""select a, "x" from t where b = "b's" """).collect() == [("a", "x")]
    finally:
        hiveacid.disable(spark)


def test_a_quote_that_stands_twice_is_what_the_session_takes_it_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It was read as Hive reads it: O'Hara was stored, and looked for, without the quote."""
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    acid = hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh")
    is_one = spark.sql("""select 'O''H' = "O'H" """).collect()[0][0]  # not to Spark 3.5
    old = "O'H" if is_one else "OH"
    try:
        spark.sql("create table t (a string, b string) using hiveacid")
        spark.sql("insert into t values ('O''H', '')")
        spark.sql("insert into t select 'O''H' /* it's */, concat('', b) from t -- it''s")
        spark.sql("update t set b = \"x\"\"y\" where a = 'O''H' and b like ''")
        y = 'x"y' if is_one else "xy"
        assert spark.sql("select * from t where a = 'O''H'").collect() == [(old, y)] * 2
        rows = spark.sql("select 'O''H' as a, 'new' as b")
        rows.write.mode("overwrite").option("replaceWhere", "a = 'O''H'").saveAsTable("t")
        assert spark.table("t").collect() == [(old, "new")]
        named = HiveacidTable.forName(spark, "t")
        named.update("a = 'O''H'", {"b": "'Q''H'"})
        assert spark.table("t").collect() == [(old, "Q'H" if is_one else "QH")]
        merge = named.alias("t").merge(rows.alias("s"), "t.a = s.a and s.a = 'O''H'")
        merge.whenMatchedUpdate("t.b <> 'R''H'", {"b": "'R''H'"}).execute()
        assert spark.table("t").collect() == [(old, "R'H" if is_one else "RH")]
        named.delete("a <> 'O''H'")
        acid.sql("update t set b = 'P''H'")
        assert spark.table("t").collect() == [(old, "PH")]
        with session_conf(spark, {"spark.sql.legacy.consecutiveStringLiterals.enabled": "true"}):
            spark.sql("insert into t values ('P''H', 'r''s'), (r'a''b', 'P' 'H')")
        assert {row.a for row in spark.table("t").collect()} == {old, "PH", "ab"}
    finally:
        hiveacid.disable(spark)


STRINGS = (
    *(r"r'\d\'", r"""R"it's\n" """, r"'\u00e9\101\n\%\_\\'", r"'\U0001F600\U0000005Cn\U00000027'"),
    *(r"'\\U0001F600'", "'--x' 'y'", "'/*x*/'", r"'\q\Z'", "X'4142'", "concat('a', \"b'c\")"),
)


def test_strings_of_sparks_own_calls_are_those_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh")
    try:
        spark.sql("create table t (id int, v string) using hiveacid")
        wanted = [spark.sql(f"select cast({text} as string) v").first()[0] for text in STRINGS]
        numbered = list(enumerate(STRINGS))
        spark.sql("insert into t values " + ", ".join(f"({id}, {text})" for id, text in numbered))
        found = spark.sql("select v from t order by id").collect()
        assert [row.v for row in found] == wanted
        for id, text in numbered:
            where = f"v = cast({text} as string)"
            assert spark.sql(f"select id from t where {where}").collect() == [(id,)]
            spark.sql(f"delete from t where {where}")
        assert spark.table("t").count() == 0
    finally:
        hiveacid.disable(spark)


def test_a_name_that_spark_would_replace_is_refused(acid: Session, rows: Rows) -> None:
    assert acid.spark is not None
    acid.create_table("n", "`${v}` string, id string, `p${v}` string", partitioned_by=["p${v}"])
    acid.sql("insert into n values ('a', 'b', 'c')")
    for text in ("select `${v}` from n", "delete from n where concat(id, '') = 'b'"):
        with pytest.raises(UnsupportedError, match="another name for column"):
            acid.sql(text)
    with pytest.raises(UnsupportedError, match="another name for column"):
        acid.table("n").changes(since=0)
    with session_conf(acid.spark, {"spark.sql.variable.substitute": "false"}):
        acid.sql("update n set `${v}` = concat(`${v}`, id)")
        assert rows("select * from n") == [("ab", "b", "c")]
