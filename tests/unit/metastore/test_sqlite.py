"""What threads that take turns with a connection of SQLite's do to each other."""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select
from tests.interrupts import pressed_after

from hiveacid.clock import SystemClock
from hiveacid.errors import MetastoreError
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql import dialect as channels
from hiveacid.metastore.sql import engine, sqlite
from hiveacid.metastore.sql.engine import Database, MetastoreOptions, Unit
from hiveacid.metastore.sql.sqlite import SqliteDialect

NUMBERS = Table("numbers", MetaData(), Column("n", Integer))
INSERT = insert(NUMBERS).values(n=0)
ENGINE = {one.__file__ for one in (engine, sqlite, channels, contextlib)}


class LetsGo:
    """A value; while SQLite takes it, another thread forgets its unit, which has ended."""

    def __init__(self, ended: list[Unit]) -> None:
        self._ended = ended

    def __conform__(self, protocol: object) -> int:
        del protocol
        self._ended.clear()
        return 1


def database_of_numbers(place: Path) -> Database:
    clock, path = SystemClock(), place / "numbers.db"
    dialect = SqliteDialect(str(path), clock=clock, durable=False)
    options = MetastoreOptions(durable=False)
    database = Database(dialect, url=f"sqlite:///{path}", clock=clock, options=options)
    with database.schema_change() as unit:
        NUMBERS.create(unit.connection)
    return database


def test_a_unit_that_has_ended_does_not_touch_the_next_one(tmp_path: Path) -> None:
    """Its cursor had the statement that the next one runs, and reset it as it was forgotten: "bad
    parameter or other API misuse", once in some thousand units of several threads.
    """
    database = database_of_numbers(tmp_path)
    ended: list[Unit] = []
    with database.write() as unit:
        unit.run_many(INSERT, [{"n": 0}])
        ended.append(unit)
    with database.write() as following:
        assert following.connection is unit.connection
        del unit
        following.run_many(INSERT, [{"n": LetsGo(ended)}, {"n": 2}])
    with database.read() as reading:
        assert sorted(reading.rows(select(NUMBERS.c.n))) == [(0,), (1,), (2,)]
    database.close()


def test_ctrl_c_anywhere_in_a_write_leaves_the_turn_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while its traceback is kept, as a prompt does: what it holds is not given back."""
    database = database_of_numbers(tmp_path)
    monkeypatch.setattr(sqlite, "_LOCK_WAIT_S", 0.2)
    at, kept = 0, []
    while len(kept) == at:
        at += 1
        try:
            with pressed_after(at, within=ENGINE.__contains__), database.write() as unit:
                unit.run_many(INSERT, [{"n": at}])
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)
        with database.write() as unit:
            unit.run_many(INSERT, [{"n": -at}])
    with database.read() as reading:
        found = [n for (n,) in reading.rows(select(NUMBERS.c.n))]
    assert sorted(n for n in found if n < 0) == list(range(-at, 0))
    assert at > 10 and at in found
    database.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_removed_or_replaced_takes_no_writes(
    tmp_path: Path, is_replaced: bool
) -> None:
    """They went to a file without a name, and with the process."""
    path = tmp_path / "metastore.db"
    with connect(f"sqlite:///{path}", clock=SystemClock()) as metastore:
        (first,) = metastore.open_txns(1, user="u", host="h")
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"vacuum into '{tmp_path}/backup.db'")
        path.unlink()
        if is_replaced:
            (tmp_path / "backup.db").rename(path)
        for ask in (metastore.show_txns, lambda: metastore.open_txns(1, user="u", host="h")):
            with pytest.raises(MetastoreError, match="was removed or replaced while it was open"):
                ask()
    if is_replaced:
        for aside in ("-wal", "-shm"):
            Path(f"{path}{aside}").unlink(missing_ok=True)
        with connect(f"sqlite:///{path}", clock=SystemClock()) as metastore:
            assert [one.id for one in metastore.show_txns()] == [first]
