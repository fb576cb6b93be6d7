"""Which transactions made a row what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.compaction.world import MAJOR, World

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.session import Session
from hiveacid.settings import Settings

Told = list[tuple[str, int, str | None, str | None]]


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database, files are kept for a day: versions 1 to 5 of three rows."""
    world = world_with(Settings(retention_s=86_400.0))
    world.make("t")
    table = world.acid.table("t")
    _put(table, {1: "a", 2: "b"})
    _put(table, {2: "B", 3: "c"})
    table.delete_arrow("id = 2")
    _put(table, {2: "again"})
    _put(table, {3: "C"})
    return world


def _put(table: Any, rows: dict[int, str]) -> None:
    data = {"id": pa.array(list(rows), pa.int32()), "v": list(rows.values())}
    table.merge_arrow(pa.table(data), on="id")


def _told(acid: Session, where: str, **asked: Any) -> Told:
    found = acid.explain_row("t", where=where, **asked)
    return [
        (one.what, one.version, *(None if row is None else str(row["v"]) for row in rows))
        for one in found.changes
        for rows in [(one.before, one.after)]
    ]


def test_a_key_tells_all_that_a_row_was(made: World, acid: Session) -> None:
    whole: Told = [
        ("insert", 1, None, "b"),
        ("update", 2, "b", "B"),
        ("delete", 3, "B", None),
        ("insert", 4, None, "again"),
    ]
    assert _told(acid, "id = 2", key="ID") == whole
    assert _told(acid, "v = 'B'", key=["id"]) == whole
    assert _told(acid, "v = 'nothing'", key="id") == []
    made.compact(MAJOR)
    assert _told(acid, "id = 2", key="id") == whole


def test_without_a_key_each_state_of_a_row_is_told_by_itself(acid: Session) -> None:
    assert _told(acid, "v = 'B'") == [("insert", 2, None, "B"), ("delete", 3, "B", None)]


def test_each_change_names_its_commit(acid: Session) -> None:
    acid.sql("insert into t values (9, 'x')")
    (one,) = acid.explain_row("t", where="id = 9").changes
    last = acid.table("t").history(limit=1)[0]
    assert one.commit == last
    assert last.statement == "insert into t values (?, ?)"

    found = acid.sql("describe history t where id = 9")

    (row,) = found.rows
    cells = dict(zip(found.columns, row, strict=True))
    assert cells["change"] == "insert"
    assert cells["after"] == "{'id': 9, 'v': 'x'}"
    assert cells["statement"] == last.statement
    assert cells["transaction"] == last.txn


def test_what_is_cleaned_is_said_to_be_unknown(made: World, acid: Session) -> None:
    made.compact(MAJOR)
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    acid.table("t").delete_arrow("id = 2")

    found = acid.explain_row("t", where="id = 2", key="id")

    assert found.since == 5
    assert [(one.what, one.version) for one in found.changes] == [("delete", 6)]


def test_a_wrong_question_is_an_error(made: World, acid: Session) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        acid.explain_row("t", where="nothing = 1")
    with pytest.raises(NotFoundError, match="nothing"):
        acid.explain_row("t", where="id = 1", key="nothing")
    with pytest.raises(InvalidInputError, match="where"):
        acid.explain_row("t", where=5)  # type: ignore[arg-type]
    acid.sql("create table p (id int) stored as orc")
    with pytest.raises(InvalidInputError, match="not transactional"):
        acid.explain_row("p", where="id = 1")
