"""Compactors of a history: they ask, rewrite and clean while others write and read, and die.

No reader may notice: it never misses a file, never reads a row twice. When all have ended nothing
obsolete is left.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random

from tests.simulation.world import SimulatedClient, World

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.initiator import Initiator
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import CompactionResult, Outcome, Step, Worker
from hiveacid.errors import AcidError
from hiveacid.model.compactions import CompactionRequest, CompactionState, CompactionType
from hiveacid.model.tables import TableName

PLACES: tuple[tuple[str, str | None], ...] = (
    ("t", None),
    ("p", "g=0"),
    ("p", "g=1"),
    ("ledger", None),
)
_ENDED = (CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)


class Compaction:
    """What a client does that compacts and cleans."""

    def __init__(self, world: World, client: SimulatedClient) -> None:
        connection = client.connection
        self._world = world
        self._store = connection.own
        how = partial(rewrite, settings=client.settings)
        self._worker = Worker(connection, how, name=f"{client.name}-1-1", reached=self._reached)
        self._other = Worker(connection, how, name=f"{client.name}-1-2")
        self._pauses: Random | None = None
        self._cleaner = Cleaner(connection)
        self._initiator = Initiator(connection, name=f"{client.name}-1-initiator")

    def live(self, random: Random, *, rounds: int) -> None:
        """Ask for something, do it, clean."""
        for _ in range(rounds):
            with suppress(AcidError):
                if random.random() < 0.2:
                    self._initiator.run_cycle()
                else:
                    kind = random.choice((CompactionType.MINOR, CompactionType.MAJOR))
                    self.request(*random.choice(PLACES), kind)
            with suppress(AcidError):
                self.work(pauses=random)
            self._world.client_clock.sleep_s(random.choice((0, 2, 2, 20)))
            with suppress(AcidError):
                self.clean()
                if random.random() < 0.3:
                    self.sweep()

    def request(self, table: str, partition: str | None, kind: CompactionType) -> None:
        """As ALTER TABLE ... COMPACT."""
        self._store.compact(CompactionRequest(TableName("default", table), partition, kind))

    def work(self, pauses: Random | None = None) -> bool:
        """One compaction of the queue; whether there was one."""
        self._pauses = pauses
        done = self._worker.run_next()
        self._note(done)
        return done is not None

    def _note(self, done: CompactionResult | None) -> None:
        if done is None:
            return
        self._world.note(f"compaction: {done.outcome.value} {done.directories} {done.message}")
        if done.outcome is Outcome.COMPACTED:
            self._world.compacted.add(done.compaction.id)

    def _reached(self, step: Step) -> None:
        """Now and then it stands still for so long that its work is given to others."""
        random = self._pauses
        if random is None or step is Step.COMMITTED or random.random() > 0.15:
            return
        self._store.revoke_workers(older_than_ms=0)
        if random.random() < 0.5:
            self._note(self._other.run_next())
        else:
            self._world.client_clock.sleep_s(random.choice((1, 3, 30)))

    def clean(self) -> None:
        """One cycle of the cleaner, and what killed writers left."""
        for done in self._cleaner.run():
            self._world.note(f"cleaning: {done.outcome.value} {done.message}")

    def sweep(self) -> None:
        """What killed writers left hidden."""
        self._cleaner.sweep()

    def settle(self) -> None:
        """All clients have ended: compact everything and clean up."""
        self._store.revoke_workers(older_than_ms=0, without_txn_ms=0)
        while self.work():
            pass
        for table, partition in PLACES:
            self.request(table, partition, CompactionType.MAJOR)
            while self.work():
                pass
        for _ in range(3):  # what failed once waits before it is tried again
            self._world.clock.advance_ms(8 * 3_600_000)
            self.clean()
        self.sweep()

    def check_the_end(self) -> None:
        """One base is left of each place, and nothing waits."""
        found = {
            place: [info.path.rpartition("/")[2] for info in _files_of(self._world, *place)]
            for place in PLACES
        }
        for place, names in found.items():
            kept = [name for name in names if name not in ("g=0", "g=1")]
            assert len(kept) <= 1, f"obsolete directories stay in {place}: {kept}"
        entries = self._store.show_compactions()
        left = [one for one in entries if one.state in _ENDED]
        assert not left, f"compactions are left: {left}"
        failed = [one for one in entries if one.state is CompactionState.FAILED]
        wrong = [one for one in failed if one.id in self._world.compacted]
        assert not wrong, f"compactions that count are told as failed: {wrong}"


def _files_of(world: World, table: str, partition: str | None) -> tuple:  # type: ignore[type-arg]
    fs, root = world.files.at(f"{world.warehouse}/{table}")
    return fs.list_directory(root if partition is None else f"{root}/{partition}")
