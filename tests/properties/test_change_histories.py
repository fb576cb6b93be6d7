"""The state at one version with the changes up to another is the state at that, on random histories
with transactions of several statements, overwrites, aborts, compactions and cleanings.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import hiveacid
from hiveacid import read_arrow, read_changes
from hiveacid.errors import NotFoundError, SnapshotExpiredError
from hiveacid.layout.compaction import floor_of, plan_cleaning
from hiveacid.layout.directories import partition_name
from hiveacid.session import Session
from hiveacid.storage.listing import list_partition
from hiveacid.table import AcidTable

Rows = Counter[tuple[Any, ...]]
STEPS = 9
PARTS = 10
KINDS = {
    "full": "create table t (id int, v string) stored as orc"
    " tblproperties ('transactional'='true')",
    "buckets": "create table t (id int, v string) clustered by (id) into 2 buckets stored as orc"
    " tblproperties ('transactional'='true')",
    "partitions": "create table t (id int, v string) partitioned by (p int) stored as orc"
    " tblproperties ('transactional'='true')",
    "insert-only": "create table t (id int, v string) stored as orc tblproperties"
    " ('transactional'='true', 'transactional_properties'='insert_only')",
}


@dataclass
class History:
    """A table, and its rows after each version."""

    acid: Session
    table: AcidTable
    kind: str
    chance: random.Random
    states: dict[int, Rows] = field(default_factory=lambda: {0: Counter()})
    cleans: bool = False

    @property
    def last(self) -> int:
        return max(self.states)

    def note(self) -> None:
        """Remember the state after what was just committed."""
        (valid,) = self.acid.client.metastore.valid_write_ids((self.table.name,))
        for version in range(self.last + 1, valid.hwm):
            self.states[version] = self.states[version - 1]  # aborted
        self.states[valid.hwm] = rows_of(self.table)

    def rows(self) -> list[dict[str, Any]]:
        """Some rows to write: a key each, values that come again."""
        ids = self.chance.sample(range(8), self.chance.randint(1, 4))
        found: list[dict[str, Any]] = [{"id": one, "v": self.chance.choice("abc")} for one in ids]
        if self.kind == "partitions":
            return [{**row, "p": one % 2} for one, row in zip(ids, found, strict=True)]
        return found

    def change(self) -> None:
        """One statement."""
        action = self.chance.choice(["insert", "upsert", "delete", "upsert", "overwrite"])
        if self.kind == "insert-only" and action in ("upsert", "delete"):
            action = "insert"
        if action == "insert":
            self.table.write_arrow(self.rows())
        elif action == "upsert":
            self.table.merge_arrow([*{row["id"]: row for row in self.rows()}.values()], on="id")
        elif action == "delete":
            first, second = self.chance.choices(range(8), k=2)
            self.table.delete_arrow(f"id in ({first}, {second})")
        elif self.chance.random() < 0.4:
            self.table.write_arrow(self.rows(), overwrite=True)

    def clean(self) -> None:
        """Remove what compactions and overwrites replaced, as a cleaner without retention does."""
        store = self.acid.client.metastore
        (valid,) = store.valid_write_ids((self.table.name,))
        for partition in store.list_partitions(self.table.name) or [self.table.definition]:
            fs, path = self.acid.client.files.at(partition.location)
            entries = list_partition(fs, path)
            mode = self.table.definition.acid_mode
            lists = (valid.for_cleaner(), store.valid_txns())
            plan = plan_cleaning(entries, *lists, aborted_only=False, mode=mode)
            floor = floor_of(plan)
            if floor is not None:
                values = getattr(partition, "values", ())
                name = partition_name(self.table.definition.partition_keys, values)
                store.note_floor(self.table.name, name or None, floor)
            for gone in plan.remove:
                shutil.rmtree(f"{path}/{gone}")

    def step(self) -> None:
        """A transaction, or a compaction."""
        action = self.chance.choices(["one", "several", "aborted", "compact"], [5, 2, 1, 2])[0]
        if action == "compact":
            kinds = ["minor", "major"]
            if self.kind == "full":
                kinds.append("rebalance")
            partition = {"p": self.chance.randint(0, 1)} if self.kind == "partitions" else None
            with suppress(NotFoundError):  # no such partition yet
                kind = self.chance.choice(kinds)
                self.table.compact(kind, partition=partition, wait=True)
            if self.cleans:
                self.clean()
            return
        if action == "one":
            self.change()
        else:
            self.acid.sql("start transaction")
            for _ in range(self.chance.randint(1, 3)):
                self.change()
            self.acid.sql("commit" if action == "several" else "rollback")
        self.note()


def rows_of(table: AcidTable) -> Rows:
    return Counter(tuple(row.values()) for row in read_arrow(table).read_all().to_pylist())


def check(history: History, since: int, until: int, **asked: Any) -> None:
    """Applied version by version, the changes lead from each state to the next."""
    found = read_changes(history.table, since=since, until=until, **asked).read_all().to_pylist()
    state = Counter(history.states[since])
    is_net = asked.get("deduplication") == "netChanges"
    for version in [until] if is_net else range(since + 1, until + 1):
        for row in found:
            if is_net or row["_commit_version"] == version:
                values = tuple(row[name] for name in history.table.columns)
                into = row["_change_type"] in ("insert", "update_postimage")
                state[values] += 1 if into else -1
        assert min(state.values(), default=0) >= 0, (version, found)
        assert +state == history.states[version], (version, found)


def told_since(history: History, since: int, until: int) -> int:
    """``since``, or the version that the error names, which is not below it and can be told."""
    try:
        read_changes(history.table, since=since, until=until).read_all()
    except SnapshotExpiredError as error:
        oldest = int(str(error.context["write_id"]))
        assert history.cleans
        assert since < oldest <= history.last
        return min(oldest, until) if oldest <= until else until
    return since


@pytest.fixture
def acid(tmp_path: Path) -> Any:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "warehouse")) as session:
        yield session


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_and_the_changes_since_are_the_later_state(acid: Session, kind: str) -> None:
    run(acid, kind, seeds=range(2))


@pytest.mark.long("layout", "storage", "compaction", "txn")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_many_histories_of_each_kind(acid: Session, kind: str, part: int) -> None:
    """Of each kind as many as hypothesis has examples, ``make test-all`` ten times those of CI; in
    parts, as a busy machine must not run into the limit of a test.
    """
    run(acid, kind, seeds=range(100 + part, 100 + settings().max_examples, PARTS))


def run(acid: Session, kind: str, *, seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(f"{kind} {seed}")
        acid.sql(KINDS[kind])
        history = History(acid, acid.table("t"), kind, chance, cleans=seed % 2 == 1)
        for _ in range(STEPS):
            history.step()
        for _ in range(3):
            since, until = sorted(chance.choices(range(history.last + 1), k=2))
            try:
                since = told_since(history, since, until)
                check(history, since, until)
                check(history, since, until, key="id")
                check(history, since, until, deduplication="none")
                check(history, since, until, deduplication="netChanges", key="id")
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {since} to {until}: {error}") from error
        acid.sql("drop table t purge")
