"""A seeded history of clients that create, rename, drop, alter and convert tables while others
write, read and compact them.

Tables move among the names a, b and c and are never dropped: each row that somebody was told is in
one of them has to be in exactly one at the end, each column and property that was added has to be
there, and of the columns that came with rows those of rows that are there, with their values.
x and y are dropped and made again, over and over: what was dropped stays away. Of the partitions of
q some are renamed, others are dropped and added, with the same demands. Every directory of the
warehouse has to be that of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from tests.simulation.scheduler import Killed
from tests.simulation.world import SimulatedClient, World

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Worker
from hiveacid.errors import AcidError, MetastoreError
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import Database, TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.table import AcidTable

MOVED = ("a", "b", "c")
DROPPED = ("x", "y")
MOVED_PARTITIONS = (0, 1, 2, 3, 4)
DROPPED_PARTITIONS = (6, 7)
FULL = "'transactional'='true'"
INSERT_ONLY = f"{FULL}, 'transactional_properties'='insert_only'"


def make_tables(session: Session, warehouse: str) -> None:
    """Two of the tables that are renamed; one will be converted."""
    session.client.metastore.create_database(Database("default", warehouse), if_not_exists=True)
    for name, kind in (("a", FULL), ("b", INSERT_ONLY)):
        session.sql(f"create table {name} (id int) stored as orc tblproperties ({kind})")
    session.sql(
        f"create table q (id int) partitioned by (k int) stored as orc tblproperties ({FULL})"
    )


class DefinitionHistory:
    """One seed's history; ``run`` raises AssertionError where an invariant is broken."""

    def __init__(self, seed: int, root: Path, *, url: str) -> None:
        self.world = World(seed, root, url=url)
        self._random = self.world.random
        self._numbers = iter(range(1, 1_000))
        self._rows: set[int] = set()
        self._doomed: set[int] = set()
        self._partitioned: set[int] = set()
        self._columns: set[str] = set()
        self._evolved: set[str] = set()
        self._properties: set[str] = set()

    @property
    def trace(self) -> list[str]:
        """What happened, in order."""
        return self.world.scheduler.trace

    def run(self) -> str:
        """Let the actors take turns to the end, then look at what is left; the trace's digest."""
        world = self.world
        with world.alive():
            works = (self._write, self._write, self._define, self._define, self._read)
            for work in (*works, self._stream, self._write_partitions, self._define_partitions):
                client = world.add(
                    SimulatedClient(
                        f"{work.__name__.strip('_')}{len(world.clients)}",
                        Settings(
                            retention_s=0,
                            compactor_auto="off",
                            lock_timeout_s=600,
                            store_assignment="hive",
                        ),
                    )
                )
                world.spawn(client, client.name, partial(work, client))
            client = world.add(
                SimulatedClient("compactor", Settings(retention_s=0, compactor_auto="off"))
            )
            world.spawn(client, client.name, partial(self._compact, client))
            world.scheduler.spawn("hearts", self._hearts, background=True)
            world.scheduler.run()
            self._check_the_end()
        return world.scheduler.digest()

    def _write(self, client: SimulatedClient) -> None:
        for _ in range(6):
            name = self._random.choice((*MOVED, *DROPPED))
            number = next(self._numbers)
            table = pa.table({"id": pa.array([number], pa.int32())})
            evolves = self._random.random() < 0.4
            if evolves:
                table = table.append_column(f"e{number}", pa.array([number], pa.int32()))
            write = partial(self._insert, client.session, name, table, evolve=evolves)
            if self._try(f"{number} into {name}{' with a column' * evolves}", write):
                self._told(number, name)
                self._evolved |= {f"e{number}"} if evolves and name in MOVED else set()

    def _define(self, client: SimulatedClient) -> None:
        for _ in range(6):
            number = next(self._numbers)
            name, other = self._random.sample(MOVED, 2)
            dropped = self._random.choice(DROPPED)
            column, key = f"c{number}", f"p{number}"
            text, told, what = self._random.choice(
                (
                    (f"alter table {name} rename to {other}", None, ""),
                    (f"alter table {name} add columns ({column} int)", self._columns, column),
                    (
                        f"alter table {name} set tblproperties ('{key}'='')",
                        self._properties,
                        key,
                    ),
                    (
                        f"alter table {name} set tblproperties"
                        " ('transactional_properties'='default')",
                        None,
                        "",
                    ),
                    (
                        f"create table {dropped} (id int) stored as orc tblproperties ({FULL})",
                        None,
                        "",
                    ),
                    (f"drop table {dropped}", None, ""),
                )
            )
            if self._try(text, partial(client.session.sql, text)) and told is not None:
                told.add(what)

    def _stream(self, client: SimulatedClient) -> None:
        for _ in range(4):
            name = self._random.choice((*MOVED, *DROPPED, "q"))
            write = partial(self._transactions, client.session, name)
            self._try(f"stream into {name}", write)

    def _transactions(self, session: Session, name: str) -> None:
        with session.stream(name, transactions_per_batch=self._random.randint(1, 3)) as stream:
            for _ in range(self._random.randint(1, 4)):
                number, place = next(self._numbers), self._partition()
                stream.begin()
                stream.write({"id": number, **({"k": place} if name == "q" else {})})
                stream.commit()
                self.world.note(f"{number} into {name} by a stream: done")
                self._told(number, name, place)

    def _partition(self) -> int:
        return self._random.choice((*MOVED_PARTITIONS[:2], *DROPPED_PARTITIONS))

    def _told(self, number: int, name: str, place: int | None = None) -> None:
        """A row was told to be in a table."""
        if name == "q":
            (self._doomed if place in DROPPED_PARTITIONS else self._partitioned).add(number)
        else:
            (self._doomed if name in DROPPED else self._rows).add(number)

    def _write_partitions(self, client: SimulatedClient) -> None:
        """Rows for several partitions at once; one of them is deleted now and then."""
        table = client.session.table("q")
        for _ in range(6):
            rows = {next(self._numbers): self._partition() for _ in range(2)}
            kind = pa.int32()
            new = pa.table(
                {"id": pa.array(rows, kind), "k": pa.array(rows.values(), kind)},
            )
            if self._try(f"{rows} into q", partial(table.write_arrow, new)):
                for number, place in rows.items():
                    self._told(number, "q", place)
            if self._partitioned and self._random.random() < 0.5:
                number = self._random.choice(sorted(self._partitioned))
                if self._try(f"delete {number}", partial(self._delete, table, number)):
                    self._partitioned.remove(number)

    @staticmethod
    def _delete(table: AcidTable, number: int) -> None:
        done = table.delete_arrow(f"id = {number}")
        assert done.rows == 1, f"{number} is not there: {done}"

    def _define_partitions(self, client: SimulatedClient) -> None:
        for _ in range(8):
            old, new = self._random.sample(MOVED_PARTITIONS, 2)
            dropped = self._random.choice(DROPPED_PARTITIONS)
            text = self._random.choice(
                (
                    f"partition (k={old}) rename to partition (k={new})",
                    f"drop if exists partition (k={dropped})",
                    f"add if not exists partition (k={dropped})",
                )
            )
            self._try(text, partial(client.session.sql, f"alter table q {text}"))

    def _read(self, client: SimulatedClient) -> None:
        for _ in range(6):
            name = self._random.choice((*MOVED, "q"))
            self._try(f"read {name}", partial(self._ids, client.session, name))

    def _compact(self, client: SimulatedClient) -> None:
        connection = client.connection
        worker = Worker(connection, partial(rewrite, settings=client.settings), name="w-1-1")
        cleaner = Cleaner(connection)
        for _ in range(3):
            name = self._random.choice((*MOVED, "q"))
            partition = f"k={self._partition()}" if name == "q" else None
            request = CompactionRequest(TableName("default", name), partition, CompactionType.MAJOR)
            self._try("compact", partial(connection.metastore.compact, request))
            self._try("work", worker.run_next)
            self._try("clean", cleaner.run)

    def _hearts(self) -> None:
        world = self.world
        while not world.scheduler.is_ending:
            world.scheduler.sleep_s(50)
            for client in world.clients:
                world.scheduler.owner = client
                try:
                    client.connection.transactions.heartbeat.beat()
                except Killed:
                    continue

    def _try(self, what: str, action: Callable[[], object]) -> bool:
        try:
            action()
        except MetastoreError as error:
            raise AssertionError(f"{what}: {error}") from error  # nothing fails here by itself
        except AcidError as error:
            said = f"{type(error).__name__}: {error}"
            self.world.note(f"{what}: {said}")
            return False
        self.world.note(f"{what}: done")
        return True

    @staticmethod
    def _insert(session: Session, name: str, rows: pa.Table, *, evolve: bool) -> None:
        session.table(name).write_arrow(rows, evolve=evolve)

    @staticmethod
    def _ids(session: Session, name: str) -> list[int]:
        rows = hiveacid.read_arrow(session.table(name)).read_all()
        found: list[int] = rows.column("id").to_pylist()
        assert len(set(found)) == len(found), f"rows are there twice: {found}"
        return found

    def _check_the_end(self) -> None:
        world, session = self.world, self.world.healthy.session
        world.clock.advance_ms(400_000)
        world.metastore.perform_timeouts()
        names = world.metastore.list_tables("default")
        moved = [name for name in names if name in MOVED]
        found = [number for name in moved for number in self._ids(session, name)]
        assert sorted(found) == sorted(self._rows), "rows are lost, twice or back"
        there = set(self._ids(session, "q"))
        gone, back = self._partitioned - there, there - self._partitioned - self._doomed
        assert not gone and not back, f"rows of partitions: {gone} lost, {back} back"
        tables = [world.metastore.get_table(TableName("default", name)) for name in names]
        columns = [column.name for table in tables for column in table.columns]
        lost = self._columns - set(columns)
        assert not lost, f"columns are lost: {lost}"
        came = {
            column.name
            for table in tables
            if table.name.table in MOVED
            for column in table.columns
            if column.name.startswith("e")
        }
        assert came == self._evolved, f"rows and their columns: {came ^ self._evolved}"
        for name in moved:
            for row in hiveacid.read_arrow(session.table(name)).read_all().to_pylist():
                values = {key: value for key, value in row.items() if key.startswith("e")}
                wanted = {f"e{row['id']}": row["id"]} if f"e{row['id']}" in came else {}
                assert {k: v for k, v in values.items() if v is not None} == wanted, row
        lost = self._properties - {key for table in tables for key in table.properties}
        assert not lost, f"properties are lost: {lost}"
        for name in set(names) & set(DROPPED):
            back = set(self._ids(session, name)) - self._doomed
            assert not back, f"rows of others are in {name}: {back}"
        places = {path.name for path in Path(world.warehouse).iterdir()}
        assert places == set(names), f"directories are {places}, tables {names}"
