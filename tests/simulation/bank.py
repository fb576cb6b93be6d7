"""A seeded history of clients that move money between accounts in two tables.

Writers, readers, one who aborts what he sees, dying clients, a clock that jumps, calls to the
metastore that are refused or whose answer is lost. One thread and one random generator: a seed
gives the same history again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    ConflictError,
    MetastoreError,
)
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.sql.metastore import SqlMetastore
from hiveacid.model.ids import TxnId, WriteId
from hiveacid.model.tables import Database, TableName
from hiveacid.runtime import Runtime
from hiveacid.settings import Settings
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.key_values import KeyValues
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.threads import NoThreads
from hiveacid.txn.transaction import Transaction

ACCOUNTS = {1: "t", 2: "t", 3: "t", 4: "u", 5: "u"}
BALANCE = 100
TOTAL = BALANCE * len(ACCOUNTS)
_FAULTY = frozenset(
    {
        "open_txns",
        "valid_txns",
        "valid_write_ids",
        "allocate_write_ids",
        "lock",
        "latest_txn_in_conflict",
        "newer_overwrite",
        "add_dynamic_partitions",
        "overlapping_writes",
        "commit_txn",
        "txn_info",
        "abort_txns",
        "heartbeat_range",
    }
)
_SETTINGS = Settings(
    housekeeping_interval_s=120, lock_timeout_s=5, commit_retries=2, snapshot_retries=2
)


@dataclass
class Transfer:
    """What a client wanted and what it was told."""

    source: int
    target: int
    amount: int
    write_ids: dict[str, WriteId] = field(default_factory=dict)
    told: str = "nothing"


def new_metastore(path: Path, clock: ManualClock) -> SqlMetastore:
    """A metastore for simulations, with the database ``default``."""
    store = connect(str(path), clock=clock, options=MetastoreOptions(durable=False))
    store.create_database(Database("default", "/nowhere"), if_not_exists=True)
    return store


class Faulty:
    """A metastore some of whose calls fail, before or after their effect."""

    def __init__(self, metastore: SqlMetastore, random: Random, rate: float) -> None:
        self._metastore = metastore
        self._random = random
        self.rate = rate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._metastore, name)
        return self._faulty(name, found) if name in _FAULTY else found

    def _faulty(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            chance = self._random.random()
            if chance < self.rate / 2:
                raise MetastoreError(f"{name} was refused")
            answer = call(*args, **kwargs)
            if chance < self.rate:
                raise MetastoreError(f"the answer of {name} was lost")
            return answer

        return called


class History:
    """One seed's history; ``run`` raises AssertionError where an invariant is broken."""

    def __init__(self, seed: int, path: Path, *, template: Path | None = None) -> None:
        """``template`` is a new metastore to start from, which is quicker than making one."""
        self._random = Random(seed)
        self._clock = ManualClock()
        if template is not None:
            shutil.copyfile(template, path)
        self._store = new_metastore(path, self._clock)
        self._clients = [self._client(self._random.choice([0, 0, 0.02, 0.1])) for _ in range(5)]
        self._data = KeyValues(self._clients[0], ["t", "u"])
        self._transfers: list[Transfer] = []
        self.trace: list[str] = []

    def run(self) -> None:
        """Let the actors take turns until all have ended, then look at what is left."""
        try:
            self._open_accounts()
            self._take_turns()
            self._check_the_end()
        finally:
            self._store.close()

    def _client(self, rate: float) -> Runtime:
        faulty: Any = Faulty(self._store, self._random, rate)
        manager = TransactionManager(faulty, self._clock, _SETTINGS, threads=NoThreads())
        return Runtime(faulty, manager, self._clock, _SETTINGS, "/nowhere")

    def _healthy(self) -> Runtime:
        return self._client(0)

    def _open_accounts(self) -> None:
        with self._healthy().transactions.begin() as txn:
            for key, table in ACCOUNTS.items():
                self._data.insert(txn, table, key, BALANCE)
            self._data.commit(txn)

    def _take_turns(self) -> None:
        actors = [self._writer(client) for client in self._clients[:4]]
        actors += [self._reader(self._clients[4]), self._aborter(), self._time()]
        while len(actors) > 1:
            actor = self._random.choice(actors)
            try:
                self.trace.append(str(next(actor)))
            except StopIteration:
                actors.remove(actor)

    def _writer(self, client: Runtime) -> Iterator[str]:
        for _ in range(6):
            source, target = self._random.sample(sorted(ACCOUNTS), 2)
            transfer = Transfer(source, target, self._random.randint(1, 30))
            self._transfers.append(transfer)
            try:
                dies = yield from self._transfer(client, transfer)
            except ConflictError as error:
                transfer.told = "failed"
                yield f"lost: {error}"
            except CommitOutcomeUnknownError:
                transfer.told = "unknown"
                yield "outcome unknown"
            except AcidError as error:
                transfer.told = "failed"
                yield f"failed: {error}"
            else:
                if dies:
                    return
                transfer.told = "committed"
                yield "committed"

    def _transfer(self, client: Runtime, transfer: Transfer) -> Iterator[str]:  # type: ignore[misc]
        """Whether the client dies in the middle of it."""
        source, target = ACCOUNTS[transfer.source], ACCOUNTS[transfer.target]
        txn = client.transactions.begin()
        try:
            yield f"txn {txn.id} begins"
            have = self._data.read(txn, source)[transfer.source]
            yield f"txn {txn.id} reads {transfer.source}: {have}"
            gets = self._data.read(txn, target)[transfer.target]
            yield f"txn {txn.id} reads {transfer.target}: {gets}"
            self._data.update(txn, source, transfer.source, have - transfer.amount)
            transfer.write_ids[source] = txn.write_id(TableName("default", source))
            yield f"txn {txn.id} takes {transfer.amount} from {transfer.source}"
            if self._random.random() < 0.05:
                return True
            self._data.update(txn, target, transfer.target, gets + transfer.amount)
            transfer.write_ids[target] = txn.write_id(TableName("default", target))
            yield f"txn {txn.id} gives {transfer.amount} to {transfer.target}"
            self._data.commit(txn)
        except BaseException:
            with suppress(MetastoreError):
                txn.abort("failed")
            raise
        return False

    def _reader(self, client: Runtime) -> Iterator[str]:
        for _ in range(10):
            with suppress(AcidError), client.transactions.begin(read_only=True) as txn:
                yield f"reader {txn.id} begins"
                first = self._accounts(txn)
                yield f"reader {txn.id} sees {first}"
                assert sum(first.values()) == TOTAL, f"a part of a transfer is seen: {first}"
                again = self._accounts(txn)
                assert again == first, f"reads of one transaction differ: {first}, {again}"
            yield "reader ends"

    def _aborter(self) -> Iterator[str]:
        for _ in range(2):
            yield "aborter waits"
            found = [one.id for one in self._store.show_txns() if one.reason is None]
            if found:
                victim: TxnId = self._random.choice(found)
                self._store.abort_txns([victim])
                yield f"txn {victim} is aborted by an administrator"

    def _time(self) -> Iterator[str]:
        while True:
            self._clock.advance_ms(self._random.choice([1, 100, 1_500, 60_000, 200_000]))
            for client in self._clients:
                if self._random.random() < 0.9:
                    client.transactions.heartbeat.beat()
            if self._random.random() < 0.3:
                self._store.perform_timeouts()
            yield f"it is {self._clock.now_ms()}"

    def _accounts(self, txn: Transaction) -> dict[int, int]:
        return {**self._data.read(txn, "t"), **self._data.read(txn, "u")}

    def _check_the_end(self) -> None:
        self._clock.advance_ms(400_000)
        self._store.perform_timeouts()
        assert self._store.show_locks() == (), "locks are left"
        assert not [one for one in self._store.show_txns() if one.reason is None], "open ones left"
        names = [TableName("default", table) for table in ("t", "u")]
        lists = self._store.valid_write_ids(names)
        valid = dict(zip(("t", "u"), lists, strict=True))
        expected = dict.fromkeys(ACCOUNTS, BALANCE)
        for one in self._transfers:
            states = {valid[table].is_valid(w) for table, w in one.write_ids.items()}
            assert len(states) < 2, f"half of a transfer is committed: {one}"
            committed = states == {True}
            assert one.told != "committed" or committed, f"a commit is lost: {one}"
            assert one.told != "failed" or not committed, f"what failed is committed: {one}"
            if committed:
                expected[one.source] -= one.amount
                expected[one.target] += one.amount
        with self._healthy().transactions.begin(read_only=True) as txn:
            found = self._accounts(txn)
        assert found == expected, f"an update is lost: {found}, expected {expected}"
