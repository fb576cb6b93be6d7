"""Arrow data with more texts in a column than one array of Arrow's holds is written in parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.statements import driver_write

ROWS = [{"i": n, "s": str(n % 7) * 50, "p": n % 3} for n in range(500)]


@pytest.mark.parametrize(
    ("clauses", "files"),
    [
        ("(i int, s string, p int)", 1),
        ("(i int, s string) partitioned by (p int)", 3),
        ("(i int, s string) partitioned by (p int) clustered by (i) into 2 buckets", 6),
        ("(i int, s string, p int) clustered by (s) sorted by (i) into 2 buckets", 2),
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_each_row_is_there_once_in_a_file_of_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clauses: str, files: int, full: bool
) -> None:
    monkeypatch.setattr(driver_write, "_PART_BYTES", 5_000)
    transactional = "'transactional'='true'"
    if not full or "sorted" in clauses:
        transactional += ", 'transactional_properties'='insert_only'"
    url, warehouse = f"sqlite:///{tmp_path}/m.db", tmp_path / "warehouse"
    with hiveacid.connect(None, url, warehouse=str(warehouse)) as acid:
        acid.sql(f"create table t {clauses} stored as orc tblproperties ({transactional})")
        rows = pa.Table.from_pylist(ROWS)
        assert acid.table("t").write_arrow(rows).rows == len(ROWS)
        found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
        assert sorted(found, key=lambda row: row["i"]) == ROWS
        names = [path for path in warehouse.rglob("*0*") if path.is_file()]
        assert len([one for one in names if not one.name.startswith((".", "_"))]) == files
