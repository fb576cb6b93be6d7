"""What threads that take turns with a connection of SQLite's do to each other."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from hiveacid.clock import SystemClock
from hiveacid.metastore.sql.engine import Database, MetastoreOptions, Unit
from hiveacid.metastore.sql.sqlite import SqliteDialect

NUMBERS = Table("numbers", MetaData(), Column("n", Integer))
INSERT = insert(NUMBERS).values(n=0)


class LetsGo:
    """A value; while SQLite takes it, another thread forgets its unit, which has ended."""

    def __init__(self, ended: list[Unit]) -> None:
        self._ended = ended

    def __conform__(self, protocol: object) -> int:
        del protocol
        self._ended.clear()
        return 1


def test_a_unit_that_has_ended_does_not_touch_the_next_one(tmp_path: Path) -> None:
    """Its cursor had the statement that the next one runs, and reset it as it was forgotten: "bad
    parameter or other API misuse", once in some thousand units of several threads.
    """
    clock, path = SystemClock(), tmp_path / "numbers.db"
    dialect = SqliteDialect(str(path), clock=clock, durable=False)
    options = MetastoreOptions(durable=False)
    database = Database(dialect, url=f"sqlite:///{path}", clock=clock, options=options)
    with database.schema_change() as unit:
        NUMBERS.create(unit.connection)
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
