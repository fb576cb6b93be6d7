"""``read_arrow`` returns of every golden table the rows and row ids that Hive returned."""

from __future__ import annotations

import pytest
from tests.golden import tables
from tests.recorded import golden_names, golden_path

from hiveacid.reading.rows import read_arrow

WIDE_TIMESTAMPS = {"g01_prim", "g02_prim_dml", "v3_12_types"}
"""Tables with timestamps that Arrow's nanoseconds cannot hold: read with microseconds."""


@pytest.mark.parametrize("name", golden_names())
def test_rows_and_row_ids_are_those_of_hive(name: str) -> None:
    meta = tables.golden_meta(name)
    header, expected = tables.golden_answer(name, nanoseconds=name not in WIDE_TIMESTAMPS)
    row_ids = header[0] == "writeid"
    table = read_arrow(
        str(golden_path(name) / "data"),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=meta["valid_txn_list"],
        row_ids=row_ids,
    ).read_all()
    got = tables.as_hive_prints(table, meta, row_ids=row_ids) if len(table) else []
    assert list(tables.differences(got, expected)) == []


def test_the_recorded_tables_are_all_there() -> None:
    assert len(golden_names()) >= 80
    assert {name[0] for name in golden_names()} == set("acdefghijklv")
