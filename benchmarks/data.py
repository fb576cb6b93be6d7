"""Input: TPC-H tables as Parquet, and sets of changes of lineitem, made once per scale.

Rows to change are chosen by a hash of their key, so they are scattered over all files; inserted
rows take keys that TPC-H leaves free (it uses the first 8 of each 32 order keys). Of 6,000,000 rows
an upsert changes 500,000 (70 % of them updates), a set of changes 1,000,000 (60 % inserts, 30 %
updates, 10 % deletes), a scattered delete 100,000. What each workload must end with, DuckDB says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
from pyarrow import parquet

COLUMNS: Final = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, "
    "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
    "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string"
)
KEYS: Final = ("l_orderkey", "l_linenumber")
OTHERS: Final = ("orders", "customer", "part")
UPSERTS, CHANGE_SETS, APPENDS = 3, 2, 10
SUMS: Final = "select count(*), sum(l_quantity), sum(l_extendedprice) from {table}"
_PARTS: Final = 1_000_000
"""The table is cut into so many by the hash of a key; a set takes some of them."""
_UPDATED: Final = (
    "* replace (cast(l_quantity + 1 as decimal(15,2)) as l_quantity,"
    " cast(l_extendedprice * 1.01 as decimal(15,2)) as l_extendedprice,"
    " 'changed: ' || l_comment[1:20] as l_comment)"
)
_SUMMED: Final = "l_orderkey, l_linenumber, l_quantity, l_extendedprice"


@dataclass(frozen=True, slots=True)
class Input:
    """Parquet files below ``place``; ``sums`` by workload: rows, quantities and prices as text."""

    place: Path
    sums: dict[str, str]

    def table(self, name: str = "lineitem") -> str:
        """The directory of one of TPC-H's tables."""
        return str(self.place / name)

    def set(self, name: str) -> tuple[str, str]:
        """The file of a set of changes, and its columns."""
        columns = COLUMNS
        if name.startswith("changes"):
            columns = f"op string, {COLUMNS}"
        elif name.startswith("delete"):
            columns = "l_orderkey bigint, l_linenumber int"
        return str(self.place / "changes" / f"{name}.parquet"), columns

    def rows(self, name: str) -> int:
        """How many rows a set has; of ``lineitem`` the table."""
        files = [Path(self.set(name)[0])]
        if name == "lineitem":
            files = sorted(Path(self.table()).glob("*.parquet"))
        return sum(int(parquet.read_metadata(file).num_rows) for file in files)


def make(*, scale: float, directory: Path) -> Input:
    """Make what is not there yet below ``directory``; raises CalledProcessError, duckdb.Error."""
    place = directory / f"input-{scale:g}"
    stamp = place / "sums.json"
    if not stamp.exists():
        (place / "changes").mkdir(parents=True, exist_ok=True)
        program = str(Path(sys.executable).parent / "tpchgen-cli")
        tables = f"--tables=lineitem,{','.join(OTHERS)}"
        options = [f"--scale-factor={scale:g}", tables, "--parts=4", f"--output-dir={place}"]
        subprocess.run([program, "parquet", *options], check=True)
        connection = duckdb.connect()
        connection.execute(f"create view li as select * from '{place}/lineitem/*.parquet'")
        for name, query in _sets():
            target = place / "changes" / f"{name}.parquet"
            connection.execute(f"copy ({query}) to '{target}' (format parquet, codec zstd)")
        stamp.write_text(json.dumps(_expected(connection, place / "changes"), indent=1))
    return Input(place, json.loads(stamp.read_text()))


def _sets() -> Iterator[tuple[str, str]]:
    mixed = f"order by {_part(99)}"
    size = _PARTS // 12
    for n in range(1, UPSERTS + 1):
        updates = f"select {_UPDATED} from li where {_part(10 + n)} < {size * 7 // 10}"
        inserts = f"select {_moved(8 * n)} from li where {_part(20 + n)} < {size * 3 // 10}"
        yield f"upsert_{n}", f"from ({updates} union all {inserts}) {mixed}"
    size = _PARTS // 6
    for n in range(1, CHANGE_SETS + 1):
        part, first, last = _part(30 + n), size * 3 // 10, size * 4 // 10
        updates = f"select 'U' as op, {_UPDATED} from li where {part} < {first}"
        deletes = f"select 'D', * from li where {part} >= {first} and {part} < {last}"
        inserts = f"select 'I', {_moved(8 * n)} from li where {_part(40 + n)} < {size * 6 // 10}"
        yield f"changes_{n}", f"from ({updates} union all {deletes} union all {inserts}) {mixed}"
    keys = "select l_orderkey, l_linenumber from li where"
    yield "delete_scattered", f"{keys} {_part(50)} < {_PARTS // 60} {mixed}"
    yield "delete_hundredth", f"{keys} {_part(51)} < {_PARTS // 100} {mixed}"
    size = _PARTS // 600
    for n in range(APPENDS):
        part = _part(60)
        which = f"{part} >= {n * size} and {part} < {(n + 1) * size}"
        yield f"append_{n}", f"select {_moved(24)} from li where {which}"


def _part(seed: int) -> str:
    return f"(hash(l_orderkey, l_linenumber, {seed}) % {_PARTS})"


def _moved(by: int) -> str:
    """Rows with keys that are free."""
    return f"* replace (l_orderkey + {by} as l_orderkey)"


def _expected(connection: duckdb.DuckDBPyConnection, changes: Path) -> dict[str, str]:
    """Count and sums of the table after each workload."""
    using, found = f"using ({', '.join(KEYS)})", {}

    def result(name: str, steps: list[str]) -> None:
        connection.execute(f"create or replace table t as select {_SUMMED} from li")
        for step in steps:
            connection.execute(f"create or replace table t as select {_SUMMED} from ({step})")
        row = connection.execute(SUMS.format(table="t")).fetchone()
        assert row is not None
        found[name] = "/".join(map(str, row))

    def upsert(n: int) -> str:
        file = f"'{changes}/upsert_{n}.parquet'"
        return f"select {_SUMMED} from t anti join {file} {using}" + (
            f" union all select {_SUMMED} from {file}"
        )

    def change(n: int) -> str:
        file = f"'{changes}/changes_{n}.parquet'"
        return (
            f"select {_SUMMED} from t anti join (from {file} where op <> 'I') {using}"
            f" union all select {_SUMMED} from (from {file} where op = 'U') semi join t {using}"
            f" union all select {_SUMMED} from (from {file} where op = 'I') anti join t {using}"
        )

    def delete(name: str) -> str:
        return f"from t anti join '{changes}/delete_{name}.parquet' {using}"

    appended = f"from t union all select {_SUMMED} from '{changes}/append_*.parquet'"
    result("clean", [])
    result("upsert", [upsert(n) for n in range(1, UPSERTS + 1)])
    result("cdc", [change(n) for n in range(1, CHANGE_SETS + 1)])
    result("delete", [delete("scattered")])
    result("appends", [appended, delete("hundredth")])
    return found
