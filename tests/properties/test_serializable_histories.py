"""Random serializable transactions at once: their outcome is that of one after the other.

What each one read is checked by running the committed ones again, alone, in the order of their
commits, on a dictionary. One that only read has seen the state between two commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.metastores import NoThreads
from tests.scenarios.key_values import KeyValues

from hiveacid.client import Client, open_client
from hiveacid.errors import ConflictError
from hiveacid.model.tables import Isolation
from hiveacid.settings import Settings
from hiveacid.txn.transaction import Transaction

TABLES = ("t", "u")
State = dict[str, dict[int, int]]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    opened = open_client(
        f"sqlite:///{tmp_path}/metastore.db",
        warehouse=str(tmp_path),
        settings=Settings(lock_timeout_s=5),
        threads=NoThreads(),
    )
    yield opened
    opened.close()


class _Client:
    """An open transaction, what it read, and what it is to write as of what it read."""

    def __init__(self, txn: Transaction) -> None:
        self.txn = txn
        self.steps: list[tuple[str, str, int, int]] = []
        """(read, table, sum seen, 0) or (write, table, key, value)"""

    @property
    def writes(self) -> bool:
        return any(kind == "write" for kind, *_ in self.steps)


class _History:
    def __init__(self, client: Client, random: Random, isolation: Isolation) -> None:
        self.client, self.random, self.isolation = client, random, isolation
        self.data = KeyValues(client, TABLES)
        self.open: list[_Client] = []
        self.committed: list[_Client] = []
        self.readers: list[_Client] = []
        self.lost = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if len(self.open) < 3:
                self.open.append(_Client(self.client.transactions.begin(isolation=self.isolation)))
            one = self.random.choice(self.open)
            if len(one.steps) >= 2 and self.random.random() < 0.4:
                self._end(one)
            else:
                self._step(one)
        for one in list(self.open):
            self._end(one)

    def _step(self, one: _Client) -> None:
        """Reads a table, or writes the sum of another to a key of it."""
        table = self.random.choice(TABLES)
        seen = dict(self.data.read(one.txn, table))
        one.steps.append(("read", table, _sum(seen), 0))
        if self.random.random() < 0.4:
            return
        target, key, value = self.random.choice(TABLES), self.random.randrange(4), _sum(seen) + 1
        if key in self.data.read(one.txn, target):
            self.data.update(one.txn, target, key, value)
        else:
            self.data.insert(one.txn, target, key, value)
        one.steps.append(("write", target, key, value))

    def _end(self, one: _Client) -> None:
        self.open.remove(one)
        try:
            self.data.commit(one.txn)
        except ConflictError:
            assert one.writes, "a reader lost"
            self.lost += 1
        else:
            (self.committed if one.writes else self.readers).append(one)

    def explained(self) -> bool:
        """Whether the committed transactions read so when they run one after the other."""
        state: State = {table: {} for table in TABLES}
        between = [{table: _sum(rows) for table, rows in state.items()}]
        for one in self.committed:
            for kind, table, first, second in one.steps:
                if kind == "write":
                    state[table][first] = second
                elif _sum(state[table]) != first:
                    return False
            between.append({table: _sum(rows) for table, rows in state.items()})
        now = self.client.transactions.begin()
        found = {table: dict(self.data.read(now, table)) for table in TABLES}
        now.abort("seen")
        return found == state and all(
            any(all(sums[table] == seen for _, table, seen, _ in one.steps) for sums in between)
            for one in self.readers
        )


def _sum(rows: dict[int, int]) -> int:
    """Tells any two states apart that a history meets, nearly always."""
    return sum((key + 1) * 31**key * value for key, value in rows.items())


@pytest.mark.parametrize("seed", range(12))
def test_serializable_histories_are_those_of_one_after_the_other(client: Client, seed: int) -> None:
    history = _History(client, Random(seed), Isolation.SERIALIZABLE)
    history.run(60)
    assert history.explained()
    assert len(history.committed) >= 5
    assert history.lost > 0


def test_at_snapshot_isolation_some_are_not(tmp_path: Path) -> None:
    """Else the property above would tell nothing."""
    explained = []
    for seed in range(6):
        client = open_client(
            f"sqlite:///{tmp_path}/{seed}.db",
            warehouse=str(tmp_path),
            settings=Settings(lock_timeout_s=5),
            threads=NoThreads(),
        )
        history = _History(client, Random(seed), Isolation.SNAPSHOT)
        history.run(60)
        explained.append(history.explained())
        client.close()
    assert not all(explained)
