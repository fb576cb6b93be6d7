"""char(n) has no trailing blanks in a DataFrame, however its files are read."""

from __future__ import annotations


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
