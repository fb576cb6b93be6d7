"""char(n) has no trailing blanks in a DataFrame, however its files are read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.sampling import sampled

ACID = "stored as orc tblproperties('transactional'='true')"
MADE = [
    ("*", "from c", "char(5) varchar(7) array<varchar(2)> varchar(4)"),
    ("v as w, upper(c) u, l", "from c", "varchar(7) string array<varchar(2)>"),
    ("q.k, p", "from (select c k, p from c group by c, p) q", "char(5) varchar(4)"),
    ("cast(c as varchar(3)), concat(cast(1 as char(2)), v) n", "from c", "varchar(3) string"),
    ("cast('a' as char(4)) x, *, cast(p as varchar(2)) z", "from (select p q, p from c) s",
     "char(4) varchar(4) varchar(4) varchar(2)"),
    ("v", "from c union all select 'longer than seven'", "string"),
    ("v", "from seen", "varchar(7)"),
]  # fmt: skip
"""Select items, what follows, the types that CREATE TABLE AS and CREATE VIEW make of it."""


def test_original_files_and_bucket_files_give_the_same_chars(acid, rows):
    acid.sql("create table t (id int, c char(4)) stored as orc")
    acid.sql("insert into t values (1, 'ab')")
    acid.sql("alter table t set tblproperties ('transactional'='true')")
    acid.sql("insert into t values (2, 'ab')")
    assert rows("select id, c from t where c = 'ab'") == [(1, "ab"), (2, "ab")]
    acid.sql(
        "create table n (id int, c char(4)) stored as orc tblproperties('transactional'='true')"
    )
    acid.sql("insert into n values (2, 'ab')")
    assert rows("select id, c from n where c = 'ab'") == [(2, "ab")]


@pytest.mark.parametrize("bytes_here", [0, 262144])
def test_chars_within_others_are_those_of_columns(acid, rows, bytes_here):
    """Whoever reads them: the driver, Spark's readers, ours in its workers."""
    acid.sql(f"set hiveacid.reads.local_bytes = {bytes_here}")
    inside = "struct<x:char(3),a:array<char(3)>>"
    acid.sql(f"create table t (id int, s {inside}, m map<char(2),char(3)>, v array<int>) {ACID}")
    for _ in range(2):
        acid.sql(
            "insert into t select id, if(id = 2, null, named_struct('x', 'q', 'a', array('r',"
            " null))), map('k', 'w', 'l', null), array(1) from range(1, 4)"
        )
    acid.sql("delete from t where id = 3")
    columns = "s.x, s.a[0], m['k'], map_keys(m)"
    one, two = ("q", "r", "w", ["k", "l"]), (None, None, "w", ["k", "l"])
    for source in ("t", "table_changes('t', 1) where _change_type = 'insert'"):
        expected = [one, two] + [one] * (source != "t")
        assert rows(f"select {columns} from {source}") == sorted(expected * 2, key=str)
    assert rows(f"select {columns}, row__id.writeid from t where s.x = 'q'") == [
        (*one, 1), (*one, 2),
    ]  # fmt: skip
    assert acid.sql("update t set v = array(2) where s.a[0] = 'r'").rows == 2
    assert rows("select count(*) from t where m['k'] = 'w' and array_contains(s.a, 'r')") == [(2,)]


@pytest.mark.parametrize("bytes_here", [0, 262144])
def test_longer_texts_of_parquet_files_are_cut_as_in_hive(acid, rows, tmp_path, bytes_here):
    """Such files say nothing of lengths, and other writers and older definitions know others."""
    acid.sql(f"set hiveacid.reads.local_bytes = {bytes_here}")
    (tmp_path / "p").mkdir()
    texts = pa.table({"c": ["abc   ", "abcdef"], "v": ["abc   ", "abcdef"], "l": [["abc"], None]})
    parquet.write_table(texts.append_column("s", texts.to_struct_array()), tmp_path / "p" / "f")
    fields = "c char(5), v varchar(4)"
    acid.sql(
        f"create external table p ({fields}, s struct<c:char(5),v:varchar(4)>)"
        f" stored as parquet location '{tmp_path}/p'"
    )
    expected = [("abc", "abc ", "abc", "abc "), ("abcde", "abcd", "abcde", "abcd")]
    assert rows("select c, v, s.c, s.v from p") == expected
    assert rows("select count(*) from p where v = 'abcd'") == [(1,)]
    acid.sql(
        f"create external table l (l array<varchar(2)>) stored as parquet location '{tmp_path}/p'"
    )
    assert rows("select l from l where l is not null") == [(["ab"],)]


@pytest.mark.parametrize(
    ("items", "source", "types"), sampled(MADE, "spark", "sql", "statements", group=len)
)
def test_what_is_made_of_a_query_has_its_chars(acid, rows, items, source, types):
    columns = "(c char(5), v varchar(7), l array<varchar(2)>) partitioned by (p varchar(4))"
    acid.sql(f"create table c {columns} {ACID}")
    acid.sql("insert into c select 'ab', 'abc', array('a'), 'pp'")
    acid.sql("create view seen as select v from c")
    acid.sql(f"create table made {ACID} as select {items} {source}")
    acid.sql(f"create view view_of_it as select {items} {source}")
    wanted = types.split(" ")
    assert [row["data_type"] for row in acid.sql("describe made").collect()] == wanted
    assert [row["data_type"] for row in acid.sql("describe view_of_it").collect()] == wanted
    assert rows("select * from made") == rows("select * from view_of_it")
