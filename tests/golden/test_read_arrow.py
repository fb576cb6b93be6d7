"""``read_arrow`` returns of every golden table the rows and row ids that Hive returned."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from hiveacid.errors import FormatError
from hiveacid.reading import read_arrow

_SPEC = importlib.util.spec_from_file_location(
    "golden_tables", Path(__file__).with_name("tables.py")
)
assert _SPEC is not None and _SPEC.loader is not None
tables = importlib.util.module_from_spec(_SPEC)
sys.modules["golden_tables"] = tables
_SPEC.loader.exec_module(tables)

needs_shared = pytest.mark.skipif(not tables.SHARED.is_dir(), reason="no ../shared/golden")
NOT_ORC = {"f02_parquet", "f03_text", "f05_parquet_overwrite", "f06_text_overwrite"} | {
    "f09_parquet_major_preclean"
}


@pytest.mark.parametrize("name", [name for name in tables.golden_names("") if name not in NOT_ORC])
def test_rows_and_row_ids_are_those_of_hive(name: str) -> None:
    meta = tables.golden_meta(name)
    header, expected = tables.golden_answer(name)
    row_ids = header[0] == "writeid"
    table = read_arrow(
        str(tables.golden_path(name) / "data"),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=meta["valid_txn_list"],
        row_ids=row_ids,
    ).read_all()
    got = tables.as_hive_prints(table, meta, row_ids=row_ids) if len(table) else []
    assert list(tables.differences(got, expected)) == []


@needs_shared
@pytest.mark.parametrize("name", sorted(NOT_ORC))
def test_tables_of_other_formats_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match="not a complete ORC file"):
        read_arrow(str(tables.golden_path(name) / "data")).read_all()


def test_our_copies_are_the_groups_a_i_and_l() -> None:
    names = tables.golden_names("a", "i", "l")
    assert len(names) >= 18
    assert {name[0] for name in names} == {"a", "i", "l"}
