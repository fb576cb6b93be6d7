"""Random histories that change the metastore in the middle, against a dictionary."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.compaction.world import ACID, MAJOR, MINOR, World, rows_of
from tests.sampling import sampled

import hiveacid
from hiveacid.model.transactions import OperationType

STEPS = 14
STEPS_BETWEEN = 4
PARTITIONS = ("a", "b")
ROOMS = ("compaction", "layout", "metastore", "statements", "storage", "takeover")


class _History:
    """One table that wanders between two metastores; ``rows`` is what it should hold."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.random = Random(seed)
        self.worlds = [
            World(f"sqlite:///{tmp_path}/{at}.db", tmp_path / f"wh{at}") for at in range(2)
        ]
        self.rows: dict[int, tuple[str, str]] = {}
        self.number = 0
        self.worlds[0].make(what=f"partitioned by (p string) {ACID}")
        # Other tables' transactions: the same numbers mean other things in the two metastores.
        self.worlds[1].make("other")
        for at in range(self.random.randrange(12)):
            self.worlds[1].insert(at, table="other")

    @property
    def world(self) -> World:
        return self.worlds[0]

    def run(self) -> None:
        for step in range(1, STEPS + 1):
            self.random.choice(
                [self.insert, self.insert, self.delete, self.merge, self.abort, self.compact]
            )()
            if step % STEPS_BETWEEN == 0:
                self.move()
            assert rows_of(self.world.acid) == sorted(
                (one, v, p) for one, (v, p) in self.rows.items()
            )

    def insert(self) -> None:
        p = self.random.choice(PARTITIONS)
        ids = range(self.number, self.number + self.random.randint(1, 3))
        self.number = ids.stop
        self.world.insert(*ids, p=p)
        self.rows |= dict.fromkeys(ids, ("new", p))

    def delete(self) -> None:
        for one in self.random.sample(sorted(self.rows), min(2, len(self.rows))):
            self.world.delete(one)
            del self.rows[one]

    def merge(self) -> None:
        chosen = self.random.sample(sorted(self.rows), min(2, len(self.rows)))
        if chosen:
            source = pa.table(
                {
                    "id": pa.array(chosen, pa.int32()),
                    "v": [f"m{self.number}"] * len(chosen),
                    "p": [self.rows[one][1] for one in chosen],
                }
            )
            hiveacid.merge_arrow(self.world.acid.table("t"), source, on="id")
            self.rows |= {one: (f"m{self.number}", self.rows[one][1]) for one in chosen}

    def abort(self) -> None:
        """A writer that published and died; half of them were aborted since."""
        table = self.world.acid.table("t").definition
        store = self.world.client.metastore
        (txn,) = store.open_txns(1, user="u", host="h")
        write_id = store.allocate_write_ids([txn], table.name)[txn]
        names = [f"p={one}" for one in PARTITIONS]
        store.add_dynamic_partitions(txn, write_id, table.name, names, OperationType.INSERT)
        found = sorted(Path(table.location).glob("p=*/delta_*"))
        if found:
            source = self.random.choice(found)
            shutil.copytree(source, source.parent / f"delta_{write_id:07d}_{write_id:07d}_0000")
            if self.random.random() < 0.3:
                shutil.copytree(source, source.parent / f"base_{write_id:07d}")
        if self.random.random() < 0.5:
            store.abort_txn(txn)

    def compact(self) -> None:
        kind = self.random.choice([MAJOR, MINOR])
        p = self.random.choice(PARTITIONS)
        if ("p", p) in {("p", one[1]) for one in self.rows.values()} and not self.pending(p):
            self.world.compact(kind, partition=f"p={p}")
        if self.random.random() < 0.5:
            self.world.clock.advance_ms(48 * 3_600_000)
            self.world.clean()
            self.world.client.metastore.run_housekeeping(interval_s=0)

    def pending(self, p: str) -> bool:
        return any(
            one.partition == f"p={p}" and one.state.value not in ("s", "f", "c")
            for one in self.world.entries()
        )

    def move(self) -> None:
        found = self.world.acid.detach("t")
        self.worlds.reverse()
        self.world.acid.sql(found.create_table)


@pytest.mark.parametrize("seed", sampled(range(4), *ROOMS, group=bool))
def test_what_was_committed_stays_whoever_keeps_the_books(tmp_path: Path, seed: int) -> None:
    history = _History(tmp_path, seed)
    try:
        history.run()
    finally:
        for world in history.worlds:
            world.close()
