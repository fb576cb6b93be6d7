"""INSERT OVERWRITE ... PARTITION (...) IF NOT EXISTS leaves a partition that is there alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import InvalidInputError, SqlSyntaxError
from hiveacid.session import Session

KINDS = (
    "stored as orc tblproperties ('transactional'='true')",
    "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
    "stored as orc tblproperties ('transactional'='false')",
)


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_that_is_there_keeps_its_rows(acid: Session, kind: str) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int, q string) {kind}")
    acid.sql("insert into t partition (p=1, q='x') values (1), (2)")
    text = "insert overwrite table t partition (p='01', q='{}') if not exists values (9)"
    assert acid.sql(text.format("x")).rows == 0
    assert rows_of(acid) == [(1, 1, "x"), (2, 1, "x")]
    assert acid.sql(text.format("y")).rows == 1
    assert acid.sql(text.format("y")).rows == 0
    assert rows_of(acid) == [(1, 1, "x"), (2, 1, "x"), (9, 1, "y")]
    acid.sql("alter table t add partition (p=2, q='z')")
    assert acid.sql(text.format("z").replace("'01'", "2")).rows == 0
    acid.sql("insert overwrite table t partition (p=1, q='x') values (3)")
    assert rows_of(acid)[0] == (3, 1, "x")


def test_without_partitions_it_says_nothing(acid: Session) -> None:
    acid.sql(f"create table u (id int) {KINDS[0]}")
    acid.sql("insert into u values (1)")
    assert acid.sql("insert overwrite table u if not exists values (2)").rows == 1
    assert hiveacid.read_arrow(acid.table("u")).read_all().column("id").to_pylist() == [2]


def test_a_partition_that_is_not_named_whole_is_an_error(acid: Session) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int, q string) {KINDS[0]}")
    for spec, values in (("partition (p=1, q)", "(1, 'x')"), ("", "(1, 1, 'x')")):
        with pytest.raises(InvalidInputError) as error:
            acid.sql(f"insert overwrite table t {spec} if not exists values {values}")
        assert error.value.code == 10093
    with pytest.raises(SqlSyntaxError):
        acid.sql("insert into t partition (p=1, q='x') if not exists values (1)")
