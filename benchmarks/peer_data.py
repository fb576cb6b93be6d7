"""Input of ``make bench-peers``: TPC-H lineitem and sets of changes, made once per scale.

Rows to change are chosen by a hash of their key, so they are scattered over all files; inserted
rows take keys that TPC-H leaves free. Of 6,000,000 rows an upsert changes 500,000 (70 % of them
updates), a set of changes 1,000,000 (60 % inserts, 30 % updates, 10 % deletes).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.data import COLUMNS

PARTS = 1_000_000
"""The table is cut into so many by the hash of a key; a set takes some of them."""
UPSERTS, CHANGE_SETS, APPENDS = 3, 2, 10
_UPDATED = (
    "* replace (cast(l_quantity + 1 as decimal(15,2)) as l_quantity,"
    " cast(l_extendedprice * 1.01 as decimal(15,2)) as l_extendedprice,"
    " 'changed: ' || l_comment[1:20] as l_comment)"
)


@dataclass(frozen=True, slots=True)
class PeerInput:
    """Directories of Parquet files."""

    lineitem: Path
    changes: Path

    def set(self, name: str) -> tuple[str, str]:
        """The file of a set and its columns."""
        columns = COLUMNS
        if name.startswith("changes"):
            columns = f"op string, {COLUMNS}"
        elif name.startswith("delete"):
            columns = "l_orderkey bigint, l_linenumber int"
        return str(self.changes / f"{name}.parquet"), columns


def make(scale: float, directory: Path) -> PeerInput:
    """Make what is not there yet below ``directory``; raises CalledProcessError, duckdb.Error."""
    place = directory / f"input-{scale:g}"
    made = PeerInput(place / "lineitem", place / "changes")
    if not (place / "done").exists():
        made.changes.mkdir(parents=True, exist_ok=True)
        program = str(Path(sys.executable).parent / "tpchgen-cli")
        options = [f"--scale-factor={scale:g}", "--tables=lineitem", "--parts=4"]
        subprocess.run([program, "parquet", *options, f"--output-dir={place}"], check=True)
        connection = duckdb.connect()
        connection.execute(f"create view li as select * from '{made.lineitem}/*.parquet'")
        for name, query in _sets():
            target = made.changes / f"{name}.parquet"
            connection.execute(f"copy ({query}) to '{target}' (format parquet, codec zstd)")
        (place / "done").touch()
    return made


def _sets() -> Iterator[tuple[str, str]]:
    mixed = f"order by {_part(99)}"
    size = PARTS // 12
    for n in range(1, UPSERTS + 1):
        updates = f"select {_UPDATED} from li where {_part(10 + n)} < {size * 7 // 10}"
        inserts = f"select {_moved(8 * n)} from li where {_part(20 + n)} < {size * 3 // 10}"
        yield f"upsert_{n}", f"from ({updates} union all {inserts}) {mixed}"
    size = PARTS // 6
    for n in range(1, CHANGE_SETS + 1):
        part, first, last = _part(30 + n), size * 3 // 10, size * 4 // 10
        updates = f"select 'U' as op, {_UPDATED} from li where {part} < {first}"
        deletes = f"select 'D', * from li where {part} >= {first} and {part} < {last}"
        inserts = f"select 'I', {_moved(8 * n)} from li where {_part(40 + n)} < {size * 6 // 10}"
        yield f"changes_{n}", f"from ({updates} union all {deletes} union all {inserts}) {mixed}"
    keys = "select l_orderkey, l_linenumber from li where"
    yield "delete_scattered", f"{keys} {_part(50)} < {PARTS // 60} {mixed}"
    yield "delete_hundredth", f"{keys} {_part(51)} < {PARTS // 100} {mixed}"
    size = PARTS // 600
    for n in range(APPENDS):
        part = _part(60)
        which = f"{part} >= {n * size} and {part} < {(n + 1) * size}"
        yield f"append_{n}", f"select {_moved(24)} from li where {which}"


def _part(seed: int) -> str:
    return f"(hash(l_orderkey, l_linenumber, {seed}) % {PARTS})"


def _moved(by: int) -> str:
    """Rows with keys that are free."""
    return f"* replace (l_orderkey + {by} as l_orderkey)"
