"""Random transactions without Spark against a dictionary: views inside, and what is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.model.commits import row_count
from hiveacid.session import Session

pytestmark = pytest.mark.long("metastore", "session", "statements", "storage", "transaction", "txn")

Key = tuple[int, str]
State = dict[Key, str]
TABLES = {
    "t": "create table t (id int, v string) stored as orc tblproperties ('transactional'='true')",
    "b": "create table b (id int, v string) clustered by (id) into 3 buckets stored as orc "
    "tblproperties ('transactional'='true')",
    "p": "create table p (id int, v string) partitioned by (k string) stored as orc "
    "tblproperties ('transactional'='true')",
    "m": "create table m (id int, v string) stored as orc tblproperties "
    "('transactional'='true', 'transactional_properties'='insert_only')",
}


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(
        None, f"sqlite:///{tmp_path}/metastore.db", warehouse=str(tmp_path / "wh")
    ) as session:
        for text in TABLES.values():
            session.sql(text)
        yield session


class _History:
    """One transaction after the other; ``now`` is what the open one sees."""

    def __init__(self, acid: Session, random: Random) -> None:
        self.acid = acid
        self.random = random
        self.committed: dict[str, State] = {name: {} for name in TABLES}
        self.now: dict[str, State] = {}
        self.texts = 0

    def run(self, *, transactions: int, steps: int) -> None:
        for _ in range(transactions):
            self.now = {name: dict(rows) for name, rows in self.committed.items()}
            txn = self.acid.transaction()
            saved: list[dict[str, State]] = []
            for _ in range(steps):
                self._step(txn, saved)
                name = self.random.choice(list(TABLES))
                assert _seen(txn, name) == self.now[name], name
                assert _seen(self.acid, name) == self.committed[name], name
            if self.random.random() < 0.7:
                txn.commit()
                self.committed = self.now
            else:
                txn.rollback()
            for name, rows in self.committed.items():
                self._check(name, rows)

    def _step(self, txn: Any, saved: list[dict[str, State]]) -> None:
        kind = self.random.choice(
            [
                "insert",
                "insert",
                "merge",
                "merge",
                "delete",
                "overwrite",
                "truncate",
                "save",
                "back",
            ]
        )
        name = self.random.choice(
            [n for n in TABLES if n != "m"] if kind in _CHANGES else [*TABLES]
        )
        rows, handle = self.now[name], txn.table(name)
        if kind == "save":
            txn.savepoint(f"s{len(saved)}")
            saved.append({table: dict(found) for table, found in self.now.items()})
        elif kind == "back":
            if saved:
                at = self.random.randrange(len(saved))
                txn.rollback_to(f"s{at}")
                self.now = {table: dict(found) for table, found in saved[at].items()}
                del saved[at + 1 :]
        elif kind == "truncate":
            txn.sql(f"truncate table {name}")
            rows.clear()
        elif kind == "delete":
            low = self.random.randrange(20)
            handle.delete_arrow(f"id between {low} and {low + 3}")
            for key in [key for key in rows if low <= key[0] <= low + 3]:
                del rows[key]
        else:
            self._write(kind, name, rows, handle)

    def _write(self, kind: str, name: str, rows: State, handle: Any) -> None:
        free = kind == "insert"
        new = self._new(name, exclude=rows if free else {})
        if not new:
            return
        if kind == "merge":
            on = ["id", "k"] if name == "p" else ["id"]
            handle.merge_arrow(_arrow(name, new), on=on)
        else:
            handle.write_arrow(_arrow(name, new), overwrite=kind == "overwrite")
        if kind == "overwrite":
            touched = {key[1] for key in new}
            for key in [key for key in rows if key[1] in touched]:
                del rows[key]
        rows.update(new)

    def _new(self, name: str, *, exclude: State) -> State:
        found: State = {}
        for _ in range(self.random.randrange(1, 6)):
            key = (self.random.randrange(20), self.random.choice("xy") if name == "p" else "")
            if key not in exclude:
                self.texts += 1
                found[key] = f"v{self.texts}"
        return found

    def _check(self, name: str, rows: State) -> None:
        """The session, a reader of the directory alone, and the statistics agree."""
        assert _seen(self.acid, name) == rows, name
        definition = self.acid.table(name).definition
        (valid,) = self.acid.client.metastore.valid_write_ids((definition.name,))
        read = hiveacid.read_arrow(definition.location, valid_write_ids=str(valid)).read_all()
        assert _rows(read) == rows, name
        parts = self.acid.client.metastore.list_partitions(definition.name)
        counts = [row_count(part.properties) for part in parts]
        if name != "p":
            counts = [row_count(definition.properties)]
        assert None in counts or sum(filter(None, counts)) == len(rows), name
        assert not list(Path(definition.location).rglob("_hiveacid*"))


_CHANGES = ("merge", "delete")
"""what an insert-only table does not take"""
_KINDS = (
    "insert", "insert", "merge", "merge", "delete", "overwrite", "truncate", "save", "back",
)  # fmt: skip


def _arrow(name: str, rows: State) -> pa.Table:
    columns = {"id": pa.array([key[0] for key in rows], pa.int32()), "v": list(rows.values())}
    if name == "p":
        columns["k"] = [key[1] for key in rows]
    return pa.table(columns)


def _seen(where: Any, name: str) -> State:
    return _rows(hiveacid.read_arrow(where.table(name)).read_all())


def _rows(read: pa.Table) -> State:
    rows = read.to_pylist()
    found = {(row["id"], row.get("k", "")): row["v"] for row in rows}
    assert len(found) == len(rows)  # nothing twice
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_transactions_agree_with_a_dictionary(acid: Session, seed: int) -> None:
    _History(acid, Random(seed)).run(transactions=4, steps=10)
