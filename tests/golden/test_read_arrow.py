"""``read_arrow`` returns of every golden table the rows and row ids that Hive returned."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from hiveacid.reading.rows import read_arrow

_SPEC = importlib.util.spec_from_file_location(
    "golden_tables", Path(__file__).with_name("tables.py")
)
assert _SPEC is not None and _SPEC.loader is not None
tables = importlib.util.module_from_spec(_SPEC)
sys.modules["golden_tables"] = tables
_SPEC.loader.exec_module(tables)

WIDE_TIMESTAMPS = {"g01_prim", "g02_prim_dml", "v3_12_types"}
"""Tables with timestamps that Arrow's nanoseconds cannot hold: read with microseconds."""


@pytest.mark.parametrize("name", tables.golden_names(""))
def test_rows_and_row_ids_are_those_of_hive(name: str) -> None:
    meta = tables.golden_meta(name)
    header, expected = tables.golden_answer(name, nanoseconds=name not in WIDE_TIMESTAMPS)
    row_ids = header[0] == "writeid"
    table = read_arrow(
        str(tables.golden_path(name) / "data"),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=meta["valid_txn_list"],
        row_ids=row_ids,
    ).read_all()
    got = tables.as_hive_prints(table, meta, row_ids=row_ids) if len(table) else []
    assert list(tables.differences(got, expected)) == []


def test_our_copies_are_the_groups_a_i_and_l() -> None:
    names = tables.golden_names("a", "i", "l")
    assert len(names) >= 18
    assert {name[0] for name in names} == {"a", "i", "l"}
