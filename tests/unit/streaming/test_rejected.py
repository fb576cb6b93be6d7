"""The table of rejected records, which is changed while rows are written to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import AcidError, ConflictError, InvalidInputError, NotFoundError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.tables import Table, TableName
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    warehouse = str(tmp_path / "wh")
    with hiveacid.connect(None, metastore_url, warehouse=warehouse, settings=OFF) as session:
        session.sql(f"create table t (id int, v string) {ACID}")
        yield session


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (["alter table t_rejected rename to elsewhere"], NotFoundError),
        (["drop table t_rejected"], NotFoundError),
        (["alter table t_rejected add columns (c int)"], ConflictError),
        (["drop table t_rejected", f"create table t_rejected (c int) {ACID}"], ConflictError),
    ],
)
def test_rejected_records_go_to_no_table_that_was_changed_before_its_lock(
    acid: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: list[str],
    error: type[AcidError],
) -> None:
    original, pending = SqlMetastore.get_table, list(changes)

    def changed_after(store: SqlMetastore, name: TableName) -> Table:
        found: Any = original(store, name)
        while name.table == "t_rejected" and pending:
            acid.sql(pending.pop(0))
        return found

    with acid.stream("t", strict=False) as stream:
        stream.begin()
        stream.write({"id": 1, "v": "a"})
        stream.write({"id": "x", "v": "b"})
        monkeypatch.setattr(SqlMetastore, "get_table", changed_after)
        with pytest.raises(error):
            stream.commit()
        assert not pending
        with stream.transaction():
            stream.write({"id": 2, "v": "b"})
    assert rows_of(acid) == [(2, "b")]
    tables = set(acid.client.metastore.list_tables("default"))
    assert {path.name for path in (tmp_path / "wh").iterdir()} == tables


def test_records_that_are_no_text_are_kept_as_they_are_shown(acid: Session) -> None:
    odd: list[dict[Any, Any]] = [{"id": 1, "v": "\ud800"}, {"id": 2, (1, 2): "x"}, {"\ud800": 3}]
    with acid.stream("t", strict=False) as stream, stream.transaction():
        stream.write([*odd, {"id": 4, "v": "fits"}])
    assert rows_of(acid) == [(4, "fits")]
    records = hiveacid.read_arrow(acid.table("t_rejected"), columns="record").read_all()
    assert sorted(records["record"].to_pylist()) == [
        '{"\\ud800": 3}',
        '{"id": 1, "v": "\\ud800"}',
        "{'id': 2, (1, 2): 'x'}",
    ]


@pytest.mark.parametrize(
    "definition",
    [
        f"(id int, v string) {ACID}",
        f"(rejected_at timestamp, record string, reason string) partitioned by (k int) {ACID}",
        "(rejected_at timestamp, record string, reason string) stored as orc",
    ],
)
def test_a_table_of_another_kind_takes_no_rejected_records(acid: Session, definition: str) -> None:
    acid.sql(f"create table other {definition}")
    with acid.stream("t", strict=False, rejected="other") as stream:
        stream.begin()
        stream.write([{"id": 1, "v": "a"}, {"id": "x", "v": "b"}])
        with pytest.raises(InvalidInputError, match=r"other cannot take rejected records"):
            stream.commit()
    assert rows_of(acid) == []


def test_a_strict_stream_has_no_table_of_rejected_records(acid: Session) -> None:
    with pytest.raises(InvalidInputError, match="a strict stream has none"):
        acid.stream("t", rejected="bad")
