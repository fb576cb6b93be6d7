"""``hiveacid.file.names``: files that Hive 3.1 reads have no attempt in their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.session import Session, connect


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def create(acid: Session, more: str) -> None:
    acid.sql(f"create table t (id int) stored as orc tblproperties('transactional'='true'{more})")


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "wh/t").rglob("bucket_*"))


def test_names_are_those_of_hive_4_until_the_table_says_hive3(
    acid: Session, tmp_path: Path
) -> None:
    create(acid, "")
    acid.sql("insert into t values (1)")
    assert names(tmp_path) == ["bucket_00000_0"]
    acid.sql("alter table t set tblproperties('HiveAcid.File.Names'='HIVE3')")
    acid.sql("insert into t values (2)")
    assert names(tmp_path) == ["bucket_00000", "bucket_00000_0"]
    acid.sql("alter table t unset tblproperties('hiveacid.file.names')")
    acid.sql("insert into t values (3)")
    assert names(tmp_path) == ["bucket_00000", "bucket_00000_0", "bucket_00000_0"]


def test_an_overwrite_is_named_so_too(acid: Session, tmp_path: Path) -> None:
    create(acid, ", 'hiveacid.file.names'='hive3'")
    acid.sql("insert overwrite table t values (2)")
    assert [path.parent.name for path in (tmp_path / "wh/t").rglob("bucket_00000")] == [
        "base_0000001"
    ]


def test_other_names_are_refused(acid: Session) -> None:
    refused = "'hiveacid.file.names' is 'hive3' or 'hive4', not 'hive2'"
    with pytest.raises(InvalidInputError, match=refused):
        create(acid, ", 'hiveacid.file.names'='hive2'")
    create(acid, "")
    with pytest.raises(InvalidInputError, match=refused):
        acid.sql("alter table t set tblproperties('hiveacid.file.names'='hive2')")
