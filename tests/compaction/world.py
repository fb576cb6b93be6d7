"""A metastore, a warehouse and a clock that moves when told, for compactors without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.metastores import NoThreads

import hiveacid
from hiveacid.client import DEFAULT_DATABASE, Client
from hiveacid.compaction.cleaner import Cleaned, Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import CompactionResult, Step, Worker
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.compactions import (
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import Database, TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.testing import ManualClock
from hiveacid.txn.manager import TransactionManager

ACID = "stored as orc tblproperties ('transactional'='true')"
HIVE_3 = "stored as orc tblproperties ('transactional'='true','hiveacid.file.names'='hive3')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true','transactional_properties'='insert_only')"
)
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
DAY_MS = 86_400_000
T = TableName("default", "t")
SETTLED_MS = 1_001
"""After so long no id below a transaction's can turn up any more."""
Rows = list[tuple[Any, ...]]


def open_world(
    url: str,
    warehouse: str,
    clock: ManualClock,
    settings: Settings,
    files: Files | None = None,
) -> Client:
    """One client's connection."""
    options = MetastoreOptions(durable=False, server_time=False)
    store = connect(url, clock=clock, options=options)
    if DEFAULT_DATABASE not in store.list_databases():
        store.create_database(Database(DEFAULT_DATABASE, warehouse))
    manager = TransactionManager(store, clock, settings, threads=NoThreads(), files=files)
    return Client(store, manager, clock, settings, warehouse)


@dataclass(frozen=True, slots=True)
class FilesThrough(Files):
    """All files through one file system."""

    file_system: FileSystem

    def opened(self, root: str) -> FileSystem:
        """See ``Files``."""
        del root
        return self.file_system


class World:
    """A client, a compactor and a cleaner, and what they have done."""

    def __init__(self, url: str, warehouse: Path, settings: Settings | None = None) -> None:
        self.url, self.warehouse = url, str(warehouse)
        self.clock = ManualClock()
        self.settings = settings or Settings(retention_s=0, lock_timeout_s=1)
        self._connections: list[Client] = []
        self.client = self.connect()
        self.acid = Session(self.client)

    def connect(self, files: Files | None = None) -> Client:
        """A connection of its own to the same metastore."""
        made = open_world(self.url, self.warehouse, self.clock, self.settings, files)
        self._connections.append(made)
        return made

    def close(self) -> None:
        """Give all connections back."""
        for one in self._connections:
            one.close()

    def make(self, table: str = "t", what: str = ACID, columns: str = "id int, v string") -> None:
        """Create a table; ``what`` is what follows its columns."""
        self.acid.sql(f"create table {table} ({columns}) {what}")

    def insert(self, *ids: int, table: str = "t", **values: str) -> None:
        """One transaction that inserts rows ``(id, 'new')``."""
        data = pa.table({"id": pa.array(ids, pa.int32()), "v": ["new"] * len(ids)})
        hiveacid.write_arrow(self.acid.table(table), data, partition=values)

    def delete(self, *ids: int, table: str = "t") -> None:
        """One transaction that deletes rows."""
        found = ", ".join(map(str, ids))
        hiveacid.delete_arrow(self.acid.table(table), f"id in ({found})")

    def request(self, kind: CompactionType, table: str = "t", partition: str | None = None) -> None:
        """Enqueue a compaction."""
        name = TableName(DEFAULT_DATABASE, table)
        answer = self.client.metastore.compact(CompactionRequest(name, partition, kind))
        assert answer.accepted, answer

    def worker(
        self,
        *,
        reached: Callable[[Step], None] | None = None,
        rewriting: Any = None,
        files: Files | None = None,
    ) -> Worker:
        """A worker with a connection of its own."""
        client = self.connect(files)
        how = rewriting or partial(rewrite, settings=self.settings)
        return Worker(client, how, name="host-1-1", reached=reached)

    def compact(
        self,
        kind: CompactionType = MAJOR,
        table: str = "t",
        partition: str | None = None,
        **worker: Any,
    ) -> CompactionResult:
        """Enqueue a compaction and do it."""
        self.request(kind, table, partition)
        result = self.worker(**worker).run_next()
        assert result is not None
        return result

    def clean(self, **cleaner: Any) -> tuple[Cleaned, ...]:
        """One cycle of a cleaner with a connection of its own, a second later."""
        self.clock.advance_ms(SETTLED_MS)
        return self.cleaner(**cleaner).run()

    def cleaner(self, files: Files | None = None, **cleaner: Any) -> Cleaner:
        """A cleaner with a connection of its own."""
        return Cleaner(self.connect(files), **cleaner)

    def rows(self, table: str = "t") -> Rows:
        """What a reader sees now."""
        return rows_of(self.acid, table)

    def ids(self, table: str = "t") -> list[int]:
        """The first column of what a reader sees now."""
        return [row[0] for row in self.rows(table)]

    def directories(self, table: str = "t", partition: str = "") -> list[str]:
        """What lies in a table's or partition's directory."""
        root = Path(self.acid.table(table).definition.location) / partition
        return sorted(path.name for path in root.iterdir())

    def entries(self, table: str = "t") -> list[CompactionInfo]:
        """The table's compactions by id."""
        found = self.client.metastore.show_compactions(table=TableName(DEFAULT_DATABASE, table))
        return sorted(found, key=lambda one: one.id)

    def states(self, table: str = "t") -> list[CompactionState]:
        """What became of the table's compactions, by id."""
        return [one.state for one in self.entries(table)]


def rows_of(session: Any, table: str = "t") -> Rows:
    """All rows of a table, sorted."""
    found = hiveacid.read_arrow(session.table(table)).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def changed_at_random(
    made: World, chance: random.Random, now: set[int], kinds: list[str], *, cleans: float
) -> set[int]:
    """One change of the table ``t``, compacted sometimes, and then cleaned sometimes; the ids that
    it has afterwards.
    """
    kind = chance.choice(kinds)
    if kind == "insert" or not now:
        new = set(chance.sample(range(1000), 3)) - now
        made.insert(*sorted(new))
        now = now | new
    elif kind == "delete":
        gone = chance.choice(sorted(now))
        made.delete(gone)
        now = now - {gone}
    else:
        made.acid.sql("insert overwrite table t values (7, 'only')")
        now = {7}
    if chance.random() < 0.4:
        made.compact(chance.choice([MINOR, MAJOR]))
        if chance.random() < cleans:
            cleaned(made)
    return now


def cleaned(made: World) -> None:
    """Let the cleaner take what it can, a while later."""
    made.clock.advance_ms(2_000)
    made.cleaner().run_all()
