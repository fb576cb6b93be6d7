"""Statements that need no Spark, on each kind of table: an answer, or an error with Hive's code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import orc

import hiveacid
from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.model.tables import Column, Table, TableKind, TableName
from hiveacid.model.types import PrimitiveType
from hiveacid.session import Session

pytestmark = pytest.mark.slow

FULL: Final = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY: Final = "'transactional'='true', 'transactional_properties'='insert_only'"
KINDS: Final = {
    "full": f"(id int, v string) {FULL}",
    "parted": f"(id int, v string) partitioned by (k int) {FULL}",
    "bucketed": f"(id int, v string) clustered by (id) into 3 buckets {FULL}",
    "no_rows": f"(id int, v string) {FULL}",
    "some": f"(id int, v string) stored as orc tblproperties ({INSERT_ONLY})",
    "some_pq": f"(id int, v string) stored as parquet tblproperties ({INSERT_ONLY})",
    "plain": "(id int, v string) stored as orc",
    "parquet": "(id int, v string) stored as parquet",
    "text": "(id int, v string) stored as textfile",
    "buckets": "(id int, v string) clustered by (id) into 4097 buckets stored as orc",
    "external": "",
    "seen": "",
    "missing": "",
}
GROUPS: Final = {
    "rows": ("full", "parted", "bucketed", "no_rows"),
    "some": ("some", "some_pq"),
    "plain": ("plain", "parquet", "text", "buckets"),
    "external": ("external",),
    "view": ("seen",),
}
OK: Final = "rows some plain external"
"""Where there are files, it is done."""
ROW_CHANGES: Final = {"some": 10414, "plain": 10297, "external": 10297, "view": 10402}
ALTER: Final = {"view": 10131}
Run = Callable[[Session, str], Any]


def _rows(name: str, *ids: int) -> pa.Table:
    data: dict[str, Any] = {"id": list(ids), "v": [f"v{number}" for number in ids]}
    return pa.table({**data, "k": [number % 3 for number in ids]} if name == "parted" else data)


def _sql(text: str) -> Run:
    def run(acid: Session, name: str) -> Any:
        partition = "partition (k=1)" if name == "parted" else ""
        return acid.sql(text.format(name=name, partition=partition))

    return run


def _merge(**how: Any) -> Run:
    return lambda acid, name: acid.table(name).merge_arrow(_rows(name, 1, 9), on="id", **how)


def _load(acid: Session, name: str) -> Any:
    where = {"partition": {"k": 1}} if name == "parted" else {}
    return acid.table(name).load(f"{acid.client.warehouse}/../given", local=True, **where)  # type: ignore[arg-type]


STATEMENTS: Final[dict[str, tuple[Run, dict[str, Any]]]] = {
    "truncate": (_sql("truncate table {name}"), {"external": 10146, "view": 10146}),
    "truncate force": (_sql("truncate table {name} force"), {"view": 10146}),
    "delete all": (_sql("delete from {name}"), {"view": 10402}),
    "write_arrow": (lambda a, n: a.table(n).write_arrow(_rows(n, 7)), {"view": 10090}),
    "insert": (lambda a, n: a.table(n).insert(_rows(n, 7)), {"view": 10090}),
    "overwrite": (lambda a, n: a.table(n).overwrite(_rows(n, 7)), {"view": 10090}),
    "values": (_sql("insert into {name} {partition} values (7, 'g')"), {"view": 10090}),
    "overwrite values": (
        _sql("insert overwrite table {name} {partition} values (7, 'g')"),
        {"view": 10090},
    ),
    "delete_arrow": (lambda a, n: a.table(n).delete_arrow("id = 1"), ROW_CHANGES),
    "delete_arrow by keys": (lambda a, n: a.table(n).delete_arrow([{"id": 1}]), ROW_CHANGES),
    "merge": (_merge(), ROW_CHANGES),
    "merge that updates": (_merge(when_not_matched=None), ROW_CHANGES),
    "merge that deletes": (_merge(when_matched="delete", when_not_matched=None), ROW_CHANGES),
    "merge that inserts": (_merge(when_matched=None), {"view": 10402}),
    "merge that does nothing": (
        _merge(when_matched=None, when_not_matched=None),
        {"view": 10402},
    ),
    "merge that deletes where": (_merge(when_matched=None, delete_where="id = 1"), ROW_CHANGES),
    "compact": (
        _sql("alter table {name} compact 'major'"),
        {"plain": 10286, "external": 10286, "view": 10286},
    ),
    "compact a partition": (
        _sql("alter table {name} partition (k=1) compact 'minor'"),
        {
            "parted": None,
            "rows": 10098,
            "some": 10098,
            "plain": 10098,
            "external": 10098,
            "view": 10098,
        },
    ),
    "why_compact": (lambda a, n: a.table(n).why_compact(), {"view": "a view: it has no files"}),
    "clean": (lambda a, n: a.table(n).clean(), {"view": "a view: it has no files"}),
    "analyze": (_sql("analyze table {name} compute statistics noscan"), {"view": 10091}),
    "add columns": (_sql("alter table {name} add columns (n int)"), ALTER),
    "change column": (_sql("alter table {name} change column v v varchar(20)"), ALTER),
    "add partition": (
        _sql("alter table {name} add partition (k=9)"),
        {"parted": None, "rows": 10098, "some": 10098, "plain": 10098, "external": 10098, **ALTER},
    ),
    "truncate a partition": (
        _sql("truncate table {name} partition (k=1)"),
        {
            "parted": None,
            "rows": 10098,
            "some": 10098,
            "plain": 10098,
            "external": 10146,
            "view": 10146,
        },
    ),
    "show partitions": (
        _sql("show partitions {name}"),
        {**dict.fromkeys(GROUPS, 10241), "parted": None},
    ),
    "describe": (_sql("describe formatted {name}"), {"view": None}),
    "show create table": (_sql("show create table {name}"), {"view": None}),
    "msck": (_sql("msck repair table {name}"), {"view": "MSCK is not supported for views"}),
    "read": (lambda a, n: hiveacid.read_arrow(a.table(n)).read_all(), {"view": "is a view"}),
    "read row ids": (
        lambda a, n: hiveacid.read_arrow(a.table(n), row_ids=True).read_all(),
        {**dict.fromkeys(("plain", "external"), "have no row__id"), "view": "is a view"},
    ),
    "load": (
        _load,
        {
            "some_pq": "file format",
            "parquet": "file format",
            "view": 10090,
            **dict.fromkeys(("bucketed", "buckets"), "needs Spark"),
        },
    ),
    "make it full ACID": (
        _sql("alter table {name} set tblproperties ('transactional'='true')"),
        {
            "parquet": "ACID compliant format",
            "text": "ACID compliant format",
            "buckets": "at most 4096",
            "external": "external table",
            "view": 10131,
        },
    ),
    "explain locks": (
        _sql("explain locks truncate table {name}"),
        {"external": 10146, "view": 10146},
    ),
}


def _connect(root: Path) -> Session:
    url, warehouse = f"sqlite:///{root}/m.db", str(root / "wh")
    settings = {"hiveacid.compactor.auto": "off"}
    return hiveacid.connect(None, url, warehouse=warehouse, settings=settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where a table of each kind is, and a copy of all that."""
    root = tmp_path_factory.mktemp("kinds")
    (root / "given").mkdir()
    orc.write_table(pa.table({"id": pa.array([5], pa.int32()), "v": ["l"]}), root / "given" / "f")
    with _connect(root) as session:
        session.sql(f"create table base (id int, v string) {FULL}")
        for kind in KINDS:
            _make(session, kind, root / "external")
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    return root, copy


@pytest.fixture
def acid(made: tuple[Path, Path]) -> Iterator[Session]:
    """The tables as they were made."""
    root, copy = made
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    with _connect(root) as session:
        yield session


def _make(acid: Session, kind: str, external: Path) -> None:
    """The table, with rows 1 and 2."""
    if kind == "missing":
        return
    if kind == "seen":
        columns = (Column("id", PrimitiveType("int")), Column("v", PrimitiveType("string")))
        name, text = TableName("default", kind), "select * from default.base"
        view = Table(name, columns, "", kind=TableKind.VIEW, view_text=text, view_expanded=text)
        acid.client.metastore.create_table(view)
        return
    if kind == "external":
        acid.sql(
            f"create external table {kind} (id int, v string) stored as orc location '{external}'"
        )
    else:
        acid.sql(f"create table {kind} {KINDS[kind]}")
    if kind != "no_rows":
        acid.table(kind).write_arrow(_rows(kind, 1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_each_kind_answers_or_says_why_not(acid: Session, name: str) -> None:
    run, expected = STATEMENTS[name]
    group_of = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
    wrong = []
    for kind in KINDS:
        if kind == "missing":
            wanted: Any = 10001
        else:
            wanted = expected.get(kind, expected.get(group_of[kind]))
        try:
            run(acid, kind)
            found: Any = None
        except AcidError as error:
            found = error.code if isinstance(wanted, int) else str(error)
        if found != wanted and not (isinstance(wanted, str) and wanted in str(found)):
            wrong.append(f"{kind}: {found}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def test_a_table_of_an_unknown_kind_is_neither_read_nor_written(tmp_path: Path) -> None:
    with hiveacid.connect(
        None,
        f"sqlite:///{tmp_path}/m.db",
        warehouse=str(tmp_path / "wh"),
        settings={"hiveacid.compactor.auto": "off"},
    ) as acid:
        acid.sql(f"create table t (id int) stored as orc tblproperties ({INSERT_ONLY})")
        acid.sql("insert into t values (1)")
        orc.write_table(pa.table({"id": pa.array([2], pa.int32())}), f"{tmp_path}/some.orc")
        acid.client.metastore.alter_table(
            acid.table_name("t"),
            lambda t: replace(t, properties={**t.properties, "transactional_properties": "odd"}),
        )
        for run in (
            lambda: hiveacid.read_arrow(acid.table("t")),
            lambda: acid.sql("insert into t values (2)"),
            lambda: acid.sql("delete from t"),
            lambda: acid.table("t").delete_arrow("id = 1"),
            lambda: acid.table("t").why_compact(),
            lambda: acid.sql(f"load data local inpath '{tmp_path}/some.orc' into table t"),
            lambda: acid.stream("t"),
            lambda: acid.sql("truncate table t"),
        ):
            with pytest.raises(InvalidInputError, match="unknown value odd"):
                run()
        acid.sql("drop table t")


@pytest.mark.parametrize("kind", ["text", "plain", "full", "some"])
def test_rows_are_not_added_to_an_immutable_table_that_has_some(tmp_path: Path, kind: str) -> None:
    with _connect(tmp_path) as acid:
        definition = KINDS[kind].replace("(id int, v string)", "(id int) partitioned by (p int)")
        properties = definition.rpartition("tblproperties (")[2].rstrip(")")
        given = f", {properties}" if "tblproperties" in definition else ""
        form = definition.partition(" tblproperties")[0]
        acid.sql(f"create table t {form} tblproperties ('immutable'='TRUE'{given})")
        acid.sql("insert into t partition (p=1) values (1)")
        acid.sql("insert into t partition (p=2) values (2)")
        refused = ["insert into t partition (p=1) values (3)", "insert into t values (3, 3)"]
        for text in refused:
            with pytest.raises(InvalidInputError) as caught:
                acid.sql(text)
            assert caught.value.code == 10256, text
        if kind == "full":
            with pytest.raises(InvalidInputError, match="immutable"):
                acid.table("t").delete_arrow("id = 1")
        acid.sql("insert overwrite table t partition (p=1) if not exists values (4)")
        acid.sql("insert overwrite table t partition (p=1) values (5)")
        rows = hiveacid.read_arrow(acid.table("t")).read_all().to_pydict()
        assert sorted(rows["id"]) == [2, 5]
        acid.sql("alter table t set tblproperties ('immutable'='false')")
        acid.sql("insert into t partition (p=1) values (6)")
