"""What changed in a table, through Spark: DataFrames and SQL."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from hiveacid.errors import InvalidInputError
from hiveacid.session import Session
from hiveacid.table import AcidTable

ACID = "stored as orc tblproperties ('transactional'='true')"
CHANGED = {
    (2, "delete", 1, "a", "x"),
    (2, "insert", 1, "A", "x"),
    (3, "delete", 3, "c", "y"),
}
PAIRED = {
    (2, "update_preimage", 1, "a", "x"),
    (2, "update_postimage", 1, "A", "x"),
    (3, "delete", 3, "c", "y"),
}


@pytest.fixture
def emp(acid: Session) -> AcidTable:
    """Write ids 1 to 3: three rows in two partitions, an update, a delete."""
    acid.sql(f"create table emp (id int, v char(3)) partitioned by (p string) {ACID}")
    acid.sql("insert into emp values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    acid.sql("update emp set v = 'A' where id = 1")
    acid.sql("delete from emp where id = 3")
    return acid.table("emp")


def events(frame: DataFrame) -> set[tuple[Any, ...]]:
    found = frame.collect()
    names = ("_commit_version", "_change_type", "id", "v", "p")
    told = {tuple(row[name] for name in names) for row in found}
    assert len(told) == len(found)
    return told


@pytest.mark.parametrize("bytes_here", ["4000000", "0"])
def test_changes_are_a_frame_read_here_or_by_tasks(
    acid: Session, emp: AcidTable, bytes_here: str
) -> None:
    acid.sql(f"set hiveacid.reads.local_bytes = {bytes_here}")
    assert events(emp.changes(since=1)) == CHANGED
    assert events(emp.changes(since=1, key="id")) == PAIRED
    assert emp.changes(since=3).columns[-4:] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "_write_id",
    ]
    assert emp.changes(since=3).count() == 0


def test_sql_has_the_words_of_spark_and_of_delta(acid: Session, emp: AcidTable) -> None:
    assert events(acid.sql("select * from table_changes('emp', 2, 3)")) == CHANGED
    assert events(acid.sql("select * from table_changes('default.emp', 2)")) == CHANGED
    assert events(acid.sql("select * from emp changes from version 2 to version 3")) == CHANGED
    paired = "select c.* from emp changes from version 1 exclusive with (key = 'id') as c"
    assert events(acid.sql(paired)) == PAIRED
    joined = acid.sql(
        "select c.id from table_changes('emp', 2) c join emp on emp.id = c.id"
        " where c._change_type = 'insert'"
    )
    assert [row.id for row in joined.collect()] == [1]
    counted = "select count(*) as n from emp changes from version 3 to version 3"
    assert acid.sql(counted).collect()[0].n == 1
    with pytest.raises(InvalidInputError, match="no version 9 yet"):
        acid.sql("select * from table_changes('emp', 9)")
