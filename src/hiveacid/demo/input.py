"""The demo's input: orders and lineitem of TPC-H as Parquet, and a change set for orders.

The change set is a tenth as long as orders, chosen by a hash of the key: 6 % are updated, 2 %
deleted, and 2 % are added under keys that TPC-H leaves free (it uses the first 8 of each 32).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb

from hiveacid.errors import InvalidInputError

_CHANGES = """
copy (
    select
        case when slot < 6 then 'U' when slot < 8 then 'D' else 'I' end as op,
        case when slot < 8 then o_orderkey else o_orderkey + 8 end as o_orderkey,
        o_custkey,
        case when slot < 6 then 'P' else 'O' end as o_orderstatus,
        cast(o_totalprice + slot + 0.25 as decimal(15, 2)) as o_totalprice,
        o_orderdate,
        case when slot < 8 then o_orderpriority else '1-URGENT' end as o_orderpriority,
        o_clerk,
        o_shippriority,
        'changed: ' || o_comment as o_comment
    from (select *, hash(o_orderkey) % 100 as slot from '{orders}')
    where slot < 10
    order by o_orderkey
) to '{changes}' (format parquet)
"""


@dataclass(frozen=True, slots=True)
class Input:
    """Three Parquet files."""

    orders: Path
    lineitem: Path
    changes: Path


def make(*, scale: float, directory: Path) -> Input:
    """Make what is not there yet.

    Raises:
        InvalidInputError: ``tpchgen-cli`` is not installed or fails.
    """
    made = Input(*(directory / f"{name}.parquet" for name in ("orders", "lineitem", "changes")))
    if not made.changes.exists():
        directory.mkdir(parents=True, exist_ok=True)
        _generate(scale, directory)
        unfinished = directory / "changes.unfinished"
        duckdb.sql(_CHANGES.format(orders=made.orders, changes=unfinished))
        unfinished.replace(made.changes)
    return made


def _generate(scale: float, directory: Path) -> None:
    beside = str(Path(sys.executable).parent / "tpchgen-cli")
    program = shutil.which(beside) or shutil.which("tpchgen-cli")
    if program is None:
        raise InvalidInputError(
            "tpchgen-cli is not installed", note="pip install 'hiveacid[spark,demo]'"
        )
    tables = ["--tables=orders,lineitem", f"--output-dir={directory}", "--overwrite"]
    command = [program, "parquet", f"--scale-factor={scale}", *tables]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InvalidInputError(f"tpchgen-cli failed: {done.stderr.strip()}", command=command)
