"""Two tables on one place, and EXTERNAL by property (real-hive.md 11)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from tests.sampling import sampled

from hiveacid import read_arrow
from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.session import Session, connect

ACID = "stored as orc tblproperties ('transactional'='true')"
ROOMS = ("layout", "metastore", "statements", "storage", "takeover")


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
    sampled(
        ["{1}/link", "{0}", "{0}/", "file:{0}", "file://{0}", "{0}/below", "{0}/..", "{1}/link/t"],
        *ROOMS,
        group=bool,
    ),
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


# -------------------------------------------------------------------- a history that is not ours

HOLDS = "holds a transactional table"
COUNTS = "does not say which of its rows count"
OVER_A_HISTORY = {
    "create external table u (id int) stored as orc location '{d}'": HOLDS,
    "create external table u (id int) partitioned by (k string) stored as orc location '{of_p}'":
        HOLDS,
    "create table u (id int) stored as orc location '{d}'": HOLDS,
    "create table u (id int) stored as orc": HOLDS,
    "alter table plain set location '{d}'": HOLDS,
    "alter table plain_p add partition (k='b') location '{d}'": HOLDS,
    "alter table plain_p partition (k='a') set location '{d}'": HOLDS,
    "alter table new set location '{d}'": COUNTS,
    "alter table used set location '{d}'": COUNTS,
    "alter table little set location '{d}'": "has given out 1: it is not this table's",
    "alter table new_p add partition (k='b') location '{d}'": COUNTS,
    "alter table new_p partition (k='a') set location '{d}'": COUNTS,
    f"create table u (id int) {ACID.replace('tbl', 'location {d!r} tbl')}": COUNTS,
}  # fmt: skip


@pytest.fixture
def history(acid: Session, tmp_path: Path) -> dict[str, str]:
    """Directories of tables that the metastore does not know (any more), one of them where the
    default place of ``u`` is, beside tables of all kinds.
    """
    for name in ("t", "of_p"):
        keys = "partitioned by (k string)" if name == "of_p" else ""
        acid.sql(f"create table {name} (id int) {keys} {ACID}")
        part = "partition (k='x')" if keys else ""
        acid.sql(f"insert into {name} {part} values (1)")
        acid.sql(f"insert overwrite table {name} {part} values (2)")
        acid.detach(name)
        (tmp_path / "wh" / name).rename(tmp_path / name)
    shutil.copytree(tmp_path / "t", tmp_path / "wh" / "u")
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("create table plain_p (id int) partitioned by (k string) stored as orc")
    acid.sql(f"create table new (id int) {ACID}")
    acid.sql(f"create table new_p (id int) partitioned by (k string) {ACID}")
    for name in ("plain_p", "new_p"):
        acid.sql(f"alter table {name} add partition (k='a')")
    for name, writes in (("used", 3), ("little", 1)):
        acid.sql(f"create table {name} (id int) {ACID}")
        for number in range(writes):
            acid.sql(f"insert into {name} values ({number})")
    return {"d": str(tmp_path / "t"), "of_p": str(tmp_path / "of_p")}


@pytest.mark.parametrize("statement", OVER_A_HISTORY)
def test_a_history_that_is_not_ours_is_not_taken_by_the_way(
    acid: Session, history: dict[str, str], statement: str
) -> None:
    before = acid.sql("show tables").rows, ids(acid, "used"), ids(acid, "little")
    with pytest.raises(InvalidInputError, match=OVER_A_HISTORY[statement]):
        acid.sql(statement.format(**history))
    assert (acid.sql("show tables").rows, ids(acid, "used"), ids(acid, "little")) == before
    assert acid.sql("show partitions plain_p").rows == (("k=a",),)


def ids(acid: Session, table: str) -> list[int]:
    rows: list[dict[str, int]] = read_arrow(acid.table(table)).read_all().to_pylist()
    return sorted(row["id"] for row in rows)


def test_files_that_were_moved_or_decide_themselves_are_taken(
    acid: Session, history: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "wh" / "used").rename(tmp_path / "moved")
    acid.sql(f"alter table used set location '{tmp_path}/moved'")
    assert ids(acid, "used") == [0, 1, 2]
    shutil.copytree(tmp_path / "moved", tmp_path / "copied")
    acid.sql(f"alter table used set location '{tmp_path}/copied'")
    acid.sql("insert into used values (3)")
    assert ids(acid, "used") == [0, 1, 2, 3]
    acid.detach("little")  # one write id: its name decides
    acid.sql(f"alter table new set location '{tmp_path}/wh/little'")
    acid.sql("insert into new values (1)")
    assert ids(acid, "new") == [0, 1]


OVER_PLAIN_FILES = {
    "create table u (id int) stored as orc location '{d}' tblproperties ({io})",
    "alter table t set location '{d}'",
    "alter table p add partition (k='a') location '{d}'",
    "msck repair table p",
}


@pytest.mark.parametrize("statement", sorted(OVER_PLAIN_FILES))
def test_files_that_an_insert_only_table_would_not_read_are_not_taken_for_its_own(
    acid: Session, tmp_path: Path, statement: str
) -> None:
    io = "'transactional'='true', 'transactional_properties'='insert_only'"
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("insert into plain values (1), (2)")
    acid.sql(f"create table t (id int) stored as orc tblproperties ({io})")
    acid.sql(
        f"create table p (id int) partitioned by (k string) stored as orc tblproperties ({io})"
    )
    acid.sql("insert into p values (3, 'x')")
    (tmp_path / "files" / "below").mkdir(parents=True)
    (tmp_path / "files" / "000000_0").touch()  # no rows
    (tmp_path / "files" / "_SUCCESS").write_text("none")
    (file,) = (tmp_path / "wh" / "plain").iterdir()
    shutil.copy(file, tmp_path / "files" / "below" / "data.orc")
    shutil.copytree(tmp_path / "files", tmp_path / "wh" / "p" / "k=m")
    with pytest.raises(InvalidInputError, match=r"would not read .*below/data\.orc"):
        acid.sql(statement.format(d=tmp_path / "files", io=io))
    assert acid.sql("show tables").rows == (("p",), ("plain",), ("t",))
    assert acid.sql("show partitions p").rows == (("k=x",),)


AT_ONCE = {
    "a": "create table a (id int) stored as orc location '{d}' "
    "tblproperties ('transactional'='true')",
    "b": "create table b (id int) stored as orc location '{d}'",
    "m": "alter table m set location '{d}'",
    "p": "alter table p add partition (k='x') location '{d}'",
    "q": "alter table q partition (k='y') set location '{d}/below'",
}


@pytest.mark.parametrize("others", ["ab", "am", "ap", "aq", "mp", "mq"])
def test_of_two_who_claim_one_place_at_once_one_gets_it(
    acid: Session,
    metastore_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: str,
) -> None:
    acid.sql(f"create table m (id int) {ACID}")
    acid.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    acid.sql(f"create table q (id int) partitioned by (k string) {ACID}")
    acid.sql("alter table q add partition (k='y')")
    both = Barrier(2)

    def together(real: Any) -> Any:
        def wait_for_the_other(*args: Any, **kwargs: Any) -> Any:
            both.wait(300)
            return real(*args, **kwargs)

        return wait_for_the_other

    for name in (
        "create_table",
        "attach_table",
        "alter_table",
        "add_partitions",
        "alter_partition",
    ):
        monkeypatch.setattr(SqlMetastore, name, together(getattr(SqlMetastore, name)))

    def claims(who: str) -> str:
        with connect(None, metastore_url) as session:
            try:
                session.sql(AT_ONCE[who].format(d=tmp_path / "d"))
            except AcidError as error:
                return f"{type(error).__name__} {error}"
            return "done"

    with ThreadPoolExecutor() as pool:
        said = list(pool.map(claims, others))
    assert said.count("done") == 1
    assert "is not free" in "".join(said), said
