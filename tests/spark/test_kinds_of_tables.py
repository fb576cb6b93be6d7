"""MERGE, UPDATE and DELETE on each kind of table: an answer, or an error with Hive's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.sampling import sampled

from hiveacid.errors import AcidError, InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

FULL: Final = "stored as orc tblproperties ('transactional'='true')"
SOME: Final = "'transactional'='true', 'transactional_properties'='insert_only'"
KINDS: Final = {
    "full": f"(id int, v string) {FULL}",
    "parted": f"(id int, v string) partitioned by (k int) {FULL}",
    "bucketed": f"(id int, v string) clustered by (id) into 3 buckets {FULL}",
    "no_rows": f"(id int, v string) {FULL}",
    "some": f"(id int, v string) stored as orc tblproperties ({SOME})",
    "some_parted": "(id int, v string) partitioned by (k int) stored as parquet "
    f"tblproperties ({SOME})",
    "plain": "(id int, v string) stored as orc",
    "parquet": "(id int, v string) stored as parquet",
    "text": "(id int, v string) stored as textfile",
    "buckets": "(id int, v string) clustered by (id) into 4097 buckets stored as orc",
}
ROWS: Final = ("full", "parted", "bucketed", "no_rows")
Rows = Callable[[str], list[tuple[Any, ...]]]
USING: Final = "merge into {name} t using given s on t.id = s.id when "
STATEMENTS: Final = {
    "matched then update set v = 'u'": {1: "u", 2: "b"},
    "matched and s.v = 'x' then delete": {2: "b"},
    "not matched then insert values (s.id, s.v{key})": {1: "a", 2: "b", 9: "y"},
    "not matched by source then update set v = 'w'": {1: "a", 2: "w"},
    "not matched by source then delete": {1: "a"},
}


def _code_of(kind: str, *, only_inserts: bool) -> int | None:
    if kind in ROWS or only_inserts:
        return None
    return 10414 if kind.startswith("some") else 10297


@pytest.mark.parametrize(
    "kind",
    sampled(
        KINDS,
        *("statements", "spark", "storage", "sql"),
        group=lambda kind: _code_of(kind, only_inserts=False),
    ),
)
def test_each_clause_alone(acid: Session, spark: SparkSession, rows: Rows, kind: str) -> None:
    spark.sql("select * from values (1, 'x', 1), (9, 'y', 9) as s(id, v, k)").createTempView(
        "given"
    )
    wrong = []
    try:
        acid.sql(f"create table {kind} {KINDS[kind]}")
        key = ", s.k" if "parted" in kind else ""
        for clause, expected in STATEMENTS.items():
            if kind != "no_rows":
                made = "1, 'a'{}), (2, 'b'{}".format(*((", 1", ", 2") if key else ("", "")))
                acid.sql(f"insert overwrite table {kind} values ({made})")
            else:
                acid.sql(f"truncate table {kind}")
                expected = {1: "x", 9: "y"} if "insert" in clause else {}
            wanted = _code_of(kind, only_inserts="insert" in clause)
            try:
                acid.sql((USING + clause).format(name=kind, key=key))
                found: Any = dict(rows(f"select id, v from {kind}"))
            except AcidError as error:
                found = error.code
            if found != (expected if wanted is None else wanted):
                wrong.append(f"{clause}: {found}")
            if "parted" in kind:  # the overwrite replaces the partitions that it writes
                acid.sql(f"truncate table {kind}")
        for text in ("update {} set v = 'z' where id = 1", "delete from {} where id = 1"):
            try:
                acid.sql(text.format(kind))
                found = None
            except AcidError as error:
                found = error.code
            if found != _code_of(kind, only_inserts=False):
                wrong.append(f"{text}: {found}")
    finally:
        spark.catalog.dropTempView("given")
    assert not wrong, "\n".join(wrong)


def test_update_all_of_a_merge_moves_no_row(acid: Session, spark: SparkSession, rows: Rows) -> None:
    acid.sql(
        "create table t (id int, v string, w string) partitioned by (k string) "
        f"clustered by (id) into 4 buckets {FULL}"
    )
    table = acid.table("t")
    table.insert([{"id": n, "v": f"v{n}", "w": "old", "k": None} for n in range(8)])
    text = "select {} id, concat('v', id) v, 'new' w, {} k from range(4)"
    for moved, code in ((("100 + id", "null"), 10302), (("id", "'x'"), 10292)):
        with pytest.raises(InvalidInputError, match=r"is not supported\. Column") as caught:
            table.merge(spark.sql(text.format(*moved)), on="v").when_matched_update_all().run()
        assert caught.value.code == code
    same = spark.sql(text.format("cast(id as int)", "null"))
    assert table.merge(same, on="v").when_matched_update_all().run().updated == 4
    assert [row[0] for row in rows("select id from t where w = 'new' and id = 3")] == [3]


def test_numbers_become_smaller_integers_as_in_hive(acid: Session, rows: Rows) -> None:
    acid.sql(f"create table s (n int, v bigint, d double, m decimal(20,3), x string) {FULL}")
    acid.sql(
        "insert into s values (1, 300, 300.7, 300.567, '300'), "
        "(2, 3000000000, 1e10, 3000000000.5, '3000000000'), (3, -129, -129.9, -129.5, '-129'), "
        "(4, 9223372036854775807, 1e300, 99999.999, '40000'), (5, 128, 1e19, 128.4, '99999')"
    )
    acid.sql(f"create table t (n int, a tinyint, b smallint, c int, d bigint) {FULL}")
    answers = {
        "v": [
            *((1, 44, 300, 300, 300), (2, 0, 24064, -1294967296, 3000000000)),
            *((3, 127, -129, -129, -129), (4, -1, -1, -1, 9223372036854775807)),
            (5, -128, 128, 128, 128),
        ],
        "d": [
            *((1, 44, 300, 300, 300), (2, 0, -7168, 1410065408, 10000000000)),
            *((3, 127, -129, -129, -129), (4, -1, -1, -1, 9223372036854775807)),
            (5, -1, -1, -1, 9223372036854775807),
        ],
        "m": [
            *((1, None, 300, 300, 300), (2, None, None, None, 3000000000)),
            *((3, None, -129, -129, -129), (4, None, None, 99999, 99999)),
            (5, None, 128, 128, 128),
        ],
        "x": [
            *((1, None, 300, 300, 300), (2, None, None, None, 3000000000)),
            *((3, None, -129, -129, -129), (4, None, None, 40000, 40000)),
            (5, None, None, 99999, 99999),
        ],
    }
    for column, expected in answers.items():
        c = column
        acid.sql(f"insert overwrite table t select n, {c}, {c}, {c}, {c} from s")
        assert rows("select * from t") == expected, column
    acid.sql("update t set a = 300, c = 3000000000 where n = 1")
    assert rows("select a, c from t where n = 1") == [(44, -1294967296)]


def test_columns_of_a_query_by_name(acid: Session, spark: SparkSession, rows: Rows) -> None:
    acid.sql(
        "create table b (id bigint, v string default 'd', n int) partitioned by (p string)"
        " stored as orc tblproperties ('transactional'='true')"
    )
    acid.sql("insert into b by name select 'x' p, 5 N, 1 id")
    acid.sql("insert into b partition (p='y') by name select 2 id")
    acid.sql("with q as (select 3 id, 'z' p) insert overwrite b by name select * from q")
    assert rows("select * from b order by id") == [
        (1, "d", 5, "x"),
        (2, "d", None, "y"),
        (3, "d", None, "z"),
    ]
    for query, why in {
        "select 1 id, 'x' p, 2 other": "other",
        "select 1 id": "lacks the partition columns p",
        "select 1 id, 2 id, 'x' p": "twice",
    }.items():
        with pytest.raises(InvalidInputError, match=why):
            acid.sql(f"insert into b by name {query}")
