"""A seeded history of clients that move money between accounts in several tables, with a ledger.

``t`` is a full ACID table, ``p`` one with partitions, ``ledger`` has one row for each transfer,
in the same transaction. So every snapshot whatsoever has to agree with itself: the total is what
it was, and each balance is what the ledger makes of it. A lost update, a dirty read, half of a
transaction, a file missed or read twice: each breaks that.

``watch`` has two rows of which one has to be 1, and serializable transactions that look at both and
change one: what only write skew can break.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
from tests.simulation.background import spawn_background
from tests.simulation.compaction import Compaction
from tests.simulation.world import SimulatedClient, World

import hiveacid
from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    MissingFileError,
    NotFoundError,
    SnapshotExpiredError,
)
from hiveacid.model.tables import BucketSpec, Column, Database, Table, TableName, TxnId
from hiveacid.model.types import parse_type
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.table import AcidTable
from hiveacid.transaction import AcidTransaction

BALANCE = 100
PLAIN = (1, 2, 3)
"""Accounts in ``t``."""
GROUPS = {4: 0, 5: 0, 6: 1, 7: 1}
"""Accounts in ``p`` and their partitions."""
ACCOUNTS = (*PLAIN, *GROUPS)
TOTAL = BALANCE * len(ACCOUNTS)
ISOLATION = "serializable"
CALM = 0.4
"""How many histories are without any fault: what breaks there is a matter of order alone."""
HOT = (2, 3, len(ACCOUNTS))
"""Among how many accounts money moves."""
WRITERS = (2, 2, 3)
"""How many there are, one of these."""
ROUNDS = (1, 1, 2)
"""How often a writer writes."""
COMPACTORS = (0, 1, 1, 2)
COMPACTIONS = (1, 2, 4)
"""How often a compactor compacts."""
VARIANTS = ("plain", "bucketed", "insert-only ledger")

_Balances = dict[int, int]
_Ledger = dict[int, tuple[int, int, int]]


@dataclass
class Transfer:
    """What a client wanted and what it was told."""

    id: int
    source: int
    target: int
    amount: int
    told: str = "nothing"


# -------------------------------------------------------------------- the tables


def make_tables(session: Session, warehouse: str, variant: str) -> None:
    """The tables with their first rows."""
    store = session.client.metastore
    store.create_database(Database("default", warehouse), if_not_exists=True)
    acid = {"transactional": "true", "orc.compress": "NONE"}  # it takes half of a write
    insert_only = {**acid, "transactional_properties": "insert_only"}
    buckets = BucketSpec(("k",), 2) if variant == "bucketed" else None
    ledger = insert_only if variant == "insert-only ledger" else acid
    account = (_int("k"), _int("v"))
    for table in (
        Table(_name("t"), account, f"{warehouse}/t", bucket=buckets, properties=acid),
        Table(_name("p"), account, f"{warehouse}/p", (_int("g"),), bucket=buckets, properties=acid),
        Table(
            _name("ledger"),
            tuple(map(_int, ("id", "source", "target", "amount"))),
            f"{warehouse}/ledger",
            properties=ledger,
        ),
        Table(_name("watch"), account, f"{warehouse}/watch", properties=acid),
        Table(_name("d"), (_int("k"),), f"{warehouse}/d", (_int("g"),), properties=acid),
    ):
        store.create_table(table)
    session.table("t").write_arrow(_rows(dict.fromkeys(PLAIN, BALANCE)))
    session.table("watch").write_arrow(_rows({1: 1, 2: 1}))
    session.table("p").write_arrow(_grouped(dict.fromkeys(GROUPS, BALANCE)))


def _name(table: str) -> TableName:
    return TableName("default", table)


def _int(name: str) -> Column:
    return Column(name, parse_type("int"))


def _rows(balances: _Balances) -> pa.Table:
    kind = pa.int32()
    return pa.table(
        {"k": pa.array(list(balances), kind), "v": pa.array(list(balances.values()), kind)}
    )


def _grouped(balances: _Balances) -> pa.Table:
    groups = pa.array([GROUPS[key] for key in balances], pa.int32())
    return _rows(balances).append_column("g", groups)


# -------------------------------------------------------------------- what is read


def balances_of(table: AcidTable) -> _Balances:
    """Account -> balance; each account once."""
    rows = hiveacid.read_arrow(table).read_all()
    keys = rows.column("k").to_pylist()
    twice = [key for key, times in Counter(keys).items() if times > 1]
    assert not twice, f"{table.name.table}: accounts {twice} are there twice: {rows.to_pydict()}"
    return dict(zip(keys, rows.column("v").to_pylist(), strict=True))


def ledger_of(table: AcidTable) -> _Ledger:
    """Transfer -> source, target, amount; each transfer once."""
    rows = hiveacid.read_arrow(table).read_all().to_pydict()
    ids = rows["id"]
    assert len(set(ids)) == len(ids), f"a transfer is there twice: {sorted(ids)}"
    facts = zip(rows["source"], rows["target"], rows["amount"], strict=True)
    return dict(zip(ids, facts, strict=True))


def everything(within: Session | AcidTransaction) -> tuple[_Balances, _Ledger]:
    """Both tables of accounts and the ledger, as one transaction sees them."""
    found = {**balances_of(within.table("t")), **balances_of(within.table("p"))}
    return found, ledger_of(within.table("ledger"))


def check(balances: _Balances, ledger: _Ledger) -> None:
    """A snapshot agrees with itself."""
    assert sorted(balances) == sorted(ACCOUNTS), f"accounts are missing: {balances}"
    total = sum(balances.values())
    assert total == TOTAL, f"a part of a transfer is seen: {balances} make {total}, not {TOTAL}"
    expected = dict.fromkeys(ACCOUNTS, BALANCE)
    for source, target, amount in ledger.values():
        expected[source] -= amount
        expected[target] += amount
    assert balances == expected, f"an update is lost: {balances}, the ledger makes {expected}"


# -------------------------------------------------------------------- what is written


def change(
    txn: AcidTransaction, balances: _Balances, account: int, amount: int, *, random: Random
) -> None:
    """One account: by MERGE, by DELETE and INSERT, or its partition by INSERT OVERWRITE."""
    changed = {**balances, account: balances[account] + amount}
    group = GROUPS.get(account)
    table = txn.table("t" if group is None else "p")
    row = {account: changed[account]}
    rows = _rows(row) if group is None else _grouped(row)
    keys = ["k"] if group is None else ["k", "g"]
    way = random.random()
    if way < 0.6:
        done = table.merge_arrow(rows, on=keys, when_not_matched=None)
        assert done.updated == 1, f"account {account} is not there: {done}"
    elif way < 0.8 or group is None:
        deleted = table.delete_arrow(rows.select(keys))
        assert deleted.rows == 1, f"account {account} is not there: {deleted}"
        table.write_arrow(rows)
    else:
        whole = {key: changed[key] for key, of in GROUPS.items() if of == group}
        table.write_arrow(_rows(whole), overwrite=True, partition={"g": group})
    balances[account] = changed[account]


def enter(within: Session | AcidTransaction, transfer: Transfer) -> None:
    """A transfer's row in the ledger."""
    kind = pa.int32()
    facts = {
        name: pa.array([getattr(transfer, name)], kind)
        for name in ("id", "source", "target", "amount")
    }
    within.table("ledger").write_arrow(pa.table(facts))


# -------------------------------------------------------------------- the actors


class History:
    """One seed's history; ``run`` raises AssertionError where an invariant is broken."""

    def __init__(self, seed: int, root: Path, *, url: str) -> None:
        """``root`` and the database behind ``url`` are as ``make_tables`` left them."""
        self.world = World(seed, root, url=url)
        self._random = self.world.random
        self._transfers: list[Transfer] = []
        self._ids = iter(range(1, 1_000))
        self._is_calm = self._random.random() < CALM
        hot = self._random.choice(HOT)
        self._accounts = self._random.sample(ACCOUNTS, hot)

    @property
    def trace(self) -> list[str]:
        """What happened, in order."""
        return self.world.scheduler.trace

    def run(self) -> str:
        """Let the actors take turns until all have ended, then look at what is left; gives the
        digest of the trace.
        """
        world = self.world
        with world.alive():
            for number in range(self._random.choice(WRITERS)):
                client = world.add(self._client(f"writer{number}"))
                world.spawn(client, client.name, partial(self._writer, client))
            for number in range(self._random.choice((0, 1, 1))):
                client = world.add(self._client(f"reader{number}"))
                world.spawn(client, client.name, partial(self._reader, client))
            if self._random.random() < 0.3:
                client = world.add(self._client("ddl"))
                world.spawn(client, "ddl", partial(self._ddl, client))
            for number in range(self._random.choice(COMPACTORS)):
                client = world.add(self._client(f"compactor{number}"))
                world.spawn(client, client.name, partial(self._compactor, client))
            if self._random.random() < 0.3:
                for number in (1, 2):
                    client = world.add(self._client(f"watchman{number}"))
                    work = partial(self._watchman, client, number)
                    world.spawn(client, client.name, work)
            spawn_background(world, is_calm=self._is_calm)
            world.scheduler.run()
            self._check_the_end()
        return world.scheduler.digest()

    def _client(self, name: str) -> SimulatedClient:
        random = self._random
        settings = Settings(
            conflict_unit=random.choice(("row", "row", "partition")),
            lock_timeout_s=random.choice((5, 60)),
            housekeeping_interval_s=120,
            commit_retries=2,
            snapshot_retries=2,
            conflict_retries=2,
            retention_s=0,
            compactor_auto="off",
            compactor_delta_num_threshold=2,
        )
        return SimulatedClient.drawn(name, settings, random, is_calm=self._is_calm)

    # ---------------------------------------------------------------- writers

    def _writer(self, client: SimulatedClient) -> None:
        for _ in range(self._random.choice(ROUNDS)):
            source, target = self._random.sample(self._accounts, 2)
            transfer = Transfer(next(self._ids), source, target, self._random.randint(1, 30))
            self._transfers.append(transfer)
            try:
                transfer.told = self._random.choice((self._move, self._move, self._once))(
                    client, transfer
                )
            except CommitOutcomeUnknownError:
                transfer.told = "unknown"
            except AcidError as error:
                transfer.told = "failed"
                self.world.note(f"{type(error).__name__}: {error}".replace(self.world.root, ""))
            self.world.note(f"told: {transfer}")

    def _once(self, client: SimulatedClient, transfer: Transfer) -> str:
        """A statement that is a transaction of its own, and may run again."""
        transfer.amount = 0
        enter(client.session, transfer)
        return "committed"

    def _move(self, client: SimulatedClient, transfer: Transfer) -> str:
        """Several statements, on up to three tables."""
        random = self._random
        with client.session.transaction() as txn:
            balances, ledger = everything(txn)
            self.world.note(f"{txn!r} sees {balances}")
            check(balances, ledger)
            if random.random() < 0.3:
                txn.savepoint("here")
                with suppress(AcidError):
                    change(txn, dict(balances), random.choice(ACCOUNTS), -1000, random=self._random)
                txn.rollback_to("here")
            change(txn, balances, transfer.source, -transfer.amount, random=self._random)
            if random.random() < 0.5:
                change(txn, balances, transfer.target, transfer.amount - 1, random=self._random)
                change(txn, balances, transfer.target, 1, random=self._random)
            else:
                change(txn, balances, transfer.target, transfer.amount, random=self._random)
            enter(txn, transfer)
            if random.random() < 0.2:
                check(*everything(txn))
            if random.random() < 0.1:
                txn.rollback()
                return "failed"
        return "committed"

    # ---------------------------------------------------------------- the others

    def _reader(self, client: SimulatedClient) -> None:
        for _ in range(self._random.choice((1, 1, 2))):
            txn = client.session.transaction()
            try:
                with txn:
                    first = everything(txn)
                    self.world.note(f"{txn!r} sees {first[0]}")
                    check(*first)
                    if self._random.random() < 0.4:
                        again = everything(txn)
                        assert again == first, f"reads of one transaction differ: {first}, {again}"
            except (SnapshotExpiredError, MissingFileError) as error:
                self._must_have_ended(txn, error)
            except AcidError as error:
                self.world.note(f"{type(error).__name__}")
            self.world.client_clock.sleep_s(self._random.choice((0, 0, 1, 20)))

    def _must_have_ended(self, txn: AcidTransaction, error: AcidError) -> None:
        """Files are kept as long as a transaction may read them."""
        found = self.world.metastore.txn_info(TxnId(txn.id or 0))
        ended = found is None or found.reason is not None
        assert ended, f"a reader whose transaction was alive missed a file: {error}"

    def _compactor(self, client: SimulatedClient) -> None:
        Compaction(self.world, client).live(self._random, rounds=self._random.choice(COMPACTIONS))

    def _watchman(self, client: SimulatedClient, mine: int) -> None:
        """Leaves where the other one is there, and comes back."""
        for _ in range(2):
            with (
                suppress(AcidError),
                client.session.transaction(isolation=ISOLATION) as txn,
            ):
                table = txn.table("watch")
                there = balances_of(table)
                self.world.note(f"{txn!r} sees {there}")
                assert sum(there.values()) > 0, "nobody is there: write skew"
                row = {mine: 0 if there[mine] and there[3 - mine] else 1}
                table.merge_arrow(_rows(row), on=["k"])

    def _ddl(self, client: SimulatedClient) -> None:
        """A partition is written, dropped and made again; what was dropped never comes back."""
        try:
            table = client.session.table("d")
        except AcidError:  # the metastore could not be asked
            return
        for number in range(2):
            with suppress(AcidError):
                rows = pa.table({"k": pa.array([number], pa.int32())})
                table.write_arrow(rows, partition={"g": 1})
            with suppress(AcidError):
                client.session.sql("alter table d drop if exists partition (g=1)")
            with suppress(NotFoundError, AcidError):
                found = hiveacid.read_arrow(table).read_all().column("k").to_pylist()
                assert len(set(found)) == len(found), f"rows are there twice: {found}"

    # ---------------------------------------------------------------- the end

    def _check_the_end(self) -> None:
        world = self.world
        world.clock.advance_ms(400_000)
        world.metastore.perform_timeouts()
        world.metastore.run_housekeeping(interval_s=0)
        assert world.metastore.show_locks() == (), "locks are left"
        assert world.metastore.get_open_txns().open == (), "transactions are left open"
        with world.healthy.session.transaction() as txn:
            balances, ledger = everything(txn)
            there = balances_of(txn.table("watch"))
        check(balances, ledger)
        assert sum(there.values()) > 0, "nobody is there: write skew"
        if self._random.random() < 0.1:
            self._check_compaction((balances, ledger))
        for one in self._transfers:
            is_there = one.id in ledger
            assert one.told != "committed" or is_there, f"a commit is lost: {one}"
            assert one.told != "failed" or not is_there, f"what failed is committed: {one}"

    def _check_compaction(self, before: tuple[_Balances, _Ledger]) -> None:
        compaction = Compaction(self.world, self.world.healthy)
        compaction.settle()
        with self.world.healthy.session.transaction() as txn:
            after = everything(txn)
        assert after == before, f"a compaction changed rows: {before}, {after}"
        compaction.check_the_end()
