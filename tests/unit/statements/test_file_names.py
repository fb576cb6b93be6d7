"""``hiveacid.compat``: files that Hive 3.1 reads have no attempt in their names, and no ZSTD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import TableName
from hiveacid.session import Session, connect
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.tail import read_tail


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def create(acid: Session, more: str) -> None:
    acid.sql(f"create table t (id int) stored as orc tblproperties('transactional'='true'{more})")


def names(tmp_path: Path) -> list[str]:
    """Those of the metastore's first table, whose number is 1."""
    return sorted(path.name for path in (tmp_path / "wh/t").rglob("bucket_*"))


def test_names_are_those_of_hive_4_until_the_table_says_hive3(
    acid: Session, tmp_path: Path
) -> None:
    create(acid, "")
    acid.sql("insert into t values (1)")
    assert names(tmp_path) == ["bucket_00000_1"]
    acid.sql("alter table t set tblproperties('HiveAcid.File.Names'='HIVE3')")
    acid.sql("insert into t values (2)")
    assert names(tmp_path) == ["bucket_00000", "bucket_00000_1"]
    acid.sql("alter table t unset tblproperties('hiveacid.file.names')")
    acid.sql("insert into t values (3)")
    assert names(tmp_path) == ["bucket_00000", "bucket_00000_1", "bucket_00000_1"]


def test_an_overwrite_is_named_so_too(acid: Session, tmp_path: Path) -> None:
    create(acid, ", 'hiveacid.file.names'='hive3'")
    acid.sql("insert overwrite table t values (2)")
    assert [path.parent.name for path in (tmp_path / "wh/t").rglob("bucket_00000")] == [
        "base_0000001"
    ]


def test_other_names_are_refused(acid: Session) -> None:
    refused = "'hiveacid.compat' is 'hive3' or 'hive4', not 'hive2'"
    with pytest.raises(InvalidInputError, match=refused):
        create(acid, ", 'hiveacid.file.names'='hive2'")
    create(acid, "")
    with pytest.raises(InvalidInputError, match=refused):
        acid.sql("alter table t set tblproperties('hiveacid.file.names'='hive2')")


def codecs(tmp_path: Path) -> list[str]:
    fs = Files().at("/")[0]
    return [
        read_tail(fs, str(path)).compression.name
        for path in sorted((tmp_path / "wh/t").rglob("bucket_*"))
    ]


def stored(acid: Session) -> dict[str, str]:
    table = acid.client.metastore.get_table(TableName("default", "t"))
    keys = ("orc.compress", "hiveacid.compat", "hiveacid.file.names")
    return {key: text for key, text in table.properties.items() if key in keys}


def test_new_tables_are_compressed_by_zstd_and_say_so(acid: Session, tmp_path: Path) -> None:
    create(acid, "")
    acid.sql("insert into t values (1)")
    assert stored(acid) == {"orc.compress": "ZSTD"}
    assert codecs(tmp_path) == ["ZSTD"]


@pytest.mark.parametrize("key", ["hiveacid.compat", "HiveAcid.File.Names"])
def test_hive_3_gets_its_names_and_its_codec(acid: Session, tmp_path: Path, key: str) -> None:
    create(acid, f", '{key}'='hive3'")
    acid.sql("insert into t values (1)")
    assert stored(acid) == {"hiveacid.compat": "hive3"}
    assert (names(tmp_path), codecs(tmp_path)) == (["bucket_00000"], ["ZLIB"])
    acid.sql("alter table t unset tblproperties('hiveacid.compat')")
    acid.sql("insert into t values (2)")
    assert (names(tmp_path), codecs(tmp_path)[1]) == (["bucket_00000", "bucket_00000_1"], "ZLIB")


def test_a_table_that_turns_to_hive_3_leaves_zstd(acid: Session, tmp_path: Path) -> None:
    create(acid, "")
    acid.sql("alter table t set tblproperties('hiveacid.compat'='hive3')")
    acid.sql("insert into t values (1)")
    assert stored(acid) == {"hiveacid.compat": "hive3", "orc.compress": "ZLIB"}
    assert codecs(tmp_path) == ["ZLIB"]
    with pytest.raises(InvalidInputError, match="Hive 3 reads no ORC files compressed by zstd"):
        acid.sql("alter table t set tblproperties('orc.compress'='zstd')")


def test_what_a_table_says_of_its_codec_counts(acid: Session, tmp_path: Path) -> None:
    create(acid, ", 'orc.compress'='SNAPPY'")
    acid.sql("insert into t values (1)")
    assert codecs(tmp_path) == ["SNAPPY"]
    acid.sql("drop table t")
    with pytest.raises(InvalidInputError, match="Hive 3 reads no ORC files compressed by ZSTD"):
        create(acid, ", 'orc.compress'='ZSTD', 'hiveacid.compat'='hive3'")
    with pytest.raises(InvalidInputError, match="is both 'hive3' and 'hive4'"):
        create(acid, ", 'hiveacid.file.names'='hive3', 'hiveacid.compat'='hive4'")


def test_a_table_from_before_keeps_its_codec(acid: Session, tmp_path: Path) -> None:
    create(acid, ", 'orc.compress'='ZLIB'")
    acid.sql("insert into t values (1)")
    acid.sql("alter table t unset tblproperties('orc.compress')")  # as made by an earlier version
    acid.sql("insert into t values (2)")
    assert stored(acid) == {}
    assert codecs(tmp_path) == ["ZLIB", "ZLIB"]
    acid.sql(
        f"create table u (id int) stored as orc location '{tmp_path}/wh/empty'"
        " tblproperties('transactional'='true')"
    )
    table = acid.client.metastore.get_table(TableName("default", "u"))
    assert table.properties["orc.compress"] == "ZSTD"
