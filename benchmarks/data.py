"""Input: TPC-H tables as Parquet in four parts, and changes of lineitem, made once per scale.

Rows to change are chosen by a hash of their key, so they are scattered over all files; inserted
rows take keys that TPC-H leaves free (it uses the first 8 of each 32 order keys). Every count is
exact: 100,000 deletes, 350,000 updates and 150,000 inserts at scale 1.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

COLUMNS: Final = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, "
    "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
    "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string"
)
_OTHERS: Final = ("orders", "customer", "part")
_DELETES: Final = 100_000
_UPDATES: Final = 350_000
_INSERTS: Final = 150_000

_KEYS: Final = """
copy (
    select l_orderkey, l_linenumber from lineitem
    order by hash(l_orderkey, l_linenumber, 50) limit {deletes}
) to '{path}' (format parquet)
"""

_CHANGES: Final = """
copy (
    select * from (
        (
            select * replace (
                cast(l_quantity + 1 as decimal(15,2)) as l_quantity,
                cast(l_extendedprice * 1.01 as decimal(15,2)) as l_extendedprice,
                'changed: ' || l_comment[1:20] as l_comment
            )
            from lineitem order by hash(l_orderkey, l_linenumber, 11) limit {updates}
        )
        union all
        (
            select * replace (l_orderkey + 8 as l_orderkey)
            from lineitem order by hash(l_orderkey, l_linenumber, 21) limit {inserts}
        )
    )
    order by hash(l_orderkey, l_linenumber, 99)
) to '{path}' (format parquet)
"""

_SUMS: Final = "select count(*), sum(l_quantity), sum(l_extendedprice) from {rows}"


@dataclass(frozen=True, slots=True)
class Sums:
    """What a table must answer to ``SUMS_SQL``: rows, and two sums as text."""

    rows: int
    quantity: str
    price: str


SUMS_SQL: Final = _SUMS


@dataclass(frozen=True, slots=True)
class Input:
    """Paths of the Parquet input and what DuckDB says the results must be."""

    lineitem: str
    others: dict[str, str]
    keys: str
    changes: str
    deletes: int
    updates: int
    inserts: int
    loaded: Sums
    deleted: Sums
    merged: Sums


def make(*, scale: float, directory: Path) -> Input:
    """Makes what is not there yet below ``directory``; raises CalledProcessError, duckdb.Error."""
    stamp = directory / "input.json"
    if not stamp.is_file() or "others" not in json.loads(stamp.read_text()):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _generate(scale, directory)
        stamp.write_text(json.dumps(asdict(_derive(scale, directory)), indent=1))
    return _from_json(json.loads(stamp.read_text()))


def _generate(scale: float, directory: Path) -> None:
    program = str(Path(sys.executable).parent / "tpchgen-cli")
    tables = [f"--tables=lineitem,{','.join(_OTHERS)}", "--parts=4", f"--output-dir={directory}"]
    subprocess.run([program, "parquet", f"--scale-factor={scale:g}", *tables], check=True)


def _derive(scale: float, directory: Path) -> Input:
    lineitem = directory / "lineitem"
    keys, changes = directory / "keys.parquet", directory / "changes.parquet"
    counts = [round(one * scale) for one in (_DELETES, _UPDATES, _INSERTS)]
    deletes, updates, inserts = counts
    connection = duckdb.connect()
    connection.execute(f"create view lineitem as select * from '{lineitem}/*.parquet'")
    connection.execute(_KEYS.format(deletes=deletes, path=keys))
    connection.execute(_CHANGES.format(updates=updates, inserts=inserts, path=changes))
    using = "using (l_orderkey, l_linenumber)"
    deleted = f"(from lineitem anti join '{keys}' {using})"
    merged = f"(from lineitem anti join '{changes}' {using} union all from '{changes}')"
    return Input(
        lineitem=str(lineitem),
        others={name: str(directory / name) for name in _OTHERS},
        keys=str(keys),
        changes=str(changes),
        deletes=deletes,
        updates=updates,
        inserts=inserts,
        loaded=_sums(connection, "lineitem"),
        deleted=_sums(connection, deleted),
        merged=_sums(connection, merged),
    )


def _sums(connection: duckdb.DuckDBPyConnection, rows: str) -> Sums:
    found = connection.execute(_SUMS.format(rows=rows)).fetchone()
    assert found is not None
    return Sums(int(found[0]), str(found[1]), str(found[2]))


def _from_json(fields: dict[str, Any]) -> Input:
    sums = {name: Sums(**fields[name]) for name in ("loaded", "deleted", "merged")}
    return Input(**{**fields, **sums})
