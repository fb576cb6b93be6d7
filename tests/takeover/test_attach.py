"""``attach`` and ``detach`` by Python, SQL and command line, on both databases."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine
from tests.golden.tables import golden_answer, golden_meta
from tests.metastores import table_rows
from tests.postgres import PostgresServer
from tests.recorded import golden_path

import hiveacid
from hiveacid.cli.app import app
from hiveacid.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    MetastoreError,
    NotFoundError,
    SnapshotExpiredError,
    StorageError,
)
from hiveacid.model.tables import TxnId
from hiveacid.session import Session, connect
from hiveacid.storage.filesystem import FileSystem

NOTHING_OPEN = 2**63 - 1


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    with connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as session:
        yield session


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    """A session on another metastore."""
    with connect(None, f"sqlite:///{tmp_path}/other.db", warehouse=str(tmp_path / "wh2")) as made:
        yield made


def golden(name: str, path: Path) -> dict[str, Any]:
    """A copy of a golden table, and the arguments that attach it."""
    shutil.copytree(golden_path(name) / "data", path)
    meta = golden_meta(name)
    return {
        "path": path,
        "name": "t",
        "valid_write_ids": meta["valid_write_id_list"],
        "valid_txns": meta["valid_txn_list"],
    }


def rows(acid: Session, table: str = "t") -> list[tuple[Any, ...]]:
    found = hiveacid.read_arrow(acid.table(table)).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def values(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [f"v{one}" for one in ids]})


def test_aborted_rows_stay_away_and_new_ids_lie_above_all(acid: Session, tmp_path: Path) -> None:
    table = acid.attach(**golden("h01_aborted", tmp_path / "t"))
    assert [one[0] for one in rows(acid)] == [1, 2, 3, 4]
    assert hiveacid.write_arrow(table, values(5)).write_id > 5
    assert [one[0] for one in rows(acid)] == [1, 2, 3, 4, 5]
    assert acid.client.metastore.show_txns()[0].id > 9  # the list of transactions ends at 9
    aborted = [one.id for one in acid.client.metastore.show_txns()]
    assert len(aborted) == 3
    (valid,) = acid.client.metastore.valid_write_ids((table.name,))
    assert valid.aborted == (2, 3, 4)


def test_what_was_taken_over_can_be_read_and_restored_after_it_was_replaced(
    acid: Session, tmp_path: Path
) -> None:
    acid.attach(**golden("a02_update_delete", tmp_path / "t"))
    emp, before = acid.table("t"), rows(acid)
    emp.delete_arrow("id = 1")
    emp.compact("major", wait=True)
    acid.sql("truncate table t")
    assert hiveacid.read_arrow(emp, as_of_write_id=3).read_all().num_rows == len(before)
    acid.sql("restore table t to version as of 3")
    assert rows(acid) == before


def test_deletes_after_a_rebalance_do_not_hide_that_all_files_are_there(
    acid: Session, tmp_path: Path
) -> None:
    """A stream's file has rows of aborted transactions between those of others."""
    emp = acid.attach(**golden("v3_16_stream", tmp_path / "t"))
    emp.delete_arrow("id = 1")
    emp.compact("rebalance", wait=True)
    emp.delete_arrow("id in (8, 9, 1000)")
    emp.compact("major", wait=True)
    told = hiveacid.read_changes(emp, since=8).read_all()["id"].to_pylist()
    assert sorted(told) == [1, 8, 9, 1000]


def test_a_version_that_hive_compacted_before_is_refused(acid: Session, tmp_path: Path) -> None:
    """Its files are there, but of Hive's cleaner nobody knows that."""
    acid.attach(**golden("a07_major_preclean", tmp_path / "t"))
    acid.table("t").delete_arrow("id = 1")
    with pytest.raises(SnapshotExpiredError):
        hiveacid.read_arrow(acid.table("t"), as_of_write_id=3).read_all()


@pytest.mark.parametrize("name", ["a02_update_delete", "d02_str_dml", "e02_converted_dml"])
def test_what_statements_of_hive_list_their_files_in_holds_no_rows(
    acid: Session, tmp_path: Path, name: str
) -> None:
    """Such a directory is there while a statement runs, and stays where it was killed."""
    given = golden(name, tmp_path / "t")
    for place in (tmp_path / "t", *(tmp_path / "t").glob("*=*")):
        manifests = place / "-tmp.delta_0000009_0000009_0000"
        manifests.mkdir()
        (manifests / "000000_0.manifest").write_bytes(b"\0\0\0\1")
    acid.attach(**given)
    assert len(rows(acid)) == len(golden_answer(name)[1])
    read = hiveacid.read_arrow(
        given["path"], valid_write_ids=given["valid_write_ids"], valid_txns=given["valid_txns"]
    )
    assert read.read_all().num_rows == len(golden_answer(name)[1])


def test_an_open_write_id_counts_as_aborted_for_good(acid: Session, tmp_path: Path) -> None:
    acid.attach(**golden("h04_open_overwrite", tmp_path / "t"))
    assert [one[0] for one in rows(acid)] == [1, 2]
    late = tmp_path / "t" / "p=y" / "delta_0000003_0000003_0000"  # its writer still lives
    shutil.copytree(tmp_path / "t" / "p=y" / "delta_0000001_0000001_0000", late)
    assert [one[0] for one in rows(acid)] == [1, 2]


def test_lists_from_a_query_s_configuration_are_taken(acid: Session, tmp_path: Path) -> None:
    given = golden("h01_aborted", tmp_path / "t")
    text = f"12${given['valid_write_ids']}$default.x:7:{NOTHING_OPEN}::"
    with pytest.raises(InvalidInputError, match=r"None of the lists is that of default\.t"):
        acid.attach(**{**given, "valid_write_ids": text})
    acid.attach(**{**given, "valid_write_ids": text, "name": "h_ab"})
    assert len(rows(acid, "h_ab")) == 4


def test_the_list_of_another_table_is_refused(acid: Session, tmp_path: Path) -> None:
    acid.sql("create table h_ab (id int)")
    with pytest.raises(InvalidInputError, match=r"that of default\.h_ab, which is another table"):
        acid.attach(**golden("h01_aborted", tmp_path / "t"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"valid_write_ids": "nonsense"}, "Not a list of valid write ids"),
        ({"valid_write_ids": "default.t"}, "Not a list of valid write ids"),
        ({"valid_write_ids": ""}, "Not a list of valid write ids"),
        ({"valid_write_ids": "t:x:y"}, "Not a list of valid write ids"),
        ({"valid_write_ids": f"9:{NOTHING_OPEN}::5,6"}, "Not a list of valid write ids"),
        ({"valid_write_ids": f"null:{NOTHING_OPEN}:{NOTHING_OPEN}::"}, "Not a list of valid"),
        ({"valid_txns": f"default.t:9:{NOTHING_OPEN}::5"}, "Not a list of valid transactions"),
        ({"valid_write_ids": f"t:3:{NOTHING_OPEN}::2"}, "write id 4, the list of .* ends at 3"),
        ({"accept_all_write_ids": True}, "not both"),
        ({"schema": "id string, v string"}, "column id int, declared for default.t is string"),
        ({"schema": "id bigint, v int"}, "column v string, declared for default.t is int"),
        ({"schema": "v int, id string"}, "Column v is declared as column 1, and it is column 2"),
        ({"schema": "id int"}, "have 2 columns, 1 are declared"),
        ({"properties": {"transactional_properties": "insert_only"}}, "kind full ACID"),
        ({"partitioned_by": ["v"]}, "goes with a schema"),
        ({"name": "nosuch.t"}, "Database does not exist"),
        ({"path": "/nosuch/directory"}, "There is no directory"),
    ],
)
def test_wrong_input_is_refused_and_leaves_nothing(
    acid: Session, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    given = golden("h01_aborted", tmp_path / "t")
    with pytest.raises((InvalidInputError, NotFoundError), match=message):
        acid.attach(**{**given, **changed})
    assert acid.sql("show tables").rows == ()
    acid.attach(**given)


def test_a_table_of_that_name_and_another_place_for_it(acid: Session, tmp_path: Path) -> None:
    given = golden("h01_aborted", tmp_path / "t")
    acid.attach(**given)
    with pytest.raises(AlreadyExistsError):
        acid.attach(**given)
    with pytest.raises(InvalidInputError, match=r"belongs to default\.t"):
        acid.attach(**{**given, "name": "u"})
    with pytest.raises(InvalidInputError, match=r"belongs to default\.t"):
        acid.attach(**{**given, "name": "u", "path": tmp_path})


def test_a_file_an_empty_directory_and_plain_files(acid: Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    shutil.copytree(golden_path("e01_converted") / "data", tmp_path / "plain")
    for path in tmp_path.glob("plain/d*"):
        shutil.rmtree(path)
    with pytest.raises(InvalidInputError, match="is a file"):
        acid.attach(tmp_path / "file", name="t")
    for where in ("empty", "plain"):
        with pytest.raises(InvalidInputError, match="no transactional table") as caught:
            acid.attach(tmp_path / where, name="t")
        assert "CREATE EXTERNAL TABLE" in caught.value.__notes__[0]
    with pytest.raises(InvalidInputError, match="holds a transactional table"):
        shutil.copytree(golden_path("a01_insert") / "data", tmp_path / "acid")
        acid.sql(f"create table t (id int) stored as orc location '{tmp_path}/acid'")


def test_partitions_that_do_not_fit(acid: Session, tmp_path: Path) -> None:
    given = golden("h02_aborted_part", tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"is not of type int"):
        acid.attach(**given, schema="id int, v string, p int", partitioned_by=["p"])
    with pytest.raises(FormatError, match="is not a partition of"):
        acid.attach(**given, schema="id int, v string")
    shutil.copytree(tmp_path / "t" / "p=x" / "delta_0000001_0000001_0000", tmp_path / "t/delta_1_1")
    with pytest.raises(InvalidInputError, match="outside of all partitions"):
        acid.attach(**given)
    shutil.rmtree(tmp_path / "t" / "delta_1_1")
    acid.attach(**given)
    assert rows(acid) == [(1, "a", "x"), (2, "b", "y")]


@pytest.mark.parametrize(
    ("name", "buckets", "columns"),
    [("c_int", 4, ["k"]), ("c_int", 2, ["n"]), ("i12_big", 2, ["id"])],
)
def test_buckets_that_the_rows_are_not_in(
    acid: Session, tmp_path: Path, name: str, buckets: int, columns: list[str]
) -> None:
    """Else a query by the bucketing column would pass over the files that hold its rows."""
    given = golden(name, tmp_path / "t")
    meta = golden_meta(name)
    if name == "c_int":
        buckets += meta["num_buckets"] * (columns == ["k"])
    with pytest.raises(InvalidInputError, match=r"is of bucket|has bucket") as caught:
        acid.attach(**given, bucketed_by=columns, buckets=buckets)
    assert caught.value.__notes__
    acid.attach(**given)


def test_a_compaction_that_did_not_commit_stays_unseen(acid: Session, tmp_path: Path) -> None:
    """Its transaction's number means something else here: committed, or of another table."""
    given = golden("a02_update_delete", tmp_path / "t")
    dead = tmp_path / "t" / "base_0000003_v0000002"
    shutil.copytree(tmp_path / "t" / "delta_0000001_0000001_0000", dead)
    with pytest.raises(InvalidInputError, match="counts if transaction 2 committed"):
        acid.attach(**{**given, "valid_txns": None})
    expected = {"valid_txns": f"9:{NOTHING_OPEN}::2"}
    acid.attach(**{**given, **expected})
    assert len(rows(acid)) == 4
    by_path = hiveacid.read_arrow(str(tmp_path / "t")).read_all()
    assert len(by_path) == 4


def test_a_compaction_whose_number_is_aborted_here_is_refused(
    acid: Session, tmp_path: Path
) -> None:
    store = acid.client.metastore
    (txn,) = store.open_txns(1, user="u", host="h")
    shutil.copytree(golden_path("a01_insert") / "data", tmp_path / "t")
    (tmp_path / "t" / "delta_0000001_0000001_0000").rename(
        tmp_path / "t" / f"base_0000001_v{txn:07d}"
    )
    lists = {"valid_write_ids": f"t:1:{NOTHING_OPEN}::", "valid_txns": f"{txn}:{NOTHING_OPEN}::"}
    with pytest.raises(InvalidInputError, match=f"another transaction {txn} .* is open"):
        acid.attach(tmp_path / "t", name="t", **lists)
    assert acid.sql("show tables").rows == ()
    store.commit_txn(txn)
    acid.attach(tmp_path / "t", name="t", **lists)
    assert len(rows(acid)) == 5


def test_there_and_back(acid: Session, other: Session, tmp_path: Path) -> None:
    acid.sql(
        "create table t (id int, v string) partitioned by (p int) clustered by (id) into 2 buckets"
        " stored as orc tblproperties ('transactional'='true', 'k'='v')"
    )
    table = acid.table("t")
    for at in range(3):
        hiveacid.write_arrow(table, values(at, at + 10), partition={"p": at})
    store = acid.client.metastore
    (txn,) = store.open_txns(1, user="u", host="h")
    aborted = store.allocate_write_ids([txn], table.name)[txn]
    source = tmp_path / "wh" / "t" / "p=0"
    shutil.copytree(
        source / "delta_0000001_0000001_0000",
        source / f"delta_{aborted:07d}_{aborted:07d}_0000",
    )
    store.abort_txn(txn)
    hiveacid.delete_arrow(table, "id = 11")
    expected = rows(acid)
    found = acid.detach("t")
    assert acid.sql("show tables").rows == ()
    assert found.valid_write_ids == f"default.t:5:{NOTHING_OPEN}::4"
    with pytest.raises(InvalidInputError, match="does not say which of its rows count"):
        other.attach(found.location, name="t")
    other.sql(found.create_table)
    assert rows(other) == expected
    assert other.table("t").definition.bucket == found.table.bucket
    assert other.table("t").definition.properties["k"] == "v"
    assert not any("valid" in key for key in other.table("t").definition.properties)
    assert hiveacid.write_arrow(other.table("t"), values(99), partition={"p": 0}).write_id > 5
    again = other.detach("t")
    acid.sql(again.create_table)
    assert rows(acid) == sorted([*expected, (99, "v99", 0)])


@pytest.mark.parametrize("name", ["a:b", "a$b", ":", "a b"])
def test_a_table_of_any_name_is_detached_and_attached_again(acid: Session, name: str) -> None:
    acid.sql(f"create table `{name}` (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql(f"insert into `{name}` values (1)")
    acid.sql(acid.detach(f"`{name}`").create_table)
    assert hiveacid.read_arrow(acid.table(f"`{name}`")).read_all().to_pylist() == [{"id": 1}]


def test_a_file_says_how_to_attach_what_was_detached_without_an_answer(
    acid: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into t values (1)")

    def commit_txn(*_: object, **__: object) -> None:
        raise MetastoreError("no answer")

    with monkeypatch.context() as patch, pytest.raises(MetastoreError):
        patch.setattr(type(acid.client.metastore), "commit_txn", commit_txn)
        acid.detach("t")
    (left,) = (tmp_path / "wh" / "t").glob("_*")
    acid.sql(left.read_text())
    assert hiveacid.read_arrow(acid.table("t")).read_all().to_pylist() == [{"id": 1}]
    acid.detach("t")
    assert not left.exists()


def test_a_table_is_detached_where_nothing_can_be_written(
    acid: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into t values (1)")

    def write_bytes(*_: object, **__: object) -> None:
        raise StorageError("Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "write_bytes", write_bytes)
        found = acid.detach("t")
    acid.sql(found.create_table)
    assert hiveacid.read_arrow(acid.table("t")).read_all().to_pylist() == [{"id": 1}]


def test_what_is_not_detached(acid: Session, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        acid.detach("nosuch")
    acid.sql(
        "create table t (id int) partitioned by (p int) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    acid.sql(f"alter table t add partition (p=1) location '{tmp_path}/elsewhere'")
    with pytest.raises(InvalidInputError, match=r"Partition p=1 of default\.t is at"):
        acid.detach("t")
    acid.sql("start transaction")
    for definition in (lambda: acid.detach("t"), lambda: acid.attach(tmp_path, name="u")):
        with pytest.raises(InvalidInputError, match="commits at once"):
            definition()
    acid.sql("rollback")
    assert acid.sql("show tables").rows == (("t",),)


def test_a_kill_in_the_middle_leaves_nothing(
    acid: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = golden("h02_aborted_part", tmp_path / "t")
    store = acid.client.metastore
    before = table_rows(store, "TBLS"), table_rows(store, "TXN_TO_WRITE_ID")

    def fail(*_: object, **__: object) -> None:
        raise MetastoreError("killed")

    for step in ("insert_partitions", "insert_components", "give_write_ids"):
        with monkeypatch.context() as patch, pytest.raises(MetastoreError, match="killed"):
            patch.setattr(f"hiveacid.metastore.sql.tables.{step}", fail)
            acid.attach(**given)
        assert (
            table_rows(store, "TBLS"),
            table_rows(store, "TXN_TO_WRITE_ID"),
        ) == before
        assert table_rows(store, "PARTITIONS") == []
        assert table_rows(store, "NEXT_WRITE_ID") == []
    acid.attach(**given)
    assert len(rows(acid)) == 2


def test_the_command_line(metastore_url: str, tmp_path: Path) -> None:
    given = golden("h01_aborted", tmp_path / "t")
    base = ["--metastore", metastore_url]
    run = CliRunner().invoke
    arguments = ["attach", str(tmp_path / "t"), "--name", "t", *base]
    done = run(app, [*arguments, "--warehouse", str(tmp_path / "wh")])
    assert isinstance(done.exception, InvalidInputError)
    lists = ["--valid-write-ids", given["valid_write_ids"], "--valid-txns", given["valid_txns"]]
    done = run(app, [*arguments, *lists])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("default.t at ") and "id int, v string" in done.output
    done = run(app, ["detach", "t", "--json", *base])
    facts = json.loads(done.output)
    assert facts["valid_write_ids"].endswith("::2,3,4")
    done = run(app, ["sql", "-e", facts["create_table"], *base, "--warehouse", f"{tmp_path}/wh"])
    assert done.exit_code == 0, done.output


def test_the_queries_of_the_docs_give_the_lists(
    postgres: PostgresServer, tmp_path: Path, project: Path
) -> None:
    """In Hive's own tables, which ours are, too."""
    url = postgres.metastore()
    page = (project / "docs" / "takeover.md").read_text("utf-8")
    queries = [text for text in re.findall(r"```sql\n(.*?)```", page, re.S) if "string_agg" in text]
    with connect(None, url, warehouse=str(tmp_path / "wh")) as acid:
        acid.attach(**{**golden("h01_aborted", tmp_path / "t"), "name": "emp"})
        store = acid.client.metastore
        (txn,) = store.open_txns(1, user="u", host="h")
        opened = store.allocate_write_ids([txn], acid.table("emp").name)[txn]
        engine = create_engine(url)
        with engine.connect() as connection:
            asked = [
                connection.exec_driver_sql(text.strip().rstrip(";")).scalar() for text in queries
            ]
        engine.dispose()
        valid, txns = store.detach_table(acid.table("emp").name, but=TxnId(0))
    assert asked == [str(valid), str(txns)]
    assert valid.open == (opened,)
    assert valid.aborted == (2, 3, 4)


def test_doctor_misses_the_directory_of_a_table_that_another_metastore_dropped(
    acid: Session, tmp_path: Path
) -> None:
    acid.attach(**golden("a02_update_delete", tmp_path / "t"))
    kinds = [one.kind for one in acid.doctor().findings]
    assert "no directory" not in kinds
    shutil.rmtree(tmp_path / "t")
    (found,) = (one for one in acid.doctor().findings if one.kind == "no directory")
    assert (str(found.table), found.command.rpartition(", or ")[2]) == (
        "default.t",
        "hiveacid sql -e 'DROP TABLE default.t'",
    )
