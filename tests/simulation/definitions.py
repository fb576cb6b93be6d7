"""A seeded history of clients that create, rename, drop, alter, convert and detach tables while
others write, read, compact and clean them, ask for their past, and die.

Tables move among the names a, b and c and are never dropped: each row that somebody was told is in
one of them has to be in exactly one at the end, each column and property that was added has to be
there, and of the columns that came with rows those of rows that are there, with their values.
x, y and e.z are dropped and made again, over and over: what was dropped stays away. Of the
partitions of q some are renamed, others are dropped and added, with the same demands. Without
faults every directory of the warehouse has to be that of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
from tests.simulation.background import spawn_background
from tests.simulation.definitions_past import MOVED_PARTITIONS, Follower
from tests.simulation.world import SimulatedClient, World

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Worker
from hiveacid.errors import AcidError, CommitOutcomeUnknownError, MetastoreError, NotFoundError
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import Database, Table, TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.table import AcidTable
from hiveacid.takeover import Detached
from hiveacid.transaction import AcidTransaction

MOVED = ("a", "b", "c")
DROPPED = ("x", "y", "e.z")
DROPPED_PARTITIONS = (6, 7)
FULL = "'transactional'='true'"
INSERT_ONLY = f"{FULL}, 'transactional_properties'='insert_only'"
CALM = 0.5
"""How many histories are without any fault."""
PLACES = (*MOVED, "q")
_WITHOUT_FAULTS = ("follow", "detach", "read")
"""Whose answers have to be known; a reader that is dead leaves its end to the collector."""


def make_tables(session: Session, warehouse: str, *, insert_only: bool) -> None:
    """Two of the tables that are renamed, of which one will be converted, and q."""
    session.client.metastore.create_database(Database("default", warehouse), if_not_exists=True)
    for name, kind in (("a", FULL), ("b", INSERT_ONLY)):
        session.sql(f"create table {name} (id int) stored as orc tblproperties ({kind})")
    kind = INSERT_ONLY if insert_only else FULL
    session.sql(
        f"create table q (id int) partitioned by (k int) stored as orc tblproperties ({kind})"
    )
    session.sql("alter table q add partition (k=0) partition (k=1)")


class DefinitionHistory:
    """One seed's history; ``run`` raises AssertionError where an invariant is broken."""

    def __init__(self, seed: int, root: Path, *, url: str) -> None:
        self.world = World(seed, root, url=url)
        self.random = self.world.random
        self._is_calm = self.random.random() < CALM
        self._numbers = iter(range(1, 1_000))
        self._told: dict[int, str | int] = {}
        """Rows that somebody was told to be there: where they were written."""
        self._perhaps: set[int] = set()
        """Rows of which nobody was told what became of them."""
        self._gone: set[int] = set()
        """Rows that were there when what has them was dropped, or were taken away."""
        self._touched: set[int] = set()
        """Rows that somebody tried to take away."""
        self._pairs: list[tuple[int, int]] = []
        self._columns: set[str] = set()
        self._evolved: set[str] = set()
        self._properties: set[str] = set()
        self._detached: list[Detached] = []
        self._detaches = 0

    @property
    def trace(self) -> list[str]:
        """What happened, in order."""
        return self.world.scheduler.trace

    def run(self) -> str:
        """Let the actors take turns to the end, then look at what is left; the trace's digest."""
        world = self.world
        with world.alive():
            always = (self._write, self._define, self._define, self._define_partitions)
            others = (
                *(self._write, self._stream, self._write_partitions, self._transact, self._load),
                *(self._take_away, self._detach, self._read, self._follow),
            )
            for work in (*always, *self.random.sample(others, 4), self._compact):
                client = world.add(self._client(f"{work.__name__.strip('_')}{len(world.clients)}"))
                world.spawn(client, client.name, partial(work, client))
            spawn_background(world, is_calm=self._is_calm)
            world.scheduler.run()
            self._check_the_end()
        return world.scheduler.digest()

    def _client(self, name: str) -> SimulatedClient:
        settings = Settings(
            retention_s=self.random.choice((0, 0, 600)),
            compactor_auto="off",
            lock_timeout_s=600,
            store_assignment="hive",
        )
        is_calm = self._is_calm or name.startswith(_WITHOUT_FAULTS)
        return SimulatedClient.drawn(name, settings, self.random, is_calm=is_calm, lives=150)

    # ---------------------------------------------------------------- rows

    def _row(
        self,
        what: str,
        rows: Mapping[int, str | int],
        action: Callable[[], Any],
    ) -> bool:
        """Whether rows were written; where they go to, by their numbers."""
        self._perhaps |= set(rows)
        done = self._try(what, action, rows)
        if done:
            self._told |= rows
            self._perhaps -= set(rows)
        return done

    def _write(self, client: SimulatedClient) -> None:
        for _ in range(6):
            name = self.random.choice((*MOVED, *MOVED, *DROPPED))
            number = next(self._numbers)
            table = self._table(number)
            evolves = self.random.random() < 0.4
            if evolves:
                table = table.append_column(f"e{number}", pa.array([number], pa.int32()))
            write = partial(self._insert, client.session, name, table, evolve=evolves)
            if (
                self._row(
                    f"{number} into {name}{' with a column' * evolves}", {number: name}, write
                )
                and evolves
                and name in MOVED
            ):
                self._evolved.add(f"e{number}")

    def _transact(self, client: SimulatedClient) -> None:
        """Rows in two tables at once, or in none; one that is rolled back is nowhere."""
        for _ in range(4):
            names = self.random.sample(PLACES, 2)
            pair, third = (next(self._numbers), next(self._numbers)), next(self._numbers)
            rows = dict(zip(pair, names, strict=True))

            def work(rows: Mapping[int, str] = rows, third: int = third) -> None:
                with client.session.transaction() as txn:
                    for number, name in rows.items():
                        self._insert(txn, name, self._table(number, name))
                        txn.savepoint("here")
                        if self.random.random() < 0.5:
                            self._insert(txn, name, self._table(third, name))
                            txn.rollback_to("here")
                    for number, name in rows.items():
                        assert number in self._ids(txn, name), f"{number} is not in {name}"

            self._pairs.append(pair)
            self._row(f"{rows} in a transaction", rows, work)

    def _table(self, number: int, name: str = "") -> pa.Table:
        table = pa.table({"id": pa.array([number], pa.int32())})
        if name != "q":
            return table
        return table.append_column(
            "k", pa.array([self.random.choice(MOVED_PARTITIONS)], pa.int32())
        )

    def _load(self, client: SimulatedClient) -> None:
        """A file is in a table, or still where it was."""
        for _ in range(3):
            number, name = next(self._numbers), self.random.choice((*MOVED, *MOVED, *DROPPED))
            source = Path(self.world.root, "load", str(number), "rows.orc")
            source.parent.mkdir(parents=True)
            pa.orc.write_table(self._table(number), source)
            text = f"load data inpath '{source.parent}' into table {name}"
            self._row(
                f"load {number} into {name}", {number: name}, partial(client.session.sql, text)
            )

    def _stream(self, client: SimulatedClient) -> None:
        for _ in range(4):
            name = self.random.choice((*MOVED, *DROPPED, "q"))
            write = partial(self._transactions, client.session, name)
            self._try(f"stream into {name}", write)

    def _transactions(self, session: Session, name: str) -> None:
        with session.stream(name, transactions_per_batch=self.random.randint(1, 3)) as stream:
            for _ in range(self.random.randint(1, 4)):
                number, place = next(self._numbers), self._partition()
                stream.begin()
                stream.write({"id": number, **({"k": place} if name == "q" else {})})
                where = place if name == "q" else name
                self._row(f"{number} into {where} by a stream", {number: where}, stream.commit)

    def _partition(self) -> int:
        return self.random.choice((*MOVED_PARTITIONS[:2], *DROPPED_PARTITIONS))

    def _write_partitions(self, client: SimulatedClient) -> None:
        """Rows for several partitions at once."""
        for _ in range(6):
            rows = {next(self._numbers): self._partition() for _ in range(2)}
            kind = pa.int32()
            new = pa.table({"id": pa.array(rows, kind), "k": pa.array(rows.values(), kind)})
            write = partial(self._insert, client.session, "q", new)
            self._row(f"{rows} into q", {**rows}, write)

    def _take_away(self, client: SimulatedClient) -> None:
        """Rows are deleted, updated, erased from files, or the transaction of one is undone."""
        for _ in range(5):
            known = sorted(number for number in self._told if self._stays(number))
            if not known:
                return
            number, name = self.random.choice(known), self.random.choice(PLACES)
            where = self._told.pop(number)
            self._perhaps.add(number)
            self._touched.add(number)
            way = self.random.choice(("delete", "delete", "purge", "undo", "merge"))
            if way == "undo" and any(number in pair for pair in self._pairs):
                way = "delete"  # else the other one would go, too
            counts: list[int] = []
            take = partial(self._take, client.session, way, name, number, counts)
            rows = () if way == "purge" else (number,)
            done = self._try(f"{way} {number} from {name}", take, rows)
            if (done and not counts[0]) or (not done and number not in self._perhaps):
                self._told[number] = where
            elif done:
                assert counts == [1], f"{number} was there {counts}"
                self._gone.add(number)
            else:
                continue
            self._perhaps.discard(number)

    def _take(self, session: Session, way: str, name: str, number: int, counts: list[int]) -> None:
        table, condition = session.table(name), f"id = {number}"
        if way == "merge":  # nothing changes
            keys = self._table(number, name)
            table.merge_arrow(keys, on=keys.column_names, when_not_matched=None)
            counts.append(0)
        elif way == "delete":
            counts.append(table.delete_arrow(condition).rows or 0)
        elif way == "purge":
            counts.append(table.purge(where=condition).rows_deleted)
        else:
            counts.append(self._undo(session, table, number))

    @staticmethod
    def _undo(session: Session, table: AcidTable, number: int) -> int:
        """Where it is all that its transaction did."""
        with session.transaction() as txn:
            rows = txn.table(table.name.table).changes(since=0).to_pylist()
        made = {row["_commit_version"] for row in rows if row["id"] == number}
        of = [one.txn for one in table.history() if one.write_id in made]
        if len(of) != 1 or [row["_commit_version"] in made for row in rows].count(True) != 1:
            return 0
        return sum(one.deleted for one in session.undo(int(of[0])))

    def _stays(self, number: int) -> bool:
        """Whether what the row was written to is never dropped."""
        return self._told.get(number) in (*PLACES, *MOVED_PARTITIONS)

    # ---------------------------------------------------------------- definitions

    def _define(self, client: SimulatedClient) -> None:
        for _ in range(6):
            number = next(self._numbers)
            name, other = self.random.sample(MOVED, 2)
            dropped, (source, target) = (
                self.random.choice(DROPPED),
                self.random.sample(DROPPED[1:], 2),
            )
            column, key, alter = f"c{number}", f"p{number}", f"alter table {name}"
            text, told, what = self.random.choice(
                (
                    *((f"{alter} rename to {other}", None, ""),) * 2,
                    (f"{alter} add columns ({column} int)", self._columns, column),
                    (f"{alter} set tblproperties ('{key}'='')", self._properties, key),
                    (f"{alter} set tblproperties ('transactional_properties'='default')", None, ""),
                    (f"analyze table {name} compute statistics noscan", None, ""),
                    (f"vacuum {name}", None, ""),
                    *((f"create table {dropped} (id int) stored as orc tblproperties ({FULL})",
                       None, ""),) * 2,
                    (f"alter table {source} rename to {target}", None, ""),
                    (f"truncate table {dropped}", None, ""),
                    (f"drop table {dropped}", None, ""),
                    ("create database if not exists e", None, ""),
                    ("drop database if exists e cascade", None, ""),
                )
            )  # fmt: skip
            there = self._written_to((dropped,) if dropped == "x" else ())  # the others move
            if self._try(text, partial(client.session.sql, text)):
                if told is not None:
                    told.add(what)
                if text.startswith(("drop table", "truncate")):
                    self._gone |= there

    def _written_to(self, places: Iterable[str | int]) -> set[int]:
        return {number for number, place in self._told.items() if place in places}

    def _define_partitions(self, client: SimulatedClient) -> None:
        for _ in range(8):
            old, new = self.random.sample(MOVED_PARTITIONS, 2)
            dropped = self.random.choice(DROPPED_PARTITIONS)
            text = self.random.choice(
                (
                    *(f"alter table q partition (k={old}) rename to partition (k={new})",) * 2,
                    f"alter table q drop if exists partition (k={dropped})",
                    f"alter table q add if not exists partition (k={dropped})",
                    "msck repair table q",
                    "msck repair table q sync partitions",
                )
            )
            there = self._written_to((dropped,))
            if self._try(text, partial(client.session.sql, text)) and " drop " in text:
                self._gone |= there

    def _detach(self, client: SimulatedClient) -> None:
        """A table leaves the metastore and comes back."""
        for _ in range(3):
            name = self.random.choice(MOVED)
            if self._try(f"detach {name}", partial(self._let_go, client.session, name)):
                self._attach(client.session)

    def _let_go(self, session: Session, name: str) -> None:
        self._detaches += 1
        self._detached.append(session.detach(name))

    def _attach(self, session: Session) -> None:
        for one in list(self._detached):
            if self._try(f"attach {one!r}", partial(session.sql, one.create_table)):
                self._detached.remove(one)
                self._detaches += 1

    # ---------------------------------------------------------------- the others

    def _read(self, client: SimulatedClient) -> None:
        """One table by itself, or all in a transaction: then no half of a pair is there."""
        for _ in range(6):
            name = self.random.choice((*PLACES, ""))
            if name:
                self._try(f"read {name}", partial(self._ids, client.session, name))
            else:
                self._try("read all", partial(self._read_all, client.session))

    def _read_all(self, session: Session) -> None:
        known, detached = {number for number in self._told if self._stays(number)}, self._detaches
        with session.transaction() as txn:
            found: list[int] = []
            count = 0
            for name in PLACES:
                try:
                    found += self._ids(txn, name)
                except NotFoundError:
                    continue
                count += 1
        if count < 3 or detached != self._detaches:
            return  # to an older snapshot a table that was attached since is empty
        assert len(set(found)) == len(found), f"rows are there twice: {found}"
        lost = known - set(found) - self._perhaps - self._gone
        assert not lost, f"rows are not seen: {lost}"
        self._check_pairs(found)

    def _check_pairs(self, found: Iterable[int]) -> None:
        there = set(found)
        for first, second in self._pairs:
            if not {first, second} & self._touched:
                assert (first in there) == (second in there), f"half of {first}, {second}"

    def _follow(self, client: SimulatedClient) -> None:
        follower = Follower(client.session, self.random)
        for _ in range(8):
            name = self.random.choice(PLACES)
            self._try(f"follow {name}", partial(follower.look, name))
            self.world.client_clock.sleep_s(self.random.choice((0, 1, 10)))

    def _compact(self, client: SimulatedClient) -> None:
        connection = client.connection
        worker = Worker(connection, partial(rewrite, settings=client.settings), name="w-1-1")
        cleaner = Cleaner(connection)
        for _ in range(4):
            name = self.random.choice(PLACES)
            partition = f"k={self._partition()}" if name == "q" else None
            kind = self.random.choice(list(CompactionType))
            request = CompactionRequest(TableName("default", name), partition, kind)
            self._try("compact", partial(connection.own.compact, request))
            self._try("work", worker.run_next)
            self._try("clean", cleaner.run)
            if self.random.random() < 0.3:
                self._try("sweep", cleaner.sweep)

    # ---------------------------------------------------------------- what is told

    def _try(self, what: str, action: Callable[[], object], rows: Iterable[int] = ()) -> bool:
        try:
            action()
        except AcidError as error:
            if isinstance(error, MetastoreError) and self._is_calm:
                raise AssertionError(f"{what}: {error}") from error  # nothing fails by itself
            if not isinstance(error, CommitOutcomeUnknownError):
                self._perhaps -= set(rows)
            self.world.note(f"{what}: {type(error).__name__}: {error}")
            return False
        self.world.note(f"{what}: done")
        return True

    @staticmethod
    def _insert(
        within: Session | AcidTransaction, name: str, rows: pa.Table, *, evolve: bool = False
    ) -> None:
        within.table(name).write_arrow(rows, evolve=evolve)

    @staticmethod
    def _ids(within: Session | AcidTransaction, name: str) -> list[int]:
        rows = hiveacid.read_arrow(within.table(name)).read_all()
        found: list[int] = rows.column("id").to_pylist()
        assert len(set(found)) == len(found), f"rows are there twice: {found}"
        return found

    # ---------------------------------------------------------------- the end

    def _check_the_end(self) -> None:
        world, session = self.world, self.world.healthy.session
        world.clock.advance_ms(400_000)
        world.metastore.perform_timeouts()
        world.metastore.run_housekeeping(interval_s=0)
        self._attach(session)
        assert not self._detached, f"what was detached cannot be attached: {self._detached}"
        tables = {str(one.name): one for one in Cleaner(session.client).all_tables()}
        for name in tables:  # what was killed is undone by whoever comes next
            self._try(
                f"end {name}",
                partial(session.sql, f"alter table {name} unset tblproperties if exists ('-')"),
            )
        tables = {str(one.name): one for one in Cleaner(session.client).all_tables()}
        names = {name.removeprefix("default.") for name in tables}
        there = {name: self._ids(session, name) for name in names}
        found = [number for name in PLACES if name in names for number in there[name]]
        assert len(set(found)) == len(found), f"rows are there twice: {found}"
        known = {number for number in self._told if self._stays(number)} - self._gone
        doomed = self._written_to((*DROPPED, *DROPPED_PARTITIONS)) - self._gone
        lost, back = known - set(found), set(found) - known - doomed - self._perhaps
        assert not lost and not back, f"rows: {lost} lost, {back} back"
        self._check_pairs(found)
        for name in names & set(DROPPED):
            mine = self._written_to(("x",) if name == "x" else DROPPED[1:]) - self._gone
            back = set(there[name]) - mine - self._perhaps
            assert not back, f"rows of others are in {name}: {back}"
        self._check_definitions(
            session, [tables[f"default.{name}"] for name in MOVED if name in names]
        )
        self._check_files(names)

    def _check_definitions(self, session: Session, tables: list[Table]) -> None:
        columns = {column.name for table in tables for column in table.columns}
        lost = self._columns - columns
        assert not lost, f"columns are lost: {lost}"
        came = {column for column in columns if column.startswith("e")}
        perhaps = {f"e{number}" for number in self._perhaps | self._gone}
        assert not (came ^ self._evolved) - perhaps, (
            f"rows and their columns: {came ^ self._evolved}"
        )
        for table in tables:
            for row in hiveacid.read_arrow(session.table(str(table.name))).read_all().to_pylist():
                values = {key: value for key, value in row.items() if key.startswith("e")}
                wanted = {f"e{row['id']}": row["id"]} if f"e{row['id']}" in came else {}
                assert {k: v for k, v in values.items() if v is not None} == wanted, row
        lost = self._properties - {key for table in tables for key in table.properties}
        assert not lost, f"properties are lost: {lost}"

    def _check_files(self, names: set[str]) -> None:
        root = Path(self.world.warehouse)
        places = {
            path.name for path in root.iterdir() if path.name not in ("e.db", "_hiveacid_purges")
        }
        places |= {f"e.{path.name}" for path in root.glob("e.db/*")}
        wrong = places ^ names if self._is_calm else names - places - set(DROPPED)
        assert not wrong, f"directories are {places}, tables {names}"
        for path in Path(self.world.root).glob("load/*"):
            number = int(path.name)
            is_told = number in {*self._told, *self._perhaps, *self._gone}
            assert is_told or list(path.iterdir()), f"the file of {number} is lost"
