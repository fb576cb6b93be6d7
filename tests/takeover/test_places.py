"""Two tables on one place, and EXTERNAL by property (real-hive.md 11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.session import Session, connect

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as session:
        yield session


@pytest.fixture
def place(acid: Session, tmp_path: Path) -> str:
    """The directory of a transactional table, which a symbolic link names, too."""
    path = tmp_path / "data" / "t"
    path.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    acid.sql(f"create table t (id int) {ACID.replace('tbl', f'location {str(path)!r} tbl')}")
    return str(path)


@pytest.mark.parametrize(
    "written",
    ["{0}", "{0}/", "file:{0}", "file://{0}", "{0}/below", "{0}/..", "{1}/link/t", "{1}/link"],
)
@pytest.mark.parametrize("what", ["managed", "external", "plain", "partition", "moved"])
def test_the_place_of_a_transactional_table_is_its_own(
    acid: Session, place: str, tmp_path: Path, written: str, what: str
) -> None:
    location = written.format(place, tmp_path)
    statement = {
        "managed": f"create table u (id int) stored as orc location '{location}'"
        " tblproperties ('transactional'='true')",
        "external": f"create external table u (id int) stored as orc location '{location}'",
        "plain": f"create table u (id int) stored as orc location '{location}'",
        "partition": f"alter table p add partition (k='a') location '{location}'",
        "moved": f"alter table m set location '{location}'",
    }[what]
    acid.sql("create table p (id int) partitioned by (k string) stored as orc")
    acid.sql("create table m (id int) stored as orc")
    with pytest.raises(InvalidInputError, match=r"default\.t|transactional table"):
        acid.sql(statement)
    assert acid.sql("show tables").rows == (("m",), ("p",), ("t",))
    assert acid.sql("show partitions p").rows == ()


def test_plain_tables_may_share_a_place(acid: Session, tmp_path: Path) -> None:
    for name in ("a", "b"):
        acid.sql(f"create external table {name} (id int) stored as orc location '{tmp_path}/x'")
    assert acid.sql("show tables").rows == (("a",), ("b",))


def test_rename_does_not_move_a_table_to_anothers_place(acid: Session, tmp_path: Path) -> None:
    location = f"location '{tmp_path}/wh/u'"
    acid.sql(f"create table t (id int) {ACID.replace('tbl', location + ' tbl')}")
    acid.sql(f"create table v (id int) {ACID}")
    with pytest.raises(InvalidInputError, match=r"default\.t"):
        acid.sql("alter table v rename to u")
    assert (tmp_path / "wh" / "v").is_dir()
    acid.sql("alter table v rename to w")
    with pytest.raises(InvalidInputError, match=r"default\.t"):
        acid.sql(f"create table u (id int) {ACID}")


def test_partitions_of_a_transactional_table_have_places_of_their_own(
    acid: Session, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int) partitioned by (k string) {ACID}")
    acid.sql(f"alter table t add partition (k='a') location '{tmp_path}/a'")
    for where in (f"{tmp_path}/a", f"{tmp_path}/a/b", f"{tmp_path}/wh/t", f"{tmp_path}/wh"):
        with pytest.raises(InvalidInputError, match=r"default\.t"):
            acid.sql(f"alter table t add partition (k='b') location '{where}'")
    acid.sql(f"alter table t add partition (k='b') location '{tmp_path}/wh/t/other'")
    acid.sql("alter table t add partition (k='c')")
    with pytest.raises(InvalidInputError, match=r"partition k=a"):
        acid.sql(f"create external table u (id int) stored as orc location '{tmp_path}/a/b'")


def kind_of(acid: Session, table: str) -> str:
    rows = acid.sql(f"describe formatted {table}").rows
    return next(row[1] or "" for row in rows if (row[0] or "").startswith("Table Type")).strip()


def test_external_by_property_is_what_hive_makes_of_it(acid: Session, tmp_path: Path) -> None:
    acid.sql("create table m (id int) stored as orc")
    steps = {
        "set tblproperties ('external'='true')": "MANAGED_TABLE",
        "set tblproperties ('EXTERNAL'='true')": "EXTERNAL_TABLE",
        "set tblproperties ('EXTERNAL'='FALSE')": "MANAGED_TABLE",
        "set tblproperties ('EXTERNAL'='TRUE')": "EXTERNAL_TABLE",
        "unset tblproperties ('EXTERNAL')": "MANAGED_TABLE",
    }
    for step, kind in steps.items():
        acid.sql(f"alter table m {step}")
        assert kind_of(acid, "m") == kind, step
    acid.sql("alter table m set tblproperties ('EXTERNAL'='TRUE')")
    assert acid.sql("show create table m").rows[0][0].startswith("CREATE EXTERNAL TABLE")
    acid.sql("drop table m")
    assert (tmp_path / "wh" / "m").is_dir()
    acid.sql("create table c (id int) stored as orc tblproperties ('EXTERNAL'='TRUE')")
    assert kind_of(acid, "c") == "EXTERNAL_TABLE"


def test_a_transactional_table_does_not_become_external(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(InvalidInputError, match="cannot be converted to external") as caught:
        acid.sql("alter table t set tblproperties ('EXTERNAL'='TRUE')")
    assert caught.value.code == 40013
    assert kind_of(acid, "t") == "MANAGED_TABLE"
    acid.sql("create external table e (id int) stored as orc")
    with pytest.raises(InvalidInputError, match="cannot be declared transactional"):
        acid.sql("alter table e set tblproperties ('transactional'='true')")
    acid.sql("alter table e set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')")
    assert kind_of(acid, "e") == "MANAGED_TABLE"
