"""DDL, SHOW, DESCRIBE and SET through a session without Spark, on a metastore of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    SqlSyntaxError,
)
from hiveacid.model.tables import AcidMode, TableKind, TableName, TxnId
from hiveacid.session import Session, connect
from hiveacid.statements import create_as
from hiveacid.statements.values import Listing

ACID = "stored as orc tblproperties('transactional'='true')"
Row = tuple[str | None, ...]


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


def rows(session: Session, text: str) -> tuple[Row, ...]:
    result = session.sql(text)
    assert isinstance(result, Listing)
    return result.rows


def first_cells(session: Session, text: str) -> list[str | None]:
    return [row[0] for row in rows(session, text)]


def write_ids(session: Session, table: str) -> int:
    """The highest write id that anybody has."""
    (valid,) = session.client.metastore.valid_write_ids([TableName("default", table)])
    return valid.hwm


def test_the_comment_of_a_table_is_one_of_its_properties(acid: Session) -> None:
    acid.sql("create table t (a int) comment 'c' stored as orc")
    assert rows(acid, "show tblproperties t('comment')") == (("comment", "c"),)
    acid.sql("alter table t set tblproperties ('comment'='d')")
    assert ("comment", "d") in rows(acid, "show tblproperties t")


def test_a_relative_location_of_a_partition_is_below_its_table(
    acid: Session, tmp_path: Path
) -> None:
    acid.sql("create table t (a int) partitioned by (p int) stored as orc")
    acid.sql("alter table t add partition (p=1) location 'here'")
    (partition,) = acid.client.metastore.list_partitions(TableName("default", "t"))
    assert partition.location == str(tmp_path / "wh/t/here")
    assert Path(partition.location).is_dir()


def test_show_tables_leaves_out_a_table_that_is_still_being_made_of_rows(
    acid: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("create table there (id int)")
    seen: list[list[str]] = []
    write = create_as._write

    def noting(*arguments: Any) -> None:
        seen.append(first_cells(acid, "show tables"))
        write(*arguments)

    monkeypatch.setattr(create_as, "_write", noting)
    acid.create_table("made", pa.table({"id": [1]}))
    assert seen == [["there"]]
    assert first_cells(acid, "show tables") == ["made", "there"]


# -------------------------------------------------------------------- databases


def test_databases(acid: Session, tmp_path: Path) -> None:
    acid.sql("create database d comment 'c' with dbproperties ('a'='b')")
    acid.sql("create database if not exists d")
    with pytest.raises(AlreadyExistsError):
        acid.sql("create database d")
    assert first_cells(acid, "show databases") == ["d", "default"]
    assert first_cells(acid, "show databases like 'de*|x'") == ["default"]
    location = str(tmp_path / "wh/d.db")
    assert rows(acid, "describe database d") == (("d", "c", location),)
    assert rows(acid, "describe database extended d") == (("d", "c", location, "{a=b}"),)
    acid.sql("alter database d set dbproperties ('a'='c', 'e'='f')")
    assert rows(acid, "describe database extended d") == (("d", "c", location, "{a=c, e=f}"),)
    again = "\n".join(first_cells(acid, "show create database d"))
    acid.sql("drop database d")
    acid.sql(again)
    assert rows(acid, "describe database extended d") == (("d", "c", location, "{a=c, e=f}"),)
    acid.sql("use d")
    acid.sql("create table t (id int)")
    assert (tmp_path / "wh/d.db/t").is_dir()
    assert first_cells(acid, "show tables") == ["t"]
    assert first_cells(acid, "show tables in default") == []
    with pytest.raises(InvalidInputError):
        acid.sql("drop database d")
    assert (tmp_path / "wh/d.db/t").is_dir()
    acid.sql("drop database d cascade")
    assert not (tmp_path / "wh/d.db").exists()
    assert acid.database == "default"
    acid.sql("drop database if exists d")
    altered = "alter database d set dbproperties ('a'='b')"
    for text in ("drop database d", "use d", "drop database default", altered):
        with pytest.raises((NotFoundError, InvalidInputError)):
            acid.sql(text)


# -------------------------------------------------------------------- tables


def test_a_table_is_made_shown_and_dropped(acid: Session, tmp_path: Path) -> None:
    acid.sql(
        "create table t (id int comment 'key', v varchar(10), n int not null default 7) "
        f"partitioned by (p string) clustered by (id) into 4 buckets {ACID}"
    )
    table = acid.client.metastore.get_table(TableName("default", "t"))
    assert table.properties["transactional_properties"] == "default"
    assert table.properties["bucketing_version"] == "2"
    assert table.location == str(tmp_path / "wh/t")
    assert rows(acid, "describe t") == (
        ("id", "int", "key"),
        ("v", "varchar(10)", ""),
        ("n", "int", ""),
        ("p", "string", ""),
        ("", None, None),
        ("# Partition Information", None, None),
        ("# col_name", "data_type", "comment"),
        ("p", "string", ""),
    )
    assert rows(acid, "describe t v") == (("v", "varchar(10)", "from deserializer"),)
    assert ("Default Value:7") in [row[1] for row in rows(acid, "describe formatted t")]
    assert first_cells(acid, "show columns in t like 'v|p'") == ["v", "p"]
    assert rows(acid, "show tblproperties t('transactional')") == (("transactional", "true"),)
    assert "hiveacid" not in str(rows(acid, "show tblproperties t"))
    acid.sql("drop table t")
    acid.sql("drop table t")
    assert not (tmp_path / "wh/t").exists()
    assert first_cells(acid, "show tables") == []


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s", [("f", "int"), ("g", "array<int>")]),
        ("s.F", [("f", "int")]),
        ("s.g.$elem$", [("$elem$", "int")]),
        ("m", [("m", "map<string,struct<z:int>>")]),
        ("m.$key$", [("$key$", "string")]),
        ("m.$value$", [("z", "int")]),
        ("m.$value$.z", [("z", "int")]),
    ],
)
def test_what_is_inside_a_column_is_described_as_in_hive(
    acid: Session, path: str, shown: list[tuple[str, str]]
) -> None:
    acid.sql("create table t (s struct<f:int,g:array<int>>, m map<string,struct<z:int>>)")
    assert list(rows(acid, f"describe t {path}")) == [(*one, "from deserializer") for one in shown]
    with pytest.raises(InvalidInputError) as refused:
        acid.sql("describe t m.z")
    assert refused.value.code == 10004


def test_tables_are_shown_by_type(acid: Session) -> None:
    acid.sql("create table t (i int)")
    acid.sql("create external table e (i int)")
    assert first_cells(acid, "show tables where `table_type` = 'EXTERNAL_TABLE'") == ["e"]
    assert first_cells(acid, "show materialized views") == []


def test_show_create_table_makes_the_same_table(acid: Session) -> None:
    acid.sql(
        "create table t (id int not null comment 'it\\'s', v string default 'a') comment 'c' "
        f"partitioned by (p int comment 'q') clustered by (id) into 2 buckets {ACID}"
    )
    before = acid.client.metastore.get_table(TableName("default", "t"))
    text = "\n".join(str(line) for line in first_cells(acid, "show create table t"))
    acid.sql("drop table t")
    acid.sql(text)
    after = acid.client.metastore.get_table(TableName("default", "t"))
    for name in ("columns", "partition_columns", "bucket", "properties", "comment", "location"):
        assert getattr(after, name) == getattr(before, name), name


def test_create_table_like_takes_all_but_the_location(acid: Session) -> None:
    acid.sql(
        f"create table s (id int) partitioned by (p string) clustered by (id) into 2 buckets {ACID}"
    )
    acid.sql("create table t like s tblproperties ('x'='y')")
    s, t = (acid.client.metastore.get_table(TableName("default", name)) for name in "st")
    assert (t.columns, t.partition_columns, t.bucket) == (s.columns, s.partition_columns, s.bucket)
    assert t.properties == {**s.properties, "x": "y"}
    assert t.location != s.location
    acid.sql("create external table e like s")
    e = acid.client.metastore.get_table(TableName("default", "e"))
    assert (e.kind, e.acid_mode) == (TableKind.EXTERNAL, AcidMode.NONE)
    with pytest.raises(NotFoundError):
        acid.sql("create table u like nosuch")


def test_settings_decide_what_a_table_without_properties_is(acid: Session) -> None:
    acid.sql("create table a (id int)")
    acid.sql("set hive.create.as.acid=true")
    acid.sql("create table b (id int) stored as orc")
    acid.sql("create external table c (id int) location '/tmp/hiveacid-nosuch/c'")
    acid.sql("reset")
    acid.sql("set hive.create.as.insert.only=true")
    acid.sql("create table d (id int)")
    modes = [
        acid.client.metastore.get_table(TableName("default", name)).acid_mode.value
        for name in "abcd"
    ]
    assert modes == ["none", "full", "none", "insert_only"]


REFUSED = {
    "create table t (id int, ID string)": 10036,
    "create table t (id int) partitioned by (id int)": 10035,
    "create table t (id int) clustered by (x) into 2 buckets": 10002,
    "create table t (id int) stored as orc tblproperties('transactional'='maybe')": None,
    f"create external table t (id int) {ACID}": None,
    "create table t (id int) stored as textfile tblproperties('transactional'='true')": None,
    "create table t (id int) stored as parquet tblproperties('TRANSACTIONAL'='True')": None,
    f"create table t (id int) clustered by (id) sorted by (id) into 2 buckets {ACID}": None,
    "create table t (id int) tblproperties('transactional'='true',"
    "'transactional_properties'='nonsense')": None,
}


@pytest.mark.parametrize(("text", "code"), REFUSED.items())
def test_a_refused_definition_leaves_nothing(
    acid: Session, tmp_path: Path, text: str, code: int | None
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        acid.sql(text)
    assert caught.value.code == code
    assert first_cells(acid, "show tables") == []
    assert not (tmp_path / "wh/t").exists()


def test_an_existing_table_stays(acid: Session) -> None:
    acid.sql("create table t (id int)")
    acid.sql("create table if not exists t (other string)")
    with pytest.raises(AlreadyExistsError):
        acid.sql("create table t (other string)")
    assert rows(acid, "describe t") == (("id", "int", ""),)


def test_dropping_an_external_table_keeps_its_files(acid: Session, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    acid.sql(f"create external table t (id int) location '{place}'")
    (place / "000000_0").write_bytes(b"x")
    acid.sql("drop table t")
    assert (place / "000000_0").exists()


def test_a_table_made_from_python(acid: Session) -> None:
    acid.sql("create database d")
    with pytest.raises(InvalidInputError, match="go together"):
        acid.create_table("t", "id int", buckets=2)
    with pytest.raises(NotFoundError):
        acid.create_table("nosuch.t", "id int")
    with pytest.raises(InvalidInputError, match="10002"):
        acid.create_table("d.t", "id int, p string", partitioned_by=["zz"])
    with pytest.raises(InvalidInputError, match="10043"):  # its rows would be nowhere
        acid.create_table("d.t", "p string", partitioned_by=["p"])


# -------------------------------------------------------------------- ALTER


def test_partitions(acid: Session, tmp_path: Path) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int, c string) {ACID}")
    acid.sql("alter table t add partition (p='007', c='a b/c') partition (p=10, c='x')")
    acid.sql("alter table t add if not exists partition (p=7, c='a b/c') partition (p=9, c='')")
    with pytest.raises(AlreadyExistsError):
        acid.sql("alter table t add partition (p=7, c='a b/c')")
    assert first_cells(acid, "show partitions t") == [
        "p=10/c=x",
        "p=7/c=a b%2Fc",
        "p=9/c=__HIVE_DEFAULT_PARTITION__",
    ]
    assert (tmp_path / "wh/t/p=7/c=a b%2Fc").is_dir()
    assert first_cells(acid, "show partitions t partition (p='0010')") == ["p=10/c=x"]
    before = write_ids(acid, "t")
    acid.sql("alter table t drop partition (p>=9, c='x')")
    assert write_ids(acid, "t") == before + 1
    assert not (tmp_path / "wh/t/p=10/c=x").exists()
    acid.sql("alter table t drop partition (p=99)")
    acid.sql("alter table t partition (p=7, c='a b/c') rename to partition (p=8, c='d')")
    assert first_cells(acid, "show partitions t") == [
        "p=8/c=d",
        "p=9/c=__HIVE_DEFAULT_PARTITION__",
    ]
    assert (tmp_path / "wh/t/p=8/c=d").is_dir()
    for text in (
        "alter table t add partition (p=1)",
        "alter table t add partition (p='x', c='y')",
        "alter table t drop partition (zz=1)",
        "show partitions t partition (zz=1)",
    ):
        with pytest.raises(InvalidInputError):
            acid.sql(text)


def test_show_partitions_of_a_table_without(acid: Session) -> None:
    acid.sql("create table t (id int)")
    with pytest.raises(InvalidInputError, match="not a partitioned table"):
        acid.sql("show partitions t")


def test_rename_moves_files_and_keeps_write_ids(acid: Session, tmp_path: Path) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {ACID}")
    acid.sql("alter table t add partition (p=1)")
    (tmp_path / "wh/t/p=1/x").write_bytes(b"x")
    acid.sql("create database d")
    acid.sql("alter table t rename to d.u")
    assert (tmp_path / "wh/d.db/u/p=1/x").exists()
    assert not (tmp_path / "wh/t").exists()
    (partition,) = acid.client.metastore.list_partitions(TableName("d", "u"))
    assert partition.location == str(tmp_path / "wh/d.db/u/p=1")
    (valid,) = acid.client.metastore.valid_write_ids([TableName("d", "u")])
    assert valid.hwm == 1
    acid.sql("create table t (id int)")
    with pytest.raises(AlreadyExistsError):
        acid.sql("alter table d.u rename to t")


def test_columns_are_added_and_changed(acid: Session) -> None:
    acid.sql(
        f"create table t (id int comment 'k', v varchar(3)) clustered by (id) into 2 buckets {ACID}"
    )
    acid.sql("alter table t add columns (n int comment 'c')")
    acid.sql("alter table t change column id key bigint")
    acid.sql("alter table t change v v varchar(6)")
    assert rows(acid, "describe t") == (
        ("key", "bigint", "k"),
        ("v", "varchar(6)", ""),
        ("n", "int", "c"),
    )
    table = acid.client.metastore.get_table(TableName("default", "t"))
    assert table.bucket is not None
    assert table.bucket.columns == ("key",)
    assert write_ids(acid, "t") == 3
    acid.sql("alter table t rename column n to m")
    acid.sql("alter table t alter column m type bigint")
    acid.sql("alter table t alter column v comment 'd'")
    assert rows(acid, "describe t")[1:] == (("v", "varchar(6)", "d"), ("m", "bigint", "c"))
    refused = {
        "alter table t add columns (V int)": 10036,
        "alter table t change v v int": None,
        "alter table t change v v int after n": None,
        "alter table t change v v varchar(6) first": 10311,
        "alter table t change nosuch x int": 10002,
        "alter table t replace columns (key bigint)": 10313,
    }
    for text, code in refused.items():
        with pytest.raises(InvalidInputError) as caught:
            acid.sql(text)
        assert caught.value.code == code, text
    assert write_ids(acid, "t") == 6


def test_properties_and_conversion(acid: Session, tmp_path: Path) -> None:
    acid.sql("create table t (id int) stored as orc")
    (tmp_path / "wh/t/000000_0").write_bytes(b"x")
    (tmp_path / "wh/t/000000_0_copy_1").write_bytes(b"x")
    acid.sql("alter table t set tblproperties ('a'='b')")
    assert rows(acid, "show tblproperties t('a')") == (("a", "b"),)
    acid.sql("alter table t unset tblproperties ('a')")
    assert "does not have property: a" in str(rows(acid, "show tblproperties t('a')"))
    acid.sql("alter table t set tblproperties ('transactional'='true')")
    assert write_ids(acid, "t") == 10_000_000
    acid.sql("alter table t set tblproperties ('x'='y', 'transactional'='true')")
    for text in (
        "alter table t set tblproperties ('transactional'='false')",
        "alter table t set tblproperties ('transactional_properties'='insert_only')",
        "alter table t unset tblproperties ('transactional')",
    ):
        with pytest.raises(InvalidInputError):
            acid.sql(text)
    acid.sql("create table u (id int) stored as textfile")
    acid.sql("create table w (id int) stored as orc")
    (tmp_path / "wh/w/data.orc").write_bytes(b"x")
    for name in "uw":
        with pytest.raises(InvalidInputError):
            acid.sql(f"alter table {name} set tblproperties ('transactional'='true')")
        assert rows(acid, f"show tblproperties {name}('transactional')")[0][1] is None


UNKNOWN = (
    "describe nosuch",
    "show partitions nosuch",
    "show columns in nosuch",
    "show create table nosuch",
    "alter table nosuch add columns (x int)",
    "alter table nosuch rename to x",
    "truncate table nosuch",
    "alter table nosuch compact 'major'",
    "insert into nosuch values (1)",
)


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_tables_are_10001(acid: Session, text: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        acid.sql(text)
    assert caught.value.code == 10001


# -------------------------------------------------------------------- transactions, locks, settings


def test_transactions_locks_and_abort(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    from hiveacid.txn.footprint import Footprint, use_table

    txn = acid.client.transactions.begin()
    txn.lock(Footprint(definitions=use_table(TableName("default", "t"))))
    (row,) = rows(acid, "show transactions")
    assert row[:2] == (str(txn.id), "OPEN")
    (lock,) = rows(acid, "show locks t")
    assert lock[1:5] == ("default", "t", None, "ACQUIRED")
    assert (lock[6], lock[7]) == ("SHARED_READ", str(txn.id))
    assert rows(acid, "show locks database d") == ()
    with pytest.raises(NotFoundError, match=r"No such transaction: 999; .* given out is"):
        acid.sql(f"abort transactions {txn.id} 999")
    assert len(rows(acid, "show locks")) == 1
    acid.sql(f"abort transactions {txn.id}")
    acid.sql(f"abort transactions {txn.id}")
    assert rows(acid, "show locks") == ()
    (row,) = rows(acid, "show transactions")
    assert row[1] == "ABORTED"


def test_ddl_leaves_no_transaction_open(acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    with pytest.raises(InvalidInputError):
        acid.sql("alter table t change v v int")
    acid.sql("drop table t")
    assert rows(acid, "show transactions") == ()
    assert acid.client.metastore.txn_info(TxnId(1)) is not None


def test_settings(acid: Session) -> None:
    acid.sql("set hiveacid.lock.timeout_s=5")
    assert acid.settings.lock_timeout_s == 5
    assert rows(acid, "set hiveacid.lock.timeout_s") == (("hiveacid.lock.timeout_s=5",),)
    assert rows(acid, "set a.b") == (("a.b is undefined",),)
    acid.sql("set a.b = 'x = y'")
    assert rows(acid, "set a.b") == (("a.b='x = y'",),)
    assert ("a.b='x = y'",) in rows(acid, "set")
    with pytest.raises(InvalidInputError):
        acid.sql("set hiveacid.nosuch=1")
    acid.sql("reset a.b")
    assert rows(acid, "set a.b") == (("a.b is undefined",),)
    assert acid.settings.lock_timeout_s == 5
    acid.sql("reset")
    assert acid.settings.lock_timeout_s == 300


def test_a_script_runs_statement_by_statement(acid: Session) -> None:
    results = list(acid.script("create table t (id int); show tables;"))
    assert [text for text, _ in results] == ["create table t (id int)", "show tables"]
    assert results[1][1] == Listing(("tab_name",), (("t",),))


def test_a_variable_of_a_script_holds_for_the_statements_after_it(acid: Session) -> None:
    text = "set hivevar:t=emp; create table ${t} (id int); set hiveconf:a=${hivevar:t}; set a"
    assert list(acid.script(text))[-1][1] == Listing(("set",), (("a=emp",),))
    with pytest.raises(SqlSyntaxError, match="line 2:12 variable"):
        list(acid.script("create table u (id int);\n drop table ${nope}"))
    assert rows(acid, "show tables") == (("emp",), ("u",))


def test_a_closed_session_says_so(acid: Session) -> None:
    acid.close()
    acid.close()
    assert "closed" in repr(acid)
    with pytest.raises(InvalidInputError, match="closed"):
        acid.sql("show tables")
