"""TPC-H's orders and lineitem as Parquet, a change set for orders, and the proof by DuckDB.

The change set is a tenth as long as orders, chosen by a hash of the key: 6 % are updated, 2 %
deleted, and 2 % are added under keys that TPC-H leaves free (it uses the first 8 of each 32).

The proof shares nothing with hiveacid: DuckDB reads the Parquet input, carries the changes, the
update and the delete through in its own SQL, and joins the outcome with hiveacid's rows on their
keys.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


_EXPECTED = {
    "orders": """
        select
            o_orderkey,
            o.o_custkey,
            coalesce(c.o_orderstatus, o.o_orderstatus) as o_orderstatus,
            coalesce(c.o_totalprice, o.o_totalprice) as o_totalprice,
            o.o_orderdate, o.o_orderpriority, o.o_clerk, o.o_shippriority,
            coalesce(c.o_comment, o.o_comment) as o_comment
        from '{orders}' o left join '{changes}' c using (o_orderkey)
        where c.op is distinct from 'D'
        union all
        select * exclude (op) from '{changes}' where op = 'I'
    """,
    "lineitem": """
        with updated as (
            select * replace (
                cast(case when hit then l_discount + 0.01 else l_discount end as decimal(15, 2))
                    as l_discount,
                case when hit then 'by air: ' || l_comment else l_comment end as l_comment
            )
            from (select *, l_shipmode = 'AIR' and l_quantity >= 40 as hit from '{lineitem}')
        )
        select * exclude (hit), cast(year(l_shipdate) as integer) as l_shipyear
        from updated
        where not (l_discount > 0.10 or (l_returnflag = 'R' and l_quantity < 3))
    """,
}
_STREAMED = {
    "orders_stream": _EXPECTED["orders"],
    "lineitem_stream": """
        select * exclude (file_row_number), cast(year(l_shipdate) as integer) as l_shipyear
        from read_parquet('{lineitem}', file_row_number = true)
        where file_row_number < {streamed}
    """,
}
_ORDER, _LINE = ("o_orderkey",), ("l_orderkey", "l_linenumber")
_KEYS = {"orders": _ORDER, "orders_stream": _ORDER, "lineitem": _LINE, "lineitem_stream": _LINE}


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison: ``wrong`` rows differ or stand on one side only; ``example`` shows one."""

    what: str
    rows: int
    values: int
    wrong: int
    example: str = ""


def compare(
    made: Input,
    *,
    actual: dict[str, Path],
    query: str,
    answer: Sequence[tuple[Any, ...]],
    scratch: Path,
    streamed: int = 0,
) -> list[Finding]:
    """Compare the tables (``actual``: directories of Parquet) and the rows of the joined query.
    ``streamed``: so many lines, the first ones, were streamed; 0 for no streams.
    """
    with duckdb.connect(config={"temp_directory": str(scratch), "memory_limit": "2GB"}) as db:
        facts = {
            "orders": made.orders,
            "lineitem": made.lineitem,
            "changes": made.changes,
            "streamed": streamed,
        }
        for table, text in {**_EXPECTED, **(_STREAMED if streamed else {})}.items():
            db.execute(f"create view {table} as {text.format(**facts)}")
        findings = [_compare_table(db, table, folder) for table, folder in actual.items()]
        expected = db.execute(query).fetchall()
    return [*findings, _compare_rows(expected, answer)]


def _compare_table(db: duckdb.DuckDBPyConnection, table: str, folder: Path) -> Finding:
    db.execute(f"create view actual_{table} as select * from '{folder}/*.parquet'")
    columns = [row[0] for row in db.execute(f"describe {table}").fetchall()]
    found = [row[0] for row in db.execute(f"describe actual_{table}").fetchall()]
    if found != columns:
        return Finding(table, 0, 0, 1, f"columns {found} for {columns}")
    keys = ", ".join(_KEYS[table])
    rows, distinct = _one(db, f"select count(*), count(distinct ({keys})) from actual_{table}")
    differs = " or ".join(f"a.{name} is distinct from e.{name}" for name in columns)
    key = _KEYS[table][0]
    both = f"(select *, true as here from {table}) e full join (select *, true as here from"
    pairs = f"{both} actual_{table}) a using ({keys})"
    test = f"e.here is null or a.here is null or {differs}"
    (wrong,) = _one(db, f"select count(*) from {pairs} where {test}")
    example = ""
    if wrong:
        first = _one(db, f"select {keys} from {pairs} where {test} order by {key} limit 1")
        example = f"the row with {keys} = {', '.join(map(str, first))}"
    elif rows != distinct:
        wrong, example = rows - distinct, "rows stand there twice"
    return Finding(table, rows, rows * len(columns), wrong, example)


def _compare_rows(
    expected: Sequence[tuple[Any, ...]], actual: Sequence[tuple[Any, ...]]
) -> Finding:
    pairs = list(zip(expected, actual, strict=False))
    wrong = [f"{want} expected, {got} found" for want, got in pairs if want != got]
    missing = abs(len(expected) - len(actual))
    values = sum(map(len, actual))
    example = wrong[0] if wrong else ""
    return Finding("joined query", len(actual), values, len(wrong) + missing, example)


def _one(db: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = db.execute(query).fetchone()
    assert row is not None
    return row
