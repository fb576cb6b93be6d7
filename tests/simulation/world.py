"""What the actors of a history live in: files, a database, a clock, clients with their faults.

Everything below the product's protocols is here and nothing above: each operation on a file and
each step of a unit of the database comes to ``World.before``, which draws what becomes of it.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
from tests.metastores import NoThreads
from tests.simulation.database import connect_faulty
from tests.simulation.scheduler import Killed, Scheduler

from hiveacid.client import Client
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.compactions import CompactionId
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries
from hiveacid.testing import Fault, FaultyFiles, ManualClock
from hiveacid.txn.manager import TransactionManager

_WITHIN_A_UNIT = frozenset({"statement", "commit"})
"""Where a unit of the database is open: nobody else may have a turn, who would wait for it."""
_READS = frozenset({"look", "list", "open", "read"})


@dataclass
class SimulatedClient:
    """A process: how bad its disk and its network are, how wrong its clock is, when it dies."""

    name: str
    settings: Settings
    file_faults: float = 0.0
    database_faults: float = 0.0
    slowness: float = 0.0
    skew_ms: int = 0
    dies_at: int | None = None
    """The number of the operation at which it is gone."""
    is_dead: bool = False
    offline_until_ms: int = 0
    operations: int = 0
    connection: Client = field(init=False, repr=False)
    session: Session = field(init=False, repr=False)

    @classmethod
    def drawn(
        cls, name: str, settings: Settings, random: Random, *, is_calm: bool, lives: int = 400
    ) -> SimulatedClient:
        """One whose faults are drawn, or without any: then it is the interleaving alone that may
        break something. One that dies does so within the operations that it ``lives``.
        """
        if is_calm:
            return cls(name, settings)
        return cls(
            name,
            settings,
            file_faults=random.choice((0, 0, 0, 0.01, 0.05)),
            database_faults=random.choice((0, 0, 0.01, 0.05)),
            slowness=random.choice((0, 0, 0.01)),
            skew_ms=random.choice((0, 0, 0, -3_600_000, 3_600_000)),
            dies_at=random.randrange(lives) if random.random() < 0.25 else None,
        )


class ClientClock:
    """The clock of whoever has the turn."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        """The time as the client believes."""
        world = self._world
        return world.clock.now_ms() + world.client.skew_ms

    def monotonic_s(self) -> float:
        """Never wrong."""
        return self._world.clock.monotonic_s()

    def sleep_s(self, seconds: float) -> None:
        """Others have their turns meanwhile."""
        self._world.must_live()
        self._world.scheduler.sleep_s(seconds)
        self._world.must_live()


class World:
    """One history's; ``root`` holds its files."""

    def __init__(self, seed: int, root: Path, *, url: str) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.scheduler = Scheduler(self.random, self.clock)
        self.root = str(root)
        self.client_clock = ClientClock(self)
        self.files = FaultyFiles(
            self, _Requests(self, seed), retries=Retries(20.0, self.client_clock)
        )
        self.clients: list[SimulatedClient] = []
        self.compacted: set[CompactionId] = set()
        """whose workers were told that they count"""
        self.healthy = SimulatedClient("-", Settings(retention_s=0, compactor_auto="off"))
        self.metastore = connect_faulty(
            url,
            faults=self,
            server=self.clock,
            client=self.client_clock,
            options=MetastoreOptions(durable=False, server_time=False),
        )
        self.equip(self.healthy)

    @property
    def client(self) -> SimulatedClient:
        """Who has the turn."""
        return self.scheduler.owner or self.healthy

    @property
    def warehouse(self) -> str:
        """Where tables are."""
        return f"{self.root}/warehouse"

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Within the block its metastore is open."""
        try:
            yield
        finally:
            self.metastore.close()

    def add(self, client: SimulatedClient) -> SimulatedClient:
        """Another process."""
        self.clients.append(client)
        self.equip(client)
        return client

    def equip(self, client: SimulatedClient) -> None:
        """What a session has."""
        threads = NoThreads()
        manager = TransactionManager(
            self.metastore,
            self.client_clock,
            client.settings,
            user=client.name,
            threads=threads,
            files=self.files,
        )
        client.connection = Client(
            self.metastore, manager, self.client_clock, client.settings, self.warehouse, threads
        )
        client.session = Session(client.connection)

    def spawn(self, client: SimulatedClient, name: str, work: Callable[[], None]) -> None:
        """An actor that is a client; all its transactions get heartbeats while it lives."""

        def run() -> None:
            self.scheduler.owner = client
            work()

        self.scheduler.spawn(name, run)

    def note(self, what: str) -> None:
        """A line of the trace, the same wherever the files are."""
        self.scheduler.note(what.replace(self.root, ""))

    def kill(self, client: SimulatedClient) -> None:
        """Its process is gone."""
        if not client.is_dead:
            client.is_dead = True
            self.note(f"{client.name} is dead")

    def must_live(self) -> None:
        """Raise where the client whose turn it is is dead."""
        owner = self.scheduler.owner
        if owner is not None and owner.is_dead:
            raise Killed

    # ---------------------------------------------------------------- faults

    def before(self, operation: str, subject: str) -> Fault | None:
        """See ``Faults``."""
        if not self.scheduler.is_running:
            return None
        client = self.client
        if client.is_dead:
            raise Killed
        client.operations += 1
        if operation != "statement":
            self.note(f"{operation} {subject}")
        if client.operations == client.dies_at:
            self.kill(client)
            raise Killed
        if operation not in _WITHIN_A_UNIT:
            self._turn(client)
        elif not client.database_faults:
            return None
        return self._fault(operation, subject, client)

    def after(self, operation: str, subject: str) -> None:
        """See ``Faults``."""
        del subject
        if self.scheduler.is_running and operation not in _READS:
            self._turn(self.client)

    def _turn(self, client: SimulatedClient) -> None:
        self.scheduler.pause()
        if client.slowness and self.random.random() < client.slowness:
            self.scheduler.sleep_s(self.random.choice([0.1, 2, 30]))
        if client.is_dead:
            raise Killed

    def _fault(self, operation: str, subject: str, client: SimulatedClient) -> Fault | None:
        is_database = operation in _DATABASE
        if is_database and self.clock.now_ms() < client.offline_until_ms:
            return Fault.REFUSED
        is_commit = operation == "commit" and subject != "READ"
        rate = client.database_faults if is_database else client.file_faults
        rate *= 3 if is_commit else 0.1 if operation == "statement" else 1
        if not rate or self.random.random() >= rate:
            return None
        fault = self.random.choice((Fault.REFUSED, Fault.LOST, Fault.LOST, Fault.TORN))
        self.note(f"{operation}: {fault.value}")
        if is_commit and self.random.random() < 0.4:
            client.offline_until_ms = self.clock.now_ms() + self.random.choice((1_000, 60_000))
        return fault


class _Requests:
    """What fails in passing below the files: they ask again, as the clients' clock goes on."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = Random(f"requests {seed}")

    def before(self, operation: str, subject: str) -> Fault | None:
        """See ``Faults``."""
        del subject
        world = self._world
        if not world.scheduler.is_running or self._random.random() >= world.client.file_faults:
            return None
        fault = self._random.choice(list(Fault))
        world.note(f"{operation}: {fault.value}, in passing")
        return fault

    def after(self, operation: str, subject: str) -> None:
        """See ``Faults``."""


_DATABASE = frozenset({"begin", "statement", "commit", "look-up"})


def scratch() -> Path:
    """A directory in memory where there is one."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="hiveacid-sim-", dir=place))


def prepare_process() -> None:
    """Arrow's results do not depend on threads then; little is collected as garbage."""
    pa.set_cpu_count(1)
    gc.set_threshold(100_000)
    keep_what_is_there()


def keep_what_is_there() -> None:
    """What is loaded and compiled by now is not looked at by the collector again."""
    gc.collect()
    gc.freeze()


def emptied(path: Path) -> Path:
    """The directory, with nothing in it."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path
