"""Statements that need Spark, while a definition changes before they have their locks.

The same as ``tests/conformance/test_definitions_under_the_lock.py``, which tells how the order is
made certain; here on SQLite, for what Spark reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.conformance.test_definitions_under_the_lock import ACID, Trio
from tests.e2e.tables import rows_of

from hiveacid.errors import AcidError, NotFoundError
from hiveacid.session import Session

pytestmark = pytest.mark.spark


@pytest.fixture
def trio(spark: SparkSession, tmp_path: Path) -> Iterator[Trio]:
    found = Trio(f"sqlite:///{tmp_path}/metastore.db", tmp_path / "wh")
    found.a.use_spark(spark)
    found.b.use_spark(spark)
    found.r.sql(f"create table t (id int, v string) {ACID}")
    found.r.sql("insert into t values (1, 'a'), (2, 'b')")
    found.r.sql(f"create table u (id int, v string) {ACID}")
    found.r.sql("insert into u values (1, 'x'), (9, 'y')")
    found.r.sql(f"create table m (id int, v string) {ACID}")
    yield found
    found.close()


MERGE = (
    "merge into {} t using {} s on t.id = s.id when matched then update set v = s.v "
    "when not matched then insert values (s.id, s.v)"
)
STATEMENTS: dict[str, str] = {
    "select": "select * from t",
    "count": "select count(*) from t",
    "select from a view": "select * from w",
    "insert select": "insert into t select * from u",
    "insert from it": "insert into u select * from t",
    "overwrite select": "insert overwrite table t select * from u",
    "multi-insert": "from u insert into t select id, v insert into m select id, 'm'",
    "update": "update t set v = 'z' where id = 1",
    "delete": "delete from t where id = 1",
    "delete by a subquery": "delete from u where id in (select id from t)",
    "merge": MERGE.format("t", "u"),
    "merge from it": MERGE.format("u", "t"),
    "analyze": "analyze table t compute statistics for columns",
}


def _statement(text: str) -> Callable[[Session], Any]:
    def run(acid: Session) -> Any:
        answer = acid.sql(text)
        return sorted(map(tuple, answer.collect())) if hasattr(answer, "collect") else answer

    return run


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_table_that_is_gone_is_not_found(trio: Trio, kind: str) -> None:
    trio.b.sql("create view w as select id, v from t")
    before = rows_of(trio.r, "u")
    definitions = ["alter table t rename to t2"]
    answer = trio.behind_definitions(definitions, _statement(STATEMENTS[kind]), table="t")
    assert isinstance(answer, NotFoundError), answer
    assert not (trio.root / "t").exists()
    assert rows_of(trio.r, "t2") == [(1, "a"), (2, "b")]
    assert rows_of(trio.r, "u") == before
    assert trio.r.client.metastore.show_locks() == ()


NEW = ["drop table t", f"create table t (id int, v string) {ACID}", "insert into t values (1, 'n')"]
TO_THE_TABLE_THERE_IS: dict[str, list[tuple[Any, ...]]] = {
    "insert select": [(1, "n"), (1, "x"), (9, "y")],
    "overwrite select": [(1, "x"), (9, "y")],
    "multi-insert": [(1, "n"), (1, "x"), (9, "y")],
    "update": [(1, "z")],
    "delete": [],
    "merge": [(1, "x"), (9, "y")],
}


@pytest.mark.parametrize("kind", TO_THE_TABLE_THERE_IS)
def test_a_statement_goes_to_the_table_of_that_name(trio: Trio, kind: str) -> None:
    answer = trio.behind_definitions(NEW, _statement(STATEMENTS[kind]), table="t")
    assert not isinstance(answer, AcidError), answer
    assert rows_of(trio.r, "t") == TO_THE_TABLE_THERE_IS[kind]


def test_a_query_has_the_columns_that_the_table_got(trio: Trio) -> None:
    added = ["alter table t add columns (c int)"]
    answer = trio.behind_definitions(added, _statement("select * from t"), table="t")
    assert answer == [(1, "a", None), (2, "b", None)]


def test_a_query_has_the_text_that_its_view_got(trio: Trio) -> None:
    trio.b.sql("create view w as select id, v from t")
    changed = ["alter view w as select id from t"]
    answer = trio.behind_definitions(changed, _statement("select * from w"), table="t")
    assert answer == [(1,), (2,)]


def test_create_table_as_reads_the_table_there_is(trio: Trio) -> None:
    text = f"create table made {ACID} as select * from t"
    added = ["alter table t add columns (c int)"]
    trio.behind_definitions(added, _statement(text), table="t")
    assert rows_of(trio.r, "made") == [(1, "a", None), (2, "b", None)]
