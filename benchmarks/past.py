"""What the past costs, without Spark: ``make bench-past`` (`BENCH='--rows 600000 --only feed'`).

A figure is CPU seconds as a part of those of what it stands beside, each the least of nine runs in
turn (three do not tell 5 %), or wall seconds where it stands alone. Tables stay below ``--data``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import hiveacid
from benchmarks.axes import load, load_partitions, open_session, rows
from benchmarks.meter import SELDOM_S, Meter
from hiveacid.metastore.sql.history import note_commit
from hiveacid.session import Session

_TABLE: Final = (
    "create table {} (id bigint, kind int, amount double, name string) {} stored as orc"
    " tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
)
_CHANGES, _KEYS, _DELTAS, _COMMITS, _PARTITIONS = 100_000, 5_000, 1_000, 10_000, 10_000
_GROUPS, _PURGED = 12, 3
Prepared = Callable[[Session], Callable[[], object]]
"""Makes ready, and answers what is measured."""


def make(acid: Session, count: int) -> None:
    """Tables of so many rows; one of many deltas, one of many commits, one of many partitions."""
    load(acid, count)
    far = rows(0, _CHANGES // 2, step=2 * count // _CHANGES)
    for changed in (rows(count // 3, _CHANGES // 2), far):  # each row is a delete and an insert
        acid.table("t").merge_arrow(changed, on="id")
    acid.sql(_TABLE.format("g", "partitioned by (p int)"))
    acid.sql("alter table g set tblproperties ('hiveacid.retention' = '0s')")
    each = count // _GROUPS
    for n in range(_GROUPS):
        acid.table("g").write_arrow(rows(n * each, each), partition={"p": n})
    for name in "dhc":
        acid.sql(_TABLE.format(name, ""))
    for n in range(_DELTAS):
        acid.table("d").write_arrow(rows(n * 200, 200))
    for _ in range(_COMMITS):
        with acid.client.transactions.begin() as txn:
            txn.write_id(acid.table("h").name)
            txn.commit()
    load_partitions(acid, "many", _PARTITIONS)


def scan(acid: Session, *, then: bool = False) -> Callable[[], object]:
    """Each column of each row, of now, or of the version that it is."""
    table, version = acid.table("t"), _last(acid, "t") if then else None
    return lambda: sum(1 for _ in hiveacid.read_arrow(table, as_of_write_id=version))


def feed(acid: Session, name: str = "t", *, back: int, count: int = 1) -> Callable[[], object]:
    """The changes of some versions."""
    since, table = _last(acid, name) - back, acid.table(name)
    return lambda: hiveacid.read_changes(table, since=since, until=since + count).read_all()


def _last(acid: Session, table: str) -> int:
    return int(acid.table(table).history(limit=1)[0].write_id)


def purge(acid: Session) -> Callable[[], object]:
    """Scattered keys of some partitions, which are not named; what others replaced is gone."""
    acid.table("g").clean()
    ids = ", ".join(map(str, _some_keys(acid, 0)))
    return partial(acid.table("g").purge, where=f"id in ({ids})")


def rewrite(acid: Session) -> Callable[[], object]:
    """Major compactions of other partitions, after as many deletes."""
    table, wanted = acid.table("g"), [{"p": n} for n in range(_PURGED, 2 * _PURGED)]
    table.delete_arrow(pa.table({"id": _some_keys(acid, _PURGED)}))
    return lambda: [table.compact("major", partition=one, wait=True) for one in wanted]


def _some_keys(acid: Session, first: int) -> list[int]:
    wanted = f"p >= {first} and p < {first + _PURGED}"
    found = hiveacid.read_arrow(acid.table("g"), columns="id", filter=wanted).read_all()["id"]
    chosen = np.random.default_rng().choice(len(found), _KEYS, replace=False)
    return sorted(found.take(pa.array(chosen)).to_pylist())


def commits(acid: Session, *, noted: bool = True) -> Callable[[], object]:
    """INSERTs of a row."""
    note = note_commit if noted else lambda *_: None

    def run() -> None:
        with patch("hiveacid.metastore.sql.conflicts.note_commit", note):
            for _ in range(100):
                acid.table("c").write_arrow(rows(0, 1))

    return run


def tag(acid: Session) -> Callable[[], object]:
    """CREATE TAG."""
    acid.sql("drop tag if exists q on t")
    return partial(acid.table("t").tag, "q")


FIGURES: Final[tuple[tuple[str, float, Prepared, Prepared | None], ...]] = (
    ("feed of 100,000 changes side by side / scan", 0.5, partial(feed, back=2), scan),
    ("feed of 100,000 changes scattered / scan", 0.5, partial(feed, back=1), scan),
    ("feed of the last 10 of 1,000", 1.0, partial(feed, name="d", back=10, count=10), None),
    ("scan of a version / of now", 1.05, partial(scan, then=True), scan),
    ("history of 10,000", 0.3, lambda acid: acid.table("h").history, None),
    ("detail of 10,000 partitions", 2.0, lambda acid: acid.table("many").detail, None),
    ("tag", 0.05, tag, None),
    ("purge of 5,000 keys / rewrite of their files", 1.5, purge, rewrite),
    ("commit / without the history", 1.05, commits, partial(commits, noted=False)),
)


def main() -> int:
    """Measure and print; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--only", default="", help="figures whose names hold this")
    parser.add_argument("--data", default="bench-data/past")
    options = parser.parse_args()
    place = Path(options.data).resolve() / str(options.rows)
    missed, is_made = 0, place.exists()
    place.mkdir(parents=True, exist_ok=True)
    with open_session(place) as acid:
        if not is_made:
            make(acid, options.rows)
        for name, goal, *sides in FIGURES:
            if options.only in name:
                missed += _measured(acid, name, goal, sides) > goal
    return 1 if missed else 0


def _measured(acid: Session, name: str, goal: float, sides: list[Any]) -> float:
    measure = partial(Meter().measure, look_every_s=SELDOM_S)  # to look takes CPU seconds, too
    found = [[measure(side(acid))[1] for side in sides if side] for _ in range(9)]
    cpu = [min(one.cpu_s for one in samples) for samples in zip(*found, strict=True)]
    figure = cpu[0] / cpu[1] if len(cpu) > 1 else min(samples[0].wall_s for samples in found)
    print(f"{name}: {figure:.3f} (goal {goal}; {', '.join(f'{s:.2f}' for s in cpu)} CPU s)")
    return figure


if __name__ == "__main__":
    sys.exit(main())
